#include "core/search/stage_chains.h"

#include <algorithm>

#include "core/search/stage_moves.h"

namespace unity {

std::vector<std::vector<Chain>> chains(IntraPlans& intra, const StageEstimates& estimates, std::size_t begin,
                                       std::span<const std::size_t> ends, const Resources& devices,
                                       const ChainKind& kind) {
  const int micro_batches = kind.micro_batches;
  std::vector<IntraPlan> plans = intra.of_width(devices.count);
  std::erase_if(plans, [&](const IntraPlan& p) {
    return copies_of(p) != kind.copies || (p.chosen > 0 && p.chosen != kind.chosen) ||
           !intra.has_micro_batches(p, micro_batches);
  });
  std::vector<std::vector<Chain>> result(ends.size());
  if (plans.empty()) return result;
  std::vector<const IntraCosts::Sums*> sums;
  for (const IntraPlan& p : plans) sums.push_back(&estimates.costs().sums(p, micro_batches, devices));
  auto memory = [&](const Chain& c) { return c.totals.bytes.peak(micro_batches, micro_batches); };
  auto time = [&](const StageTotals& t) { return t.option(micro_batches, false).time; };
  auto faster = [&](const Chain& a, const Chain& b) { return time(a.totals) < time(b.totals); };
  std::vector<Chain> mixed(plans.size()), uniform(plans.size());  // by the plan of the last layer
  // Every device of a tensor-parallel group reads all of what comes in.
  for (std::size_t p = 0; p < plans.size(); ++p)
    mixed[p].totals.time = uniform[p].totals.time = estimates.border_time(plans[p], begin, devices, micro_batches),
    mixed[p].totals.bytes.in_flight = uniform[p].totals.bytes.in_flight =
        estimates.border_bytes(plans[p], begin, micro_batches);
  for (std::size_t n = 0; n < ends.size(); ++n) {
    const std::size_t layer = n == 0 ? begin : ends[n - 1];
    std::vector<StageTotals> here(plans.size());
    for (std::size_t p = 0; p < plans.size(); ++p) here[p].add(*sums[p], layer, ends[n], kind.remat);
    auto extend = [&](StageTotals t, std::size_t plan) {
      t.append(here[plan]);
      return t;
    };
    double laid_out = n == 0 ? 0 : estimates.anew(layer, devices, micro_batches);
    std::vector<Chain> next(plans.size());
    for (std::size_t p = 0; p < plans.size(); ++p) {
      std::size_t best = p;
      for (std::size_t q = 0; q < plans.size(); ++q) {
        if (n == 0 && q != p) continue;
        StageTotals t = extend(mixed[q].totals, p);
        if (q != p) t.time += laid_out;
        if (q == 0 || n == 0 || time(t) < time(next[p].totals)) next[p].totals = t, best = q;
      }
      next[p].plans = mixed[best].plans;
      next[p].plans.push_back(plans[p]);
      uniform[p].totals = extend(uniform[p].totals, p);
      uniform[p].plans.push_back(plans[p]);
    }
    mixed = std::move(next);
    const std::vector<Chain>& of_kind = kind.plain ? uniform : mixed;
    auto fastest = std::min_element(of_kind.begin(), of_kind.end(), faster);
    auto leanest = std::min_element(uniform.begin(), uniform.end(),
                                    [&](const Chain& a, const Chain& b) { return memory(a) < memory(b); });
    result[n] = {*fastest};
    if (memory(*leanest) < memory(*fastest)) result[n].push_back(*leanest);
  }
  return result;
}

}  // namespace unity
