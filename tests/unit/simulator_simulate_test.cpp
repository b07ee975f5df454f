#include <algorithm>
#include <thread>

#include <catch2/catch.hpp>

#include "core/trace/trace_json.h"
#include "simulator/cost_model.h"
#include "simulator/devices/roofline.h"
#include "simulator/simulate.h"
#include "simulator/simulation_bytes.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

double microseconds(Picoseconds t) { return static_cast<double>(t.count) * 1e-6; }

// Two devices, 1 GB/s: 1000 f32 elements take 4 us.
Topology pair() { return all_pairs(2, 1); }

// Four logical devices on one physical device with some units of compute.
Topology four_on(double units, const std::string& kind = "gpu") {
  MachineBuilder m(4);
  for (DeviceSpec& spec : m.topology.specs) spec.kind = kind;
  m.topology.physical_devices = {{units}};
  for (Device& d : m.topology.devices) d.physical = 0;
  for (int d = 1; d < 4; ++d) m.link(m.device(0), m.device(d), 1);
  return m.finish();
}

}  // namespace

TEST_CASE("tasks of one stream run one after the other, in the order of the program") {
  ProgramBuilder b(2);
  TaskId late = b.compute(1, 5);
  b.compute(0, 1, {late});  // waits for the other device, and holds up the next one
  b.compute(0, 2);
  SimulationResult r = simulate(b.program, pair());
  CHECK(microseconds(r.iteration) == 8);
  REQUIRE(r.trace.spans.size() == 3);
  CHECK(r.trace.spans[2].task == TaskId(2));
  CHECK(microseconds(r.trace.spans[2].start) == 6);
}

TEST_CASE("a task that waited for another stream starts a handover later, one of the same stream at once") {
  Topology machine = pair();
  for (DeviceSpec& spec : machine.specs) spec.handover = {2'000'000};  // 2 us
  ProgramBuilder b(2);
  TaskId first = b.compute(0, 5);
  b.compute(0, 1, {first});  // 5 to 6: its own stream
  b.compute(1, 3, {first});  // 7 to 10: another device
  CHECK(microseconds(simulate(b.program, machine).iteration) == 10);
}

TEST_CASE("compute, communication and copies of a device overlap") {
  ProgramBuilder b(2);
  b.compute(0, 10);
  b.communicate(CollectiveKind::send, {0, 1}, 1000);
  b.compute(0, 7, {}, {}, Stream::copy);
  SimulationResult r = simulate(b.program, pair());
  CHECK(microseconds(r.iteration) == 10);
  CHECK(r.trace.spans.size() == 4);  // the communication has a span on each participant
}

TEST_CASE("a communication waits for what it depends on and for the streams of all participants") {
  ProgramBuilder b(3);
  TaskId c = b.compute(0, 3);
  b.communicate(CollectiveKind::send, {0, 1}, 1000, {c});  // 3 to 7
  b.communicate(CollectiveKind::send, {2, 1}, 1000);       // device 1 is busy until 7
  CHECK(microseconds(simulate(b.program, all_pairs(3, 1)).iteration) == 11);
}

TEST_CASE("communications that share a link slow one another") {
  MachineBuilder m(4);
  VertexId left = m.add_switch("left"), right = m.add_switch("right");
  m.link(m.device(0), left, 10), m.link(m.device(1), left, 10);
  m.link(m.device(2), right, 10), m.link(m.device(3), right, 10);
  m.link(left, right, 1);
  ProgramBuilder b(4);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);
  b.communicate(CollectiveKind::send, {1, 3}, 500);
  // half of 1 GB/s each: 2 kB in 4 us; then 2 kB are left at 1 GB/s
  CHECK(microseconds(simulate(b.program, m.finish()).iteration) == 6);
}

TEST_CASE("three busy devices on two units of compute run at two thirds of their speed") {
  ProgramBuilder b(4);
  for (int d = 0; d < 3; ++d) b.compute(d, 6);
  CHECK(microseconds(simulate(b.program, four_on(2)).iteration) == 9);
}

TEST_CASE("a task that shared compute would end beyond the simulated clock is refused") {
  ProgramBuilder b(4);
  b.compute(0, 6);
  CHECK_THROWS_WITH(simulate(b.program, four_on(1e-300)), Catch::Contains("an end after more than 106 days"));
}

TEST_CASE("shared compute is dealt out anew when tasks start and end") {
  ProgramBuilder b(4);
  b.compute(0, 4);  // four at rate 1/2 until 4, when device 3 has done its 2 and starts no more
  b.compute(1, 4);
  b.compute(2, 4);
  b.compute(3, 2);
  // from 4 on three at rate 2/3 with 2 left each: 3 more
  SimulationResult r = simulate(b.program, four_on(2));
  CHECK(microseconds(r.iteration) == 7);
  CHECK(microseconds(r.trace.spans[3].end) == 4);
}

TEST_CASE("of three tasks on two cores one waits for a core") {
  ProgramBuilder b(4);
  for (int d = 0; d < 3; ++d) b.compute(d, 6);
  SimulationResult r = simulate(b.program, four_on(2, "cpu"));
  CHECK(microseconds(r.iteration) == 12);
  CHECK(microseconds(r.trace.spans[2].start) == 6);
}

TEST_CASE("a free core goes on with the stream that it has served, else takes what has waited longest") {
  ProgramBuilder b(4);
  b.compute(0, 4);
  b.compute(1, 3);
  TaskId oldest = b.compute(2, 5);
  b.compute(3, 2);
  TaskId next = b.compute(1, 2);  // ready when the first of device 1 ends, after the others
  SimulationResult r = simulate(b.program, four_on(2, "cpu"));
  auto start = [&](TaskId t) {
    auto span = std::find_if(r.trace.spans.begin(), r.trace.spans.end(), [&](const Span& s) { return s.task == t; });
    return microseconds(span->start);
  };
  CHECK(start(next) == 3);
  CHECK(start(oldest) == 4);
  CHECK(start(TaskId(3)) == 5);
  CHECK(microseconds(r.iteration) == 9);
}

TEST_CASE("devices wait for whole cores, where there are not two for each") {
  ProgramBuilder b(4);
  for (int d = 0; d < 4; ++d) b.compute(d, 6);
  auto time = [&](double units) { return microseconds(simulate(b.program, four_on(units, "cpu")).iteration); };
  CHECK(time(1) == 24);
  CHECK(time(1.5) == 16);  // divided evenly
  CHECK(time(3) == 12);
  CHECK(time(7) == 6);
  CHECK(time(8) == 3);  // each on two of them
}

TEST_CASE("one or two busy devices on two units do not slow one another") {
  ProgramBuilder b(4);
  b.compute(0, 4);
  b.compute(1, 6);
  CHECK(microseconds(simulate(b.program, four_on(2)).iteration) == 6);
}

TEST_CASE("the memory peak is the largest sum of the buffers in use") {
  ProgramBuilder b(2);
  BufferId w = b.buffer(0, 100, BufferCategory::weight);  // 400 bytes throughout
  BufferId x = b.buffer(0, 1000), y = b.buffer(0, 500), z = b.buffer(0, 2000);
  TaskId t = b.compute(0, 1, {}, {w, x});  // w + x: 4400
  t = b.compute(0, 1, {t}, {x, y});        // w + x + y: 6400; x ends here
  b.compute(0, 1, {t}, {y, z});            // w + y + z: 10400
  SimulationResult r = simulate(b.program, pair());
  CHECK(r.peak_memory == std::vector<Bytes>{{10400}, {0}});
  // weight, gradient, optimizer_state, activation, input
  CHECK(r.memory_by_category[0] == std::array<Bytes, 5>{{{400}, {0}, {0}, {10000}, {0}}});
  // The weight once; activations when a task starts or ends, in microseconds: once where both fall together.
  std::vector<std::array<std::int64_t, 3>> samples;
  for (const MemorySample& s : r.trace.memory) samples.push_back({s.time.count / 1'000'000, s.category, s.used.count});
  CHECK(samples == decltype(samples){{0, 0, 400}, {0, 3, 4000}, {1, 3, 6000}, {2, 3, 10000}, {3, 3, 0}});
}

TEST_CASE("a buffer that another stream still reads keeps its memory") {
  ProgramBuilder b(2);
  BufferId x = b.buffer(0, 1000), y = b.buffer(0, 3000);
  TaskId made = b.compute(0, 1, {}, {x});
  b.compute(0, 9, {made}, {x}, Stream::copy);  // reads x until 10
  TaskId last = b.compute(0, 1, {made}, {x});
  b.compute(0, 1, {last}, {y});  // from 2 to 3, together with x
  CHECK(simulate(b.program, pair()).peak_memory[0].count == 16000);
}

TEST_CASE("a simulation repeats byte for byte, with and without a trace, and on several threads") {
  Topology t = load_topology("summit", {.nodes = 2});
  ProgramBuilder b(12);
  RandomKey key(7);
  std::vector<TaskId> last(12);
  for (int i = 0; i < 400; ++i) {
    int d = static_cast<int>(random_below(key, 3 * i, 12)), other = static_cast<int>(random_below(key, 3 * i + 1, 11));
    other += other >= d;
    double work = 1 + static_cast<double>(random_below(key, 3 * i + 2, 1000));
    std::vector<TaskId> after;
    for (int k : {d, other})
      if (last[k].valid()) after.push_back(last[k]);
    TaskId id = i % 3 == 0 ? b.communicate(i % 2 ? CollectiveKind::all_reduce : CollectiveKind::send, {d, other},
                                           static_cast<std::int64_t>(work) * 100, after)
                           : b.compute(d, work, after);
    last[d] = id;
    if (i % 3 == 0) last[other] = id;
  }
  std::string once = trace_to_json(simulate(b.program, t).trace);
  CHECK(once == trace_to_json(simulate(b.program, t).trace));
  SimulatedCostModel cost(t);
  std::vector<Score> scores(4);
  std::vector<std::thread> threads;
  for (Score& s : scores) threads.emplace_back([&] { s = cost.score(b.program); });
  for (std::thread& thread : threads) thread.join();
  Picoseconds iteration = simulate(b.program, t).iteration;
  for (const Score& s : scores) CHECK(s.iteration == iteration);
}

TEST_CASE("no task starts before those it depends on have ended, and streams run one task at a time") {
  Topology t = load_topology("laptop");
  ProgramBuilder b(4);
  std::vector<TaskId> all;
  for (int i = 0; i < 60; ++i) {
    std::vector<TaskId> after;
    if (i > 4) after = {all[i - 3], all[i - 5]};
    all.push_back(i % 4 == 3 ? b.communicate(CollectiveKind::all_reduce, {0, 1, 2, 3}, 1000 * (i + 1), after)
                             : b.compute(i % 4, 30.0 * (i % 7), after));
  }
  Trace trace = simulate(b.program, t).trace;
  std::vector<Picoseconds> starts(all.size()), ends(all.size());
  std::map<std::pair<DeviceId, int>, Picoseconds> free_at;
  std::sort(trace.spans.begin(), trace.spans.end(), [](const Span& a, const Span& b) { return a.task < b.task; });
  for (const Span& s : trace.spans) {
    starts[s.task.index()] = s.start, ends[s.task.index()] = s.end;
    Picoseconds& free = free_at[{s.device, s.stream}];
    CHECK(s.start >= free);
    free = s.end;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    for (TaskId d : b.program.dependencies_of(b.program.tasks[i])) CHECK(starts[i] >= ends[d.index()]);
}

TEST_CASE("the roofline is the slower of compute and memory, after the launch") {
  DeviceSpec d;
  d.peak[DType::f32] = {1e12};
  d.peak[DType::f64] = {5e11};
  d.memory_bandwidth = {1e11};
  d.launch_overhead = {4'000'000};
  d.matmul_efficiency = {{1, 0.5}};
  d.memory_efficiency = {{1, 0.8}};
  CHECK(roofline_time(d, 1e9, 8e6).count == 4'000'000 + 2'000'000'000);  // 1e9 / (1e12 * 0.5) = 2 ms
  CHECK(roofline_time(d, 1e6, 8e6).count == 4'000'000 + 100'000'000);    // 8e6 / (1e11 * 0.8) = 0.1 ms
  CHECK(roofline_time(d, 1e9, 0, DType::f64).count == 4'000'000 + 4'000'000'000);
  CHECK(roofline_time(d, 0, 0).count == 4'000'000);
  CHECK(roofline_time(d, 0, 1).count == 4'000'000 + 13);  // 12.5 ps
  d.elementwise_peak = {2e9};  // for half a FLOP to two FLOPs for each byte: 8e6 / 2e9 = 4 ms
  CHECK(roofline_time(d, 8e6, 8e6).count == 4'000'000 + 4'000'000'000);
  CHECK(roofline_time(d, 8e6, 8e6, DType::f64).count == 4'000'000 + 8'000'000'000);
  CHECK(roofline_time(d, 1e6, 8e6).count == 4'000'000 + 100'000'000);
  CHECK(roofline_time(d, 1e9, 8e6).count == 4'000'000 + 2'000'000'000);
}

TEST_CASE("what the tasks use of the buffers is what the Program says") {
  ProgramBuilder b(1);
  BufferId weight = b.buffer(0, 10, BufferCategory::weight), input = b.buffer(0, 20, BufferCategory::input);
  BufferId x = b.buffer(0, 30), loss = b.buffer(0, 1), host = b.buffer(0, 40);
  b.program.buffers[host.index()].on_host = true;
  b.program.outputs.push_back({"loss", {}, {loss}});
  b.compute(0, 1, {}, {weight, input, x});
  b.compute(0, 1, {}, {x, loss, host});
  TaskBuffers buffers(b.program);
  std::vector<BufferLife> lives = buffer_lives(b.program);
  REQUIRE(buffers.entries().size() == 5);
  for (BufferId id : {weight, input, x, loss, host}) {
    const BufferEntry& entry = buffers.entries()[id.index()];
    CHECK(entry.bytes == b.program.bytes_of(id));
    CHECK(entry.persistent == lives[id.index()].persistent);
    CHECK(entry.transient() == (id == x));
  }
  CHECK(std::ranges::equal(buffers.transient(0), std::vector<std::uint32_t>{2}));
  CHECK(std::ranges::equal(buffers.transient(1), std::vector<std::uint32_t>{2}));
}

TEST_CASE("a simulation holds less than 200 bytes for a task of a long program") {
  constexpr std::int64_t kTasks = 10'000;  // so many that what it holds for devices and links does not count
  ProgramBuilder b(2);
  for (std::int64_t t = 0; t < kTasks; ++t)
    b.compute(static_cast<int>(t % 2), 1, {}, {b.buffer(static_cast<int>(t % 2), 8)});
  Topology topology = pair();
  CollectiveCache cache(topology);
  Bytes bytes = simulation_bytes(prepare(b.program, cache, {}), topology, {.trace = false});
  // Three numbers of 4 bytes in the graph and one for the task before, a time of 16, a buffer's entry of 16 and state
  // of 4, its place in two lists.
  CHECK(bytes.count >= kTasks * (4 * 4 + 16 + 16 + 4 + 2 * 4));
  CHECK(bytes.count < kTasks * 200);
}

TEST_CASE("a product that reads the sum it is added to is still a product") {
  // 2.5 FLOPs for each byte of its operands, 1.7 with the sum: of an element-wise operator 3.5 GFLOP/s.
  const DeviceSpec spec = load_topology("laptop").spec(DeviceId(0));
  Picoseconds alone = roofline_time(spec, 1e6, 4e5), added = roofline_time(spec, 1e6, 6e5, DType::f32, 2e5),
              elementwise = roofline_time(spec, 1e6, 6e5);
  CHECK(alone.seconds() == Approx(spec.launch_overhead.seconds() + 1e6 / (240e9 * 0.3)));
  CHECK(added == alone);
  CHECK(elementwise.seconds() == Approx(spec.launch_overhead.seconds() + 1e6 / 3.5e9));
}
