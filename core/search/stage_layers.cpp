#include "core/search/stage_layers.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

constexpr double kEven = 1.05;
constexpr std::size_t kNear = 3;
constexpr int kMicroBatchesPerStage = 8, kMicroBatchesPerStageOfMany = 4;  // on many devices

}  // namespace

std::vector<std::size_t> cluster_layers(const IntraPlans& plans, int layers) {
  layers = std::min<int>(layers, static_cast<int>(plans.operators().size()));
  std::vector<int> layer_of = balanced_stages(plans.model(), std::vector<double>(static_cast<std::size_t>(layers), 1));
  std::vector<std::size_t> ends(static_cast<std::size_t>(layers), 0);
  for (std::size_t k = 0; k < plans.operators().size(); ++k)
    ends[static_cast<std::size_t>(layer_of[plans.operators()[k].index()])] = k + 1;
  return ends;
}

bool are_even(const IntraPlans& plans, const std::vector<std::size_t>& layer_ends, int layers) {
  double all = 0, most = 0;
  for (std::size_t l = 0; l < layer_ends.size(); ++l) {
    const double here = plans.flops_of(l == 0 ? 0 : layer_ends[l - 1], layer_ends[l]);
    all += here, most = std::max(most, here);
  }
  return static_cast<int>(layer_ends.size()) == layers && most * layers <= kEven * all;
}

bool is_asked_for(const StagedPlan& plan, const SearchOptions& options) {
  const int asked = options.micro_batches;
  return asked == 0 || plan.micro_batches == asked || (plan.micro_batches == 1 && plan.ends.size() == 1);
}

std::vector<int> micro_batch_counts(const IntraPlans& plans, const StrategyInput& input, int stages) {
  const int asked = input.options.micro_batches;
  if (asked == 1) return {1};
  if (asked > 1) return {1, asked};
  const int most = std::min(input.devices, stages) *
                   (input.devices > kManyDevices ? kMicroBatchesPerStageOfMany : kMicroBatchesPerStage);
  std::vector<int> wanted;
  for (int base : {2, 3})
    for (int m = base; m <= most; m *= 2)
      if (plans.has_micro_batches({}, m)) wanted.push_back(m);
  std::vector<char> possible(wanted.size());
  parallel_for(wanted.size(), input.evaluator.threads(),
               [&](std::size_t i) { possible[i] = with_micro_batches(plans.model(), wanted[i]).ok(); });
  std::vector<int> counts = {1};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (possible[i]) counts.push_back(wanted[i]);
  std::sort(counts.begin(), counts.end());
  return counts;
}

std::vector<std::vector<StagedPlan>> even_pipelines(IntraPlans& plans, int devices, Bytes bucket, int overlap) {
  std::vector<std::vector<StagedPlan>> found;
  int most = std::min(devices, static_cast<int>(plans.operators().size()));
  for (int stages : {2, 3, 4, 6, 12}) {
    if (stages > most || devices % stages != 0) continue;
    IntraPlan inside{devices / stages, 1, {}};
    if (!plans.sharded(inside)) continue;
    std::vector<std::size_t> ends = cluster_layers(plans, stages);
    found.emplace_back();
    for (int m : {stages, 2 * stages}) {
      if (!plans.has_micro_batches(inside, m)) continue;
      found.back().push_back({.micro_batches = m,
                              .ends = ends,
                              .devices = even_devices(stages, stages, devices / stages),
                              .plans = std::vector<IntraPlan>(plans.operators().size(), inside),
                              .bucket = bucket,
                              .overlap = overlap});
    }
  }
  return found;
}

namespace {

// Elsewhere, up to kNear operators away, where fewer bytes leave the devices: of a value with copies, each sends its
// own.
std::vector<std::size_t> with_few_copies(const IntraPlans& plans, const IntraPlan& inside,
                                         std::vector<std::size_t> ends) {
  auto sent = [&](std::size_t cut) {
    const Node& n = plans.model(inside)[plans.operators(inside)[cut - 1]];
    return plans.crossing()[cut] * n.outputs[0].copies * n.outputs[0].partials;
  };
  for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
    const std::size_t even = ends[s], least = s == 0 ? 1 : ends[s - 1] + 1;
    for (std::size_t d = 1; d <= kNear; ++d)
      for (std::size_t cut : {even - d, even + d})
        if (cut >= least && cut < ends[s + 1] && cut <= even + d && sent(cut) < sent(ends[s])) ends[s] = cut;
  }
  return ends;
}

}  // namespace

std::vector<StagedPlan> tensor_plans(IntraPlans& plans, int devices, Bytes bucket) {
  const std::size_t operators = plans.operators().size();
  std::vector<StagedPlan> found;
  for (const IntraPlan& inside : plans.of_width(devices))
    for (int m : {1, 2})
      if (inside.tensor > 1 && plans.has_micro_batches(inside, m))
        found.push_back({.micro_batches = m,
                         .ends = {operators},
                         .devices = {{0, devices}},
                         .plans = std::vector<IntraPlan>(operators, inside),
                         .bucket = bucket,
                         .overlap = 1});
  return found;
}

std::vector<StagedPlan> tensor_pipelines(IntraPlans& plans, int devices, int micro_batches, Bytes bucket) {
  std::vector<StagedPlan> found;
  for (int stages : {2, 3, 4}) {
    if (stages > static_cast<int>(plans.operators().size()) || devices % stages != 0) continue;
    for (const IntraPlan& inside : plans.of_width(devices / stages)) {
      const int m = micro_batches > 0 ? micro_batches : kMicroBatchesPerStageOfMany * stages;
      if (inside.tensor == 1 || !plans.has_micro_batches(inside, m)) continue;
      found.push_back({.micro_batches = m,
                       .ends = with_few_copies(plans, inside, cluster_layers(plans, stages)),
                       .devices = even_devices(stages, stages, devices / stages),
                       .plans = std::vector<IntraPlan>(plans.operators().size(), inside),
                       .order = PipelineOrder::zero_bubble,
                       .bucket = bucket,
                       .overlap = 2});
    }
  }
  return found;
}

}  // namespace unity
