#include "core/search/stage_layers.h"

#include <algorithm>

#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

constexpr double kEven = 1.05;

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

}  // namespace unity
