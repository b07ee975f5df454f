// The simulator with a device profile.
#include <catch2/catch.hpp>

#include "core/machine/profile.h"
#include "core/plan/task_key.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

double microseconds(Picoseconds t) { return static_cast<double>(t.count) * 1e-6; }

// A profile of devices with that many threads; its tasks are filled in by the tests.
DeviceProfile profile_of(const ProfileSection& section, std::int64_t cache = 1'000'000) {
  DeviceProfile p;
  p.cache = {cache};
  p.sections[section.threads] = section;
  return p;
}

// Logical devices on one physical device with two cores.
Topology on_two_cores(int devices, const DeviceProfile& profile) {
  MachineBuilder m(devices);
  m.topology.physical_devices = {{2}};
  for (DeviceSpec& spec : m.topology.specs) spec.kind = "cpu";
  for (Device& d : m.topology.devices) d.physical = 0;
  for (int d = 1; d < devices; ++d) m.link(m.device(0), m.device(d), 1);
  Topology t = m.finish();
  use_profile(t, profile);
  return t;
}

}  // namespace

TEST_CASE("a task with an entry takes its measured time, one without the roofline's") {
  ProgramBuilder b(1);
  BufferId x = b.buffer(0, 10);
  b.compute(0, 5, {}, {x});
  b.compute(0, 5, {}, {b.buffer(0, 20)});
  Topology t = all_pairs(2, 1).first_devices(1);
  ProfileSection s;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {7e-6, 7e-6};
  use_profile(t, profile_of(s));
  SimulationResult r = simulate(b.program, t);
  CHECK(microseconds(r.iteration) == Approx(12));
  CHECK(r.profiled_tasks == 1);
  CHECK(r.estimated_tasks == 1);
}

TEST_CASE("what measured times hold beyond the tasks is taken off, down to nothing") {
  ProgramBuilder b(1);
  b.compute(0, 5, {}, {b.buffer(0, 10)});
  b.compute(0, 5, {}, {b.buffer(0, 20)});
  Topology t = all_pairs(2, 1).first_devices(1);
  ProfileSection s;
  s.task_overhead = -2e-6;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {7e-6, 7e-6};
  s.tasks[task_key(b.program, b.program.tasks[1])] = {1e-6, 1e-6};
  use_profile(t, profile_of(s));
  CHECK(microseconds(simulate(b.program, t).iteration) == Approx(5));
}

TEST_CASE("an entry of devices with other threads does not count") {
  ProgramBuilder b(1);
  b.compute(0, 5, {}, {b.buffer(0, 10)});
  Topology t = all_pairs(2, 1).first_devices(1);
  ProfileSection s;
  s.threads = 2;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {7e-6, 7e-6};
  use_profile(t, profile_of(s));
  CHECK(simulate(b.program, t).profiled_tasks == 0);
}

TEST_CASE("a time measured with both cores of a device is its duration as it is") {
  ProgramBuilder b(1);
  b.compute(0, 5, {}, {b.buffer(0, 10)});
  ProfileSection s;
  s.threads = 2;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {7e-6, 7e-6};
  CHECK(microseconds(simulate(b.program, on_two_cores(2, profile_of(s)).first_devices(1)).iteration) == Approx(7));
}

TEST_CASE("a task is as cold as the share of its bytes that has left the caches") {
  // 400 bytes each; the caches hold 1000. The first buffer is used again after the second only, the second after four
  // others: 2000 bytes.
  ProgramBuilder b(1);
  std::vector<BufferId> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(b.buffer(0, 100));
  TaskId last;
  for (int i : {0, 1, 0, 2, 3, 4}) last = b.compute(0, 1, {}, {buffers[static_cast<std::size_t>(i)]});
  for (Task& task : b.program.tasks) task.bytes = 400;
  ProfileSection s;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {1e-6, 3e-6};
  Topology t = all_pairs(2, 1).first_devices(1);
  use_profile(t, profile_of(s, 1000));
  // Only the second use of the first buffer is warm: 5 x 3 + 1.
  CHECK(microseconds(simulate(b.program, t).iteration) == Approx(16));
}

TEST_CASE("rows of a large table that a task touches drive little out of the caches") {
  // 400 bytes each, but for the table; the caches hold 2000, the task between two uses of a buffer touches 400.
  ProgramBuilder b(1);
  BufferId used = b.buffer(0, 100), table = b.buffer(0, 100000);
  for (BufferId of : {used, table, used}) b.compute(0, 1, {}, {of});
  for (Task& task : b.program.tasks) task.bytes = 400;
  ProfileSection s;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {1e-6, 3e-6};
  s.tasks[task_key(b.program, b.program.tasks[1])] = {5e-6, 7e-6};
  Topology t = all_pairs(2, 1).first_devices(1);
  use_profile(t, profile_of(s, 2000));
  CHECK(microseconds(simulate(b.program, t).iteration) == Approx(1 + 5 + 1));
  for (Task& task : b.program.tasks) task.bytes = 400000;
  CHECK(microseconds(simulate(b.program, t).iteration) == Approx(1 + 5 + 3));
}

TEST_CASE("an iteration takes what the device's steps take beside their tasks, folded or not") {
  ProgramBuilder b(2);
  for (int device : {0, 1}) b.compute(device, 1, {}, {b.buffer(device, 10)});
  ProfileSection s;
  s.tasks[task_key(b.program, b.program.tasks[0])] = {3e-6, 3e-6};
  s.step_overhead = 10e-6;
  Topology t = all_pairs(2, 1);
  use_profile(t, profile_of(s));
  for (bool fold : {false, true}) {
    SimulationOptions options;
    options.fold = fold;
    SimulationResult result = simulate(b.program, t, options);
    CHECK(microseconds(result.iteration) == Approx(13));
    CHECK(result.trace.iteration == result.iteration);
  }
}

TEST_CASE("updates follow the curve of their optimizer") {
  ProgramBuilder b(1);
  b.compute(0, 5, {}, {b.buffer(0, 500), b.buffer(0, 500)});
  b.program.tasks[0].kind = TaskKind::update;
  b.program.optimizer = parse_optimizer("sgd 0.1");
  ProfileSection s;
  s.curves["update sgd"] = {{100, 1e-6, 1e-6}, {1000, 10e-6, 10e-6}};
  Topology t = all_pairs(2, 1).first_devices(1);
  use_profile(t, profile_of(s));
  CHECK(microseconds(simulate(b.program, t).iteration) == Approx(5));
}

TEST_CASE("a measured collective takes its time, with the cores that are free when it starts") {
  ProgramBuilder b(2);
  b.communicate(CollectiveKind::all_reduce, {0, 1}, 1000);
  ProfileSection s;
  s.curves["all_reduce of 2"] = {{4000, 6e-6, 6e-6}};
  s.tasks["zero(f32[10])"] = {3e-6, 3e-6};
  Topology t = on_two_cores(2, profile_of(s));
  SimulationResult alone = simulate(b.program, t);
  CHECK(microseconds(alone.iteration) == Approx(6));
  CHECK(alone.profiled_tasks == 1);
  // Both cores help with it, then with the tasks.
  ProgramBuilder more = b;
  for (int device : {0, 1}) more.compute(device, 1, {}, {more.buffer(device, 10)});
  more.program.boxes.clear();
  CHECK(microseconds(simulate(more.program, t).iteration) == Approx(9));
  // Ready when one of the cores has a task: the other takes twice as long for it.
  ProgramBuilder late(2);
  TaskId before = late.compute(0, 1, {}, {late.buffer(0, 10)});
  late.compute(1, 20);
  late.communicate(CollectiveKind::all_reduce, {0, 1}, 1000, {before});
  late.program.boxes.clear();
  SimulationResult beside = simulate(late.program, t);
  CHECK(microseconds(beside.trace.spans.back().start) == Approx(3));
  CHECK(microseconds(beside.trace.spans.back().end) == Approx(15));
}

TEST_CASE("the profile's handover stands in place of the device's") {
  ProgramBuilder b(2);
  TaskId first = b.compute(0, 5);
  b.compute(1, 3, {first});
  ProfileSection s;
  s.handover = 2e-6;
  Topology t = all_pairs(2, 1);
  use_profile(t, profile_of(s));
  CHECK(microseconds(simulate(b.program, t).iteration) == Approx(10));
}

TEST_CASE("measured overheads beyond the simulated clock are refused, not wrapped around") {
  ProgramBuilder b(2);
  TaskId first = b.compute(0, 5);
  b.compute(1, 3, {first});
  auto check_refused = [&](const ProfileSection& section) {
    Topology t = all_pairs(2, 1);
    use_profile(t, profile_of(section));
    CHECK_THROWS_WITH(simulate(b.program, t), Catch::Contains("one after the other, expected less than"));
  };
  ProfileSection overhead, handover, step;
  overhead.task_overhead = 1e300;
  handover.handover = 1e300;
  step.step_overhead = 1e7;
  for (const ProfileSection& section : {overhead, handover, step}) check_refused(section);
}

TEST_CASE("collectives that take longer than the simulated clock holds are refused") {
  // Eight devices in a ring: 14 hops of a minute are 840 s, and 3,000 of them 2.5e6 s.
  ProgramBuilder b(8);
  std::vector<TaskId> before;
  for (int i = 0; i < 3000; ++i)
    before = {b.communicate(CollectiveKind::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}, 8, before)};
  CHECK_THROWS_WITH(simulate(b.program, ring_machine(8, 1, 60e6)),
                    Catch::Contains("one after the other, expected less than"));
}
