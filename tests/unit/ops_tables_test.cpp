#include <catch2/catch.hpp>

#include "core/ops/operator.h"

using namespace unity;

namespace {

AxisTable table_of(std::string_view op, Attributes given, std::vector<Shape> inputs) {
  const Operator& o = get_operator(op);
  return *o.axes(*complete_attributes(op, o.attributes(), std::move(given)), inputs);
}

// "d0 d1+d2 -": the axes each dimension walks, major to minor; "-" for a broadcast dimension.
std::string walked(const AxisTable& table, const OperandAxes& operand) {
  std::string text;
  for (const DimAxes& dim : operand.dims) {
    text += text.empty() ? "" : " ";
    if (dim.axes.empty()) text += "-";
    for (std::size_t i = 0; i < dim.axes.size(); ++i)
      text += (i ? "+" : "") + table.axes[static_cast<std::size_t>(dim.axes[i])].name;
  }
  return text;
}

// "d0:4 parallel, c:6 whole"
std::string axes(const AxisTable& table) {
  std::string text;
  for (const Axis& a : table.axes)
    text += fmt::format("{}{}:{} {}", text.empty() ? "" : ", ", a.name, a.size, to_string(a.role));
  return text;
}

ParallelShape shaped(std::vector<ParallelDim> dims, int copies = 1, int partials = 1) {
  ParallelShape s;
  s.dims = std::move(dims);
  s.copies = copies;
  s.partials = partials;
  return s;
}

}  // namespace

TEST_CASE("splitting hidden into heads shares the axes b, s, h; e is minor and stays whole") {
  // [2, 8, 12 = 3 heads x 4] -> [2, 8, 3, 4]
  AxisTable t = table_of("reshape", {Dims{2, 8, 3, 4}}, {{{2, 8, 12}, DType::f32}});
  CHECK(axes(t) == "d0:2 parallel, d1:8 parallel, d2:3 parallel, d3:4 whole");
  CHECK(walked(t, t.inputs[0]) == "d0 d1 d2+d3");
  CHECK(walked(t, t.outputs[0]) == "d0 d1 d2 d3");
}

TEST_CASE("three-way sharded hidden gives one head per shard, and merging heads the reverse") {
  const Operator& reshape = get_operator("reshape");
  auto heads = infer_parallel_shapes(reshape, {Dims{2, 8, 3, 4}}, {shaped({{2}, {8}, {12, 3}})});
  REQUIRE(heads.ok());
  CHECK(to_string((*heads)[0]) == "f32[2, 8, 3/3, 4]");
  auto hidden = infer_parallel_shapes(reshape, {Dims{2, 8, 12}}, *heads);
  REQUIRE(hidden.ok());
  CHECK(to_string((*hidden)[0]) == "f32[2, 8, 12/3]");
  CHECK(infer_parallel_shapes(reshape, {Dims{2, 8, 3, 4}}, {shaped({{2}, {8}, {12, 4}})}).error().message ==
        "reshape: operand 0 dimension 2 has degree 4, too large for axis d2 of size 3");
  CHECK(infer_parallel_shapes(reshape, {Dims{2, 8, 12}}, {shaped({{2}, {8}, {3}, {4, 2}})}).error().message ==
        "reshape: operand 0 dimension 3 walks axis d3, which must not be split; found degree 2");
}

TEST_CASE("a reshape shares common factors and keeps what is left whole on each side") {
  // 6 and 4 share 2; then 3 and 4 against 2 and 6 share nothing until both products are 12.
  AxisTable t = table_of("reshape", {Dims{4, 6}}, {{{6, 4}, DType::f32}});
  CHECK(walked(t, t.inputs[0]) == "d0+in0 in1");
  CHECK(walked(t, t.outputs[0]) == "d0+out0 out1");
  CHECK(t.axes[0].size == 2);
  CHECK(operand_shape(t, t.outputs[0]).dims == Dims{4, 6});
  // 3 and 2 share nothing; the run ends where 3 * 4 = 2 * 6, and the last dimension is shared again.
  AxisTable u = table_of("reshape", {Dims{2, 6, 5}}, {{{3, 4, 5}, DType::f32}});
  CHECK(walked(u, u.inputs[0]) == "in0 in1 d4");
  CHECK(walked(u, u.outputs[0]) == "out0 out1 d4");
  CHECK(u.axes[4].role == AxisRole::parallel);
}

TEST_CASE("dimensions of size 1 in a reshape walk no axis") {
  AxisTable t = table_of("reshape", {Dims{1, 6, 1}}, {{{6, 1}, DType::f32}});
  CHECK(axes(t) == "d0:6 parallel");
  CHECK(walked(t, t.inputs[0]) == "d0 -");
  CHECK(walked(t, t.outputs[0]) == "- d0 -");
}

TEST_CASE("a bias walks the last axis of add, and needs copies where rows are split") {
  AxisTable t = table_of("add", {}, {{{8, 4, 6}, DType::f32}, {{6}, DType::f32}});
  CHECK(walked(t, t.inputs[0]) == "d0 d1 d2");
  CHECK(walked(t, t.inputs[1]) == "d2");
  auto rows = shaped({{8, 2}, {4}, {6, 3}});
  auto sum = infer_parallel_shapes(get_operator("add"), {}, {rows, shaped({{6, 3}}, 2)});
  REQUIRE(sum.ok());
  CHECK((*sum)[0] == rows);
  CHECK(
      infer_parallel_shapes(get_operator("add"), {}, {rows, shaped({{6, 3}})}).error().message ==
      "add: operand 1 has copies 1, expected a multiple of 2 (axis d0 is split 2 ways, which operand 1 does not walk)");
}

TEST_CASE("a bias is affine: add refuses partial sums beside a whole operand") {
  CHECK(infer_parallel_shapes(get_operator("add"), {}, {shaped({{4}, {6}}, 1, 2), shaped({{6}}, 2)}).error().message ==
        "add: operand 1 has partials 1, expected 2 as the other operands (add is jointly linear)");
}

TEST_CASE("both operands of mul can be broadcast, and size 1 against 1 keeps its axis") {
  AxisTable t = table_of("mul", {}, {{{4, 1, 1}, DType::f32}, {{6, 1}, DType::f32}});
  CHECK(walked(t, t.inputs[0]) == "d0 - d2");
  CHECK(walked(t, t.inputs[1]) == "d1 d2");
  CHECK(operand_shape(t, t.outputs[0]).dims == Dims{4, 6, 1});
}

TEST_CASE("concat in groups: the group axis can be split, the pieces cannot") {
  // Fused QKV: three weights [8, 12] with 4 heads of 3, interleaved by head -> [8, 36].
  Shape w{{8, 12}, DType::f32};
  AxisTable t = table_of("concat", {std::int64_t{1}, std::int64_t{4}}, {w, w, w});
  CHECK(axes(t) == "d0:8 parallel, group:4 parallel, x0:3 whole, x1:3 whole, x2:3 whole, all:9 whole");
  CHECK(walked(t, t.inputs[1]) == "d0 group+x1");
  CHECK(walked(t, t.outputs[0]) == "d0 group+all");
  auto piece = shaped({{8}, {12, 2}});
  auto fused = infer_parallel_shapes(get_operator("concat"), {std::int64_t{1}, std::int64_t{4}}, {piece, piece, piece});
  REQUIRE(fused.ok());
  CHECK(to_string((*fused)[0]) == "f32[8, 36/2]");
  CHECK(infer_parallel_shapes(get_operator("concat"), {std::int64_t{1}, std::int64_t{1}}, {piece, piece, piece})
            .error()
            .message == "concat: operand 0 dimension 1 walks axis x0, which must not be split; found degree 2");
}

TEST_CASE("concat in groups interleaves the pieces group by group") {
  std::vector<double> a = {1, 2, 3, 4}, b = {5, 6}, y(6);
  Attributes attributes = {std::int64_t{0}, std::int64_t{2}};
  std::vector<Operand> in = {{a.data(), DType::f64, {4}, {0}, {4}}, {b.data(), DType::f64, {2}, {0}, {2}}};
  std::vector<Operand> out = {{y.data(), DType::f64, {6}, {0}, {6}}};
  get_operator("concat").reference({attributes, in, out, {}});
  CHECK(y == std::vector<double>{1, 2, 5, 3, 4, 6});
}

TEST_CASE("splitting the vocabulary of an embedding gives partial sums, and needs copies of the ids") {
  auto ids = shaped({{4, 2}, {6}}, 3);
  ids.dtype = DType::i32;
  auto y = infer_parallel_shapes(get_operator("embedding"), {}, {ids, shaped({{12, 3}, {8}}, 2)});
  REQUIRE(y.ok());
  CHECK(to_string((*y)[0]) == "f32[4/2, 6, 8] partials 3");
}

TEST_CASE("splitting the classes of a pick gives partial sums, and needs copies of the indices") {
  auto labels = shaped({{4, 2}}, 3);
  labels.dtype = DType::i32;
  auto y = infer_parallel_shapes(get_operator("pick"), {}, {shaped({{4, 2}, {12, 3}}), labels});
  REQUIRE(y.ok());
  CHECK(to_string((*y)[0]) == "f32[4/2] partials 3");
}

TEST_CASE("a part of the classes picks what it holds and nothing else; an index outside all of them is an error") {
  // Classes 2..3 of 4: row 0 has its class 3 at position 1, row 1 its class 0 elsewhere.
  std::vector<double> x = {5, 6, 7, 8}, y(2), dx(4, -1);
  std::vector<std::int32_t> labels = {3, 0};
  std::vector<Operand> in = {{x.data(), DType::f64, {2, 2}, {0, 2}, {2, 4}},
                             {labels.data(), DType::i32, {2}, {0}, {2}}};
  std::vector<Operand> out = {{y.data(), DType::f64, {2}, {0}, {2}}};
  get_operator("pick").reference({{}, in, out, {}});
  CHECK(y == std::vector<double>{6, 0});
  std::vector<double> dy = {10, 20};
  std::vector<Operand> slopes = {
      in[1], {dy.data(), DType::f64, {2}, {0}, {2}}, {nullptr, DType::f64, {2, 2}, {0, 2}, {2, 4}}};
  std::vector<Operand> slope = {{dx.data(), DType::f64, {2, 2}, {0, 2}, {2, 4}}};
  get_operator("pick_gradient").reference({{}, slopes, slope, {}});
  CHECK(dx == std::vector<double>{0, 10, 0, 0});
  labels[1] = 4;
  CHECK_THROWS_WITH(get_operator("pick").reference({{}, in, out, {}}), "pick: index is 4, expected 0 to 3");
}

TEST_CASE("a maximum that no gradient flows through may be split into partial maxima, which nothing but reduce takes") {
  auto y = infer_parallel_shapes(get_operator("reduce_max"), {Dims{1}, std::int64_t{1}}, {shaped({{4, 2}, {12, 3}})});
  REQUIRE(y.ok());
  CHECK(to_string((*y)[0]) == "f32[4/2] partials 3 max");
  CHECK(infer_parallel_shapes(get_operator("scale"), {2.0}, *y).error().message ==
        "scale: operand 0 holds partial maxima (partials 3), but scale takes no more than partial sums");
  auto whole = infer_parallel_shapes(get_operator("reduce"), {std::int64_t{3}}, *y);
  REQUIRE(whole.ok());
  CHECK(to_string((*whole)[0]) == "f32[4/2]");
}

TEST_CASE("splitting the rows of a layer norm leaves dgamma and dbeta as partial sums") {
  auto rows = shaped({{4, 2}, {6}});
  auto d = infer_parallel_shapes(get_operator("layer_norm_gradient"), {1e-5}, {rows, shaped({{6}}, 2), rows});
  REQUIRE(d.ok());
  CHECK(to_string((*d)[0]) == "f32[4/2, 6]");
  CHECK(to_string((*d)[1]) == "f32[6] partials 2");
  CHECK(to_string((*d)[2]) == "f32[6] partials 2");
}

TEST_CASE("a mean over sharded rows divides by the rows of the whole tensor") {
  // Rows 2..3 of 4: (2 + 3) / 4.
  std::vector<double> x = {2, 3}, y(1);
  Attributes attributes = {Dims{0}};
  std::vector<Operand> in = {{x.data(), DType::f64, {2}, {2}, {4}}}, out = {{y.data(), DType::f64, {}, {}, {}}};
  get_operator("reduce_mean").reference({attributes, in, out, {}});
  CHECK(y[0] == 1.25);
}

TEST_CASE("cross-entropy of uniform logits is the logarithm of the number of classes") {
  std::vector<double> x(8, 0.5), y(1);
  std::vector<std::int32_t> labels = {0, 3};
  Attributes none;
  std::vector<Operand> in = {{x.data(), DType::f64, {2, 4}, {0, 0}, {2, 4}},
                             {labels.data(), DType::i32, {2}, {0}, {2}}};
  std::vector<Operand> out = {{y.data(), DType::f64, {}, {}, {}}};
  get_operator("cross_entropy").reference({none, in, out, {}});
  CHECK(y[0] == Approx(std::log(4.0)).epsilon(1e-14));
  labels[1] = 4;
  CHECK_THROWS_WITH(get_operator("cross_entropy").reference({none, in, out, {}}),
                    "cross_entropy: label is 4, expected 0 to 3");
}

TEST_CASE("a dropout mask drops about its rate and keeps the mean at 1") {
  std::vector<double> mask(10000);
  Attributes attributes = {Dims{10000}, 0.25};
  std::vector<Operand> out = {{mask.data(), DType::f64, {10000}, {0}, {10000}}};
  get_operator("dropout_mask").reference({attributes, {}, out, RandomKey(7)});
  double sum = 0, dropped = 0;
  for (double m : mask) sum += m, dropped += m == 0;
  // The standard deviation of `dropped` is sqrt(10000 * 0.25 * 0.75) = 43; five of them, and the same for the mean.
  CHECK(std::abs(dropped - 2500) < 217);
  CHECK(sum == Approx((10000 - dropped) / 0.75).epsilon(1e-12));
}

TEST_CASE("matrix products count two FLOPs for each multiplication, data movement none") {
  AxisTable bmm = table_of("batch_matmul", {}, {{{2, 4, 6}, DType::f32}, {{2, 6, 8}, DType::f32}});
  CHECK(flops(bmm, full_ranges(bmm)) == 2.0 * 2 * 4 * 6 * 8);
  AxisTable move = table_of("transpose", {Dims{1, 0}}, {{{4, 6}, DType::f32}});
  CHECK(flops(move, full_ranges(move)) == 0);
  // q [2, 3, 4, 5], k [2, 3, 6, 5], v [2, 3, 6, 7]; backward three products of 5 and two of 7 for each score.
  std::vector<Shape> operands = {{{2, 3, 4, 5}, DType::f32}, {{2, 3, 6, 5}, DType::f32}, {{2, 3, 6, 7}, DType::f32}};
  AxisTable attention = table_of("attention", {1.0}, operands);
  CHECK(flops(attention, full_ranges(attention)) == 2.0 * 2 * 3 * 4 * 6 * (5 + 7));
  operands.push_back({{2, 3, 4, 7}, DType::f32});
  AxisTable backward = table_of("attention_gradient", {1.0}, operands);
  CHECK(flops(backward, full_ranges(backward)) == 2.0 * 2 * 3 * 4 * 6 * (3 * 5 + 2 * 7));
}
