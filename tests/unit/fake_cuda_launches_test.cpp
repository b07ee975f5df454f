// What the CUDA backend launches and makes, and how often; what it says of errors and of machines that it cannot use.
// On CUDA and NCCL played on the host (support/fake_cuda.h).
#include <chrono>
#include <set>
#include <tuple>
#include <utility>

#include <catch2/catch.hpp>

#include "core/base/does_not_fit.h"
#include "core/models/image_layers.h"
#include "core/plan/row_updates.h"
#include "runtime/executor.h"
#include "runtime/train.h"
#include "tests/support/fake_plugin.h"
#include "tests/support/fake_processes.h"

using namespace unity;
using namespace unity::test;

namespace {

FakeCounts operator-(const FakeCounts& a, const FakeCounts& b) {
  return {a.launches - b.launches, a.captures - b.captures,           a.graphs - b.graphs,
          a.cliques - b.cliques,   a.communicators - b.communicators, a.meetings - b.meetings};
}

// What an executor enqueues in a step.
class Counted {
 public:
  explicit Counted(Program program, const std::map<std::string, HostTensor>& values = inputs())
      : program_(std::move(program)), executor_(program_, {.backend = "cuda"}) {
    for (const ProgramLeaf& leaf : executor_.inputs()) executor_.set_input(leaf.name, values.at(leaf.name));
  }
  FakeCounts step(bool traced = false) {
    FakeCounts before = fake().counts();
    executor_.step(traced);
    return fake().counts() - before;
  }

 private:
  const Program program_;
  Executor executor_;
};

Program two_stages() {
  ModelSpec spec{"mlp-tiny", {{"batch", 12}}};
  StubCostModel cost(uniform_topology(4));
  SearchOptions options{.strategy = "pipeline"};
  options.stages = 2;
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  return lower(plan.pcg, plan.mappings, cost.topology(), {true, parse_optimizer("sgd 0.01"), plan.schedule}).value();
}

// What the start, or a step, says that fails.
std::string failure(const Program& program) {
  try {
    Counted executor(program);
    executor.step();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an iteration is one launch of a graph, captured in the second and launched from there on") {
  fake();
  for (int devices : {1, 4}) {
    fake().visible(1);  // where all share a GPU
    Counted executor(data_parallel(devices, "adam 0.001"));
    FakeCounts first = executor.step(), second = executor.step(), third = executor.step();
    CHECK(first.launches > 0);
    CHECK((first.captures == 0 && first.graphs == 0));
    CHECK(second.launches == first.launches);  // while it is captured
    CHECK((second.captures == 1 && second.graphs == 1));
    CHECK((third.launches == 0 && third.captures == 0 && third.graphs == 1));
    FakeCounts traced = executor.step(true), again = executor.step(true), after = executor.step();
    CHECK((traced.launches > 0 && traced.captures == 1 && traced.graphs == 1));  // a graph of its own, with events
    CHECK((again.launches == 0 && again.captures == 0 && again.graphs == 1));
    CHECK((after.launches == 0 && after.captures == 0 && after.graphs == 1));
  }
  fake().visible(0);
}

TEST_CASE("where a process has several GPUs with NCCL, no process launches graphs, unless told to") {
  fake();
  auto graphs = [](int devices, int processes, std::initializer_list<std::uint32_t> gpus, const char* eager) {
    const Program program = data_parallel(devices, "sgd 0.01");
    FakeNetwork network(processes);
    const FakeCounts before = fake().counts();
    const int aborted = fake().aborted();
    auto train = [&](Processes& p) {
      fake().visible(gpus.begin()[p.rank()]);
      fake().environment("UNITY_CUDA_EAGER", eager);
      Executor executor(program, {.backend = "cuda", .processes = &p});
      for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs().at(leaf.name));
      for (int i = 0; i < 4; ++i) executor.step(i == 2);
    };
    for (const Outcome& o : on_processes(network, train)) CHECK(o.error.empty());
    const FakeCounts made = fake().counts() - before;
    CHECK(made.captures == made.graphs * 2 / 3);  // one of three is traced
    CHECK(fake().aborted() == aborted);           // NCCL could take its leave: no graph held it any more
    return made.graphs;
  };
  CHECK(graphs(4, 1, {0b1111}, nullptr) == 0);
  CHECK(graphs(4, 1, {0b1111}, "0") == 3);
  CHECK(graphs(4, 1, {0b0001}, nullptr) == 3);
  CHECK(graphs(2, 2, {0b0001, 0b0010}, nullptr) == 6);
  CHECK(graphs(4, 2, {0b0011, 0b1100}, nullptr) == 0);
  CHECK(graphs(4, 2, {0b0011, 0b1100}, "0") == 6);
  CHECK(graphs(3, 2, {0b0011, 0b1100}, nullptr) == 0);  // though one of the processes has a single one
}

TEST_CASE("launches that wait are refused where a process has several GPUs with NCCL") {
  fake();
  auto said = [](int devices, const char* value) {
    fake().environment("CUDA_LAUNCH_BLOCKING", value);
    const std::string error = failure(data_parallel(devices, "sgd 0.01"));
    fake().environment("CUDA_LAUNCH_BLOCKING", nullptr);
    return error;
  };
  CHECK_THAT(said(2, "1"), Catch::StartsWith("CUDA_LAUNCH_BLOCKING: found '1', expected none where a process has ") &&
                               Catch::Contains("UNITY_CUDA_SYNC=1"));
  CHECK(said(2, "0").empty());
  CHECK(said(1, "1").empty());
}

// Its kernels ask for more of scratch memory as they come, and to free what there was is to wait for the GPU.
TEST_CASE("a process that goes silent in the first step is told of, though scratch memory is to be freed then") {
  fake().libraries(false);
  const ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  const auto values = random_inputs(build_model(spec), 3);
  const State state = apply_move({build_model(spec), {}, {}}, {Move::Kind::replicate_all, 0, 0, 2}).value();
  const Program program =
      lower(state.pcg, test::natural_mappings(state.pcg), uniform_topology(2), {true, parse_optimizer("sgd 0.01")})
          .value();
  FakeNetwork network(2);
  auto train = [&](Processes& p) {
    Executor executor(program, {.backend = "cuda", .processes = &p});
    for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, values.at(leaf.name));
    if (p.rank() == 1) {
      network.silence(1);
      throw std::runtime_error("stopped");
    }
    executor.step();
  };
  const auto outcomes = on_processes(network, train, std::chrono::seconds(1));
  fake().libraries(true);
  CHECK_THAT(outcomes[0].error, Catch::Contains("rank 1 was silent for 1 s; expected its part of step 0"));
}

TEST_CASE("the weights of a device are updated by one launch, in traced steps by one for each") {
  fake();
  for (const char* optimizer : {"sgd 0.01 momentum=0.9", "adam 0.001"}) {
    Counted executor(data_parallel(1, optimizer));
    // Of two weights; the rest of a step is the same.
    CHECK(executor.step(true).launches == executor.step().launches + 1);
  }
}

TEST_CASE("tables that are updated by rows share their launches, in traced steps each has its own") {
  fake();
  Builder b("two tables");
  ValueRef ids = b.input("ids", {2, 3}, DType::i32), target = b.input("target", {2, 5});
  ValueRef x = b.apply("embedding_bag", {}, {ids, b.weight("first", {12, 4})});
  ValueRef y = b.apply("embedding_bag", {}, {ids, b.weight("second", {7, 4})});
  ValueRef z = b.apply("matmul", {}, {b.apply("add", {}, {x, y}), b.weight("w", {4, 5})});
  Pcg pcg = std::move(b).finish({b.apply("mean_squared_error", {}, {z, target})});
  Program program =
      lower(pcg, test::natural_mappings(pcg), uniform_topology(1), {.optimizer = parse_optimizer("sgd 0.1")}).value();
  REQUIRE(std::count_if(program.tasks.begin(), program.tasks.end(), is_row_update) == 2);
  Counted executor(program, random_inputs(pcg, 3));
  // Two of each table: the ids are sorted, the rows updated.
  CHECK(executor.step(true).launches == executor.step().launches + 2);
}

TEST_CASE("small copies at the end of a step share a launch, in traced steps each has its own") {
  fake();
  Builder b("norms");
  ValueRef x = b.input("x", {4, 6, 3, 3}), target = b.input("target", {4, 6, 3, 3});
  ValueRef y = batch_norm(b, "first", x, 1e-5, true);
  y = batch_norm(b, "second", y, 1e-5, false);
  Pcg pcg = std::move(b).finish({b.apply("mean_squared_error", {}, {y, target})});
  Program program =
      lower(pcg, test::natural_mappings(pcg), uniform_topology(1), {.optimizer = parse_optimizer("sgd 0.1")}).value();
  // Running means and variances of two norms.
  auto copies =
      std::count_if(program.tasks.begin(), program.tasks.end(), [](const Task& t) { return t.kind == TaskKind::copy; });
  auto updates = std::count_if(program.tasks.begin(), program.tasks.end(),
                               [](const Task& t) { return t.kind == TaskKind::update; });
  REQUIRE(copies == 4);
  REQUIRE(updates == 4);
  Counted executor(program, random_inputs(pcg, 3));
  CHECK(executor.step(true).launches == executor.step().launches + (copies - 1) + (updates - 1));
}

TEST_CASE("NCCL has one communicator for each device of each group of devices, made once") {
  fake();
  for (const Program& program : {data_parallel(4, "sgd 0.01"), two_stages()}) {
    std::set<std::vector<DeviceId>> groups;
    for (const Communication& c : program.communications) {
      std::vector<DeviceId> group;
      for (const Participant& p : c.participants) group.push_back(p.device);
      // What is sent on and what comes back goes through the same ones.
      if (c.kind != CollectiveKind::all_gather && c.kind != CollectiveKind::reduce_scatter)
        std::sort(group.begin(), group.end());
      groups.insert(group);
    }
    std::size_t members = 0;
    for (const std::vector<DeviceId>& group : groups) members += group.size();
    REQUIRE(program.communications.size() > groups.size());
    FakeCounts before = fake().counts();
    Counted executor(program);
    for (int i = 0; i < 4; ++i) executor.step(i == 2);
    FakeCounts made = fake().counts() - before;
    CHECK(made.cliques == static_cast<int>(groups.size()));
    CHECK(made.communicators == static_cast<int>(members));
  }
}

// Two devices of one stage on a GPU, which send to those of the other stage, on another GPU.
TEST_CASE("what NCCL does for devices that share a GPU is never there at once") {
  fake().visible(0b11);
  const Program program = two_stages();
  FakeCounts before = fake().counts();
  Counted executor(program);
  for (int i = 0; i < 4; ++i) executor.step(i == 2);
  FakeCounts made = fake().counts() - before;
  fake().visible(0);
  CHECK(made.cliques >= 2);
  CHECK(made.communicators == 2 * made.cliques);
  CHECK(made.meetings == 0);
}

TEST_CASE("a machine without a driver, with an old one, or with other GPUs is told so") {
  fake();
  auto said = [] {
    try {
      describe_device("cuda");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  fake().driver(0);
  CHECK(said() == "backend cuda: found no driver, expected one for CUDA 13.0 or newer");
  fake().driver(12040);
  CHECK(said() == "backend cuda: the driver is for CUDA 12.4, expected one for CUDA 13.0 or newer");
  fake().driver(13010);
  CHECK(said().empty());
  fake().capability(75);
  CHECK_THAT(said(), Catch::StartsWith("backend cuda: NVIDIA Fake has compute capability 7.5, ") &&
                         Catch::EndsWith(", expected 8.0 or newer"));
  fake().capability(80);
  CHECK(said().empty());
  fake().capability(90);
  fake().visible(1U << 31);
  CHECK_THAT(said(), Catch::StartsWith("backend cuda: no CUDA device"));
  fake().visible(0);
  fake().driver(13000);
  CHECK(said().empty());
}

TEST_CASE("an error of CUDA comes with its task, device and shapes") {
  fake();
  Program program = data_parallel(1, "sgd 0.01");
  fake().fail_launch(0);
  std::string error = failure(program);
  fake().fail_launch(-1);
  // The first product, of 12 samples of 64 and the first weight.
  CHECK(error ==
        "task 0 (matmul layer.0.matmul) on device 0 of f32[12, 64], f32[64, 512], f32[12, 512]: "
        "cudaGetLastError(): an error of the fake: some error");
  CHECK(failure(program).empty());
}

TEST_CASE("memory that runs out in a step is told with its task, and as what fits") {
  fake();
  Program program = data_parallel(1, "sgd 0.01");
  constexpr int kMemoryAllocation = 2, kLaunchFailure = 719;  // of cudaError_t
  fake().launch_error(kMemoryAllocation);
  for (bool captured : {false, true}) {  // in the second step
    Counted executor(program);
    if (captured) executor.step();
    fake().fail_launch(0);
    try {
      executor.step();
      FAIL("memory did not run out");
    } catch (const DoesNotFit& error) {
      const std::string what = error.what();
      INFO(what);
      CHECK_THAT(what, Catch::StartsWith("memory ran out: task ") && Catch::Contains(" on device 0 of f32[") &&
                           Catch::Contains(": cudaGetLastError(): an error of the fake: some error; GPU 0 has ") &&
                           Catch::Contains(" of the plan's buffers; a search with --memory-limit '"));
      CHECK(error.limit() > 0);
    }
    fake().fail_launch(-1);
  }
  fake().launch_error(kLaunchFailure);
  CHECK(failure(program).empty());
}

TEST_CASE("a GPU that takes no code of this build is told at the start") {
  fake();
  constexpr int kUnsupportedPtxVersion = 222;  // of cudaError_t
  Program program = data_parallel(1, "sgd 0.01");
  fake().code(kUnsupportedPtxVersion);
  CHECK_THROWS_AS(Executor(program, {.backend = "cuda"}), InputError);
  CHECK_THROWS_WITH(Executor(program, {.backend = "cuda"}),
                    "backend cuda: NVIDIA Fake takes no code of this build (some error): expected a build for compute "
                    "capability 9.0");
  constexpr int kMemoryAllocation = 2;
  fake().code(kMemoryAllocation);
  CHECK_THROWS_AS(Executor(program, {.backend = "cuda"}), DoesNotFit);
  CHECK_THROWS_WITH(Executor(program, {.backend = "cuda"}),
                    Catch::StartsWith("memory ran out: cudaFuncGetAttributes: ") && Catch::Contains("; GPU 0 has ") &&
                        Catch::EndsWith("; take a smaller batch, or more devices"));
  fake().code(0);
  CHECK(failure(program).empty());
}

TEST_CASE("processes whose environments ask for other layouts, or other iterations, are refused at the start") {
  fake();
  const Program program = data_parallel(2, "sgd 0.01");
  for (auto [name, value, words] : {std::tuple("UNITY_CUDA_LAYOUT", "channels-last", "rank 1 has images with channels"),
                                    {"UNITY_CUDA_EAGER", "1", "rank 1 has images in rows and iterations task by task"},
                                    {"UNITY_CUDA_SYNC", "1", "iterations task by task"}}) {
    FakeNetwork network(2);
    auto train = [&, name = name, value = value](Processes& p) {
      if (p.rank() == 1) fake().environment(name, value);
      Executor executor(program, {.backend = "cuda", .processes = &p});
    };
    for (const Outcome& o : on_processes(network, train, std::chrono::seconds(1))) {
      INFO(o.error);
      CHECK_THAT(o.error, Catch::Contains("UNITY_CUDA_LAYOUT, UNITY_CUDA_EAGER and UNITY_CUDA_SYNC, expected the same "
                                          "everywhere: rank 0 has images in rows and iterations as graphs") &&
                              Catch::Contains(words));
    }
  }
}

TEST_CASE("what the environment says of the backend is taken, or refused") {
  fake();
  const Program program = data_parallel(1, "sgd 0.01");
  for (auto [name, value, expected] : {std::tuple("UNITY_CUDA_LAYOUT", "nhwc", "channels-last or rows"),
                                       {"UNITY_CUDA_EAGER", "yes", "0 or 1"},
                                       {"UNITY_CUDA_SYNC", "2", "0 or 1"},
                                       {"UNITY_CUDA_TUNE", "off", "0 or 1 or last"}}) {
    fake().environment(name, value);
    CHECK_THROWS_AS(Executor(program, {.backend = "cuda"}), InputError);
    CHECK_THROWS_WITH(Executor(program, {.backend = "cuda"}),
                      fmt::format("{}: found '{}', expected {}", name, value, expected));
    fake().environment(name, nullptr);
  }
  for (auto [value, graphs] : {std::pair("0", 1), {"1", 0}, {"", 1}}) {
    fake().environment("UNITY_CUDA_EAGER", value);
    Counted executor(program);
    executor.step();
    CHECK(executor.step().graphs == graphs);
  }
  fake().environment("UNITY_CUDA_EAGER", nullptr);
}

TEST_CASE("an error of NCCL comes with its task, devices, shapes and bytes, and leaves others as they are") {
  fake();
  Program program = data_parallel(2, "sgd 0.01");
  for (int after : {0, 2}) {
    fake().fail_nccl(after);
    std::string error = failure(program);
    fake().fail_nccl(-1);
    INFO(error);
    // The gradient of the second weight comes first; each has a call on either device.
    CHECK_THAT(error, Catch::Matches("task [0-9]+ \\(all_reduce .*\\) among devices 0, 1 of .*: ncclAllReduce.*: an "
                                     "error of the fake.*"));
    CHECK_THAT(error, Catch::Contains(after == 0 ? "of f32[512, 10] (20.48 kB): " : "of f32[64, 512] (131.1 kB): "));
    CHECK(failure(program).empty());
  }
}

TEST_CASE("an evaluation that has no room beside the training is refused before the first step") {
  fake();
  const ModelSpec spec{"mlp-tiny", {{"batch", 12}}};
  const Pcg model = build_model(spec);
  const Program training = lower(model, test::natural_mappings(model), uniform_topology(1)).value();
  const Program evaluation = lower(model, test::natural_mappings(model), uniform_topology(1), {false, {}}).value();
  const std::int64_t before = fake().bytes(0), all = std::int64_t{4} << 30;
  std::int64_t needed = 0;
  {
    Executor executor(training, {.backend = "cuda"});
    needed = fake().bytes(0) - before;
  }
  int steps = 0;
  TrainOptions options{.executor = {.backend = "cuda"}, .data = "digits", .steps = 3};
  options.progress = [&](auto...) { ++steps; };
  fake().memory(before + needed + 100'000);
  CHECK_THROWS_WITH(train(training, &evaluation, options),
                    Catch::StartsWith("the evaluation on the test rows, beside ") &&
                        Catch::Contains(" of training: device 0 needs ") &&
                        Catch::Contains("; expected a plan whose training needs at most "));
  CHECK(steps == 0);
  CHECK(fake().bytes(0) == before);
  fake().memory(all);
  CHECK(train(training, &evaluation, options).evaluations.size() == 1);
  CHECK(steps == 3);
}
