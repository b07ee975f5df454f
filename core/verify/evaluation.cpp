#include "core/verify/evaluation.h"

#include <algorithm>
#include <cmath>

#include "core/graph/evaluate.h"

namespace unity {
namespace {

// Every index below the smallest dimension of any leaf.
void draw_indices_small(const Pcg& pcg, LeafValues& leaves) {
  std::int64_t smallest = kNoIndexBound;
  for (const Node& node : pcg.nodes())
    if (node.is_leaf())
      for (const ParallelDim& dim : node.outputs[0].dims) smallest = std::min(smallest, dim.size);
  for (auto& [name, value] : leaves)
    if (value.shape().dtype == DType::i32)
      for (std::int64_t i = 0; i < value.elements(); ++i)
        value.as<std::int32_t>()[i] %= static_cast<std::int32_t>(smallest);
}

bool close(const std::vector<LogicalTensor>& was, const std::vector<LogicalTensor>& is) {
  for (std::size_t o = 0; o < was.size(); ++o) {
    if (was[o].shape() != is[o].shape()) return false;
    for (std::int64_t i = 0; i < was[o].elements(); ++i) {
      double a = was[o].number(i), b = is[o].number(i);
      if (std::abs(a - b) > 1e-6 * std::max({std::abs(a), std::abs(b), 1.0})) return false;
    }
  }
  return true;
}

}  // namespace

bool equal_values(const RuleInstance& instance, DType dtype, std::uint64_t seed) {
  if (same_terms(instance)) return true;
  EvaluateOptions options{dtype, seed, 0};
  LeafValues leaves = random_leaves(instance.source, options);
  std::vector<LogicalTensor> was, is;
  try {
    was = evaluate_outputs(instance.source, leaves, options);
  } catch (const InputError&) {
    draw_indices_small(instance.source, leaves);
    was = evaluate_outputs(instance.source, leaves, options);
  }
  try {
    is = evaluate_outputs(instance.target, leaves, options);
  } catch (const InputError&) {
    return false;
  }
  return dtype == DType::f64 ? close(was, is) : was == is;
}

}  // namespace unity
