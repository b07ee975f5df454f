// Kernels on several threads: the same bits as on one, wherever the work is the kernel's own.
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/cpu/kernel_tools.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/optimizers.h"

using namespace unity;

namespace {

struct Case {
  std::string op;
  Attributes attributes;
  std::vector<Dims> inputs, outputs;
};

std::vector<Case> cases() {
  Dims wide = {96, 1536}, row = {1536}, image = {6, 128, 8, 24};
  Integers swap = {0, 2, 1, 3};
  return {{"relu", {}, {wide}, {wide}},
          {"gelu_gradient", {}, {wide, wide}, {wide}},
          {"add", {}, {wide, row}, {wide}},
          {"matmul", {std::string("none"), std::int64_t{0}}, {{100, 300}, {300, 700}}, {{100, 700}}},
          {"matmul", {std::string("relu"), std::int64_t{1}}, {{700, 300}, {100, 300}}, {{700, 100}}},
          {"matmul_weight_gradient", {}, {{300, 200}, {300, 210}}, {{200, 210}}},
          {"batch_matmul", {std::int64_t{0}, std::int64_t{1}}, {{2, 200, 64}, {2, 210, 64}}, {{2, 200, 210}}},
          {"mul", {}, {image, image}, {image}},
          {"softmax", {}, {wide}, {wide}},
          {"softmax_gradient", {}, {wide, wide}, {wide}},
          {"layer_norm", {1e-5}, {wide, row, row}, {wide}},
          {"layer_norm_gradient", {1e-5}, {wide, row, wide}, {wide, row, row}},
          {"mean_squared_error", {}, {wide, wide}, {{}}},
          {"transpose", {swap}, {image}, {{6, 8, 128, 24}}},
          {"reduce_sum", {Integers{0}, std::int64_t{0}}, {wide}, {row}},
          {"reduce_sum", {Integers{1}, std::int64_t{0}}, {wide}, {{96}}}};
}

std::vector<std::vector<float>> run(const Case& c, int threads) {
  std::vector<std::vector<float>> in, out;
  std::vector<Operand> operands;
  auto block = [&](std::vector<std::vector<float>>& blocks, const Dims& dims) {
    blocks.emplace_back(static_cast<std::size_t>(element_count(dims)));
    return Operand{blocks.back().data(), DType::f32, dims, Dims(dims.size(), 0), dims};
  };
  std::vector<Operand> inputs, outputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(block(in, c.inputs[i]));
    for (std::size_t k = 0; k < in[i].size(); ++k)
      in[i][k] = static_cast<float>(random_uniform(RandomKey(i + 1), k) - 0.5);
  }
  for (const Dims& dims : c.outputs) outputs.push_back(block(out, dims));
  std::thread([&] {
    cpu::set_threads(threads);
    cpu::find_kernel(get_operator(c.op))({c.attributes, inputs, outputs, {}});
  }).join();
  return out;
}

}  // namespace

TEST_CASE("a kernel on three threads gives bit for bit what it gives on one") {
  for (const Case& c : cases()) {
    INFO(c.op);
    CHECK(run(c, 3) == run(c, 1));
  }
}

TEST_CASE("optimizer steps on three threads give bit for bit what they give on one") {
  auto train = [](int threads) {
    std::vector<float> w(100003, 1), g(w.size()), m(w.size()), v(w.size());
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(random_uniform(RandomKey(3), i));
    std::thread([&] {
      cpu::set_threads(threads);
      auto n = static_cast<std::int64_t>(w.size());
      cpu::adam_step(w.data(), g.data(), m.data(), v.data(), n, {.rate = 0.01}, DType::f32);
      cpu::sgd_step(w.data(), g.data(), v.data(), n, {.rate = 0.01, .momentum = 0.9}, DType::f32);
    }).join();
    return w;
  };
  CHECK(train(3) == train(1));
}

TEST_CASE("updates of a table's rows on three threads give bit for bit what they give on one") {
  std::vector<float> dy(5000 * 32);
  std::vector<std::int32_t> ids(10000);
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(random_normal(RandomKey(4), i));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(random_below(RandomKey(5), i, 300));
  auto train = [&](int threads) {
    std::vector<float> table(200 * 32, 1);  // rows 50 to 249 of 300
    std::thread([&] {
      cpu::set_threads(threads);
      cpu::sgd_rows_step({table.data(), DType::f32, {200, 32}, {50, 0}, {300, 32}},
                         {ids.data(), DType::i32, {5000, 2}, {0, 0}, {5000, 2}},
                         {dy.data(), DType::f32, {5000, 32}, {0, 0}, {5000, 32}}, 0.01);
    }).join();
    return table;
  };
  std::vector<float> one = train(1);
  CHECK(train(3) == one);
  CHECK(std::count(one.begin(), one.end(), 1.0F) == 0);
}

TEST_CASE("parallel_for covers every index once, and passes on what its body throws") {
  std::thread([] {
    cpu::set_threads(4);
    for (std::int64_t n : {0, 1, 7, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(n));
      cpu::parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      CHECK(seen == std::vector<int>(static_cast<std::size_t>(n), 1));
    }
    CHECK_THROWS_WITH(
        cpu::parallel_for(8, 1, [](std::int64_t begin, std::int64_t) { UNITY_CHECK(begin < 2, "too far"); }),
        Catch::Contains("too far"));
  }).join();
}
