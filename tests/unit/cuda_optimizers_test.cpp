// Optimizer steps of the CUDA backend, compiled for the host, against those of the CPU backend.
#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "runtime/cpu/optimizers.h"
#include "runtime/cuda/optimizers.h"
#include "tests/support/worse.h"

using namespace unity;

namespace {

template <class T>
constexpr DType kType = std::is_same_v<T, float> ? DType::f32 : DType::f64;
template <class T>
constexpr double kAllowed = std::is_same_v<T, float> ? 1e-6 : 1e-13;

template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random_uniform(RandomKey(seed), i) - 0.5);
  return v;
}
float rounded_to_bf16(double x) { return cuda::to_float(cuda::to_bfloat16(static_cast<float>(x))); }
// Rounds to bf16 in place, and returns that.
template <class T>
std::vector<cuda::BFloat16> halves(std::vector<T>& v) {
  std::vector<cuda::BFloat16> h;
  for (T& x : v) {
    h.push_back(cuda::to_bfloat16(static_cast<float>(x)));
    x = static_cast<T>(cuda::to_float(h.back()));
  }
  return h;
}
template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = test::worse(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

// Three steps, with a rate that changes, of five shards: longer than a chunk, empty, with a rounded copy, (in f32) with
// its gradient in bf16, and where four elements cannot be read at once.
template <class T>
void compare(const OptimizerSpec& how) {
  const std::int64_t sizes[] = {9001, 0, 37, 4098, 2051};
  std::vector<std::vector<T>> w, g, a, b;
  for (std::uint64_t i = 0; i < 5; ++i) {
    w.push_back(numbers<T>(sizes[i], i));
    g.push_back(numbers<T>(sizes[i], 10 + i));
    a.emplace_back(sizes[i], T(0)), b.emplace_back(sizes[i], T(0));
  }
  auto expected_w = w, expected_a = a, expected_b = b;
  std::vector<cuda::BFloat16> rounded(37), half;
  if (std::is_same_v<T, float>) half = halves(g[3]);
  std::vector<cuda::ParameterShard> shards;
  for (std::size_t i = 0; i < 5; ++i)
    shards.push_back({.weight = w[i].data(),
                      .gradient = g[i].data(),
                      .states = {how.states() > 0 ? a[i].data() : nullptr, how.states() > 1 ? b[i].data() : nullptr},
                      .rounded = i == 2 ? rounded.data() : nullptr,
                      .elements = sizes[i]});
  // All but the first of its elements, which do not begin at a multiple of 16 bytes.
  shards[4].weight = w[4].data() + 1, shards[4].gradient = g[4].data() + 1, shards[4].elements = sizes[4] - 1;
  for (int s = 0; s < how.states(); ++s) shards[4].states[s] = (s == 0 ? a : b)[4].data() + 1;
  if (!half.empty()) shards[3].gradient = half.data(), shards[3].half_gradient = true;
  std::int64_t chunks = cuda::number_chunks(shards);
  for (std::uint64_t step = 0; step < 3; ++step) {
    cuda::StepValues now{step, 1 / (1.0 + static_cast<double>(step))};
    auto run = how.name == "sgd" ? cuda::sgd_step : cuda::adam_step;
    run(nullptr, {shards.data(), 5, chunks}, how, &now, kType<T>);
    double rate = how.learning_rate * now.rate_factor;
    cpu::SgdStep sgd{rate, how.momentum, how.weight_decay, how.nesterov};
    cpu::AdamStep adam{rate,
                       how.beta1,
                       how.beta2,
                       how.epsilon,
                       how.weight_decay,
                       how.name == "adamw",
                       static_cast<std::int64_t>(step) + 1};
    for (std::size_t i : {0, 2, 3, 4}) {
      const std::int64_t first = i == 4 ? 1 : 0, n = sizes[i] - first;
      T *to = expected_w[i].data() + first, *of = g[i].data() + first;
      if (how.name == "sgd")
        cpu::sgd_step(to, of, how.states() ? expected_a[i].data() + first : nullptr, n, sgd, kType<T>);
      else
        cpu::adam_step(to, of, expected_a[i].data() + first, expected_b[i].data() + first, n, adam, kType<T>);
    }
  }
  for (std::size_t i = 0; i < 5; ++i) {
    INFO("shard " << i);
    CHECK(largest_difference(w[i], expected_w[i]) <= kAllowed<T>);
    CHECK(largest_difference(a[i], expected_a[i]) <= kAllowed<T>);
    CHECK(largest_difference(b[i], expected_b[i]) <= kAllowed<T>);
  }
  for (std::size_t k = 0; k < rounded.size(); ++k) CHECK(cuda::to_float(rounded[k]) == rounded_to_bf16(w[2][k]));
}

void compare_types(const char* text) {
  INFO(text);
  compare<float>(parse_optimizer(text));
  compare<double>(parse_optimizer(text));
}

// Rows 100 to 109 of a table of 1000, and ids of which `hot` in ten name one row, so that it reaches over many pieces
// of the sorted list; every two ids share a row of dy. With `shift` four elements cannot be read at once.
template <class T>
struct Rows {
  Rows(std::int64_t count, std::uint64_t hot, bool half, std::int64_t width, std::int64_t shift = 0)
      : w(width),
        table(numbers<T>(10 * width + shift, 1)),
        dy(numbers<T>(count / 2 * width, 2)),
        expected(table),
        rounded(table.size()) {
    if (half) half_dy = halves(dy);
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count + shift); ++i)
      ids.push_back(random_below(RandomKey(3), i, 10) < hot
                        ? 104
                        : static_cast<std::int32_t>(95 + random_below(RandomKey(4), i, 20)));
    Operand rows{table.data() + shift, kType<T>, {10, width}, {100, 0}, {1000, width}}, expected_rows = rows;
    expected_rows.data = expected.data() + shift;
    Operand named{ids.data() + shift, DType::i32, {count}, {0}, {count}};
    Operand change{dy.data(), kType<T>, {count / 2, width}, {0, 0}, {count / 2, width}}, given = change;
    if (half) given.data = half_dy.data(), given.dtype = DType::bf16;
    step = {rows, named, given, rounded.data() + shift, 0.02};
    cpu::sgd_rows_step(expected_rows, named, change, 0.01);
    named_ids = {ids.begin() + shift, ids.end()};
    first = static_cast<std::size_t>(shift);
  }
  void check() const {
    CHECK(largest_difference(table, expected) <= 10 * kAllowed<T>);
    for (std::size_t i = first; i < table.size(); ++i) {
      auto row = static_cast<std::int32_t>(100 + (static_cast<std::int64_t>(i - first)) / w);
      bool named_row = std::count(named_ids.begin(), named_ids.end(), row) > 0;
      CHECK(cuda::to_float(rounded[i]) == (named_row ? rounded_to_bf16(table[i]) : 0));
    }
  }

  std::int64_t w;
  std::size_t first = 0;
  std::vector<T> table, dy, expected;
  std::vector<cuda::BFloat16> rounded, half_dy;
  std::vector<std::int32_t> ids, named_ids;
  cuda::RowsStep step;
};

void run(const std::vector<cuda::RowsStep>& steps, const cuda::StepValues& now = {7, 0.5}) {
  cuda::RowsSteps all(steps);
  std::vector<double> scratch(static_cast<std::size_t>(all.scratch() / 8 + 1), NAN);
  all.run(nullptr, all.list().data(), &now, scratch.data());
}

template <class T>
void compare_rows(std::int64_t count, std::uint64_t hot, bool half, std::int64_t width, std::int64_t shift = 0) {
  INFO(count << " ids, " << hot << " tenths of one row, " << (half ? "bf16" : "full") << " gradients, rows of "
             << width);
  Rows<T> rows(count, hot, half, width, shift);
  run({rows.step});
  rows.check();
}

}  // namespace

TEST_CASE("CUDA steps of sgd equal those of the CPU") {
  compare_types("sgd 0.1");
  compare_types("sgd 0.1 weight_decay=0.01");
  compare_types("sgd 0.1 momentum=0.9");
  compare_types("sgd 0.1 momentum=0.9 nesterov weight_decay=0.01");
}

TEST_CASE("CUDA steps of adam and adamw equal those of the CPU") {
  compare_types("adam 0.01");
  compare_types("adam 0.01 weight_decay=0.1");
  compare_types("adamw 0.01 weight_decay=0.1 beta1=0.8 beta2=0.95");
}

TEST_CASE("CUDA steps on the rows that ids name equal those of the CPU, however often a row is named") {
  for (std::int64_t count : {2, 32, 64, 66, 1000, 9000})
    for (std::uint64_t hot : {0, 3, 9, 10})
      for (std::int64_t width : {5, 8}) {
        compare_rows<float>(count, hot, false, width);
        compare_rows<float>(count, hot, true, width);
        compare_rows<double>(count, hot, false, width);
      }
  compare_rows<float>(66, 3, false, 8, 1);
  compare_rows<float>(66, 3, false, 300);  // more than a thread's share of a row
}

TEST_CASE("CUDA steps on the rows of several tables are those one by one, bit for bit") {
  auto tables = [] {
    std::vector<Rows<float>> all;
    all.reserve(6);
    for (std::int64_t count : {9000, 64, 2}) {
      all.emplace_back(count, 3, false, 8);
      all.emplace_back(count, 9, true, 5);
    }
    return all;
  };
  std::vector<Rows<float>> together = tables(), single = tables();
  std::vector<cuda::RowsStep> steps;
  for (Rows<float>& rows : together) steps.push_back(rows.step);
  run(steps);
  for (std::size_t i = 0; i < single.size(); ++i) {
    run({single[i].step});
    together[i].check();
    CHECK(together[i].table == single[i].table);
  }
}

TEST_CASE("ids that name no row of a table leave it as it is") {
  std::vector<float> table(6, 1), dy(6, 1);
  std::vector<std::int32_t> ids = {-1, 2};
  Operand rows{table.data(), DType::f32, {2, 3}, {0, 0}, {2, 3}}, named{ids.data(), DType::i32, {2}, {0}, {2}};
  Operand change{dy.data(), DType::f32, {2, 3}, {0, 0}, {2, 3}};
  run({{rows, named, change}}, {});
  CHECK(table == std::vector<float>(6, 1));
}
