// Block copies of the CUDA backend, compiled for the host, against those of the CPU backend.
#include <limits>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "runtime/cpu/blocks.h"
#include "runtime/cuda/blocks.h"
#include "runtime/cuda/elements.h"

using namespace unity;

namespace {

// Whole numbers from -100 to 99, which bf16 holds exactly, as it does their sums of two.
template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<T>(static_cast<std::int64_t>(random_below(RandomKey(seed), i, 200)) - 100);
  return v;
}

struct Boxes {
  Box target, source, box;
};
// Of one, two and three dimensions; a whole block; runs of four and of odd lengths; nothing; a scalar.
std::vector<Boxes> cases() {
  return {{{{2, 3}, {5, 6}}, {{1, 2}, {6, 7}}, {{2, 3}, {4, 5}}},
          {{{0, 0}, {6, 8}}, {{0, 0}, {6, 8}}, {{0, 0}, {6, 8}}},
          {{{0, 0, 4}, {3, 4, 8}}, {{1, 0, 0}, {2, 4, 12}}, {{1, 1, 4}, {2, 2, 8}}},
          {{{7}, {9}}, {{4}, {13}}, {{8}, {7}}},
          {{{0, 0}, {2, 2}}, {{0, 0}, {2, 2}}, {{1, 0}, {0, 2}}},
          {{}, {}, {}}};
}

template <class T>
void check_type(DType dtype) {
  for (const auto& [target_box, source_box, box] : cases()) {
    auto source = numbers<T>(source_box.elements(), 1), target = numbers<T>(target_box.elements(), 2);
    auto expected = target;
    cpu::copy_block(expected.data(), target_box, source.data(), source_box, box, dtype);
    cuda::copy_block(nullptr, {target.data(), target_box, dtype}, {source.data(), source_box, dtype}, box);
    CHECK(target == expected);
    if (dtype == DType::i32) continue;
    cpu::accumulate_block(expected.data(), target_box, source.data(), source_box, box, dtype);
    cuda::accumulate_block(nullptr, {target.data(), target_box, dtype}, {source.data(), source_box, dtype}, box);
    CHECK(target == expected);
  }
  for (Monoid monoid : {Monoid::sum, Monoid::max})
    for (std::int64_t n : {0, 1, 7, 64}) {
      auto from = numbers<T>(n, 3), to = numbers<T>(n, 4), expected = to;
      cpu::combine(expected.data(), from.data(), n, dtype, monoid);
      cuda::combine(nullptr, to.data(), from.data(), n, dtype, monoid);
      CHECK(to == expected);
    }
  auto v = numbers<T>(5, 5), expected = v;
  cpu::zero_block(expected.data() + 1, 3, dtype);
  cuda::zero_block(nullptr, v.data() + 1, 3, dtype);
  CHECK(v == expected);
}

}  // namespace

TEST_CASE("CUDA block copies, sums and zeros equal those of the CPU in each type") {
  check_type<float>(DType::f32);
  check_type<double>(DType::f64);
  check_type<std::int32_t>(DType::i32);
}

TEST_CASE("CUDA blocks go from f32 to bf16 and back, and add up across the two") {
  for (const auto& [target_box, source_box, box] : cases()) {
    auto source = numbers<float>(source_box.elements(), 1), target = numbers<float>(target_box.elements(), 2);
    std::vector<cuda::BFloat16> half_source(source.size()), half_target(target.size());
    cuda::DeviceBlock from{source.data(), source_box, DType::f32}, to{target.data(), target_box, DType::f32};
    cuda::DeviceBlock half_from{half_source.data(), source_box, DType::bf16};
    cuda::DeviceBlock half_to{half_target.data(), target_box, DType::bf16};
    cuda::copy_block(nullptr, half_from, from, source_box);
    cuda::copy_block(nullptr, half_to, to, target_box);
    for (std::size_t i = 0; i < source.size(); ++i) CHECK(cuda::to_float(half_source[i]) == source[i]);
    auto expected = target;
    cpu::accumulate_block(expected.data(), target_box, source.data(), source_box, box, DType::f32);
    cuda::accumulate_block(nullptr, to, half_from, box);
    CHECK(target == expected);
    cuda::accumulate_block(nullptr, half_to, from, box);
    for (std::size_t i = 0; i < target.size(); ++i) CHECK(cuda::to_float(half_target[i]) == expected[i]);
  }
}

TEST_CASE("copies of a list are made together, each from its place to its own") {
  std::vector<float> from = numbers<float>(1000, 3), to(1000, 0.0F);
  // None, one word, more words than a group has threads; gaps in between stay as they are.
  const std::vector<std::pair<std::int64_t, std::int64_t>> parts = {{0, 0}, {1, 1}, {4, 70}, {80, 900}};
  std::vector<cuda::FlatCopy> list;
  std::vector<float> expected = to;
  for (auto [begin, n] : parts) {
    list.push_back({to.data() + begin, from.data() + 999 - begin - n, n * 4});
    std::copy_n(from.begin() + 999 - begin - n, n, expected.begin() + begin);
  }
  cuda::copy_all(nullptr, list.data(), static_cast<std::int64_t>(list.size()));
  CHECK(to == expected);
}

TEST_CASE("a NaN in either operand is what a combined maximum gives, on GPU and CPU") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (bool on_cpu : {false, true}) {
    std::vector<double> to = {nan, 1, 2}, from = {1, nan, 3};
    if (on_cpu)
      cpu::combine(to.data(), from.data(), 3, DType::f64, Monoid::max);
    else
      cuda::combine(nullptr, to.data(), from.data(), 3, DType::f64, Monoid::max);
    CHECK(to[0] != to[0]);
    CHECK(to[1] != to[1]);
    CHECK(to[2] == 3);
  }
}

TEST_CASE("CUDA blocks refuse other pairs of types, and boxes outside them") {
  std::vector<double> a(4), b(4);
  Box all{{0}, {4}};
  auto of = [&](std::vector<double>& v, DType dtype) { return cuda::DeviceBlock{v.data(), all, dtype}; };
  CHECK_THROWS_AS(cuda::copy_block(nullptr, of(a, DType::f64), of(b, DType::f32), all), InternalError);
  CHECK_THROWS_AS(cuda::accumulate_block(nullptr, of(a, DType::i64), of(b, DType::i64), all), InternalError);
  CHECK_THROWS_AS(cuda::copy_block(nullptr, of(a, DType::f64), of(b, DType::f64), Box{{1}, {4}}), InternalError);
}
