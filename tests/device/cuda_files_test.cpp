// What a GPU saves goes on elsewhere, and what does not fit into it is refused in words.
#include <filesystem>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/base/error.h"
#include "core/graph/evaluate.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "runtime/train.h"
#include "tests/device/gpu.h"
#include "tests/support/plan_builder.h"
#include "tests/support/runtime_program.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Three steps on one backend, three more from its checkpoint on another: the losses of six steps on one CPU device.
void check_resume(const std::string& first, const std::string& second) {
  Pcg pcg = build_model({"bert-tiny", {{"batch", 4}, {"layers", 1}, {"seq-len", 8}}});
  Program program =
      lower(pcg, natural_mappings(pcg), uniform_topology(1), {true, parse_optimizer("adamw 1e-3")}).value();
  std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("unity-{}-device", getpid());
  std::filesystem::remove_all(folder);
  TrainOptions options;
  options.executor = {"cpu", Precision::f64, 7};
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == "input" && pcg.nodes()[i].outputs[0].dtype == DType::i32)
      options.index_bounds[pcg.nodes()[i].name] = index_bound(pcg, NodeId(static_cast<std::int64_t>(i)));
  options.steps = 6;
  std::vector<double> expected = train(program, nullptr, options).losses;
  options.executor.backend = first;
  options.steps = 3;
  options.checkpoint = {folder, 0, 3, false};
  train(program, nullptr, options);
  options.executor.backend = second;
  options.steps = 6;
  options.checkpoint.resume = true;
  std::vector<double> rest = train(program, nullptr, options).losses;
  REQUIRE(rest.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(rest[i] == Approx(expected[3 + i]).epsilon(1e-9));
  std::filesystem::remove_all(folder);
}

// y = relu(x), with so many elements.
Program one_relu(std::int64_t elements) {
  ProgramByHand h;
  std::int32_t x = h.leaf("x", "input", {Dims{elements}, std::string("f32")});
  BufferId from = h.buffer(x, 0, whole_box({elements}), BufferCategory::input);
  BufferId to = h.buffer(h.tensor("y", {elements}), 0, whole_box({elements}));
  h.compute("relu", {}, {from, to});
  h.program.outputs.push_back({"y", {elements}, {to}});
  return h.program;
}

}  // namespace

TEST_CASE("a checkpoint goes on where it stopped, on the CPU") { check_resume("cpu", "cpu"); }

TEST_CASE("a checkpoint saved on a GPU goes on on the CPU, and the other way round") {
  if (!gpu_or_skip()) return;
  SECTION("from GPU to CPU") { check_resume("cuda", "cpu"); }
  SECTION("from CPU to GPU") { check_resume("cpu", "cuda"); }
}

TEST_CASE("a plan that needs more memory than the GPU has is refused with what it needs and what there is") {
  if (!gpu_or_skip()) return;
  Program large = one_relu(std::int64_t{1} << 42);  // 2^42 floats in, as many out: 32 TiB
  Processes alone;
  CHECK_THROWS_AS(make_backend("cuda", large, alone), InputError);
  CHECK_THROWS_WITH(make_backend("cuda", large, alone), Catch::Contains("device 0 needs 35.18 TB of memory") &&
                                                            Catch::Contains("free of") &&
                                                            Catch::Contains("--memory-limit"));
  Program small = one_relu(2);  // the refusal leaves nothing behind
  Executor executor(small, {"cuda"});
  HostTensor x = real_tensor({2});
  x.reals = {-1, 3};
  executor.set_input("x", x);
  executor.step();
  CHECK(executor.output(0).reals == std::vector<double>{0, 3});
}
