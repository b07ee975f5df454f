#include <catch2/catch.hpp>

#include "core/ops/operator.h"

using namespace unity;

namespace {

std::string message(std::string_view op, Attributes given, std::vector<Shape> inputs) {
  const Operator& o = get_operator(op);
  auto attributes = complete_attributes(op, o.attributes(), std::move(given));
  if (!attributes.ok()) return attributes.error().message;
  auto shapes = infer_shapes(o, *attributes, inputs);
  return shapes.ok() ? "no error" : shapes.error().message;
}

Shape f32(Dims dims) { return {std::move(dims), DType::f32}; }
Shape i32(Dims dims) { return {std::move(dims), DType::i32}; }
constexpr std::int64_t kOne = 1;

}  // namespace

TEST_CASE("operators that do not fit their operands say which, what was found and what was expected") {
  CHECK(
      message("add", {}, {f32({4, 6}), f32({5})}) ==
      "add: dimension 1 of the result is 6 in operand 0 (f32[4, 6]) but 5 in operand 1 (f32[5]), expected equal or 1");
  CHECK(message("add", {}, {f32({4}), i32({4})}) == "add: operand 1 is i32[4], expected real numbers");
  CHECK(message("relu", {}, {f32({4}), f32({4})}) == "relu: found 2 operands, expected 1");
  CHECK(message("matmul", {}, {f32({4, 6}), f32({5, 8})}) == "matmul: axis k is 6 in x but 5 in w");
  // Indices are no numbers to multiply: their bits would be read as those of real ones.
  CHECK(message("matmul", {}, {i32({4, 6}), f32({6, 8})}) == "matmul: operand 0 is i32[4, 6], expected real numbers");
  CHECK(message("matmul", {}, {f32({4, 6}), i32({6, 8})}) == "matmul: operand 1 is i32[6, 8], expected real numbers");
  CHECK(message("where", {}, {i32({4}), f32({4}), i32({4})}) == "where: operand 2 is i32[4], expected real numbers");
  CHECK(message("embedding", {}, {i32({4}), i32({6, 8})}) ==
        "embedding: operand 1 is i32[6, 8], expected a table of real numbers of 2 dimensions");
  CHECK(message("embedding_bag", {}, {i32({4, 2}), i32({6, 8})}) ==
        "embedding_bag: table is i32[6, 8], expected real numbers of 2 dimensions: [v, h]");
  CHECK(message("matmul_accumulate", {}, {f32({4, 6}), i32({6, 8}), f32({4, 8})}) ==
        "matmul: operand 1 is i32[6, 8], expected real numbers");
  CHECK(message("matmul_weight_gradient", {}, {i32({4, 6}), f32({4, 8})}) ==
        "matmul_weight_gradient: operand 0 is i32[4, 6], expected real numbers");
  CHECK(message("cross_entropy_gradient", {}, {f32({4, 6}), i32({4}), i32({})}) ==
        "cross_entropy_gradient: operand 2 is i32[], expected f32[]");
  CHECK(message("batch_matmul", {}, {f32({2, 4, 6}), f32({3, 6, 8})}) ==
        "batch_matmul: found operands f32[2, 4, 6] and f32[3, 6, 8], expected the same leading dimensions");
  CHECK(message("batch_matmul", {}, {f32({2, 4, 6}), f32({2, 5, 8})}) ==
        "batch_matmul: axis k is 6 in operand 0 but 5 in operand 1");
  CHECK(message("softmax", {}, {f32({})}) == "softmax: operand 0 is f32[], expected at least 1 dimension");
  CHECK(message("layer_norm", {}, {f32({4, 6}), f32({4}), f32({6})}) ==
        "layer_norm: operand 1 is f32[4], expected [6], the last dimension of operand 0");
  CHECK(message("embedding", {}, {f32({4}), f32({12, 8})}) ==
        "embedding: operand 0 is f32[4], expected indices of type i32");
  CHECK(message("cross_entropy", {}, {f32({4, 6}), i32({5})}) ==
        "cross_entropy: found logits f32[4, 6] and labels i32[5], expected one label for each row");
  CHECK(message("pick", {}, {f32({4, 6}), i32({5})}) ==
        "pick: found x f32[4, 6] and indices i32[5], expected one index for each row");
  CHECK(message("pick", {}, {f32({4, 6}), f32({4})}) == "pick: indices are f32[4], expected i32");
  CHECK(message("pick_gradient", {}, {i32({4}), f32({6}), f32({4, 6})}) ==
        "pick_gradient: operand 1 is f32[6], expected f32[4]");
  CHECK(message("mean_squared_error", {}, {f32({4, 6}), f32({6})}) ==
        "mean_squared_error: found operands f32[4, 6] and f32[6], expected the same shape");
}

TEST_CASE("wrong attributes are refused with the value found") {
  CHECK(message("transpose", {Dims{0, 0}}, {f32({4, 6})}) ==
        "transpose: perm is [0, 0], expected a permutation of the 2 dimensions of f32[4, 6]");
  CHECK(message("transpose", {}, {f32({4, 6})}) == "transpose: attribute 'perm' is missing");
  CHECK(message("reshape", {Dims{5, 5}}, {f32({4, 6})}) ==
        "reshape: shape [5, 5] has 25 elements, expected 24 as in f32[4, 6]");
  // Their product is 6 beyond all numbers.
  CHECK(message("reshape", {Dims{7047956753329, 2617318}}, {f32({6})}) ==
        "reshape: shape [7047956753329, 2617318] has too many elements, expected 6 as in f32[6]");
  CHECK(message("max_pool2d", {Dims{2049, 1}, Dims{1, 1}, Dims{0, 0, 0, 0}, Dims{std::int64_t{1} << 53, 1}},
                {f32({2, 2, 4, 4})}) ==
        "max_pool2d: kernel 2049, dilation 9007199254740992 and padding [0, 0, 0, 0] are too large together");
  CHECK(message("max_pool2d", {Dims{2, 2}, Dims{1, 1}, Dims{0, 0, 2, 0}}, {f32({2, 2, 4, 4})}) ==
        "max_pool2d: padding is [0, 0, 2, 0], expected less: a window of 2 has no element of dimension 2, of size 4");
  CHECK(message("max_pool2d", {Dims{2, 2}, Dims{2, 2}, Dims{0, 0, 2, 0}}, {f32({2, 2, 4, 4})}) ==
        "max_pool2d: padding is [0, 0, 2, 0], expected less: a window of 2 has no element of dimension 2, of size 4");
  CHECK(message("max_pool2d", {Dims{2, 2}, Dims{2, 2}, Dims{1, 1, 1, 1}}, {f32({2, 2, 4, 4})}) == "no error");
  CHECK(message("attention", {1.0, std::int64_t{-7}}, {f32({4, 6}), f32({4, 6}), f32({4, 6})}) ==
        "attention: causal is -7, expected 0 or 1");
  CHECK(message("matmul", {std::string("none"), std::int64_t{2}}, {f32({4, 6}), f32({6, 4})}) ==
        "matmul: transpose_w is 2, expected 0 or 1");
  CHECK(message("reshape", {Dims{-4, -6}}, {f32({4, 6})}) ==
        "reshape: shape is [-4, -6], expected sizes of at least 1");
  CHECK(message("concat", {std::int64_t{2}}, {f32({4, 6})}) == "concat: dimension is 2, expected 0 to 1 for f32[4, 6]");
  CHECK(message("concat", {kOne}, {f32({4, 6}), f32({5, 6})}) ==
        "concat: operand 1 is f32[5, 6], expected f32[4, 6] but for dimension 1");
  CHECK(message("concat", {kOne, std::int64_t{4}}, {f32({4, 6})}) ==
        "concat: dimension 1 of operand 0 (f32[4, 6]) is 6, expected a multiple of 4 groups");
  CHECK(message("split", {kOne, Dims{2, 3}}, {f32({4, 6})}) ==
        "split: sizes are [2, 3], expected a sum of 6, dimension 1 of f32[4, 6]");
  CHECK(message("reduce_sum", {Dims{1, 0}}, {f32({4, 6})}) ==
        "reduce_sum: dims are [1, 0], expected increasing dimensions of f32[4, 6]");
  CHECK(message("reduce_mean", {Dims{2}}, {f32({4, 6})}) ==
        "reduce_mean: dims are [2], expected increasing dimensions of f32[4, 6]");
  CHECK(message("reduce_max", {Dims{1}, std::int64_t{2}}, {f32({4, 6})}) ==
        "reduce_max: detached is 2, expected 0 or 1");
  CHECK(message("dropout_mask", {Dims{4}, 1.0}, {}) == "dropout_mask: rate is 1, expected at least 0 and below 1");
}

TEST_CASE("sharding what must stay whole is a type error that names operator, operand, dimension and axis") {
  ParallelShape rows = serial(f32({4, 6}));
  rows.dims[1].degree = 2;
  CHECK(infer_parallel_shapes(get_operator("softmax"), {}, {rows}).error().message ==
        "softmax: operand 0 dimension 1 walks axis d1, which must not be split; found degree 2");
  CHECK(infer_parallel_shapes(get_operator("reduce_max"), {Dims{1}, std::int64_t{0}}, {rows}).error().message ==
        "reduce_max: operand 0 dimension 1 walks axis d1, which must not be split; found degree 2");
  ParallelShape sum = serial(f32({4, 6}));
  sum.partials = 2;
  CHECK(infer_parallel_shapes(get_operator("gelu"), {}, {sum}).error().message ==
        "gelu: operand 0 holds partial sums (partials 2), but gelu is not linear in it");
}
