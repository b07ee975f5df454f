#include "core/search/stage_proposals.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "core/search/data_parallel.h"
#include "core/search/stage_chains.h"

namespace unity {

std::vector<Proposal> StageProposals::propose(const std::vector<std::size_t>& layer_ends,
                                              const ProposalRequest& request) {
  if (request.chosen > 0) return find(layer_ends, request);
  const std::pair key{layer_ends, request};
  {
    std::lock_guard lock(mutex_);
    if (auto known = found_.find(key); known != found_.end()) return known->second;
  }
  std::vector<Proposal> found = find(layer_ends, request);
  std::lock_guard lock(mutex_);
  return found_.emplace(key, std::move(found)).first->second;
}

std::vector<Proposal> StageProposals::find(const std::vector<std::size_t>& layer_ends, const ProposalRequest& request) {
  const int micro_batches = request.micro_batches;
  const Saving& saving = request.saving;
  auto begin_of = [&](int layer) { return layer == 0 ? 0 : layer_ends[static_cast<std::size_t>(layer) - 1]; };
  const Evaluator& evaluator = in_.evaluator;
  StageProblem problem;
  problem.layers = static_cast<int>(layer_ends.size());
  problem.devices = in_.devices;
  problem.micro_batches = micro_batches;
  problem.submeshes = meshes_;
  // Stages that wait for one another save memory, and sums of gradients, which count where models are small.
  const bool may_wait = in_.devices <= kManyDevices && in_.options.schedule.weights == WeightVersions::newest;
  if (micro_batches == 1 && !may_wait && saving.fits && !saving.one_f_one_b)
    std::erase_if(problem.submeshes, [&](const Submesh& s) { return s.width != in_.devices; });
  for (const Submesh& s : problem.submeshes) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int d = 0; saving.fits && d < in_.devices; ++d)
      for (int first = std::max(0, d - s.width + 1); first <= d; ++first)
        if (s.starts[static_cast<std::size_t>(first)])
          least = std::min(least, static_cast<std::int64_t>(
                                      request.margin * static_cast<double>(evaluator.memory_of(DeviceId(d)).count)));
    problem.memory.push_back(least);
  }
  problem.all_in_flight =
      (in_.options.schedule.order == PipelineOrder::gpipe && !saving.one_f_one_b) || plans_.waits_for_batch();
  const bool remat = saving.remat || in_.options.schedule.remat == std::vector<std::string>{"blocks"};
  std::map<std::pair<int, int>, std::vector<std::vector<Chain>>> by_start;  // first layer, submesh
  auto chains_of = [&](int first, int last, int submesh) -> const std::vector<Chain>& {
    auto [it, fresh] = by_start.try_emplace({first, submesh});
    if (fresh)
      it->second =
          chains(plans_, estimates_, begin_of(first), std::span(layer_ends).subspan(static_cast<std::size_t>(first)),
                 example(problem.submeshes[static_cast<std::size_t>(submesh)]),
                 {micro_batches, remat, request.copies, request.plain, request.chosen});
    return it->second[static_cast<std::size_t>(last - first - 1)];
  };
  problem.options = [&](int first, int last, int submesh) {
    std::vector<StageOption> options;
    std::int64_t border = estimates_.entry_time(
        begin_of(first), example(problem.submeshes[static_cast<std::size_t>(submesh)]), micro_batches);
    for (const Chain& c : chains_of(first, last, submesh)) {
      options.push_back(c.totals.option(micro_batches, request.overlap > 0));
      options.back().time = std::max(options.back().time, border);
    }
    return options;
  };
  problem.handover = [&](int cut, int device) { return estimates_.handover(begin_of(cut), device, micro_batches); };
  std::vector<Proposal> proposals;
  std::vector<ChosenStages> all = choose_stages(problem);
  // On devices of unequal memory, also what fits the smallest anywhere: estimates of large stages are rough.
  const auto [low, high] = std::minmax_element(problem.memory.begin(), problem.memory.end());
  if (!problem.memory.empty() && *low < *high) {
    problem.memory.assign(problem.memory.size(), *low);
    for (ChosenStages& chosen : choose_stages(problem))
      if (std::none_of(all.begin(), all.end(), [&](const auto& c) { return c.stages == chosen.stages; }))
        all.push_back(std::move(chosen));
  }
  for (const ChosenStages& chosen : all) {
    Proposal p{chosen.time,
               {.micro_batches = micro_batches,
                .stored_parts = !saving.fits,
                .order = saving.one_f_one_b ? std::optional(PipelineOrder::one_f_one_b) : std::nullopt,
                .remat = saving.remat,
                .bucket = bucket_,
                .overlap = request.overlap}};
    for (const ChosenStage& s : chosen.stages) {
      const Chain& c = chains_of(s.first, s.last, s.submesh)[static_cast<std::size_t>(s.option)];
      for (int layer = s.first; layer < s.last; ++layer)
        p.plan.plans.resize(begin_of(layer + 1), c.plans[static_cast<std::size_t>(layer - s.first)]);
      p.plan.ends.push_back(begin_of(s.last));
      p.plan.devices.push_back({s.device, problem.submeshes[static_cast<std::size_t>(s.submesh)].width});
    }
    proposals.push_back(std::move(p));
  }
  return proposals;
}

void keep_faster(std::vector<Proposal>& proposals, const std::vector<Proposal>& others) {
  constexpr double kFaster = 0.99;
  std::map<std::size_t, std::int64_t> known;  // by number of stages
  for (const Proposal& p : others) known[p.plan.ends.size()] = p.time;
  std::erase_if(proposals, [&](const Proposal& p) {
    auto other = known.find(p.plan.ends.size());
    return other != known.end() && static_cast<double>(p.time) > kFaster * static_cast<double>(other->second);
  });
}

void add_fastest(std::vector<StagedPlan>& plans, std::vector<Proposal>& proposals, std::size_t most) {
  constexpr std::size_t kAlike = 2;
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.time < b.time; });
  std::map<std::pair<std::size_t, bool>, std::size_t> alike;  // by number of stages, one plan in each
  for (const Proposal& p : proposals)
    if (plans.size() < most && alike[{p.plan.ends.size(), is_plain(p.plan)}]++ < kAlike &&
        std::find(plans.begin(), plans.end(), p.plan) == plans.end())
      plans.push_back(p.plan);
}

}  // namespace unity
