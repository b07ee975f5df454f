// The kernels of the CUDA backend, compiled for the host, at sizes that the operators' small examples do not reach:
// rows too long for registers, more rows than groups share out, runs of equal indices over several chunks.
#include <catch2/catch.hpp>

#include "core/ops/reference.h"
#include "tests/support/cuda_evaluator.h"

using namespace unity;
using namespace unity::testing;

namespace {

// How reals are held.
enum class As { f64, f32, bf16 };

// The largest difference from the reference in f64, relative to the result's largest element.
double error_of(std::string_view name, Attributes given, std::vector<Dims> reals, std::optional<Dims> ids = {},
                std::int64_t bound = 0, std::size_t ids_at = 0, As as = As::f64) {
  const Operator& op = get_operator(name);
  Example example{complete_attributes(op.name(), op.attributes(), std::move(given)).value(), {}, bound};
  for (const Dims& dims : reals) example.inputs.push_back({dims, DType::f32});
  if (ids) example.inputs.insert(example.inputs.begin() + static_cast<std::ptrdiff_t>(ids_at), Shape{*ids, DType::i32});
  AxisTable table = op.axes(example.attributes, example.inputs).value();
  const DType type = as == As::f64 ? DType::f64 : DType::f32;
  auto given_operands = random_operands(example, type, RandomKey(20220711)), operands = given_operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Block& b = given_operands[i];
    for (std::int64_t k = 0; as == As::bf16 && b.dtype == DType::f32 && k < b.box.elements(); ++k)
      b.set_real(k, static_cast<double>(cuda::to_float(cuda::to_bfloat16(static_cast<float>(b.real(k))))));
    operands[i] = converted(b, DType::f64);
  }
  auto boxes = output_boxes(table, full_ranges(table));
  auto expected = call_operator(reference_evaluator(), op, example.attributes, table, operands, boxes, DType::f64);
  auto found = call_operator(as == As::bf16 ? mixed_evaluator(~std::uint64_t{0}) : kernel_evaluator(), op,
                             example.attributes, table, given_operands, boxes, type);
  double worst = 0;
  for (std::size_t o = 0; o < expected.size(); ++o) {
    double largest = 1;
    for (std::int64_t i = 0; i < expected[o].box.elements(); ++i)
      largest = std::max(largest, std::abs(expected[o].real(i)));
    worst = std::max(worst, difference(converted(found[o], DType::f64), expected[o]) / largest);
  }
  return worst;
}

double error_of(As as, std::string_view name, Attributes given, std::vector<Dims> reals, std::optional<Dims> ids = {},
                std::int64_t bound = 0) {
  return error_of(name, std::move(given), std::move(reals), std::move(ids), bound, 0, as);
}

constexpr double kAllowed = 1e-12;
const Attributes kEpsilon = {1e-5};

}  // namespace

TEST_CASE("rows that a thread cannot hold in registers are read again") {
  CHECK(error_of("softmax", {}, {{3, 50}}) < kAllowed);
  CHECK(error_of("softmax_gradient", {}, {{3, 50}, {3, 50}}) < kAllowed);
  CHECK(error_of("causal_softmax", {}, {{2, 40, 50}}) < kAllowed);
  CHECK(error_of("masked_softmax", {}, {{2, 3, 50}, {3, 50}}) < kAllowed);
  CHECK(error_of("layer_norm", kEpsilon, {{3, 50}, {50}, {50}}) < kAllowed);
  CHECK(error_of("layer_norm_gradient", kEpsilon, {{3, 50}, {50}, {3, 50}}) < kAllowed);
  CHECK(error_of("rms_norm", kEpsilon, {{3, 50}, {50}}) < kAllowed);
  CHECK(error_of("rms_norm_gradient", kEpsilon, {{3, 50}, {50}, {3, 50}}) < kAllowed);
  CHECK(error_of("group_norm", {std::int64_t{2}}, {{3, 4, 5, 7}, {4}, {4}}) < kAllowed);
  CHECK(error_of("group_norm_gradient", {std::int64_t{2}}, {{3, 4, 5, 7}, {4}, {3, 4, 5, 7}}) < kAllowed);
}

TEST_CASE("groups that take several rows sum the gradients of all of them") {
  CHECK(error_of("layer_norm_gradient", kEpsilon, {{5000, 5}, {5}, {5000, 5}}) < kAllowed);
  CHECK(error_of("layer_norm_gradient", kEpsilon, {{5000, 20}, {20}, {5000, 20}}) < kAllowed);
  CHECK(error_of("rms_norm_gradient", kEpsilon, {{5000, 5}, {5}, {5000, 5}}) < kAllowed);
  CHECK(error_of("rms_norm_gradient", kEpsilon, {{5000, 20}, {20}, {5000, 20}}) < kAllowed);
}

TEST_CASE("norms take four elements of a row at once where it allows that") {
  for (As as : {As::f32, As::bf16})
    for (const Dims& x : {Dims{5, 8}, Dims{3, 100}, Dims{1200, 12}, Dims{900, 6}, Dims{3, 5000}, Dims{2, 18000}}) {
      INFO(x[0] << " rows of " << x[1] << (as == As::bf16 ? " in bf16" : " in f32"));
      Dims n{x[1]};
      const double allowed = as == As::bf16 ? 0.01 : 2e-5;
      CHECK(error_of(as, "layer_norm", kEpsilon, {x, n, n}) < allowed);
      CHECK(error_of(as, "layer_norm_gradient", kEpsilon, {x, n, x}) < allowed);
      CHECK(error_of(as, "rms_norm", kEpsilon, {x, n}) < allowed);
      CHECK(error_of(as, "rms_norm_gradient", kEpsilon, {x, n, x}) < allowed);
    }
}

TEST_CASE("channels are summed in parts of the batch, of long planes and of short ones") {
  for (const Dims& x : {Dims{7, 3, 6, 7}, Dims{300, 3}, Dims{300, 3, 2, 5}, Dims{5000, 1, 32}}) {
    Dims c{x[1]};
    CHECK(error_of("moments", {}, {x}) < kAllowed);
    CHECK(error_of("moments_gradient", {}, {x, c, c}) < kAllowed);
    CHECK(error_of("batch_norm", {2.0}, {x, c, c, c, c}) < kAllowed);
    CHECK(error_of("batch_norm_gradient", {2.0}, {x, c, c, c, x}) < kAllowed);
    CHECK(error_of("batch_norm_gradient", {2.0}, {x, c, c, c, x, x}) < kAllowed);
  }
}

TEST_CASE("runs of equal indices go over chunks of the sorted entries") {
  for (std::int64_t rows : {1, 3, 40, 5000}) {
    INFO("table of " << rows << " rows");
    for (std::int64_t count : {1, 63, 64, 65, 1000}) {
      CHECK(error_of("embedding", {}, {{rows, 37}}, Dims{count}, rows) < kAllowed);
      CHECK(error_of("embedding_gradient", {}, {{count, 5}, {rows, 5}}, Dims{count}, rows) < kAllowed);
      CHECK(error_of("embedding_bag", {std::string("mean")}, {{rows, 37}}, Dims{count, 3}, rows) < kAllowed);
      CHECK(error_of("embedding_bag_gradient", {std::string("mean")}, {{count, 5}, {rows, 5}}, Dims{count, 3}, rows) <
            kAllowed);
      CHECK(error_of("gather", {std::int64_t{1}}, {{3, rows, 2}}, Dims{count}, rows, 1) < kAllowed);
      CHECK(error_of("gather_gradient", {std::int64_t{1}}, {{3, count, 2}, {3, rows, 2}}, Dims{count}, rows) <
            kAllowed);
    }
  }
  CHECK(error_of("embedding_gradient", {}, {{200, 700}, {3, 700}}, Dims{200}, 3) < kAllowed);  // two groups to a chunk
}

TEST_CASE("runs of equal indices are summed four columns at once where rows allow it") {
  for (As as : {As::f32, As::bf16})
    for (std::int64_t columns : {8, 6, 264}) {
      INFO(columns << " columns" << (as == As::bf16 ? " in bf16" : ""));
      const double allowed = as == As::bf16 ? 0.005 : 1e-5;
      for (std::int64_t count : {64, 200}) {
        CHECK(error_of(as, "embedding_gradient", {}, {{count, columns}, {9, columns}}, Dims{count}, 9) < allowed);
        CHECK(error_of(as, "embedding_bag_gradient", {std::string("mean")}, {{count, columns}, {9, columns}},
                       Dims{count, 3}, 9) < allowed);
        CHECK(error_of(as, "gather_gradient", {std::int64_t{1}}, {{3, count, columns}, {3, 40, columns}}, Dims{count},
                       40) < allowed);
      }
    }
  CHECK(error_of(As::f32, "embedding_gradient", {}, {{9000, 8}, {70, 8}}, Dims{9000}, 70) < 1e-5);  // a radix sort
}

TEST_CASE("rows are looked up four elements at once where they allow it") {
  for (As as : {As::f64, As::f32, As::bf16})
    for (std::int64_t columns : {32, 34, 700}) {
      const double allowed = as == As::bf16 ? 0.005 : 1e-6;
      CHECK(error_of(as, "embedding", {}, {{9, columns}}, Dims{20}, 9) < allowed);
      CHECK(error_of("gather", {std::int64_t{1}}, {{3, 9, columns}}, Dims{20}, 9, 1, as) < allowed);
    }
}

TEST_CASE("products, attention, interactions and routing at sizes that tiles do not divide") {
  CHECK(error_of("matmul", {}, {{3, 7, 9}, {9, 11}}) < kAllowed);
  CHECK(error_of("matmul_weight_gradient", {}, {{3, 7, 9}, {3, 7, 11}}) < kAllowed);
  CHECK(error_of("batch_matmul", {std::int64_t{1}, std::int64_t{1}}, {{3, 9, 7}, {3, 5, 9}}) < kAllowed);
  CHECK(error_of("attention", {0.5, std::int64_t{1}}, {{2, 9, 5}, {2, 6, 5}, {2, 6, 3}}) < kAllowed);
  CHECK(error_of("attention_gradient", {0.5, std::int64_t{1}}, {{2, 9, 5}, {2, 6, 5}, {2, 6, 3}, {2, 9, 3}}) <
        kAllowed);
  CHECK(error_of("attention", {0.5}, {{4300, 1, 2}, {4300, 2, 2}, {4300, 2, 2}}) < kAllowed);  // more rows than warps
  CHECK(error_of("attention_gradient", {0.5}, {{2200, 2, 2}, {2200, 3, 2}, {2200, 3, 2}, {2200, 2, 2}}) < kAllowed);
  CHECK(error_of("dot_interaction", {}, {{3, 9, 5}}) < kAllowed);
  CHECK(error_of("dot_interaction_gradient", {}, {{3, 9, 5}, {3, 36}}) < kAllowed);
  CHECK(error_of("dot_interaction", {}, {{2, 27, 20}}) < kAllowed);  // runs of four, of which a thread takes four
  CHECK(error_of("dot_interaction_gradient", {}, {{2, 27, 20}, {2, 351}}) < kAllowed);
  CHECK(error_of("top1_dispatch", {std::int64_t{20}}, {{2, 200, 5}}) == 0);
}
