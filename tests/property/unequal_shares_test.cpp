// Models train under unequal shares of the batch as on one device: loss, all gradients and running states.
#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"
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
