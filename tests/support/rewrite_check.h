// What every rewriting must keep, checked on random values in exact arithmetic.
#pragma once

#include <catch2/catch.hpp>

#include "core/graph/evaluate.h"
#include "core/graph/text.h"

namespace unity::test {

// Same outputs for the same leaves, in integers modulo a prime; same parallel shapes of outputs, but for copies.
inline void check_same_function(const Pcg& before, const Pcg& after, std::uint64_t seed = 7) {
  INFO("before: " << print(before) << "after: " << print(after));
  CHECK(check_well_formed(after).ok());
  EvaluateOptions options{DType::mod, seed, 0};
  LeafValues leaves = random_leaves(before, options);
  CHECK(evaluate_outputs(before, leaves, options) == evaluate_outputs(after, leaves, options));
  REQUIRE(before.outputs().size() == after.outputs().size());
  for (std::size_t i = 0; i < before.outputs().size(); ++i) {
    ParallelShape was = before.shape(before.outputs()[i]), is = after.shape(after.outputs()[i]);
    was.copies = is.copies;
    CHECK(to_string(is) == to_string(was));
  }
}

// The first node of that operator.
inline NodeId find_node(const Pcg& pcg, std::string_view op) {
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == op) return NodeId(static_cast<std::int64_t>(i));
  FAIL("there is no " << op);
  return {};
}

inline int count_nodes(const Pcg& pcg, std::string_view op) {
  int count = 0;
  for (const Node& node : pcg.nodes()) count += node.op->name() == op;
  return count;
}

}  // namespace unity::test
