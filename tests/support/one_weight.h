// The smallest program that trains, for tests: y = x w, loss = mean (y - t)^2, on one device.
#pragma once

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

namespace unity::test {

inline Program one_weight(const OptimizerSpec& optimizer, const std::string& weight = "w", std::int64_t columns = 1) {
  Builder b("linear");
  ValueRef x = b.input("x", {2, 1}), t = b.input("t", {2, columns}), w = b.weight(weight, {1, columns}, "ones");
  Pcg g = std::move(b).finish({b.apply("mean_squared_error", {}, {b.apply("matmul", {}, {x, w}), t})});
  return lower(g, test::natural_mappings(g), uniform_topology(1), {true, optimizer}).value();
}

}  // namespace unity::test
