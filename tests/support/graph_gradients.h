// Compares the gradients of a training graph with central differences of its loss.
#pragma once

#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/autodiff.h"
#include "core/graph/evaluate.h"

namespace unity {

// For every weight, the gradient that differentiate() gives at up to `samples` of its elements, spread evenly. With
// steps of 3e-6 the differences have an error of order step^2 and of rounding / step, both below 1e-9.
inline void check_gradients(const Pcg& pcg, std::uint64_t seed, std::int64_t samples = 1000) {
  INFO("seed " << seed);
  constexpr double kStep = 3e-6;
  LeafValues leaves = random_leaves(pcg, {.seed = seed});
  LeafValues training_leaves = leaves;
  training_leaves["loss_gradient"] = LogicalTensor({{}, DType::f64});
  *training_leaves["loss_gradient"].as<double>() = 1;
  auto outputs = evaluate_outputs(differentiate(pcg).value(), training_leaves);
  std::size_t next = pcg.outputs().size();
  for (const Node& node : pcg.nodes()) {
    if (node.op->name() != "weight") continue;
    INFO("weight " << node.name);
    const LogicalTensor& gradient = outputs.at(next++);
    REQUIRE(gradient.shape().dims == node.outputs[0].shape().dims);
    double* w = leaves[node.name].as<double>();
    std::int64_t stride = std::max<std::int64_t>(1, gradient.elements() / samples);
    for (std::int64_t i = 0; i < gradient.elements(); i += stride) {
      double at = w[i];
      w[i] = at + kStep;
      double above = evaluate_outputs(pcg, leaves)[0].number(0);
      w[i] = at - kStep;
      double below = evaluate_outputs(pcg, leaves)[0].number(0);
      w[i] = at;
      CHECK(gradient.number(i) == Approx((above - below) / (2 * kStep)).epsilon(1e-6).margin(1e-8));
    }
  }
  CHECK(next == outputs.size());
}

}  // namespace unity
