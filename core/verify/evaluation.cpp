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

void draw_positive(LeafValues& leaves, double factor) {
  for (auto& [name, value] : leaves)
    if (value.shape().dtype == DType::f64)
      for (std::int64_t i = 0; i < value.elements(); ++i)
        value.as<double>()[i] = factor * std::abs(value.as<double>()[i]);
}

constexpr double kRounding = 1e-6;

bool close(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::isfinite(a) && std::isfinite(b) &&
         std::abs(a - b) <= kRounding * std::max({std::abs(a), std::abs(b), 1.0});
}

struct Comparison {
  bool close = true, finite = false;  // everywhere, somewhere
};
Comparison compare(const std::vector<LogicalTensor>& was, const std::vector<LogicalTensor>& is) {
  Comparison found;
  for (std::size_t o = 0; o < was.size(); ++o) {
    if (was[o].shape() != is[o].shape()) return {false, true};
    for (std::int64_t i = 0; i < was[o].elements(); ++i) {
      found.finite = found.finite || std::isfinite(was[o].number(i));
      if (!close(was[o].number(i), is[o].number(i))) return {false, true};
    }
  }
  return found;
}

}  // namespace

bool equal_reals(const Pcg& source, const Pcg& target, LeafValues leaves, const EvaluateOptions& options) {
  for (double factor : {0.0, 1.0, 100.0}) {
    if (factor > 0) draw_positive(leaves, factor);
    Comparison found = compare(evaluate_outputs(source, leaves, options), evaluate_outputs(target, leaves, options));
    if (!found.close) return false;
    if (found.finite) break;
  }
  return true;
}

bool equal_values(const RuleInstance& instance, DType dtype, std::uint64_t seed) {
  if (same_terms(instance)) return true;
  EvaluateOptions options{dtype, seed, 0};
  LeafValues leaves = random_leaves(instance.source, options);
  std::vector<LogicalTensor> was;
  try {
    was = evaluate_outputs(instance.source, leaves, options);
  } catch (const InputError&) {
    draw_indices_small(instance.source, leaves);
    was = evaluate_outputs(instance.source, leaves, options);
  }
  try {
    if (dtype == DType::f64) return equal_reals(instance.source, instance.target, std::move(leaves), options);
    return was == evaluate_outputs(instance.target, leaves, options);
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace unity
