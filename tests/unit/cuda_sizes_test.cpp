// The kernels of the CUDA backend, compiled for the host, at sizes that the operators' small examples do not reach:
// rows too long for registers, more rows than groups share out, runs of equal indices over several chunks.
#include <catch2/catch.hpp>

#include "core/ops/reference.h"
#include "runtime/cuda/call.h"
#include "tests/support/ops_sharded.h"

using namespace unity;
using namespace unity::testing;

namespace {

void run_kernel(const Operator& op, const OpCall& call) {
  std::vector<std::vector<std::byte>> blocks;
  std::function<void*(std::int64_t)> scratch = [&](std::int64_t bytes) {
    blocks.emplace_back(static_cast<std::size_t>(bytes), std::byte{0x7f});
    return static_cast<void*>(blocks.back().data());
  };
  cuda::StepValues step;
  cuda::find_kernel(op)({call.attributes, call.inputs, call.outputs, call.random, &step, nullptr, scratch});
}

// The largest difference from the reference, in f64, relative to the result's largest element.
double error_of(std::string_view name, Attributes given, std::vector<Dims> reals, std::optional<Dims> ids = {},
                std::int64_t bound = 0, std::size_t ids_at = 0) {
  const Operator& op = get_operator(name);
  Example example{complete_attributes(op.name(), op.attributes(), std::move(given)).value(), {}, bound};
  for (const Dims& dims : reals) example.inputs.push_back({dims, DType::f32});
  if (ids) example.inputs.insert(example.inputs.begin() + static_cast<std::ptrdiff_t>(ids_at), Shape{*ids, DType::i32});
  AxisTable table = op.axes(example.attributes, example.inputs).value();
  auto operands = random_operands(example, DType::f64, RandomKey(20220711));
  auto boxes = output_boxes(table, full_ranges(table));
  auto expected = call_operator(reference_evaluator(), op, example.attributes, table, operands, boxes, DType::f64);
  auto found = call_operator(run_kernel, op, example.attributes, table, operands, boxes, DType::f64);
  double worst = 0;
  for (std::size_t o = 0; o < expected.size(); ++o) {
    double largest = 1;
    for (std::int64_t i = 0; i < expected[o].box.elements(); ++i)
      largest = std::max(largest, std::abs(expected[o].real(i)));
    worst = std::max(worst, difference(found[o], expected[o]) / largest);
  }
  return worst;
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
