// Measuring tasks one by one.
#include <set>

#include <catch2/catch.hpp>

#include "core/machine/measured_collectives.h"
#include "core/plan/collective_key.h"
#include "core/plan/lower.h"
#include "core/plan/task_key.h"
#include "runtime/held_types.h"
#include "runtime/profile/collectives.h"
#include "runtime/profile/measure.h"
#include "runtime/profile/single_task.h"
#include "tests/support/planned.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

ProfileOptions quick() {
  ProfileOptions o;
  o.executor.threads = 1;
  o.task_seconds = 0.001;
  o.cache = {1 << 16};
  return o;
}

}  // namespace

TEST_CASE("a program of a single task holds it once for each set and repeat, with its key") {
  Program source = operator_program("matmul", {}, {{{8, 16}}, {{16, 4}}});
  std::string key = task_key(source, source.tasks[0]);
  SingleTaskProgram single = single_task_program(source, TaskId(0), {.sets = 3, .repeats = 2, .flush = {4096}});
  CHECK(check_program(single.program).ok());
  CHECK(single.program.tasks.size() == 1 + 3 * 2);
  REQUIRE(single.runs.size() == 3);
  for (const auto& set : single.runs)
    for (TaskId id : set) CHECK(task_key(single.program, single.program.tasks[id.index()]) == key);
  auto operands = [&](TaskId id) { return single.program.operands_of(single.program.tasks[id.index()]); };
  CHECK(operands(single.runs[0][0])[0] == operands(single.runs[0][1])[0]);
  CHECK(operands(single.runs[0][0])[0] != operands(single.runs[1][0])[0]);
}

TEST_CASE("a copy to or from the host is one in a program of its own, too") {
  for (bool to_host : {true, false}) {
    const Program source = host_copy_program(to_host, {100});
    CHECK(source.copies_to_host(source.tasks[0]) == to_host);
    CHECK(source.copies_from_host(source.tasks[0]) == !to_host);
    const TaskCurve which = task_curve(source, source.tasks[0]);
    CHECK(which.name == (to_host ? "copy to host" : "copy from host"));
    CHECK(which.amount == 400);
    const SingleTaskProgram single = single_task_program(source, TaskId(0), {.sets = 2, .repeats = 1, .flush = {4096}});
    CHECK(check_program(single.program).ok());
    for (const auto& set : single.runs)
      CHECK(task_key(single.program, single.program.tasks[set[0].index()]) == task_key(source, source.tasks[0]));
  }
}

TEST_CASE("programs of all kinds of tasks run and take time") {
  std::vector<Program> programs = {operator_program("gelu", {}, {{{100}}}),
                                   operator_program("embedding", {}, {{{6}, DType::i32}, {{12, 4}}}),
                                   movement_program(TaskKind::copy, {100}),
                                   host_copy_program(true, {100}),
                                   host_copy_program(false, {100}),
                                   movement_program(TaskKind::accumulate, {100}),
                                   movement_program(TaskKind::zero, {100}),
                                   update_program(parse_optimizer("sgd 0.1"), 100),
                                   update_program(parse_optimizer("adam 0.1"), 100)};
  for (CollectiveKind kind :
       {CollectiveKind::send, CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_reduce,
        CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
    programs.push_back(collective_program(kind, first_devices(2), 100));
  for (const Program& p : programs) {
    INFO(task_key(p, p.tasks[0]));
    CHECK(check_program(p).ok());
    ProfileEntry e = measure_task(p, TaskId(0), quick());
    CHECK(e.warm > 0);
    CHECK(e.cold >= e.warm);
    CHECK(e.low <= e.warm);
    CHECK(e.high >= e.warm);
    CHECK(e.samples >= 9);
  }
}

TEST_CASE("a larger product takes longer") {
  auto seconds = [](std::int64_t n) {
    Program p = operator_program("matmul", {}, {{{n, n}}, {{n, n}}});
    return measure_task(p, TaskId(0), quick()).low;
  };
  CHECK(seconds(256) > 10 * seconds(32));  // 512 times the work
}

TEST_CASE("what tasks share that are launched together is told by fewer of them") {
  const double shared = 10, own = 2;
  auto each = [&](int n) { return shared / n + own; };
  for (int some : {2, 3, 7})
    for (int all : {some, 8, 26, 1000}) CHECK(each_of_more(each(1), each(some), some, all) == Approx(each(all)));
  // Measurements that do not go together: nothing becomes negative.
  CHECK(each_of_more(9, 4, 2, 4) == Approx(9. / 4));  // two at once took less than one
  CHECK(each_of_more(3, 5, 2, 4) == Approx(7));       // two took more than twice as much
}

TEST_CASE("a chain of handovers alternates between two devices") {
  Program p = handover_program(4, 16);
  CHECK(check_program(p).ok());
  CHECK(p.devices == 2);
  CHECK(p.tasks.size() == 9);
}

TEST_CASE("what is computed with is held in bf16, what updates read and what is summed into it in f32") {
  // y = x w on two devices; dw = x^T dy of each, summed over both, updates w.
  ProgramByHand h;
  std::int32_t x = h.leaf("x", "input", {Dims{4, 8}, std::string("f32")});
  std::int32_t ids = h.leaf("ids", "input", {Dims{4, 8}, std::string("i32")});
  h.program.tensors[static_cast<std::size_t>(ids)].dtype = DType::i32;
  std::int32_t w = h.leaf("w", "weight", {Dims{8, 2}, std::string("uniform"), 1.0});
  std::int32_t y = h.tensor("y", {4, 2}), dw = h.tensor("dw", {8, 2}), sum = h.tensor("sum", {8, 2});
  std::int32_t loss = h.tensor("loss", {4});
  Communication c;
  c.kind = CollectiveKind::all_reduce;
  for (int d = 0; d < 2; ++d) {
    BufferId weight = h.buffer(w, d, whole_box({8, 2}), BufferCategory::weight);
    BufferId input = h.buffer(x, d, whole_box({4, 8})), out = h.buffer(y, d, whole_box({4, 2}));
    h.compute("matmul", {}, {input, weight, out});
    BufferId own = h.buffer(dw, d, whole_box({8, 2})), all = h.buffer(sum, d, whole_box({8, 2}));
    c.participants.push_back({DeviceId(d), own, all, whole_box({8, 2})});
    h.update({weight, all}, {});
  }
  h.buffer(loss, 0, whole_box({4}));
  h.communicate(c, {});
  auto held = [&](std::int32_t t, Precision precision) {
    return held_types(h.program, precision)[static_cast<std::size_t>(t)];
  };
  CHECK(held(x, Precision::bf16) == DType::bf16);
  CHECK(held(ids, Precision::bf16) == DType::i32);
  CHECK(held(y, Precision::bf16) == DType::bf16);
  for (std::int32_t t : {w, dw, sum, loss}) CHECK(held(t, Precision::bf16) == DType::f32);
  h.program.tensors[static_cast<std::size_t>(y)].full_precision = true;
  CHECK(held(y, Precision::bf16) == DType::f32);
  for (Precision same : {Precision::f32, Precision::tf32}) CHECK(held(x, same) == DType::f32);
  CHECK(held(x, Precision::f64) == DType::f64);
}

TEST_CASE("rounded copies of weights are made anew behind whatever writes a weight but its update") {
  // x w and x v; w is copied from its next version, which an update changes; v is broadcast from device 0 to device 1.
  ProgramByHand h;
  const Box box = whole_box({8, 8});
  std::int32_t x = h.leaf("x", "input", {Dims{8, 8}, std::string("f32")});
  std::int32_t w = h.leaf("w", "weight", {Dims{8, 8}, std::string("uniform"), 1.0}), next = h.tensor("w.next", {8, 8});
  std::int32_t v = h.leaf("v", "weight", {Dims{8, 8}, std::string("uniform"), 1.0});
  std::int32_t bias = h.leaf("b", "weight", {Dims{8}, std::string("uniform"), 1.0});
  std::int32_t y = h.tensor("y", {8, 8}), dw = h.tensor("dw", {8, 8});
  BufferId input = h.buffer(x, 0, box, BufferCategory::input), other = h.buffer(x, 1, box, BufferCategory::input);
  BufferId weight = h.buffer(w, 0, box, BufferCategory::weight),
           changed = h.buffer(next, 0, box, BufferCategory::weight);
  BufferId from = h.buffer(v, 0, box, BufferCategory::weight), to = h.buffer(v, 1, box, BufferCategory::weight);
  BufferId flat = h.buffer(bias, 0, whole_box({8}), BufferCategory::weight), sum = h.buffer(dw, 0, box);
  TaskId multiply = h.compute("matmul", {}, {input, weight, h.buffer(y, 0, box)});
  h.compute("matmul", {}, {input, from, h.buffer(y, 0, box)});
  h.compute("matmul", {}, {other, to, h.buffer(y, 1, box)});
  TaskId copy = h.update({changed, weight}, {multiply});
  Task& task = h.program.tasks[copy.index()];
  task.kind = TaskKind::copy, task.op = 0;
  h.program.boxes.push_back(box);
  TaskId update = h.update({changed, sum}, {copy});
  Communication c;
  c.kind = CollectiveKind::broadcast;
  c.participants = {{DeviceId(0), from, {}, box}, {DeviceId(1), {}, to, box}};
  TaskId spread = h.communicate(c, {});
  std::vector<DType> types = held_types(h.program, Precision::bf16);
  RoundedWeights rounded = rounded_weights(h.program, Precision::bf16, types);
  for (BufferId b : {weight, from, to}) CHECK(rounded.has_copy[b.index()]);
  for (BufferId b : {input, changed, flat, sum}) CHECK_FALSE(rounded.has_copy[b.index()]);
  CHECK(rounded.renewed[copy.index()] == std::vector{weight});
  CHECK(rounded.renewed[spread.index()] == std::vector{to});
  CHECK(rounded.renewed[update.index()].empty());
  CHECK(rounded.renewed[multiply.index()].empty());
  RoundedWeights none = rounded_weights(h.program, Precision::f32, held_types(h.program, Precision::f32));
  CHECK_FALSE(none.has_copy[weight.index()]);
  CHECK(none.renewed[copy.index()].empty());
}

TEST_CASE("a single task's operands are held in bf16 as they are in the whole program") {
  Topology topology = load_topology("h200-shared");
  for (auto [name, strategy] :
       {std::pair("mlp-tiny", "data-parallel"), {"mlp-tiny", "pipeline"}, {"bert-tiny", "expert"}}) {
    Program source = planned(name, 48, strategy, topology);
    std::vector<DType> held = held_types(source, Precision::bf16);
    int weights = 0, full = 0, half = 0;
    for (std::size_t t = 0; t < source.tasks.size(); ++t) {
      TaskId id(static_cast<std::int64_t>(t));
      SingleTaskProgram single = single_task_program(source, id, {.sets = 1, .repeats = 1, .flush = {}, .held = &held});
      REQUIRE(check_program(single.program).ok());
      const Task& copy = single.program.tasks[single.runs[0][0].index()];
      REQUIRE(task_key(single.program, copy) == task_key(source, source.tasks[t]));
      std::vector<DType> alone = held_types(single.program, Precision::bf16);
      auto operands = source.operands_of(source.tasks[t]), copies = single.program.operands_of(copy);
      REQUIRE(operands.size() == copies.size());
      for (std::size_t i = 0; i < operands.size(); ++i) {
        INFO(name << ": operand " << i << " of " << source.task_name(id));
        const Buffer &whole = source.buffer(operands[i]), &own = single.program.buffer(copies[i]);
        DType type = held[static_cast<std::size_t>(whole.tensor)];
        CHECK(alone[static_cast<std::size_t>(own.tensor)] == type);
        CHECK((own.category == BufferCategory::weight) == (whole.category == BufferCategory::weight));
        weights += own.category == BufferCategory::weight;
        full += type == DType::f32, half += type == DType::bf16;
      }
    }
    CHECK(weights > 0);
    CHECK(full > weights);
    CHECK(half > 0);
  }
}

TEST_CASE("the groups to measure are the machine, each level from outside, and one device of each part") {
  auto shapes = [](const Topology& topology) {
    std::vector<std::string> list;
    for (const std::vector<DeviceId>& group : groups_to_measure(topology)) list.push_back(group_shape(topology, group));
    return list;
  };
  CHECK(shapes(load_topology("laptop")) == std::vector<std::string>{"4 device", "2 device"});
  CHECK(shapes(load_topology("dgx-a100", {.nodes = 3})) ==
        std::vector<std::string>{"3 node x 8 gpu", "2 node x 8 gpu", "3 node", "2 node", "8 gpu", "4 gpu", "2 gpu"});
  CHECK(shapes(load_topology("summit", {.nodes = 1})) ==
        std::vector<std::string>{"2 socket x 3 gpu", "2 socket", "3 gpu", "2 gpu"});
  CHECK(shapes(load_topology("laptop", {.devices = 1})).empty());
}

TEST_CASE("sizes to measure grow by factors of four from 4 KiB") {
  CHECK(sizes_to_measure({64 << 10}) == std::vector<Bytes>{{4096}, {16384}, {65536}});
  CHECK(sizes_to_measure({60'000}).size() == 2);
}

TEST_CASE("a program to measure a collective is of its kind, group and size, among all devices") {
  Topology machine = load_topology("dgx-a100", {.nodes = 2});
  for (const std::vector<DeviceId>& group : groups_to_measure(machine))
    for (CollectiveKind kind : kinds_to_measure(group.size())) {
      Program p = collective_of(kind, group, {1 << 16}, machine);
      INFO(to_string(kind) << " of " << group_shape(machine, group));
      CHECK(check_program(p).ok());
      CHECK(p.devices == 16);
      CollectiveKey key = collective_key(p.communications[0], machine);
      CHECK(key.name == collective_name(kind, group, machine));
      CHECK(key.bytes == 1 << 16);
    }
}

TEST_CASE("runs in a row keep their devices; an answer goes from where data end to where they begin") {
  Topology machine = load_topology("dgx-a100", {.nodes = 2});
  for (CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_reduce}) {
    Program source = collective_of(kind, {DeviceId(1), DeviceId(4), DeviceId(9)}, {4096}, machine);
    SingleTaskProgram row = single_task_program(
        source, TaskId(0), {.sets = 2, .repeats = 3, .flush = {}, .in_place = true, .answer = true});
    CHECK(check_program(row.program).ok());
    CHECK(row.program.devices == 16);
    CHECK(row.program.devices_of(row.runs[0][0]) == source.devices_of(TaskId(0)));
    bool answers = kind != CollectiveKind::all_reduce;
    REQUIRE(row.program.tasks.size() == (answers ? 12 : 6));
    if (!answers) continue;
    std::vector<DeviceId> ends = row.program.devices_of(TaskId(row.runs[0][0].value + 1));
    bool from_root = kind == CollectiveKind::broadcast;
    CHECK(ends == (from_root ? std::vector{DeviceId(9), DeviceId(1)} : std::vector{DeviceId(1), DeviceId(9)}));
  }
}

TEST_CASE("a collective between threads is measured with its quartiles; one of much takes longer") {
  Topology machine = load_topology("laptop");
  auto measured = [&](std::int64_t bytes) {
    Program p = collective_of(CollectiveKind::all_reduce, {DeviceId(0), DeviceId(2)}, {bytes}, machine);
    return measure_collective(p, TaskId(0), quick());
  };
  ProfileEntry small = measured(4096), large = measured(4 << 20);
  for (const ProfileEntry& e : {small, large}) {
    CHECK(e.low > 0);
    CHECK(e.low <= e.warm);
    CHECK(e.warm <= e.high);
    CHECK(e.cold >= e.warm);
    CHECK(e.samples >= 3);
  }
  CHECK(large.low > 10 * small.low);  // 1024 times the bytes
}

TEST_CASE("rates and curves are measured of all kinds of tasks, those that are there are kept, and time may be over") {
  const CurveOptions small{.devices = 2, .again = false, .largest = 1 << 14};
  ProfileSection section;
  CHECK(measure_curves(section, quick(), small) == 0);
  CHECK(section.peak > 0);
  CHECK(section.memory_bandwidth > 0);
  CHECK(section.elementwise_peak > 0);
  for (const char* name : {"matmul", "conv2d", "memory"}) CHECK(section.efficiency.at(name).size() > 1);
  std::set<std::string> names;
  for (const auto& [name, points] : section.curves) {
    INFO(name);
    names.insert(name);
    CHECK(points.size() > 1);
    for (const ProfilePoint& p : points) CHECK((p.warm > 0 && p.cold > 0));
  }
  for (const char* name : {"copy", "accumulate", "zero", "copy to host", "copy from host", "update sgd", "update adam",
                           "send of 2", "broadcast of 2", "reduce of 2", "all_reduce of 2", "all_gather of 2",
                           "reduce_scatter of 2", "all_to_all of 2"}) {
    INFO(name);
    CHECK(names.contains(name));
  }
  // What is there is kept; what is missing is measured as long as there is time.
  const std::size_t all = section.curves.size();
  const double peak = section.peak;
  const std::vector<ProfilePoint> sends = section.curves.at("send of 2");
  section.curves.erase("copy"), section.curves.erase("all_reduce of 2");
  int asked = 0;
  CurveOptions late = small;
  late.late = [&] { return ++asked > 1; };
  CHECK(measure_curves(section, quick(), late) == 1);
  CHECK(section.curves.size() == all - 1);
  CHECK(section.curves.contains("copy"));
  late.again = true;  // of all, but not before the last is there
  asked = 0;
  CHECK(measure_curves(section, quick(), late) == 0);
  CHECK(section.curves.size() == all);
  CHECK(section.peak == peak);
  CHECK(section.curves.at("send of 2") == sends);
  // What is too late is not begun; what was begun is completed, so that each call goes on.
  ProfileSection fresh;
  late.late = [] { return true; };
  CHECK(measure_curves(fresh, quick(), late) == static_cast<int>(all) + 3);
  CHECK((fresh.peak == 0 && fresh.efficiency.empty() && fresh.curves.empty()));
  asked = 0;
  late.late = [&] { return ++asked > 1; };
  CHECK(measure_curves(fresh, quick(), late) == static_cast<int>(all) + 2);
  CHECK((fresh.peak > 0 && fresh.efficiency.size() == 2 && fresh.memory_bandwidth == 0 && fresh.curves.empty()));
  asked = 0;
  late.late = [&] { return ++asked > 2; };
  CHECK(measure_curves(fresh, quick(), late) == static_cast<int>(all));
  CHECK((fresh.memory_bandwidth > 0 && fresh.elementwise_peak > 0 && fresh.curves.empty()));
}
