#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "core/plan/memory_plan.h"
#include "core/plan/zero_stages.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"
#include "simulator/simulate.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr int kLayers = 6;

// Layers of [16, 16] weights, 1024 bytes each, on a batch of 8; `tied`: the second layer has the weight of the first.
Pcg layers(bool tied = false) {
  Builder b("layers");
  ValueRef h = b.input("x", {8, 16}), first = b.weight("w0", {16, 16});
  for (int i = 0; i < kLayers; ++i) {
    ValueRef w = i == 0 || (tied && i == 1) ? first : b.weight("w" + std::to_string(i), {16, 16});
    h = b.apply("sigmoid", {}, {b.apply("matmul", {}, {h, w}, "matmul" + std::to_string(i))});
  }
  return std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1}}, {h})});
}

Pcg in_parts(const Pcg& pcg, int micro_batches) {
  State state = shard_batch({normalize(pcg), {}, {}}, 2).value();
  Pcg stored = with_stored_parts(state.pcg).value();
  return micro_batches > 1 ? with_micro_batches(stored, micro_batches).value() : stored;
}

Program lowered(int stage, int micro_batches, bool tied = false) {
  Pcg pcg = in_parts(layers(tied), micro_batches);
  Schedule schedule{.order = PipelineOrder::one_f_one_b, .zero_stage = stage};
  return lower(pcg, natural_mappings(pcg), uniform_topology(2), {.schedule = schedule}).value();
}

int count(const Program& program, CollectiveKind kind, Phase phase) {
  int n = 0;
  for (const Task& t : program.tasks)
    n += t.kind == TaskKind::communicate && t.phase == phase &&
         program.communications[static_cast<std::size_t>(t.op)].kind == kind;
  return n;
}

// What buffers take that are shared in time, where buffers of parts and inputs have places of their own.
std::int64_t arena(const Program& program) { return plan_memory(program).arenas[0].count; }

}  // namespace

TEST_CASE("in stage 1 a weight is gathered once, and its gradient scattered once, whatever the micro-batches") {
  for (int micro_batches : {1, 2, 4}) {
    Program program = lowered(1, micro_batches);
    CHECK(count(program, CollectiveKind::all_gather, Phase::forward) == kLayers);
    CHECK(count(program, CollectiveKind::all_gather, Phase::backward) == 0);
    CHECK(count(program, CollectiveKind::reduce_scatter, Phase::backward) == kLayers);
    CHECK(program_hash(program) == program_hash(lowered(0, micro_batches)));
  }
}

TEST_CASE("in stage 2 each micro-batch's gradients are scattered") {
  CHECK(arena(lowered(2, 1)) < arena(lowered(1, 1)));
  for (int micro_batches : {2, 4}) {
    Program program = lowered(2, micro_batches);
    CHECK(count(program, CollectiveKind::all_gather, Phase::forward) == kLayers);
    CHECK(count(program, CollectiveKind::reduce_scatter, Phase::backward) == kLayers * micro_batches);
    // Whole gradients take the place of gathered weights that nothing reads any more; but not those of the next pass.
    CHECK(arena(lowered(1, micro_batches)) - arena(program) >= 1024);
  }
}

TEST_CASE("gradients of two operators are added up before they are scattered") {
  CHECK(count(lowered(1, 4, true), CollectiveKind::reduce_scatter, Phase::backward) == kLayers - 1);
  CHECK(count(lowered(2, 4, true), CollectiveKind::reduce_scatter, Phase::backward) == (kLayers - 1) * 4);
}

TEST_CASE("in stage 3 weights are gathered again in each pass, but for those that are still there") {
  Program once = lowered(3, 1);
  CHECK(count(once, CollectiveKind::all_gather, Phase::forward) == kLayers);
  // The first one is not read there, and there is room for two.
  CHECK(count(once, CollectiveKind::all_gather, Phase::backward) == kLayers - 1 - 2);
  CHECK(arena(lowered(2, 1)) - arena(once) >= 2 * 1024);
  Program four = lowered(3, 4);
  // Between backward and forward pass the second one stays.
  CHECK(count(four, CollectiveKind::all_gather, Phase::forward) == kLayers + 3 * (kLayers - 1));
  CHECK(count(four, CollectiveKind::all_gather, Phase::backward) == 4 * (kLayers - 1 - 2));
  CHECK(arena(lowered(2, 4)) - arena(four) >= 2 * 1024);
}

TEST_CASE("a gathered weight makes room before the next but one comes") {
  Program program = lowered(3, 1);
  // On each device, buffers of whole weights in use at the same time in the order of tasks.
  std::vector<BufferLife> lives = buffer_lives(program);
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    int there = 0;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      const ProgramTensor& tensor = program.tensors[static_cast<std::size_t>(buffer.tensor)];
      if (buffer.device != DeviceId(0) || lives[b].persistent || tensor.leaf < 0 || !lives[b].first.valid()) continue;
      there += lives[b].first.index() <= t && t <= lives[b].last.index();
    }
    CHECK(there <= 3);  // two, and one that is read for the last time while the next is asked for
  }
}
