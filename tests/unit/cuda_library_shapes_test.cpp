// What CUDA's libraries are told about products and windows, against the reference evaluator: the shapes are followed
// by plain loops as the libraries' documentation defines them, over every example and sharding.
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "core/ops/pooling.h"
#include "core/ops/reference.h"
#include "runtime/cuda/library/conv_shapes.h"
#include "runtime/cuda/library/cublas_shapes.h"
#include "tests/support/ops_sharded.h"

using namespace unity;
using namespace unity::testing;
using namespace unity::cuda;

namespace {

constexpr std::uint64_t kSeed = 20220711;
constexpr int kMaxTasks = 12;

// Column-major, as cublasLtMatmul: element (i, j) of a stored matrix is at i + j ld.
void column_major_product(const GemmShape& g, const double* a, const double* b, double* d) {
  for (std::int64_t p = 0; p < g.batch; ++p)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < g.k; ++l)
          sum += a[p * g.stride_a + (g.transpose_a ? l + i * g.lda : i + l * g.lda)] *
                 b[p * g.stride_b + (g.transpose_b ? j + l * g.ldb : l + j * g.ldb)];
        double& to = d[p * g.stride_d + i + j * g.ldd];
        to = g.relu ? std::max(sum, 0.0) : g.add ? to + sum : sum;
      }
}

void gemm(const Operator& op, const OpCall& call) {
  GemmShape g = gemm_shape(op.name(), call.attributes, call.inputs, call.outputs).value();
  // What cuBLAS checks of a layout.
  CHECK(g.lda >= g.rows_a());
  CHECK(g.ldb >= g.rows_b());
  CHECK(g.ldd >= g.m);
  CHECK(g.rows_a() * g.columns_a() * g.batch == call.inputs[g.a].elements());
  CHECK(g.rows_b() * g.columns_b() * g.batch == call.inputs[g.b].elements());
  if (g.add) std::copy_n(call.inputs.back().as<double>(), call.outputs[0].elements(), call.outputs[0].as<double>());
  column_major_product(g, call.inputs[g.a].as<double>(), call.inputs[g.b].as<double>(), call.outputs[0].as<double>());
}

// f(at in x, at in w, at in y) for every product of a cross-correlation of zero-padded x, as cuDNN's.
template <class F>
void correlate(const ConvShape& s, F&& f) {
  std::int64_t per_group = s.w[0] / s.groups();
  for_each_index({s.y.begin(), s.y.end()}, [&](const Dims& y, std::int64_t) {
    for_each_index({s.w[1], s.w[2], s.w[3]}, [&](const Dims& k, std::int64_t) {
      std::int64_t h = y[2] * s.stride[0] + k[1] * s.dilation[0] - s.pre[0];
      std::int64_t v = y[3] * s.stride[1] + k[2] * s.dilation[1] - s.pre[1];
      if (h < 0 || h >= s.x[2] || v < 0 || v >= s.x[3]) return;
      std::int64_t c = y[1] / per_group * s.w[1] + k[0];
      f(s.x_first + y[0] * s.x_strides[0] + c * s.x_strides[1] + h * s.x_strides[2] + v * s.x_strides[3],
        y[1] * s.w_strides[0] + k[0] * s.w_strides[1] + k[1] * s.w_strides[2] + k[2] * s.w_strides[3],
        y[0] * s.y_strides[0] + y[1] * s.y_strides[1] + y[2] * s.y_strides[2] + y[3] * s.y_strides[3]);
    });
  });
}

void convolution(const Operator& op, const OpCall& call) {
  ConvOperands at = conv_operands(op.name());
  const Operand &x = operand(call.inputs, call.outputs, at.x), &w = operand(call.inputs, call.outputs, at.w),
                &y = operand(call.inputs, call.outputs, at.y);
  ConvShape s = conv_shape(call.attributes, x, w, y).value();
  for (std::size_t d : {0, 1}) {  // what cuDNN checks of a convolution
    CHECK(s.pre[d] >= 0);
    CHECK(s.post[d] >= 0);
    std::int64_t range = (s.w[d + 2] - 1) * s.dilation[d] + 1;
    CHECK((s.x[d + 2] + s.pre[d] + s.post[d] - range) / s.stride[d] + 1 == s.y[d + 2]);
  }
  const Operand& result = call.outputs[0];
  if (op.accumulates())
    std::copy_n(call.inputs.back().as<double>(), result.elements(), result.as<double>());
  else
    std::fill_n(result.as<double>(), result.elements(), 0.0);
  double *xs = x.as<double>(), *ws = w.as<double>(), *ys = y.as<double>();
  correlate(s, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    if (at.y == 2)
      ys[o] += xs[i] * ws[k];
    else if (at.x > 2)
      xs[i] += ys[o] * ws[k];
    else
      ws[k] += ys[o] * xs[i];
  });
  if (op.name() == "conv2d" && text_attribute(call.attributes, 4) == "relu")
    for (std::int64_t i = 0; i < y.elements(); ++i) ys[i] = std::max(ys[i], 0.0);
}

// As cudnnPoolingForward and, for means, cudnnPoolingBackward.
Result<void> pool(const Operator& op, const OpCall& call) {
  bool mean = op.name() != "max_pool2d", backward = op.name() == "avg_pool2d_gradient";
  const Operand &x = backward ? call.outputs[0] : call.inputs[0], &y = backward ? call.inputs[0] : call.outputs[0];
  Windows windows = mean ? avg_pool2d_windows(op.name(), call.attributes, x.global).value()
                         : max_pool2d_windows(op.name(), call.attributes, x.global).value();
  PoolShape s = UNITY_TRY(pool_shape(windows, x, y));
  bool include = mean && int_attribute(call.attributes, 3) != 0;
  double *xs = x.as<double>(), *ys = y.as<double>();
  if (backward) std::fill_n(xs, x.elements(), 0.0);
  for_each_index({s.n * s.c, s.oh, s.ow}, [&](const Dims& at, std::int64_t o) {
    std::vector<std::int64_t> inside;
    for_each_index({s.kernel[0], s.kernel[1]}, [&](const Dims& k, std::int64_t) {
      std::int64_t h = at[1] * s.stride[0] - s.pad[0] + k[0], v = at[2] * s.stride[1] - s.pad[1] + k[1];
      if (h >= 0 && h < s.h && v >= 0 && v < s.w) inside.push_back((at[0] * s.h + h) * s.w + v);
    });
    auto count = static_cast<double>(include ? s.kernel[0] * s.kernel[1] : static_cast<std::int64_t>(inside.size()));
    double sum = 0, max = -std::numeric_limits<double>::infinity();
    for (std::int64_t i : inside)
      if (backward)
        xs[i] += ys[o] / count;
      else
        sum += xs[i], max = std::max(max, xs[i]);
    if (!backward) ys[o] = mean ? sum / count : max;
  });
  return {};
}

// Compares with the reference on every block of every sharding of every example.
void check_shardings(std::string_view name, const Evaluator& evaluate) {
  const Operator& op = get_operator(name);
  std::vector<Example> examples = op.examples();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    Attributes attributes = complete_attributes(name, op.attributes(), examples[i].attributes).value();
    AxisTable table = op.axes(attributes, examples[i].inputs).value();
    RandomKey key = RandomKey(kSeed).with(hash_text(name));
    auto whole = random_operands(examples[i], DType::f64, key);
    auto expected = call_operator(reference_evaluator(), op, attributes, table, whole,
                                  output_boxes(table, full_ranges(table)), DType::f64, key);
    for (const Distribution& d : distributions(table, kMaxTasks)) {
      INFO(name << " example " << i << ", " << to_string(table, d) << ", seed " << kSeed);
      auto found = run_sharded(evaluate, op, attributes, table, d, distribute(whole, d, key), DType::f64, key);
      CHECK(difference(found[0], expected[0]) <= 1e-12);
    }
  }
}

Operand block(Dims extent, Dims offset, Dims global) {
  return {nullptr, DType::f32, std::move(extent), std::move(offset), std::move(global)};
}
Operand whole(const Dims& dims) { return block(dims, Dims(dims.size(), 0), dims); }

}  // namespace

TEST_CASE("cuBLAS computes row-major products of every block as the reference does") {
  for (const char* name :
       {"matmul", "matmul_accumulate", "matmul_weight_gradient", "matmul_weight_gradient_accumulate", "batch_matmul"})
    check_shardings(name, gemm);
}

TEST_CASE("cuDNN computes the convolution of every block as the reference does") {
  for (const char* name : {"conv2d", "conv2d_input_gradient", "conv2d_input_gradient_accumulate",
                           "conv2d_weight_gradient", "conv2d_weight_gradient_accumulate"})
    check_shardings(name, convolution);
}

TEST_CASE("convolutions whose windows are one element are products, each block of them as the reference") {
  for (const char* name : {"conv2d", "conv2d_input_gradient", "conv2d_input_gradient_accumulate"}) {
    int taken = 0;
    check_shardings(name, [&](const Operator& op, const OpCall& call) {
      auto g = conv_gemm_shape(op.name(), call.attributes, call.inputs, call.outputs);
      if (!g) return convolution(op, call);
      ++taken;
      const Operand& result = call.outputs[0];
      if (g->add) std::copy_n(call.inputs.back().as<double>(), result.elements(), result.as<double>());
      column_major_product(*g, call.inputs[g->a].as<double>(), call.inputs[g->b].as<double>(), result.as<double>());
    });
    CHECK(taken > 0);
  }
  CHECK(!conv_gemm_shape("conv2d_weight_gradient", {}, {}, {}));
}

TEST_CASE("cuDNN computes pooling of every block it takes as the reference does") {
  for (const char* name : {"max_pool2d", "avg_pool2d", "avg_pool2d_gradient"}) {
    int taken = 0;
    check_shardings(name, [&](const Operator& op, const OpCall& call) {
      if (pool(op, call))
        ++taken;
      else
        op.reference(call);
    });
    INFO(name);
    CHECK(taken > 0);
  }
}

TEST_CASE("a convolution whose stride does not divide keeps symmetric pads") {
  // 224 with pads of 3, kernel 7, stride 2: the last window ends at 111 * 2 - 3 + 7 = 226, two behind the end.
  Attributes attributes = {Dims{2, 2}, Dims{3, 3, 3, 3}, Dims{1, 1}, std::int64_t{1}, std::string("none")};
  ConvShape s = conv_shape(attributes, whole({8, 3, 224, 224}), whole({64, 3, 7, 7}), whole({8, 64, 112, 112})).value();
  CHECK(s.pre == std::array<std::int64_t, 2>{3, 3});
  CHECK(s.post == std::array<std::int64_t, 2>{3, 3});
  CHECK(!s.crops);
}

TEST_CASE("pads that are written out leave a convolution without pads") {
  // Of the last of three parts of an image of 5 x 5 under a filter of 3 x 3 with pads of 1: one row of y reads two rows
  // of x and one of pads.
  Attributes attributes = {Dims{1, 1}, Dims{1, 1, 1, 1}, Dims{1, 1}, std::int64_t{1}, std::string("none")};
  Operand x = block({2, 4, 2, 5}, {0, 0, 3, 0}, {2, 4, 5, 5}), w = whole({6, 4, 3, 3});
  Operand y = block({2, 6, 1, 5}, {0, 0, 4, 0}, {2, 6, 5, 5});
  ConvShape s = conv_shape(attributes, x, w, y).value();
  CHECK(s.pre == std::array<std::int64_t, 2>{0, 1});
  CHECK(s.post == std::array<std::int64_t, 2>{1, 1});
  ConvShape padded = with_pads_in_x(s);
  CHECK(padded.x == std::array<std::int64_t, 4>{2, 4, 3, 7});
  CHECK(padded.x_strides == std::array<std::int64_t, 4>{84, 21, 7, 1});
  CHECK(padded.pre == std::array<std::int64_t, 2>{0, 0});
  CHECK(padded.post == std::array<std::int64_t, 2>{0, 0});
  CHECK(padded.y == s.y);
}

TEST_CASE("rows of a block that windows do not reach are left out") {
  // Windows of one row at every third: rows 0, 3, 6 of 12; the block holds rows 2 to 11, y rows 1 and 2.
  Attributes attributes = {Dims{3, 1}, Dims{0, 0, 0, 0}, Dims{1, 1}, std::int64_t{1}, std::string("none")};
  Operand x = block({1, 1, 10, 5}, {0, 0, 2, 0}, {1, 1, 12, 5}), w = whole({1, 1, 1, 1});
  Operand y = block({1, 1, 2, 5}, {0, 0, 1, 0}, {1, 1, 4, 5});
  ConvShape s = conv_shape(attributes, x, w, y).value();
  CHECK(s.x == std::array<std::int64_t, 4>{1, 1, 4, 5});  // from row 3 to row 6
  CHECK(s.x_strides == std::array<std::int64_t, 4>{50, 50, 5, 1});
  CHECK(s.x_first == 5);
  CHECK(s.crops);
}

TEST_CASE("products and convolutions that libraries cannot take are declined with a reason") {
  Attributes none = {std::string("none"), std::int64_t{0}};
  CHECK(!gemm_shape("matmul", none, std::vector{whole({0, 4}), whole({4, 4})}, std::vector{whole({0, 4})}));
  CHECK(!gemm_shape("add", {}, std::vector{whole({4}), whole({4})}, std::vector{whole({4})}));
  auto far = gemm_shape("matmul", none, std::vector{whole({std::int64_t{1} << 31, 1}), whole({1, 1})},
                        std::vector{whole({std::int64_t{1} << 31, 1})});
  REQUIRE(!far);
  CHECK(far.error().message == "matmul: a size of 2147483648 is over 32 bits");
}

TEST_CASE("a bias behind a product and relu behind that are its epilogue, where nobody else reads what is between") {
  auto operand = [](const Dims& extent) {
    return Operand{nullptr, DType::f32, extent, Dims(extent.size(), 0), extent};
  };
  const ChainStep product{
      .op = &get_operator("matmul"), .attributes = {std::string("none"), std::int64_t{0}}, .operands = {0, 1}};
  constexpr int kBefore = ChainStep::kBefore;
  ChainStep add{.op = &get_operator("add"), .operands = {2, kBefore}},
      relu{.op = &get_operator("relu"), .operands = {kBefore}, .kept = 3};
  auto found = [&](const std::vector<ChainStep>& steps, const Dims& third) {
    std::vector<Operand> operands = {operand({4, 6}), operand({6, 8}), operand(third), operand({4, 8}),
                                     operand({4, 8})};
    return epilogue_of(Chain(steps, 3), operands);
  };
  EpilogueSteps both = found({product, add, relu}, {8});
  CHECK(both.bias == 2);
  CHECK(both.relu);
  CHECK(both.steps == 3);
  CHECK(found({product, add, relu}, {1, 8}).steps == 3);
  // A column, and a whole matrix, are no bias.
  for (const Dims& other : {Dims{4, 1}, Dims{4, 8}}) {
    EpilogueSteps none = found({product, add, relu}, other);
    CHECK(none.bias == -1);
    CHECK(none.steps == 1);
  }
  // Others read the sum: relu is a step behind it.
  add.kept = 4;
  EpilogueSteps one = found({product, add, relu}, {8});
  CHECK(one.bias == 2);
  CHECK(!one.relu);
  CHECK(one.steps == 2);
  EpilogueSteps alone = found({product, relu}, {8});
  CHECK(alone.relu);
  CHECK(alone.steps == 2);
  ChainStep kept = product;
  kept.kept = 4;
  CHECK(found({kept, relu}, {8}).steps == 1);
  relu.op = &get_operator("gelu");
  CHECK(found({product, relu}, {8}).steps == 1);
}
