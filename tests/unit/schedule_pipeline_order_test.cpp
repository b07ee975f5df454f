#include <algorithm>

#include <catch2/catch.hpp>

#include "core/plan/pipeline_order.h"
#include "simulator/simulate.h"
#include "tests/support/pipeline_program.h"

using namespace unity;
using namespace unity::test;

namespace {

// "F0 F1 B0 ..": the passes of a device; of several parts, each with its number in the chain: "0F0".
std::string passes(const Program& program, int device, bool with_part = false) {
  std::string text;
  for (const Task& t : program.tasks) {
    if (t.kind != TaskKind::compute || t.device.value != device) continue;
    if (!text.empty()) text += ' ';
    if (with_part) text += program.ops[static_cast<std::size_t>(t.op)].name.substr(5);
    text += fmt::format("{}{}", t.phase == Phase::forward ? 'F' : 'B', t.micro);
  }
  return text;
}

Program ordered(int groups, int parts, int micros, PipelineOrder order) {
  Program program = pipeline_program(groups, parts, micros);
  order_micro_batches(program, {.order = order}).value();
  check_program(program).value();
  return program;
}

// Two stages of two devices each (0, 1 and 2, 3), forward only. In a pass both devices of a stage compute for 1 us, sum
// an element up, and compute again, for 1 us on the first stage, 3 us on the second; device 0 sends one to 2, and 1 one
// to 3. Operator by operator, as lowered.
Program two_stages_that_sum(int micros) {
  ProgramBuilder b(4);
  Program& p = b.program;
  std::vector<std::vector<TaskId>> ready(4, std::vector<TaskId>(static_cast<std::size_t>(micros)));  // by device
  auto compute = [&](int part, int device, int micro, double us) {
    TaskId& last = ready[static_cast<std::size_t>(device)][static_cast<std::size_t>(micro)];
    std::vector<TaskId> after;
    if (last.valid()) after.push_back(last);
    last = b.compute(device, us, after, {b.buffer(device, 10)});
    Task& t = p.tasks[last.index()];
    t.kind = TaskKind::compute, t.phase = Phase::forward, t.micro = micro, t.op = part;
  };
  auto communicate = [&](CollectiveKind kind, int from, int to, int micro) {
    TaskId &a = ready[static_cast<std::size_t>(from)][static_cast<std::size_t>(micro)],
           &z = ready[static_cast<std::size_t>(to)][static_cast<std::size_t>(micro)];
    std::vector<TaskId> after = {a};
    if (z.valid()) after.push_back(z);
    a = z = b.communicate(kind, {from, to}, 1, after);
    p.tasks[a.index()].phase = Phase::forward;
  };
  for (int stage : {0, 1})
    for (int half : {0, 1}) {
      int part = 2 * stage + half, first = 2 * stage;
      p.ops.push_back({&get_operator("relu"), {}, OriginId(part), fmt::format("part.{}", part), 0, {}});
      for (int device : {first, first + 1})
        for (int m = 0; m < micros; ++m) compute(part, device, m, part == 3 ? 3 : 1);
      for (int m = 0; m < micros; ++m) {
        if (half == 0) communicate(CollectiveKind::all_reduce, first, first + 1, m);
        if (half == 1 && stage == 0)
          for (int device : {0, 1}) communicate(CollectiveKind::send, device, device + 2, m);
      }
    }
  return std::move(b.program);
}

// Links so fast that 4 bytes take no picosecond.
SimulationResult simulated(const Program& program) { return simulate(program, all_pairs(program.devices, 1e6)); }

}  // namespace

TEST_CASE("GPipe does all forward passes, then all backward passes") {
  Program program = ordered(3, 1, 4, PipelineOrder::gpipe);
  for (int d = 0; d < 3; ++d) CHECK(passes(program, d) == "F0 F1 F2 F3 B0 B1 B2 B3");
}

TEST_CASE("1F1B of 3 stages and 4 micro-batches begins with 2, 1 and 0 forward passes") {
  Program program = ordered(3, 1, 4, PipelineOrder::one_f_one_b);
  CHECK(passes(program, 0) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(passes(program, 1) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(passes(program, 2) == "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST_CASE("interleaved 1F1B of 2 stages with 2 parts each begins with 4 and 2 forward passes") {
  // 2 (p - 1 - s) + (v - 1) p = 4 on stage 0, 2 on stage 1; then one forward, one backward in turn.
  Program program = ordered(2, 2, 4, PipelineOrder::interleaved);
  CHECK(passes(program, 0, true) == "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  CHECK(passes(program, 1, true) == "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST_CASE("the bubble is (p - 1) / m of the ideal time, and a v-th of it when interleaved") {
  // Ideal: m micro-batches of v parts, 1 + 2 us each. The bubble: (p - 1) forward and backward passes of one part.
  for (int p : {2, 4})
    for (int m : {4, 8}) {
      INFO(p << " stages, " << m << " micro-batches");
      for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b})
        CHECK(simulated(ordered(p, 1, m, order)).iteration.count == Approx(3e6 * (m + p - 1)).epsilon(1e-4));
      CHECK(simulated(ordered(p, 2, m, PipelineOrder::interleaved)).iteration.count ==
            Approx(3e6 * (2 * m + p - 1)).epsilon(1e-4));
    }
}

TEST_CASE("what a stage communicates inside does not wait for the next micro-batch to arrive") {
  // The second stage has work for 4 us a micro-batch, from 2 us on, when the first one arrives. The sum of this is due
  // at 3 us; if it stood behind the arrival of the second one, at 4 us, all would end a microsecond later.
  for (int micros : {2, 4, 8})
    for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b}) {
      INFO(micros << " micro-batches, " << to_string(order));
      Program program = two_stages_that_sum(micros);
      order_micro_batches(program, {.order = order}).value();
      check_program(program).value();
      CHECK(passes(program, 3).starts_with("F0 F0 F1 F1"));
      CHECK(simulated(program).iteration.count == Approx(1e6 * (2 + 4 * micros)).epsilon(1e-4));
    }
}

TEST_CASE("1F1B holds p - s micro-batches on stage s, GPipe all of them") {
  constexpr int kStages = 4, kMicros = 8;
  std::vector<Bytes> gpipe = simulated(ordered(kStages, 1, kMicros, PipelineOrder::gpipe)).peak_memory;
  std::vector<Bytes> turns = simulated(ordered(kStages, 1, kMicros, PipelineOrder::one_f_one_b)).peak_memory;
  for (int s = 0; s < kStages; ++s) {
    CHECK(gpipe[static_cast<std::size_t>(s)].count == 4000 * kMicros);
    CHECK(turns[static_cast<std::size_t>(s)].count == 4000 * (kStages - s));
  }
}

TEST_CASE("stages are the groups of devices that hold consecutive parts of the graph") {
  PipelineStages stages = find_stages(pipeline_program(3, 2, 2));
  CHECK(stages.micro_batches == 2);
  CHECK(stages.groups.size() == 3);
  CHECK(stages.part_counts == std::vector<int>{2, 2, 2});
  REQUIRE(stages.chain.size() == 6);
  for (int k = 0; k < 6; ++k) CHECK(stages.chain[static_cast<std::size_t>(k)] == PipelineStages::Part{k % 3, k / 3});
}

TEST_CASE("an order that does not suit the stages is refused with what it needs") {
  Program two_parts = pipeline_program(2, 2, 4), three = pipeline_program(2, 2, 3);
  auto refused = order_micro_batches(two_parts, {.order = PipelineOrder::one_f_one_b});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("holds 2 parts of the graph") != std::string::npos);
  refused = order_micro_batches(three, {.order = PipelineOrder::interleaved});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "interleaved: 3 passes of micro-batches, expected a multiple of the 2 stages");
}

TEST_CASE("without micro-batches nothing changes") {
  Program program = pipeline_program(3, 1, 1);
  Hash before = program_hash(program);
  order_micro_batches(program, {.order = PipelineOrder::one_f_one_b}).value();
  CHECK(program_hash(program) == before);
}
