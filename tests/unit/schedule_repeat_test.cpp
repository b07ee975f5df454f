// Several iterations in one Program: what may overlap, in which order, and how long a step then takes.
#include <catch2/catch.hpp>

#include "core/plan/delayed_weights.h"
#include "core/plan/pipeline_order.h"
#include "core/plan/repeat.h"
#include "simulator/analysis/steady_state.h"
#include "simulator/simulate.h"
#include "tests/support/pipeline_program.h"

using namespace unity;
using namespace unity::test;

namespace {

// "F0 F1 B0 / ..": the passes of a device, counted on from one iteration to the next, and U at its updates.
std::string passes(const Program& program, int device, int micros) {
  std::string text;
  for (const Task& t : program.tasks) {
    bool update = t.kind == TaskKind::update;
    if ((t.kind != TaskKind::compute && !update) || t.device.value != device) continue;
    if (!text.empty()) text += ' ';
    text += update ? "U" : fmt::format("{}{}", t.phase == Phase::forward ? 'F' : 'B', t.iteration * micros + t.micro);
  }
  return text;
}

Program repeated(int groups, int parts, int micros, PipelineOrder order, WeightVersions weights, int iterations) {
  Program program = pipeline_program(groups, parts, micros, true);
  order_micro_batches(program, {.order = order}).value();
  delay_weights(program, weights).value();
  return repeat(program, iterations, {.order = order}).value();
}

// Links so fast that 4 bytes take no picosecond; 40 bytes of weights, copied once a step, take 80 ps.
SteadyState simulated(const Program& program) {
  return steady_state(program, simulate(program, all_pairs(program.devices, 1e6)).trace);
}

}  // namespace

TEST_CASE("2BW takes passes of the next step where 1F1B drains, and updates before the next step's backward passes") {
  Program program = repeated(3, 1, 4, PipelineOrder::one_f_one_b, WeightVersions::delayed, 2);
  CHECK(passes(program, 0, 4) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 U B4 F7 B5 B6 B7 U");
  CHECK(passes(program, 1, 4) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 U B4 F6 B5 F7 B6 B7 U");
  CHECK(passes(program, 2, 4) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 U B4 F5 B5 F6 B6 F7 B7 U");
}

TEST_CASE("steps share what their Program takes beside its tasks") {
  Program program = repeated(2, 1, 4, PipelineOrder::one_f_one_b, WeightVersions::delayed, 4);
  Trace trace = simulate(program, all_pairs(program.devices, 1e6)).trace;
  const Picoseconds alone = steady_state(program, trace).iteration();
  trace.iteration.count += 1000;
  CHECK(steady_state(program, trace).iteration().count == alone.count + 250);
}

TEST_CASE("with the newest weights each step drains before the next fills") {
  Program program = repeated(3, 1, 4, PipelineOrder::one_f_one_b, WeightVersions::newest, 2);
  CHECK(passes(program, 0, 4) == "F0 F1 F2 B0 F3 B1 B2 B3 U F4 F5 F6 B4 F7 B5 B6 B7 U");
}

TEST_CASE("a step of m micro-batches in p equal stages takes m passes with 2BW, m + p - 1 with flush") {
  for (int p : {2, 4})
    for (int m : {p, 4, 8}) {
      INFO(p << " stages, " << m << " micro-batches");
      double ideal = 3e6 * m;
      SteadyState flush = simulated(repeated(p, 1, m, PipelineOrder::one_f_one_b, WeightVersions::newest, 4));
      CHECK(flush.iteration().count == Approx(3e6 * (m + p - 1)).epsilon(1e-4));
      CHECK(flush.bubble == Approx((p - 1.0) / m).epsilon(1e-3));
      SteadyState steady = simulated(repeated(p, 1, m, PipelineOrder::one_f_one_b, WeightVersions::delayed, 4));
      CHECK(steady.iteration().count == Approx(ideal).epsilon(1e-4));
      CHECK(steady.bubble == Approx(0).margin(1e-3));
      SteadyState parts = simulated(repeated(p, 2, m, PipelineOrder::interleaved, WeightVersions::delayed, 4));
      // With m = p = 4, 2 (p - 1) + p = 10 forward passes to begin with are more than the 8 of a step: with flush.
      CHECK(parts.iteration().count == Approx(2 * ideal + (p == 4 && m == 4 ? 3e6 * (p - 1) : 0)).epsilon(1e-4));
    }
}

TEST_CASE("with fewer micro-batches than stages, 2BW waits for the update of two steps before") {
  // 2 micro-batches in 4 stages: the first stage may begin with 2 forward passes, not 3, as the second does. Then a
  // micro-batch goes backward on the second and the first, before a forward pass on the first and the second lets the
  // next one go backward: 2 + 2 + 1 + 1 us for each, 12 us for a step, where 6 us are ideal and flush takes 15 us.
  Program program = repeated(4, 1, 2, PipelineOrder::one_f_one_b, WeightVersions::delayed, 8);
  std::vector<Picoseconds> ends = simulated(program).ends;
  CHECK((ends[6].count - ends[2].count) / 4 == Approx(12e6).epsilon(1e-4));
}

TEST_CASE("2BW holds p - s micro-batches on stage s, as 1F1B does") {
  constexpr int kStages = 4;
  Program program = repeated(kStages, 1, 8, PipelineOrder::one_f_one_b, WeightVersions::delayed, 3);
  auto peaks = simulate(program, all_pairs(kStages, 1e6)).memory_by_category;
  for (int s = 0; s < kStages; ++s) {
    auto at = [&](BufferCategory c) { return peaks[static_cast<std::size_t>(s)][static_cast<std::size_t>(c)].count; };
    CHECK(at(BufferCategory::activation) == 4000 * (kStages - s));
    CHECK(at(BufferCategory::weight) == 2 * 40);
  }
}

TEST_CASE("several iterations are folded like one, with the same times and memory") {
  // Two data-parallel devices: 1 us, the all-reduce, 1 us more with the output.
  ProgramBuilder b(2);
  std::vector<TaskId> done;
  for (int d : {0, 1}) done.push_back(b.compute(d, 1, {}, {b.buffer(d, 500), b.buffer(d, 10, BufferCategory::weight)}));
  TaskId sum = b.communicate(CollectiveKind::all_reduce, {0, 1}, 1000, done);
  for (int d : {0, 1}) {
    BufferId out = b.buffer(d, 700);
    b.program.outputs.push_back({"out", {700}, {out}});
    b.compute(d, 1, {sum}, {out});
  }
  Program program = repeat(b.program, 3, Schedule()).value();
  SimulationResult whole = simulate(program, all_pairs(2, 1)),
                   folded = simulate(program, all_pairs(2, 1), {.fold = true});
  CHECK(folded.iteration == whole.iteration);
  CHECK(folded.peak_memory == whole.peak_memory);
  CHECK(folded.memory_by_category == whole.memory_by_category);
  // 10 f32 of weights; the output of 700 f32 only while it is computed.
  CHECK(whole.peak_memory == std::vector<Bytes>(2, Bytes{40 + 2800}));
}

TEST_CASE("only the first and the last version of a weight are where one step would leave them") {
  // By iteration: which buffer the passes read, and which the update changes. 0: read first, 1: the newest.
  for (int iterations : {1, 2, 3, 4}) {
    Program program = repeated(2, 1, 4, PipelineOrder::one_f_one_b, WeightVersions::delayed, iterations);
    std::vector<std::string> at(static_cast<std::size_t>(iterations));
    for (const Task& t : program.tasks) {
      if (t.device.value != 0) continue;
      auto operands = program.operands_of(t);
      auto version = [&](BufferId b) { return program.tensor_of(b).name.ends_with(".next") ? '1' : '0'; };
      if (t.kind == TaskKind::compute && t.phase == Phase::forward && t.micro == 0)
        at[t.iteration].insert(0, 1, version(operands[0]));
      if (t.kind == TaskKind::update) at[t.iteration] += version(operands[0]);
    }
    std::vector<std::string> expected = {"00", "11", "00", "11"};
    expected.resize(static_cast<std::size_t>(iterations));
    if (iterations % 2 == 1) expected.back() = "01";
    CHECK(at == expected);
  }
}

TEST_CASE("the next step of data parallelism starts a layer when its weight is updated, not before") {
  // Two devices: backward 4 us, then the all-reduce of 4 MB over 1 GB/s each way (2 (n-1)/n S = 4 MB: 4000 us), then
  // the update. A forward task of the next step reads the weight, another one does not.
  ProgramBuilder b(2);
  std::vector<TaskId> done;
  std::vector<BufferId> weights;
  for (int d : {0, 1}) {
    weights.push_back(b.buffer(d, 10, BufferCategory::weight));
    b.program.ops.push_back({&get_operator("relu"), {}, OriginId(d), "reader", 1, {false}});
    TaskId reads = b.compute(d, 1, {}, {weights.back(), b.buffer(d, 10)});
    b.program.tasks[reads.index()].kind = TaskKind::compute;
    b.program.tasks[reads.index()].op = d;
    done.push_back(b.compute(d, 3, {reads}));
  }
  TaskId sum = b.communicate(CollectiveKind::all_reduce, {0, 1}, 1'000'000, done);
  for (int d : {0, 1}) {
    Task& t = b.program.tasks[b.compute(d, 0, {sum}, {weights[static_cast<std::size_t>(d)], b.buffer(d, 10)}).index()];
    t.kind = TaskKind::update, t.phase = Phase::update;
  }
  Program program = repeat(b.program, 3, Schedule()).value();
  SteadyState steady = steady_state(program, simulate(program, all_pairs(2, 1)).trace);
  CHECK(steady.iteration().count == Approx(4'004e6).epsilon(1e-6));
  REQUIRE(steady.ends.size() == 3);
  CHECK(steady.ends[2].count == Approx(3 * 4'004e6).epsilon(1e-6));
}

TEST_CASE("a number of iterations that a program can not have is refused") {
  Program program = pipeline_program(2, 1, 2, true);
  CHECK(repeat(program, 0, {}).error().message == "a program of 0 iterations, expected 1 to 255");
  CHECK(repeat(program, 256, {}).error().message == "a program of 256 iterations, expected 1 to 255");
  CHECK(program_hash(repeat(program, 1, {}).value()) == program_hash(program));
}
