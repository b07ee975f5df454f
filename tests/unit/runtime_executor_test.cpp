#include <algorithm>
#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "core/base/does_not_fit.h"
#include "core/base/this_machine.h"
#include "core/ops/leaves.h"
#include "runtime/data/dataset.h"
#include "runtime/executor.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

// y = x w with k split over `devices` devices: partial y, all-reduce, g = x' y, w -= 0.1 g. x is [2, 4], w [4, 1].
Program split_matmul(int devices, const std::string& init) {
  ProgramByHand h;
  std::int32_t x = h.leaf("x", "input", {Dims{2, 4}, std::string("f32")});
  std::int32_t w = h.leaf("w", "weight", {Dims{4, 1}, init, 0.5}, OriginId(7));
  std::int32_t y = h.tensor("y", {2, 1}), g = h.tensor("w.gradient", {4, 1});
  std::int64_t part = 4 / devices;
  Box whole = whole_box({2, 1});
  std::vector<BufferId> xs, ws, summands, sums, gradients;
  std::vector<TaskId> done;
  Communication sum{.kind = CollectiveKind::all_reduce, .name = "y"};
  for (int d = 0; d < devices; ++d) {
    Box rows{{d * part, 0}, {part, 1}}, columns{{0, d * part}, {2, part}};
    xs.push_back(h.buffer(x, d, columns, BufferCategory::input));
    ws.push_back(h.buffer(w, d, rows, BufferCategory::weight));
    summands.push_back(h.buffer(y, d, whole, BufferCategory::activation, d));
    sums.push_back(devices == 1 ? summands[0] : h.buffer(y, d, whole));
    gradients.push_back(h.buffer(g, d, rows, BufferCategory::gradient));
    done.push_back(h.compute("matmul", {}, {xs.back(), ws.back(), summands.back()}));
    sum.participants.push_back({DeviceId(d), summands.back(), sums.back(), whole});
  }
  if (devices > 1) done.assign(done.size(), h.communicate(sum, done));
  for (std::size_t d = 0; d < xs.size(); ++d) {
    TaskId backward = h.compute("matmul_weight_gradient", {}, {xs[d], sums[d], gradients[d]}, {done[d]});
    h.update({ws[d], gradients[d]}, {backward});
  }
  h.program.optimizer = {.name = "sgd", .learning_rate = 0.1};
  h.program.outputs = {{"y", {2, 1}, summands}};
  check_program(h.program).value();
  return std::move(h.program);
}

HostTensor x_by_hand() {
  HostTensor x = real_tensor({2, 4});
  x.reals = {1, 2, 3, 4, 0, 1, 0, 1};
  return x;
}

}  // namespace

TEST_CASE("a matmul split over two devices, all-reduced and updated, gives the numbers worked out by hand") {
  // w = 1: y = (1+2+3+4, 1+1) = (10, 2); g = x' y = (10, 2*10+2, 30, 4*10+2); w = 1 - 0.1 g.
  Program program = split_matmul(2, "ones");
  for (Precision precision : {Precision::f32, Precision::f64}) {
    Executor executor(program, {"cpu", precision, 1});
    executor.set_input("x", x_by_hand());
    executor.step();
    CHECK(executor.output(0).reals == std::vector<double>{10, 2});  // the two summands added up
    CHECK(executor.gradient("w").reals == std::vector<double>{10, 22, 30, 42});
    std::vector<double> expected{0, -1.2, -2, -3.2};
    for (std::size_t i = 0; i < 4; ++i) CHECK(executor.weight("w").reals[i] == Approx(expected[i]).margin(1e-6));
  }
}

TEST_CASE("initial weights depend on the seed and the logical element, not on where shards lie") {
  Program one = split_matmul(1, "normal"), two = split_matmul(2, "normal"), four = split_matmul(4, "normal");
  HostTensor w = Executor(one, {"cpu", Precision::f64, 3}).weight("w");
  CHECK(Executor(two, {"cpu", Precision::f64, 3}).weight("w") == w);
  CHECK(Executor(four, {"cpu", Precision::f64, 3}).weight("w") == w);
  CHECK_FALSE(Executor(two, {"cpu", Precision::f64, 4}).weight("w") == w);
  for (std::int64_t i = 0; i < 4; ++i)
    CHECK(w.reals[static_cast<std::size_t>(i)] == initial_weight(one.leaves[1].attributes, RandomKey(3).with(7), i));
}

TEST_CASE("a weight that was set is what its shards hold, and two runs from it are equal bit for bit") {
  Program program = split_matmul(4, "ones");
  HostTensor w = real_tensor({4, 1});
  w.reals = {0.1, -0.2, 0.3, -0.4};
  std::vector<HostTensor> ends;
  for (int run = 0; run < 2; ++run) {
    Executor executor(program, {"cpu", Precision::f64, 1});
    executor.set_weight("w", w);
    CHECK(executor.weight("w") == w);
    executor.set_input("x", x_by_hand());
    for (int step = 0; step < 20; ++step) executor.step();
    ends.push_back(executor.weight("w"));
  }
  CHECK(ends[0] == ends[1]);
  CHECK_FALSE(ends[0] == w);
  Executor executor(program);
  CHECK_THROWS_WITH(executor.set_weight("w", real_tensor({4, 2})), Catch::Contains("found [4, 2], expected [4, 1]"));
}

TEST_CASE("measured spans start after all that their task depends on has ended, and do not overlap on a stream") {
  Program program = split_matmul(4, "ones");
  Executor executor(program);
  executor.set_input("x", x_by_hand());
  for (int step = 0; step < 10; ++step) {
    Trace trace = *executor.step(true).trace;
    std::map<TaskId, Picoseconds> ends;
    std::map<std::pair<DeviceId, std::uint8_t>, Picoseconds> stream_ends;
    for (const Span& s : trace.spans) ends[s.task] = std::max(ends[s.task], s.end);
    for (const Span& s : trace.spans) {
      for (TaskId d : program.dependencies_of(program.tasks[s.task.index()])) CHECK(s.start >= ends[d]);
      Picoseconds& stream_end = stream_ends[{s.device, s.stream}];
      CHECK(s.start >= stream_end);
      stream_end = s.end;
    }
    CHECK(trace.spans.front().start == Picoseconds{0});
  }
}

TEST_CASE("copies of a weight must have the same bits; devices that compute a running state apart may round") {
  for (const std::string kind : {"weight", "state"}) {
    ProgramByHand h;
    std::int32_t x = h.leaf("x", "input", {Dims{2}, std::string("f32")});
    Attributes attributes = {Dims{2}, std::string("ones")};
    if (kind == "weight") attributes.push_back(0.0);
    std::int32_t s = h.leaf("s", kind, attributes, OriginId(7));
    std::vector<BufferId> copies;
    for (int d : {0, 1}) {
      copies.push_back(h.buffer(s, d, whole_box({2}), BufferCategory::weight));
      h.compute(d == 0 ? "relu" : "tanh", {}, {h.buffer(x, d, whole_box({2}), BufferCategory::input), copies.back()});
    }
    h.program.outputs = {{"s", {2}, {copies[0]}}};
    Executor executor(h.program);
    HostTensor value = real_tensor({2});
    value.reals = {0.001, 0.002};
    executor.set_input("x", value);
    executor.check_replicas();
    executor.step();
    if (kind == "weight")
      CHECK_THROWS_AS(executor.check_replicas(), ReplicasDiffer);
    else
      CHECK_NOTHROW(executor.check_replicas());
  }
}

TEST_CASE("a collective in which a summand is missing stops the step and names the tensor") {
  Program program = split_matmul(2, "ones");
  program.communications[0].participants[1].send = {};
  Executor executor(program);
  CHECK_THROWS_WITH(executor.step(), Catch::Contains("all_reduce of y: participant 1 of 2 has nothing to send"));
}

TEST_CASE("wrong input that a task finds is wrong input, with the task's name; so are too many threads") {
  ProgramByHand h;
  std::int32_t ids = h.leaf("ids", "input", {Dims{2}, std::string("i32")});
  h.program.tensors.back().dtype = DType::i32;
  std::int32_t table = h.leaf("table", "weight", {Dims{3, 2}, std::string("normal"), 0.5}, OriginId(7));
  std::int32_t y = h.tensor("y", {2, 2});
  BufferId from = h.buffer(ids, 0, whole_box({2}), BufferCategory::input);
  BufferId rows = h.buffer(table, 0, whole_box({3, 2}), BufferCategory::weight);
  BufferId to = h.buffer(y, 0, whole_box({2, 2}));
  h.compute("embedding", {}, {from, rows, to});
  h.program.outputs = {{"y", {2, 2}, {to}}};
  Executor executor(h.program);
  HostTensor wanted = index_tensor({2});
  wanted.indices = {1, 3};
  executor.set_input("ids", wanted);
  CHECK_THROWS_AS(executor.step(), InputError);
  CHECK_THROWS_WITH(executor.step(), Catch::StartsWith("task 0 (") && Catch::EndsWith("index is 3, expected 0 to 2"));
  wanted.indices = {1, 2};
  executor.set_input("ids", wanted);
  CHECK_NOTHROW(executor.step());
  CHECK_THROWS_WITH(Executor(h.program, {.threads = 100'000}),
                    "--threads: found 100000, expected at most 1024 for each device");
}

TEST_CASE(
    "devices that need more memory together than the machine has are refused, before the system ends the process") {
  ProgramByHand h;
  const std::int64_t elements = memory_of_this_machine().count * 6 / 10 / 4;  // of four bytes each
  std::int32_t x = h.leaf("x", "input", {Dims{elements}, std::string("f32")}), y = h.tensor("y", {elements});
  for (int d : {0, 1}) {
    const BufferId from = h.buffer(x, d, whole_box({elements}), BufferCategory::input);
    h.compute("relu", {}, {from, h.buffer(y, d, whole_box({elements}))});
  }
  CHECK_THROWS_AS(Executor(h.program), DoesNotFit);
  CHECK_THROWS_WITH(Executor(h.program), Catch::StartsWith("backend cpu: 2 devices of this process need ") &&
                                             Catch::EndsWith("of memory here"));
  // Half as much fits, but not twice, as an evaluation beside its training.
  ProgramByHand half;
  x = half.leaf("x", "input", {Dims{elements / 2}, std::string("f32")}), y = half.tensor("y", {elements / 2});
  const BufferId half_from = half.buffer(x, 0, whole_box({elements / 2}), BufferCategory::input);
  half.compute("relu", {}, {half_from, half.buffer(y, 0, whole_box({elements / 2}))});
  std::optional<Executor> training(std::in_place, half.program);
  CHECK_THROWS_WITH(Executor(half.program), Catch::StartsWith("backend cpu: 1 device of this process needs ") &&
                                                Catch::Contains(" that they take already, found "));
  training.reset();
  CHECK_NOTHROW(Executor(half.program));
}

TEST_CASE("synthetic data are normal, or whole numbers below the bound that the model has for them") {
  std::vector<ProgramLeaf> leaves = {{"x", nullptr, {Dims{1000}, std::string("f32")}},
                                     {"label", nullptr, {Dims{1000}, std::string("f32")}},
                                     {"id", nullptr, {Dims{1000}, std::string("i32")}}};
  auto batch = synthetic_batch(leaves, {{"label", 2}, {"id", 5}}, 1, 0);
  const std::vector<double>& label = batch.at("label").reals;
  CHECK(std::count(label.begin(), label.end(), 0.0) + std::count(label.begin(), label.end(), 1.0) == 1000);
  CHECK(std::count(label.begin(), label.end(), 1.0) == Approx(500).margin(80));
  CHECK(*std::max_element(batch.at("id").indices.begin(), batch.at("id").indices.end()) == 4);
  const std::vector<double>& x = batch.at("x").reals;
  CHECK(std::count_if(x.begin(), x.end(), [](double v) { return v == std::floor(v); }) == 0);
}
