#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/cpu/exponential.h"
#include "runtime/cpu/kernels.h"
#include "tests/support/worse.h"

using namespace unity;

TEST_CASE("the vectorisable exponential is within two units in the last place of exp") {
  float worst = 0;
  for (double x = -87; x <= 88; x += 0.00137) {
    double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    worst = test::worse(worst, static_cast<float>(std::abs(cpu::exponential(static_cast<float>(x)) / exact - 1)));
  }
  CHECK(worst < 2e-7f);
  CHECK(cpu::exponential(0.0f) == 1.0f);
  CHECK(cpu::exponential(-std::numeric_limits<float>::infinity()) < 1e-37f);
  CHECK(std::isnan(cpu::exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("exp of large numbers is infinite and of small ones 0, and right up to there") {
  std::vector<float> x = {
      -200, -100, -90, -87.34f, -87.2f, 0, 88.1f, 88.7f, 89, 1000, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> y(x.size());
  Dims dims = {static_cast<std::int64_t>(x.size())}, zero = {0};
  std::vector<Operand> in = {{x.data(), DType::f32, dims, zero, dims}},
                       out = {{y.data(), DType::f32, dims, zero, dims}};
  cpu::find_kernel(get_operator("exp"))({{}, in, out, {}});
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    INFO("of " << x[i]);
    const float exact = std::exp(x[i]);
    CHECK((y[i] == exact || std::abs(y[i] / exact - 1) < 1e-6f ||
           std::abs(y[i] - exact) < std::numeric_limits<float>::min()));
  }
  CHECK(std::isnan(y.back()));
}

TEST_CASE("the vectorisable tanh keeps its sign, its slope at 0 and its limits") {
  float worst = 0;
  for (float x = -12; x <= 12; x += 0.00113f)
    worst = test::worse(worst, std::abs(cpu::hyperbolic_tangent(x) - std::tanh(x)));
  CHECK(worst < 2e-7f);
  CHECK(cpu::hyperbolic_tangent(1e-20f) == 1e-20f);
  CHECK(cpu::hyperbolic_tangent(-50.0f) == -1.0f);
}

TEST_CASE("the vectorisable erf is odd and has erf's limits") {
  float worst = 0;
  for (float x = -6; x <= 6; x += 0.00113f) worst = test::worse(worst, std::abs(cpu::error_function(x) - std::erf(x)));
  CHECK(worst < 5e-7f);
  CHECK(cpu::error_function(-9.0f) == -1.0f);
}

TEST_CASE("leaves and parallelization operators have no kernel") {
  for (const char* name : {"input", "weight", "partition", "reduce", "stack_partials"})
    CHECK(cpu::find_kernel(get_operator(name)) == nullptr);
}

TEMPLATE_TEST_CASE("a product computed by four devices at once is bit for bit the one computed alone", "", float,
                   double) {
  constexpr std::int64_t kSize = 160;
  DType type = std::is_same_v<TestType, float> ? DType::f32 : DType::f64;
  std::vector<TestType> x(kSize * kSize), w(kSize * kSize);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<TestType>(random_uniform(RandomKey(1), i));
    w[i] = static_cast<TestType>(random_uniform(RandomKey(2), i));
  }
  Attributes attributes = {std::string("none"), std::int64_t{0}};
  auto product = [&] {
    std::vector<TestType> y(x.size());
    Dims dims = {kSize, kSize}, zero = {0, 0};
    std::vector<Operand> in = {{x.data(), type, dims, zero, dims}, {w.data(), type, dims, zero, dims}};
    std::vector<Operand> out = {{y.data(), type, dims, zero, dims}};
    cpu::find_kernel(get_operator("matmul"))({attributes, in, out, {}});
    return y;
  };
  std::vector<TestType> alone = product();
  std::vector<std::vector<TestType>> found(4);
  std::vector<std::thread> devices;
  for (auto& y : found)
    devices.emplace_back([&] {
      for (int repeat = 0; repeat < 5; ++repeat) y = product();
    });
  for (std::thread& d : devices) d.join();
  for (const auto& y : found) CHECK(y == alone);
}

TEST_CASE("rounding below zero is taken from a variance where it arises; batch norm is what its definition says") {
  auto reference = [](const OpCall& call) { get_operator("combine_moments").reference(call); };
  auto of_batch_norm = [](const OpCall& call) { get_operator("batch_norm").reference(call); };
  using Call = std::function<void(const OpCall&)>;
  auto vectors = [](std::vector<std::vector<double>>& v, Dims dims) {
    std::vector<Operand> operands;
    for (auto& values : v) operands.push_back({values.data(), DType::f64, dims, Dims(dims.size(), 0), dims});
    return operands;
  };
  for (const Call& combine : {Call(reference), Call(cpu::find_kernel(get_operator("combine_moments")))}) {
    // Means 2 and 2, mean squares 4 - 1/8 and 5: differences of -1/8 and 1. Half of each new moment is taken.
    std::vector<std::vector<double>> in = {{2, 2}, {3.875, 5}, {0, 0}, {1, 1}}, out(4, {9, 9});
    combine({{std::int64_t{1}, 0.5}, vectors(in, {2}), vectors(out, {2}), {}});
    CHECK(out == std::vector<std::vector<double>>{{2, 2}, {0, 1}, {1, 1}, {0.5, 1}});
  }
  for (const Call& norm : {Call(of_batch_norm), Call(cpu::find_kernel(get_operator("batch_norm")))}) {
    std::vector<std::vector<double>> x = {{3, 3}}, numbers = {{1, 1}, {-1, 0.75}, {2, 2}, {5, 5}}, y = {{9, 9}};
    std::vector<Operand> in = vectors(x, {1, 2});
    for (const Operand& o : vectors(numbers, {2})) in.push_back(o);
    norm({{0.25, std::string("none")}, in, vectors(y, {1, 2}), {}});
    CHECK(std::isnan(y[0][0]));  // the root of -3/4
    CHECK(y[0][1] == 9);         // (3 - 1) / 1 * 2 + 5
  }
}

TEST_CASE("embedding kernels refuse an index outside the table") {
  std::vector<std::int32_t> ids = {0, 12};
  std::vector<float> table(12 * 2), y(4);
  Attributes none;
  std::vector<Operand> in = {{ids.data(), DType::i32, {2}, {0}, {2}},
                             {table.data(), DType::f32, {12, 2}, {0, 0}, {12, 2}}};
  std::vector<Operand> out = {{y.data(), DType::f32, {2, 2}, {0, 0}, {2, 2}}};
  CHECK_THROWS_WITH(cpu::find_kernel(get_operator("embedding"))({none, in, out, {}}),
                    "embedding: index is 12, expected 0 to 11");
}
