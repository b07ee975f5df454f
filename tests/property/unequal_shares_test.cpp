// Models train under unequal shares of the batch as on one device: loss, all gradients and running states.
#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// Part i of the batch on device places[i]; with so many micro-batches, and weights stored whole or in parts.
void check_shares(const ModelSpec& spec, const std::vector<int>& places, int micro_batches, bool stored_parts) {
  INFO(spec.name << ", " << micro_batches << " micro-batches, parts on " << fmt::format("{}", fmt::join(places, ", ")));
  Pcg pcg = build_model(spec);
  auto inputs = random_inputs(pcg, 7);
  Run exact =
      run(lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value(), inputs, Precision::f64);
  Pcg parallel = shard_batch({normalize(pcg), {}, {}}, static_cast<int>(places.size())).value().pcg;
  if (stored_parts) parallel = with_stored_parts(parallel).value();
  parallel = with_micro_batches(parallel, micro_batches).value();
  int devices = 1 + *std::max_element(places.begin(), places.end());
  Program program = lower(parallel, share_out(parallel, places), uniform_topology(devices)).value();
  check_program(program).value();
  Run found = run(program, inputs, Precision::f64);
  CHECK(distance(found, exact, scales(exact), 1e-10) <= 1e-10);
  for (const auto& [name, expected] : exact.states) {
    HostTensor difference = found.states.at(name);
    for (std::size_t i = 0; i < expected.reals.size(); ++i) difference.reals[i] -= expected.reals[i];
    INFO("state " << name);
    CHECK(norm(difference) <= 1e-10 * std::max(norm(expected), 1e-3));
  }
}

}  // namespace

TEST_CASE("models train under unequal shares of the batch as on one device") {
  const ModelSpec models[] = {
      {"mlp@artifact", {{"batch", 12}, {"layers", 3}, {"hidden", 12}, {"input", 12}}},
      {"bert@artifact", {{"batch", 12}, {"seq-len", 6}, {"layers", 2}, {"hidden", 12}, {"heads", 6}}},
      {"gpt2-small",
       {{"batch", 12}, {"seq-len", 6}, {"layers", 1}, {"hidden", 12}, {"heads", 6}, {"vocab", 24}, {"fused", 1}}},
      {"dlrm", {{"batch", 12}, {"hidden", 48}, {"width", 12}, {"rows", 24}}},
      {"resnext-50@artifact",
       {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}}};
  for (const ModelSpec& spec : models) {
    check_shares(spec, {0, 0, 1}, 1, false);           // 8 samples and 4
    check_shares(spec, {1, 1, 1, 0, 2, 2}, 1, false);  // 6 on device 1, 2 and 4
    check_shares(spec, {0, 0, 1}, 2, false);           // in two micro-batches each
    check_shares(spec, {0, 0, 1}, 1, true);            // two thirds of each weight on device 0
  }
}

TEST_CASE("rows of a grid are shared out together, and meet operators that are split otherwise") {
  // Products of 3 parts of the batch by 2 of the columns, of which devices 0 and 1 have two parts each; then the
  // activation in 2 parts of the batch, and the loss whole.
  auto build = [](bool parallel) {
    Builder b("g");
    ValueRef x = b.input("x", {12, 8}), y = b.input("y", {12, 6}), w = b.weight("w", {8, 6}, "uniform", 0.5);
    if (parallel) x = replicate(b, 2, partition(b, 0, 3, x)), w = replicate(b, 3, partition(b, 1, 2, w));
    ValueRef z = b.apply("matmul", {}, {x, w}, "product");
    if (parallel) z = partition(b, 0, 2, combine(b, 0, 3, combine(b, 1, 2, z)));
    z = b.apply("tanh", {}, {z});
    if (parallel) z = combine(b, 0, 2, z);
    return std::move(b).finish({b.apply("mean_squared_error", {}, {z, y})});
  };
  Pcg serial = build(false), parallel = build(true);
  auto inputs = random_inputs(serial, 7);
  Run exact = run(lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1)).value(), inputs,
                  Precision::f64);
  std::vector<MachineMapping> mappings = unity::natural_mappings(parallel);
  int products = 0;
  for (std::size_t i = 0; i < parallel.size(); ++i) {
    TaskGrid grid = node_grid(parallel, NodeId(static_cast<std::int64_t>(i)));
    if (grid.size() == 2 && parallel.nodes()[i].is_compute()) mappings[i].places = {0, 1, 0, 1, 2, 3}, ++products;
    // Of the weight, columns are the first dimension: a copy of each half for two parts, and one for the third.
    if (grid.size() == 2 && parallel.nodes()[i].is_leaf()) mappings[i].places = {0, 0, 2, 1, 1, 3};
  }
  CHECK(products == 1);
  Program program = lower(parallel, mappings, uniform_topology(4)).value();
  check_program(program).value();
  CHECK(distance(run(program, inputs, Precision::f64), exact, scales(exact), 1e-12) <= 1e-12);
}
