// Kernels of the CUDA backend, compiled for the host, on blocks as bf16 mode and others hold them, against the
// reference.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "core/ops/reference.h"
#include "tests/support/cuda_evaluator.h"

namespace unity::testing {

// How the blocks of two or more dimensions are held; all others in f32.
struct Held {
  DType type = DType::bf16;
  std::size_t shift = 0;       // elements that they begin behind a multiple of 16 bytes
  bool channels_last = false;  // those of four dimensions (Call::channels_last)
};

// Where element k of a block lies as held.
inline std::size_t held_at(Held held, const Dims& extent, std::size_t k) {
  if (!held.channels_last || extent.size() != 4) return k;
  const auto channels = static_cast<std::size_t>(extent[1]), area = static_cast<std::size_t>(extent[2] * extent[3]);
  return (k / area / channels * area + k % area) * channels + k / area % channels;
}

// Blocks of one type, with an element before, and one behind where there is room, that nobody may write.
template <class T>
class HeldBlocks {
 public:
  // n elements, beginning `shift` elements behind a multiple of 16 bytes.
  T* add(std::size_t n, std::size_t shift, T around) {
    const std::size_t before = 16 / sizeof(T) + shift, bytes = (before + n) * sizeof(T);
    T* begin = reinterpret_cast<T*>(memory_.add(bytes)) + before;
    around_.push_back({begin - 1, around});
    if (bytes % 16 != 0) around_.push_back({begin + n, around});
    for (auto [at, value] : around_) *at = value;
    return begin;
  }
  bool untouched() const {
    return std::all_of(around_.begin(), around_.end(),
                       [](const auto& a) { return std::memcmp(a.first, &a.second, sizeof(T)) == 0; });
  }

 private:
  GuardedMemory memory_;
  std::vector<std::pair<T*, T>> around_;
};

inline Evaluator held_evaluator(Held held) {
  return [held](const Operator& op, const OpCall& call) {
    HeldBlocks<cuda::BFloat16> halves;
    HeldBlocks<float> floats;
    constexpr float kUntouched = 12345;
    std::vector<Operand> operands(call.inputs.begin(), call.inputs.end());
    operands.insert(operands.end(), call.outputs.begin(), call.outputs.end());
    for (Operand& o : operands) {
      if (o.dtype != DType::f32 || !o.data || o.extent.size() < 2) continue;
      auto n = static_cast<std::size_t>(o.elements());
      const float* from = o.as<float>();
      if (held.type == DType::bf16) {
        auto* to = halves.add(n, held.shift, cuda::to_bfloat16(kUntouched));
        for (std::size_t k = 0; k < n; ++k) to[held_at(held, o.extent, k)] = cuda::to_bfloat16(from[k]);
        o.data = to, o.dtype = DType::bf16;
      } else {
        auto* to = floats.add(n, held.shift, kUntouched);
        for (std::size_t k = 0; k < n; ++k) to[held_at(held, o.extent, k)] = from[k];
        o.data = to;
      }
    }
    std::span<const Operand> all(operands);
    kernel_evaluator(held.channels_last)(
        op, {call.attributes, all.first(call.inputs.size()), all.subspan(call.inputs.size()), call.random});
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const Operand& o = all[call.inputs.size() + i];
      auto* to = call.outputs[i].as<float>();
      if (o.data == to) continue;
      auto n = static_cast<std::ptrdiff_t>(o.elements());
      auto value = [&](std::ptrdiff_t k) {
        return o.dtype == DType::bf16 ? cuda::to_float(o.as<cuda::BFloat16>()[k]) : o.as<float>()[k];
      };
      for (std::ptrdiff_t k = 0; k < n; ++k)
        to[k] = value(static_cast<std::ptrdiff_t>(held_at(held, o.extent, static_cast<std::size_t>(k))));
    }
    if (!halves.untouched() || !floats.untouched()) FAIL("a kernel writes beside a block");
  };
}

// The largest difference from the reference in f64, relative to what the type of the result allows: at most 1 is right.
// Operands are numbers that bf16 holds; those of the first are what `first` makes of others.
inline double error_as_held(Held held, std::string_view name, Attributes given, const std::vector<Dims>& reals,
                            double (*first)(double) = nullptr) {
  const Operator& op = get_operator(name);
  Example example{complete_attributes(op.name(), op.attributes(), std::move(given)).value(), {}, 0};
  for (const Dims& dims : reals) example.inputs.push_back({dims, DType::f32});
  AxisTable table = op.axes(example.attributes, example.inputs).value();
  auto operands = random_operands(example, DType::f32, RandomKey(20220711));
  for (std::int64_t i = 0; first && i < operands[0].box.elements(); ++i)
    operands[0].set_real(i, first(operands[0].real(i)));
  std::vector<Block> exact;
  for (Block& b : operands) {
    for (std::int64_t i = 0; i < b.box.elements(); ++i)
      b.set_real(i, static_cast<double>(cuda::to_float(cuda::to_bfloat16(static_cast<float>(b.real(i))))));
    exact.push_back(converted(b, DType::f64));
  }
  auto boxes = output_boxes(table, full_ranges(table));
  auto expected = call_operator(reference_evaluator(), op, example.attributes, table, exact, boxes, DType::f64);
  auto found = call_operator(held_evaluator(held), op, example.attributes, table, operands, boxes, DType::f32);
  double worst = 0;
  for (std::size_t o = 0; o < expected.size(); ++o) {
    double largest = 1;
    for (std::int64_t i = 0; i < expected[o].box.elements(); ++i)
      largest = std::max(largest, std::abs(expected[o].real(i)));
    double allowed = held.type == DType::bf16 && expected[o].global.size() > 1 ? 0.005 : 2e-5;
    worst = std::max(worst, difference(converted(found[o], DType::f64), expected[o]) / (allowed * largest));
  }
  return worst;
}

}  // namespace unity::testing
