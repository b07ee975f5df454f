#include "core/search/mixed_pipelines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

class Mixer {
 public:
  Mixer(IntraPlans& plans, const StageEstimates& estimates, const StagedPlan& plan, const StageMoves& free, int devices)
      : plans_(plans), estimates_(estimates), plan_(plan), free_(free), all_{0, devices} {}

  std::vector<MixedPipelines> run() {
    std::vector<MixedPipelines> found = {with_lookups_whole()};
    if (plan_.micro_batches == 1 || plan_.ends.size() < 2 || is_interleaved(plan_)) return found;
    const std::size_t count = plan_.plans.size(), first = plan_.ends[0], last = plan_.ends[plan_.ends.size() - 2];
    MixedPipelines beginnings, ends;
    for (std::size_t cut : free_.layer_ends) {
      if (cut < first) beginnings.push_back(with_whole(0, cut));
      if (cut > last && cut < count) ends.push_back(with_whole(cut, count));
    }
    std::reverse(ends.begin(), ends.end());
    found.push_back(std::move(beginnings)), found.push_back(std::move(ends));
    return found;
  }

 private:
  void add(std::vector<StagedPlan>& found, StagedPlan plan) {
    for (std::size_t k = 0; k < plan.plans.size(); ++k)
      if (!plan.whole[k] && !plans_.has_micro_batches(plan.plans[k], plan.micro_batches)) return;
    if (std::find(found.begin(), found.end(), plan) == found.end()) found.push_back(std::move(plan));
  }

  MixedPipelines with_lookups_whole() {
    std::vector<StagedPlan> found;
    const std::vector<bool> by_node = lookups(plans_.model());
    StagedPlan mixed = plan_;
    for (NodeId id : plans_.operators()) mixed.whole.push_back(by_node[id.index()]);
    if (std::find(mixed.whole.begin(), mixed.whole.end(), true) == mixed.whole.end()) return {};
    for (int m : free_.micro_batches) {
      if (m < 2 || (m > 4 && m != plan_.micro_batches)) continue;
      mixed.micro_batches = m;
      if (goes_around(mixed)) add(found, mixed);
    }
    return {found};
  }

  // How to split operators begin .. end - 1, of the whole batch, on all devices.
  std::optional<IntraPlan> fastest(std::size_t begin, std::size_t end) {
    std::optional<IntraPlan> best;
    double least = std::numeric_limits<double>::infinity();
    for (const IntraPlan& inside : plans_.of_width(all_.count)) {
      if (copies_of(inside) != copies_of(plan_.plans[0])) continue;
      StageTotals totals;
      totals.add(estimates_.costs().sums(inside, 1, all_), begin, end, false);
      if (double time = totals.time + totals.once(); time < least) least = time, best = inside;
    }
    return best;
  }

  // Operators begin .. end - 1, which are first or last, as a stage of all devices.
  std::vector<StagedPlan> with_whole(std::size_t begin, std::size_t end) {
    std::vector<StagedPlan> found;
    const std::optional<IntraPlan> inside = fastest(begin, end);
    const std::size_t left = plan_.plans.size() - (end - begin);
    if (!inside || left < plan_.ends.size()) return found;
    for (bool anew : {false, true}) {
      StagedPlan mixed = plan_;
      if (anew) share_out(mixed, begin == 0 ? end : 0, begin == 0 ? plan_.plans.size() : begin);
      mixed.whole.assign(plan_.plans.size(), false);
      for (std::size_t k = begin; k < end; ++k) mixed.plans[k] = *inside, mixed.whole[k] = true;
      if (begin == 0) {
        mixed.ends.insert(mixed.ends.begin(), end), mixed.devices.insert(mixed.devices.begin(), all_);
      } else {
        mixed.ends.back() = begin, mixed.ends.push_back(end), mixed.devices.push_back(all_);
      }
      add(found, std::move(mixed));
    }
    return found;
  }

  // Operators begin .. end - 1 among the stages, each with the share of the FLOPs that it had of all.
  void share_out(StagedPlan& mixed, std::size_t begin, std::size_t end) const {
    const double before = plans_.flops_of(0, plan_.plans.size()), now = plans_.flops_of(begin, end);
    for (std::size_t s = 0; s + 1 < plan_.ends.size(); ++s) {
      const double wanted = plans_.flops_of(0, plan_.ends[s]) / before * now;
      const std::size_t least = s == 0 ? begin + 1 : mixed.ends[s - 1] + 1, most = end - (plan_.ends.size() - 1 - s);
      std::size_t best = least;
      double off = std::numeric_limits<double>::infinity();
      for (std::size_t cut : free_.layer_ends)
        if (double d = std::abs(plans_.flops_of(begin, std::max(begin, cut)) - wanted);
            cut >= least && cut <= most && d < off)
          best = cut, off = d;
      mixed.ends[s] = std::min(best, most);
    }
    for (std::size_t s = 0, k = begin; s < plan_.ends.size(); ++s)
      for (const IntraPlan inside = plan_.plans[plan_.ends[s] - 1];
           k < (s + 1 < plan_.ends.size() ? mixed.ends[s] : end); ++k)
        mixed.plans[k] = inside;
  }

  IntraPlans& plans_;
  const StageEstimates& estimates_;
  const StagedPlan& plan_;
  const StageMoves& free_;
  const Resources all_;
};

}  // namespace

double time_of_dense_gradients(const IntraPlans& plans, const StrategyInput& input) {
  const Pcg& model = plans.model();
  const std::vector<bool> looks_up = lookups(model);
  double bytes = 0;
  for (NodeId id : plans.operators())
    for (ValueRef v : model[id].inputs)
      if (looks_up[id.index()] && plans.needs_gradient(v.node))
        bytes += static_cast<double>(model.shape(v).shape().bytes());
  Task task;
  task.bytes = (1 + 3) * bytes / input.devices;  // written, then two read and one written
  return static_cast<double>(input.evaluator.cost().task_time(task, nullptr, DeviceId(0)).count);
}

std::vector<MixedPipelines> mixed_pipelines(IntraPlans& plans, const StageEstimates& estimates, const StagedPlan& plan,
                                            const StageMoves& free, int devices) {
  return Mixer(plans, estimates, plan, free, devices).run();
}

}  // namespace unity
