// Pooling with channels last, against the reference and the kernels of rows: [n, h, w, c] in memory, [n, c, h, w] by
// extents and attributes.
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "tests/support/held_evaluator.h"

using namespace unity;
using namespace unity::testing;

namespace {

constexpr std::uint64_t kSeed = 20220711;
constexpr int kMaxTasks = 12;
const std::vector<std::string> kOperators = {"max_pool2d", "max_pool2d_gradient", "avg_pool2d", "avg_pool2d_gradient"};

// to[n, h, w, c] = f(from[n, c, h, w]), or back.
template <class To, class From, class F>
void move_channels(const Dims& extent, bool last, To* to, const From* from, F f) {
  std::int64_t channels = extent[1], pixels = extent[2] * extent[3];
  for (std::int64_t n = 0; n < extent[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p) {
        std::int64_t first = (n * channels + c) * pixels + p, there = (n * pixels + p) * channels + c;
        to[last ? there : first] = f(from[last ? first : there]);
      }
}

// The kernels, on blocks with channels last. Those of f32 begin `shift` elements behind a multiple of 16 bytes, and are
// held in bf16 where bit i of `halves` says so for the i-th operand or result.
Evaluator channels_last_evaluator(std::uint64_t halves = 0, std::size_t shift = 0) {
  return [halves, shift](const Operator& op, const OpCall& call) {
    HeldBlocks<cuda::BFloat16> bf16;
    HeldBlocks<float> f32;
    HeldBlocks<double> f64;
    std::vector<Operand> given(call.inputs.begin(), call.inputs.end());
    given.insert(given.end(), call.outputs.begin(), call.outputs.end());
    std::vector<Operand> held = given;
    auto place = [&](Operand& o, const Operand& from, auto* to, auto f) {
      if (from.dtype == DType::f64)
        move_channels(o.extent, true, to, from.as<double>(), f);
      else
        move_channels(o.extent, true, to, from.as<float>(), f);
      o.data = to;
    };
    const cuda::BFloat16 around{0x4640};  // 12288
    for (std::size_t i = 0; i < held.size(); ++i) {
      Operand& o = held[i];
      bool half = given[i].dtype == DType::f32 && (halves >> i & 1) != 0;
      if (half) o.dtype = DType::bf16;
      if (!o.data) continue;
      auto n = static_cast<std::size_t>(o.elements());
      if (half)
        place(o, given[i], bf16.add(n, shift, around), [](auto v) { return cuda::to_bfloat16(static_cast<float>(v)); });
      else if (o.dtype == DType::f32)
        place(o, given[i], f32.add(n, shift, 12288.F), [](auto v) { return static_cast<float>(v); });
      else
        place(o, given[i], f64.add(n, 0, 12288.0), [](auto v) { return static_cast<double>(v); });
    }
    GuardedMemory memory;
    std::function<void*(std::int64_t)> scratch = [&](std::int64_t bytes) {
      return std::memset(memory.add(static_cast<std::size_t>(bytes)), 0x7f, static_cast<std::size_t>(bytes));
    };
    cuda::StepValues step;
    std::span<const Operand> all(held);
    cuda::find_kernel(op)({call.attributes, all.first(call.inputs.size()), all.subspan(call.inputs.size()), call.random,
                           &step, nullptr, scratch, true});
    for (std::size_t i = call.inputs.size(); i < held.size(); ++i) {
      const Operand &o = held[i], &to = given[i];
      auto same = [](auto v) { return v; };
      if (o.dtype == DType::bf16) {
        move_channels(o.extent, false, to.as<float>(), o.as<cuda::BFloat16>(), cuda::to_float);
      } else if (o.dtype == DType::f32) {
        move_channels(o.extent, false, to.as<float>(), o.as<float>(), same);
      } else {
        move_channels(o.extent, false, to.as<double>(), o.as<double>(), same);
      }
    }
    if (!bf16.untouched() || !f32.untouched() || !f64.untouched()) FAIL("a kernel writes beside a block");
  };
}

double largest(const Block& b) {
  double m = 1;
  for (std::int64_t i = 0; i < b.box.elements(); ++i)
    if (std::isfinite(b.real(i))) m = std::max(m, std::abs(b.real(i)));
  return m;
}

// As error_as_held does, against the kernels of rows on the same operands: 0 where every number is the same. NaN is
// equal to NaN.
enum class Kind { f64, f32, bf16, mixed, other_mixed };
double off(Kind kind, std::size_t shift, std::string_view name, Attributes given, const std::vector<Dims>& reals,
           double (*first)(double) = nullptr) {
  const Operator& op = get_operator(name);
  Example example{complete_attributes(op.name(), op.attributes(), std::move(given)).value(), {}, 0};
  for (const Dims& dims : reals) example.inputs.push_back({dims, DType::f32});
  AxisTable table = op.axes(example.attributes, example.inputs).value();
  DType type = kind == Kind::f64 ? DType::f64 : DType::f32;
  auto operands = random_operands(example, type, RandomKey(kSeed));
  for (Block& b : operands)
    for (std::int64_t i = 0; i < b.box.elements(); ++i) {
      double value = &b == operands.data() && first ? first(b.real(i)) : b.real(i);
      b.set_real(i, static_cast<double>(cuda::to_float(cuda::to_bfloat16(static_cast<float>(value)))));
    }
  std::uint64_t halves = kind == Kind::bf16 ? 7 : kind == Kind::mixed ? 1 : kind == Kind::other_mixed ? 6 : 0;
  auto boxes = output_boxes(table, full_ranges(table));
  auto expected = call_operator(kind == Kind::f64 || kind == Kind::f32 ? kernel_evaluator() : mixed_evaluator(halves),
                                op, example.attributes, table, operands, boxes, type)[0];
  auto found =
      call_operator(channels_last_evaluator(halves, shift), op, example.attributes, table, operands, boxes, type)[0];
  double worst = 0;
  for (std::int64_t i = 0; i < expected.box.elements(); ++i) {
    double a = expected.real(i), b = found.real(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    worst = std::max(worst, std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) / largest(expected) : 1.0);
  }
  return worst;
}

struct Geometry {
  Dims kernel, stride, padding, dilation;
};
Dims pooled(const Dims& x, const Geometry& g) {
  Dims y{x[0], x[1], 0, 0};
  for (std::size_t d : {0, 1})
    y[d + 2] = (x[d + 2] + g.padding[d] + g.padding[d + 2] - (g.kernel[d] - 1) * g.dilation[d] - 1) / g.stride[d] + 1;
  return y;
}
// That all four are what the kernels of rows make of it.
void check_all(Kind kind, std::size_t shift, const Dims& x, const Geometry& g, double (*first)(double) = nullptr) {
  Dims y = pooled(x, g);
  INFO("kind " << static_cast<int>(kind) << " at " << shift << ": " << x[0] << " images of " << x[2] << " x " << x[3]
               << " with " << x[1] << " channels, windows of " << g.kernel[0] << " x " << g.kernel[1] << " by "
               << g.stride[0] << " x " << g.stride[1] << ", padding from " << g.padding[0]);
  Attributes max{g.kernel, g.stride, g.padding, g.dilation};
  CHECK(off(kind, shift, "max_pool2d", max, {x}, first) == 0);
  CHECK(off(kind, shift, "max_pool2d_gradient", max, {x, y}, first) == 0);
  if (first || g.dilation != Dims{1, 1}) return;
  for (std::int64_t include_pad : {0, 1}) {
    Attributes average{g.kernel, g.stride, g.padding, include_pad};
    CHECK(off(kind, shift, "avg_pool2d", average, {x}) == 0);
    CHECK(off(kind, shift, "avg_pool2d_gradient", average, {y, x}) == 0);
  }
}

const Dims kNone{0, 0, 0, 0}, kOne{1, 1, 1, 1};
// With kernels of their own, and others.
std::vector<Geometry> geometries() {
  return {
      {{3, 3}, {2, 2}, kOne, {1, 1}},         {{3, 3}, {2, 2}, kNone, {1, 1}}, {{3, 3}, {2, 2}, {0, 1, 1, 0}, {1, 1}},
      {{3, 3}, {2, 2}, {2, 2, 2, 2}, {1, 1}}, {{3, 3}, {1, 1}, kOne, {1, 1}},  {{3, 3}, {1, 1}, {2, 0, 1, 2}, {1, 1}},
      {{2, 2}, {2, 2}, kNone, {1, 1}},        {{2, 2}, {2, 2}, kOne, {1, 1}},  {{1, 1}, {3, 3}, kNone, {1, 1}},
      {{2, 5}, {1, 3}, {0, 2, 1, 3}, {1, 1}}, {{3, 3}, {1, 2}, kOne, {2, 2}},  {{5, 3}, {2, 1}, {4, 2, 4, 2}, {1, 1}},
      {{9, 2}, {1, 1}, {8, 1, 8, 1}, {2, 1}}};
}

}  // namespace

TEST_CASE("pooling with channels last equals the reference on every block of every sharding") {
  for (const std::string& name : kOperators) {
    const Operator& op = get_operator(name);
    for (const Example& given : op.examples())
      for (std::int64_t channels : {0, 8}) {  // as in the example; in vectors
        Example example = given;
        for (Shape& s : example.inputs) s.dims[1] = channels > 0 ? channels : s.dims[1];
        Attributes attributes = complete_attributes(op.name(), op.attributes(), example.attributes).value();
        AxisTable table = op.axes(attributes, example.inputs).value();
        RandomKey key(kSeed);
        for (DType type : {DType::f64, DType::f32}) {
          auto whole = random_operands(example, type, key);
          std::vector<Block> exact;
          for (const Block& b : whole) exact.push_back(converted(b, DType::f64));
          auto expected = call_operator(reference_evaluator(), op, attributes, table, exact,
                                        output_boxes(table, full_ranges(table)), DType::f64)[0];
          for (const Distribution& d : distributions(table, kMaxTasks)) {
            INFO(name << ", " << to_string(table, d) << " in " << to_string(type));
            auto found = run_sharded(channels_last_evaluator(), op, attributes, table, d, distribute(whole, d, key),
                                     type, key)[0];
            double allowed = (type == DType::f64 ? 1e-12 : 1e-5) * largest(expected);
            CHECK(difference(converted(found, DType::f64), expected) <= allowed);
          }
        }
      }
  }
}

TEST_CASE("pooling with channels last takes vectors of channels, and single ones where there are none") {
  for (Kind kind : {Kind::f64, Kind::f32, Kind::bf16, Kind::mixed, Kind::other_mixed})
    for (const Geometry& g : geometries())
      for (const Dims& x : {Dims{2, 8, 16, 16}, Dims{2, 12, 17, 9}, Dims{1, 3, 19, 6}, Dims{3, 24, 7, 10}})
        check_all(kind, 0, x, g);
  for (Kind kind : {Kind::f32, Kind::bf16})
    for (std::size_t shift : {1, 4})
      for (const Geometry& g : geometries()) check_all(kind, shift, {2, 16, 9, 8}, g);
}

TEST_CASE("pixels of many vectors go in chunks, all of a row before the next chunk") {
  // Of bf16: 9, 20, 12 and 11 vectors, in chunks of 9 (no divisor from 4 to 8), 5, 6 and 11.
  for (std::int64_t channels : {72, 160, 96, 88})
    for (const Geometry& g : {Geometry{{3, 3}, {1, 1}, kOne, {1, 1}}, Geometry{{3, 3}, {2, 2}, kNone, {1, 1}},
                              Geometry{{5, 5}, {3, 3}, kNone, {1, 1}}})
      for (Kind kind : {Kind::bf16, Kind::f32}) check_all(kind, 0, {2, channels, 7, 9}, g);
}

TEST_CASE("the images of ResNet and Inception are pooled with channels last, and nothing beside them is read") {
  check_all(Kind::bf16, 0, {2, 64, 112, 112}, {{3, 3}, {2, 2}, kOne, {1, 1}});
  check_all(Kind::bf16, 0, {1, 288, 35, 35}, {{3, 3}, {2, 2}, kNone, {1, 1}});
  check_all(Kind::bf16, 0, {1, 192, 35, 35}, {{3, 3}, {1, 1}, kOne, {1, 1}});
}

TEST_CASE("with channels last the gradient of a maximum goes to the first of equal elements, to minus infinity too") {
  auto steps = [](double v) { return std::round(v); };
  auto infinite = [](double v) { return v < 0.6 ? -std::numeric_limits<double>::infinity() : 1.0; };
  auto unknown = [](double v) { return v < -0.5 ? std::numeric_limits<double>::quiet_NaN() : std::round(2 * v); };
  for (Kind kind : {Kind::f64, Kind::f32, Kind::bf16})
    for (const Geometry& g : geometries())
      for (double (*first)(double) : {+steps, +infinite, +unknown}) check_all(kind, 0, {1, 8, 11, 8}, g, first);
}

TEST_CASE("pooling with channels last takes empty batches, and windows that extend over more than a byte counts") {
  for (Kind kind : {Kind::f64, Kind::f32, Kind::bf16}) {
    check_all(kind, 0, {0, 8, 6, 6}, {{3, 3}, {2, 2}, kOne, {1, 1}});
    check_all(kind, 0, {0, 8, 6, 6}, {{3, 2}, {1, 2}, kNone, {1, 1}});
    check_all(kind, 0, {2, 8, 19, 21}, {{17, 16}, {1, 2}, kOne, {1, 1}});
    check_all(kind, 0, {2, 8, 19, 21}, {{2, 2}, {1, 1}, kNone, {16, 17}});
    check_all(kind, 0, {2, 64, 7, 7}, {{7, 7}, {1, 1}, kNone, {1, 1}});
  }
}
