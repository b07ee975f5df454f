// The paths of CUDA kernels that the operators' small examples do not reach: reductions in two stages, transpositions
// and copies of four elements at once, large positions.
#include <limits>

#include <catch2/catch.hpp>

#include "runtime/cuda/walk.h"
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
  CHECK(off("reduce_max", {Dims{1}}, {real({3, 9000})}) == 0);
  CHECK(off("reduce_max", {Dims{0}}, {real({300, 4})}) == 0);
  CHECK(off("mean_squared_error", {}, {real({90, 100}), real({90, 100})}) < 1e-13);
  CHECK(off("binary_cross_entropy", {}, {real({90, 100}), real({90, 100})}) < 1e-13);
  CHECK(off("cross_entropy", {}, {real({9000, 3}), {{9000}, DType::i32}}, 3) < 1e-12);
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
  CHECK(off("transpose", {Dims{1, 0}}, {{{24, 8}, DType::i32}}, 100) == 0);
  CHECK(off("concat", {std::int64_t{1}}, {real({6, 8}), real({6, 4}), real({6, 3})}) == 0);
  CHECK(off("split", {std::int64_t{1}, Dims{8, 4, 12}}, {real({6, 24})}) == 0);
  CHECK(off("slice", {Dims{1, 4, 0}, Dims{2, 4, 8}}, {real({4, 12, 8})}) == 0);
  CHECK(off("pad", {Dims{0, 4}, Dims{1, 8}, 0.5}, {real({3, 8})}) == 0);
  CHECK(off("add", {}, {real({5, 1, 8}), real({4, 8})}) == 0);
  CHECK(off("mul", {}, {real({5, 4, 1}), real({5, 4, 8})}) == 0);
  CHECK(off("broadcast_like", {Dims{1}}, {real({3, 8}), real({3, 5, 8})}) == 0);
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
