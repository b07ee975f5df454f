// The paths of CUDA kernels that the operators' small examples do not reach: reductions in two stages, transpositions
// and copies of four elements at once, large positions.
#include <array>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/functions.h"
#include "tests/support/cuda_evaluator.h"

using namespace unity;
using namespace unity::testing;

namespace {

constexpr std::uint64_t kSeed = 20240611;

// The largest difference between kernel and reference, in f64.
double off(const char* name, Attributes given, std::vector<Shape> shapes, std::int64_t index_bound = 0) {
  const Operator& op = get_operator(name);
  Attributes attributes = complete_attributes(name, op.attributes(), std::move(given)).value();
  AxisTable table = op.axes(attributes, shapes).value();
  auto inputs = random_operands({attributes, shapes, index_bound}, DType::f64, RandomKey(kSeed));
  auto boxes = output_boxes(table, full_ranges(table));
  auto expected = call_operator(reference_evaluator(), op, attributes, table, inputs, boxes, DType::f64);
  auto found = call_operator(kernel_evaluator(), op, attributes, table, inputs, boxes, DType::f64);
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) largest = std::max(largest, difference(found[i], expected[i]));
  return largest;
}
Shape real(Dims dims) { return {std::move(dims), DType::f32}; }

}  // namespace

TEST_CASE("CUDA reductions in several parts equal the reference") {
  CHECK(off("reduce_sum", {Dims{0}}, {real({500, 12})}) < 1e-11);           // columns
  CHECK(off("reduce_sum", {Dims{0, 1}}, {real({100, 300})}) < 1e-11);       // to one result
  CHECK(off("reduce_mean", {Dims{0, 2}}, {real({7, 5, 2000})}) < 1e-13);    // rows, of two loops
  CHECK(off("reduce_mean", {Dims{0, 2}}, {real({50, 5, 40, 3})}) < 1e-13);  // columns, of two loops
  CHECK(off("reduce_sum", {Dims{0}}, {real({500, 7})}) < 1e-11);            // columns one by one
  CHECK(off("reduce_sum", {Dims{1}}, {real({3, 100, 6})}) < 1e-11);         // pairs of columns in two loops
  CHECK(off("reduce_sum", {Dims{0}}, {real({20, 3000})}) < 1e-11);          // in one part
  CHECK(off("reduce_sum", {Dims{0}}, {real({3000, 10000})}) < 1e-10);       // in 26, of 115 or 116 rows each
  CHECK(off("reduce_max", {Dims{1}}, {real({3, 9000})}) == 0);
  CHECK(off("reduce_max", {Dims{0}}, {real({300, 4})}) == 0);
  CHECK(off("mean_squared_error", {}, {real({90, 100}), real({90, 100})}) < 1e-13);
  CHECK(off("binary_cross_entropy", {}, {real({90, 100}), real({90, 100})}) < 1e-13);
  CHECK(off("cross_entropy", {}, {real({9000, 3}), {{9000}, DType::i32}}, 3) < 1e-12);
}

TEST_CASE("cross entropy and its gradient equal the reference in pairs of classes and one by one") {
  for (std::int64_t classes : {1, 2, 7, 30, 1000, 4097, 9000}) {  // groups of 32 to 512 threads, and parts of a batch
    INFO(classes << " classes");
    CHECK(off("cross_entropy", {}, {real({3, classes}), {{3}, DType::i32}}, classes) < 1e-12);
    CHECK(off("cross_entropy_gradient", {}, {real({3, classes}), {{3}, DType::i32}, real({})}, classes) < 1e-13);
  }
}

TEST_CASE("a row of logits may be overwritten by its gradient, whose label's element is a probability less one") {
  // Logits 0, 0, log 2, 0 give probabilities 1/5, 1/5, 2/5, 1/5; two rows and dy = 2 make the factor one.
  double x[] = {0, 0, std::log(2.0), 0, 0, 0, std::log(2.0), 0}, dy = 2;
  std::int32_t labels[] = {2, 1};
  Operand logits{x, DType::f64, {2, 4}, {0, 0}, {2, 4}};
  Operand in[] = {logits, {labels, DType::i32, {2}, {0}, {2}}, {&dy, DType::f64, {}, {}, {}}};
  kernel_evaluator()(get_operator("cross_entropy_gradient"), {{}, in, {&logits, 1}, {}});
  const double expected[] = {0.2, 0.2, -0.6, 0.2, 0.2, -0.8, 0.4, 0.2};
  for (int i = 0; i < 8; ++i) CHECK(x[i] == Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("the gradient of a maximum is shared by the elements that attain it, in several parts too") {
  // 3000 of 9000 elements are 1, the largest: each gets 6 / 3000.
  std::vector<double> x(9000), dx(9000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? 1 : 0;
  double y = 1, dy = 6;
  Operand in[] = {
      {x.data(), DType::f64, {9000}, {0}, {9000}}, {&y, DType::f64, {}, {}, {}}, {&dy, DType::f64, {}, {}, {}}};
  Operand out = in[0];
  out.data = dx.data();
  kernel_evaluator()(get_operator("reduce_max_gradient"), {{Dims{0}}, in, {&out, 1}, {}});
  bool right = true;
  for (std::size_t i = 0; i < x.size(); ++i) right = right && dx[i] == (i % 3 == 0 ? 6.0 / 3000 : 0);
  CHECK(right);
}

TEST_CASE("CUDA transpositions, copies and broadcasts of four elements at once equal the reference") {
  CHECK(off("transpose", {Dims{1, 0}}, {real({20, 36})}) == 0);
  CHECK(off("transpose", {Dims{0, 2, 1}}, {real({3, 40, 8})}) == 0);
  CHECK(off("transpose", {Dims{3, 1, 0, 2}}, {real({4, 3, 8, 12})}) == 0);
  CHECK(off("transpose", {Dims{0, 2, 1, 3}}, {real({2, 4, 3, 8})}) == 0);
  CHECK(off("transpose", {Dims{0, 2, 1, 3}}, {real({2, 4, 3, 7})}) == 0);
  CHECK(off("transpose", {Dims{1, 0, 2}}, {{{24, 8, 4}, DType::i32}}, 100) == 0);
  CHECK(off("transpose", {Dims{1, 0}}, {{{24, 8}, DType::i32}}, 100) == 0);
  CHECK(off("concat", {std::int64_t{1}}, {real({6, 8}), real({6, 4}), real({6, 3})}) == 0);
  CHECK(off("split", {std::int64_t{1}, Dims{8, 4, 12}}, {real({6, 24})}) == 0);
  CHECK(off("slice", {Dims{1, 4, 0}, Dims{2, 4, 8}}, {real({4, 12, 8})}) == 0);
  CHECK(off("pad", {Dims{0, 4}, Dims{1, 8}, 0.5}, {real({3, 8})}) == 0);
  CHECK(off("add", {}, {real({5, 1, 8}), real({4, 8})}) == 0);
  CHECK(off("mul", {}, {real({5, 4, 1}), real({5, 4, 8})}) == 0);
  CHECK(off("broadcast_like", {Dims{1}}, {real({3, 8}), real({3, 5, 8})}) == 0);
}

TEST_CASE("CUDA concatenations and splits move all pieces at once, in units of 16 bytes or in elements") {
  for (std::int64_t unit : {2, 1}) {  // doubles
    std::vector<Shape> shapes;
    Dims lengths;
    std::int64_t whole = 0;
    for (std::int64_t i = 0; i < 70; ++i) {  // more than one launch takes
      lengths.push_back(unit * (1 + i % 5));
      whole += lengths.back();
      shapes.push_back(real({3, lengths.back()}));
    }
    CHECK(off("concat", {std::int64_t{1}}, shapes) == 0);
    CHECK(off("split", {std::int64_t{1}, lengths}, {real({3, whole})}) == 0);
  }
  CHECK(off("concat", {std::int64_t{1}}, {{{4, 3}, DType::i32}, {{4, 8}, DType::i32}}, 100) == 0);
}

TEST_CASE("CUDA concatenations convert pieces of another type than the whole, and move bf16 as it is") {
  using cuda::BFloat16;
  std::vector<BFloat16> half;
  std::vector<float> single, out(2 * 5, -1);
  for (int i = 0; i < 6; ++i) half.push_back(cuda::to_bfloat16(static_cast<float>(i)));
  for (int i = 0; i < 4; ++i) single.push_back(static_cast<float>(10 + i));
  Operand in[] = {{half.data(), DType::bf16, {2, 3}, {0, 0}, {2, 3}},
                  {single.data(), DType::f32, {2, 2}, {0, 0}, {2, 2}}};
  Operand whole{out.data(), DType::f32, {2, 5}, {0, 0}, {2, 5}};
  Attributes attributes = complete_attributes("concat", get_operator("concat").attributes(), {std::int64_t{1}}).value();
  kernel_evaluator()(get_operator("concat"), {attributes, in, {&whole, 1}, {}});
  CHECK(out == std::vector<float>{0, 1, 2, 10, 11, 3, 4, 5, 12, 13});
  in[1] = in[0];
  std::vector<BFloat16> joined(12);
  whole = {joined.data(), DType::bf16, {2, 6}, {0, 0}, {2, 6}};
  kernel_evaluator()(get_operator("concat"), {attributes, in, {&whole, 1}, {}});
  for (std::size_t i = 0; i < 12; ++i) CHECK(joined[i].bits == half[i / 6 * 3 + i % 3].bits);
}

TEST_CASE("positions in a nest are exact up to its last iteration, on either side of 2^31 iterations") {
  for (std::int64_t inner : {1, 2, 3, 5, 7, 641, 65536, 1000003})
    for (std::int64_t total : {std::int64_t{INT32_MAX}, std::int64_t{1} << 33}) {
      std::int64_t outer = total / inner;
      // Block 0 lies dense but for a gap of one after each inner loop, which keeps the loops apart.
      cuda::Walk<2> walk({{outer, {inner + 1, 0}}, {inner, {1, 1}}});
      for (std::int64_t i : {std::int64_t{0}, inner - 1, inner, outer * inner / 2 + 1, outer * inner - 1}) {
        INFO("iteration " << i << " of " << outer << " times " << inner);
        auto at = walk.locate(i);
        CHECK(at[0] == i + i / inner);
        CHECK(at[1] == (inner == 1 ? 0 : i % inner));
      }
    }
}

TEST_CASE("positions of several iterations at once are those of one at a time") {
  cuda::Walk<2> walk({{7, {1000, 0}}, {1, {5, 5}}, {30, {20, 300}}, {5, {2, 7}}});
  std::uint32_t i[] = {0, 4, 5, 149, 150, 1049};
  cuda::Positions<2> p[6];
  std::uint32_t left[6];
  std::copy(std::begin(i), std::end(i), left);
  walk.locate_small(left, p);
  for (int k = 0; k < 6; ++k) {
    CHECK(p[k][0] == walk.locate(i[k])[0]);
    CHECK(p[k][1] == walk.locate(i[k])[1]);
  }
  CHECK(p[5][0] == 6 * 1000 + 29 * 20 + 4 * 2);
}

TEST_CASE("loops too long for one launch are cut in two at a multiple of eight") {
  cuda::LoopHalves<2> halves({{3, {100, 0}}, {40, {2, 1}}});
  CHECK(halves.first[1].length == 16);
  CHECK(halves.second[1].length == 24);
  CHECK(halves.second[0].length == 3);
  CHECK(halves.begin == std::array<std::int64_t, 2>{32, 16});
}

TEST_CASE("element-wise kernels agree in runs and without, in bf16, in f32 and between them") {
  using cuda::BFloat16;
  for (std::int64_t columns : {8, 24, 6, 30, 5})  // runs of eight, of two, none
    for (std::int64_t rows : {1, 3, 40})          // one loop or two
      for (std::int64_t first : {0, 1})           // aligned or not
        for (bool bias_half : {false, true})
          for (bool half : {false, true}) {
            std::int64_t n = rows * columns;
            std::vector<float> x(first + n), bias(columns), y(first + n, -1);
            std::vector<BFloat16> xh, bias_h, yh(first + n, {0x7f7f});
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 61) - 30);
            for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 9) / 4;
            for (float v : x) xh.push_back(cuda::to_bfloat16(v));
            for (float v : bias) bias_h.push_back(cuda::to_bfloat16(v));
            DType type = half ? DType::bf16 : DType::f32;
            auto at = [&](auto& f, auto& h) { return half ? static_cast<void*>(&h[first]) : &f[first]; };
            Operand in[] = {{at(x, xh), type, {rows, columns}, {0, 0}, {rows, columns}},
                            {bias_half ? static_cast<void*>(bias_h.data()) : bias.data(),
                             bias_half ? DType::bf16 : DType::f32,
                             {columns},
                             {0},
                             {columns}}};
            Operand out = in[0];
            out.data = at(y, yh);
            kernel_evaluator()(get_operator("add"), {{}, in, {&out, 1}, {}});
            bool right = true;
            for (std::int64_t i = 0; i < n; ++i) {
              float expected = x[first + i] + bias[i % columns];  // a multiple of 1/4 below 2^5: exact in bf16
              right = right && (half ? cuda::to_float(yh[first + i]) : y[first + i]) == expected;
            }
            INFO(rows << " x " << columns << " from " << first << ", half " << half << ", bias " << bias_half);
            CHECK(right);
            if (first == 1) CHECK((half ? yh[0].bits == 0x7f7f : y[0] == -1));
          }
}

TEST_CASE("gelu and its gradient in f32 are within 5e-7 of those in f64, and exact where little is left of them") {
  namespace functions = cuda::functions;
  double off = 0, off_slope = 0;
  for (int i = -1200; i <= 1200; ++i) {
    float x = static_cast<float>(i) / 100;
    double scale = std::max(1.0, std::abs(double{x}));
    off = std::max(off, std::abs(functions::Gelu<float>{0}(x)-functions::Gelu<double>{0}(x)) / scale);
    off_slope = std::max(off_slope,
                         std::abs(functions::GeluGradient<float>{0}(x, 1) - functions::GeluGradient<double>{0}(x, 1)));
  }
  CHECK(off < 5e-7);
  CHECK(off_slope < 5e-7);
  CHECK(functions::Gelu<float>{0}(0) == 0);
  CHECK(functions::Gelu<float>{0}(40) == 40);
  CHECK(functions::Gelu<float>{0}(-40) == 0);
  float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(functions::Gelu<float>{0}(nan) != functions::Gelu<float>{0}(nan));
}

TEST_CASE("a CUDA maximum is NaN when an operand is") {
  double x[] = {1, std::numeric_limits<double>::quiet_NaN(), 3}, y = 0;
  Operand in{x, DType::f64, {3}, {0}, {3}}, out{&y, DType::f64, {}, {}, {}};
  kernel_evaluator()(get_operator("reduce_max"), {{Dims{0}}, {&in, 1}, {&out, 1}, {}});
  CHECK(y != y);
}

TEST_CASE("CUDA argmax takes the first of equal values; a label outside the classes makes the loss NaN") {
  double x[] = {2, 5, 5, 1, 7, 7}, loss = 0;
  std::int32_t found[2] = {}, labels[] = {0, 3};
  Operand in{x, DType::f64, {2, 3}, {0, 0}, {2, 3}}, out{found, DType::i32, {2}, {0}, {2}};
  kernel_evaluator()(get_operator("argmax"), {{std::int64_t{1}}, {&in, 1}, {&out, 1}, {}});
  CHECK(found[0] == 1);
  CHECK(found[1] == 1);
  Operand both[] = {in, {labels, DType::i32, {2}, {0}, {2}}}, scalar{&loss, DType::f64, {}, {}, {}};
  kernel_evaluator()(get_operator("cross_entropy"), {{}, both, {&scalar, 1}, {}});
  CHECK(loss != loss);
}
