// What becomes of the others when a process or NCCL fails among GPUs played on the host (support/fake_cuda.h).
#include <chrono>

#include <catch2/catch.hpp>

#include "runtime/executor.h"
#include "tests/support/fake_plugin.h"
#include "tests/support/fake_processes.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;
using namespace std::chrono_literals;

namespace {

// How each of two processes with a GPU each ends that trains under a plan of two devices.
std::vector<Outcome> on_two(FakeNetwork& network, const std::function<void(Processes&)>& before_steps,
                            const std::function<void(Processes&)>& first = {}) {
  Program program = data_parallel(2, "sgd 0.01");
  auto values = inputs();
  auto body = [&](Processes& p) {
    if (first) first(p);
    Executor executor(program, {.backend = "cuda", .precision = Precision::f64, .seed = 7, .processes = &p});
    for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, values.at(leaf.name));
    executor.step();
    before_steps(p);
    for (int i = 0; i < 2; ++i) executor.step();
  };
  return on_processes(network, body, 1s);
}

}  // namespace

TEST_CASE("a process with another NCCL is refused at the start") {
  FakeNetwork network(2);
  auto outcomes = on_two(
      network, [](Processes&) {}, [](Processes& p) { fake().nccl_version(p.rank() == 1 ? 22703 : 22809); });
  for (const Outcome& o : outcomes) {
    CHECK_THAT(o.error, Catch::Contains("CUDA") && Catch::Contains("rank 0 has") && Catch::Contains("NCCL 2.28.9"));
    CHECK_THAT(o.error, Catch::Contains("rank 1 has") && Catch::Contains("NCCL 2.27.3"));
  }
}

TEST_CASE("a process that goes silent ends what waits for it on a GPU, by name") {
  fake();
  FakeNetwork network(2);
  int aborted = fake().aborted();
  auto begin = std::chrono::steady_clock::now();
  auto outcomes = on_two(network, [&](Processes& p) {
    if (p.rank() == 0) return;
    network.silence(1);
    throw std::runtime_error("stopped");  // NCCL's part of the next step never comes
  });
  CHECK(outcomes[1].error == "stopped");
  CHECK_THAT(outcomes[0].error, Catch::Contains("rank 1 was silent for 1 s") && Catch::Contains("have come to task ") &&
                                    Catch::Contains(", all_reduce of ") && Catch::Contains("among devices 0, 1"));
  CHECK(fake().aborted() > aborted);
  CHECK(fake().held_aborts() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}

TEST_CASE("a start of NCCL that has no end is given up, with what to look at") {
  fake().nccl_starts(false);
  FakeNetwork network(2);
  auto outcomes = on_two(network, [](Processes&) {});
  fake().nccl_starts(true);
  bool told = false;
  for (const Outcome& o : outcomes) {
    CHECK_FALSE(o.error.empty());
    told = told || (o.error.find("NCCL's start among devices 0, 1 did not end within 1 s") != std::string::npos &&
                    o.error.find("NCCL_SOCKET_IFNAME") != std::string::npos);
  }
  CHECK(told);
}

TEST_CASE("work of NCCL that never ends on the GPUs is ended when a process gives up") {
  fake();
  FakeNetwork network(2);
  auto begin = std::chrono::steady_clock::now();
  auto outcomes = on_two(network, [&](Processes& p) {
    p.barrier();
    fake().hang(true);
    if (p.rank() == 1) p.give_up("of hunger", 3);
  });
  fake().hang(false);
  CHECK(outcomes[1].exit_code == 3);
  CHECK_THAT(outcomes[0].error, Catch::Contains("rank 1 gave up: of hunger"));
  CHECK(fake().held_aborts() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}

TEST_CASE("work of NCCL that never ends on the GPUs of one process is ended after its patience") {
  fake();
  Program program = data_parallel(2, "sgd 0.01");
  Processes alone(1s);
  Executor executor(program, {.backend = "cuda", .precision = Precision::f64, .processes = &alone});
  for (const auto& [name, value] : inputs()) executor.set_input(name, value);
  executor.step();
  fake().hang(true);
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(executor.step(), Catch::Contains("the GPUs did nothing new for 1 s; expected its part of step 1") &&
                                         Catch::Contains("all_reduce"));
  fake().hang(false);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}
