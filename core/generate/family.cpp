#include "core/generate/family.h"

#include <algorithm>

#include "core/base/text.h"

namespace unity {
namespace {

using Ints = Integers;

TermOperator op(std::string_view name, Attributes attributes = {}, int operands = 0) {
  const Operator& o = get_operator(name);
  auto complete = complete_attributes(name, o.attributes(), std::move(attributes));
  UNITY_CHECK(complete.ok(), "{}", complete.error().message);
  return {&o, std::move(*complete), operands ? operands : o.arity().min};
}

FamilyLeaf leaf(std::string name, Dims dims) { return {std::move(name), {serial({std::move(dims), DType::f32})}, 0}; }
FamilyLeaf laid_out(std::string name, Dims dims, bool deep = false) {
  return {std::move(name), leaf_layouts({std::move(dims), DType::f32}, deep), 0};
}
FamilyLeaf indices(std::string name, Dims dims, std::int64_t bound) {
  return {std::move(name), leaf_layouts({std::move(dims), DType::i32}), bound};
}

std::vector<TermOperator> operator+(std::vector<TermOperator> a, const std::vector<TermOperator>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Convolution with its result as large as its operand (stride 1).
TermOperator conv(std::int64_t kernel, std::int64_t groups = 1) {
  std::int64_t p = kernel / 2;
  return op("conv2d", {Ints{1, 1}, Ints{p, p, p, p}, Ints{1, 1}, groups});
}
TermOperator pool(std::string_view name) { return op(name, {Ints{3, 3}, Ints{1, 1}, Ints{1, 1, 1, 1}}); }

// The algebra of the parallelization operators themselves.
std::vector<Family> layout_families() {
  return {
      {"layouts", {laid_out("x", {4, 6}, true)}, layout_operators({0, 1})},
      {"degrees", {laid_out("x", {8}, true)}, layout_operators({0}, 2) + layout_operators({0}, 4)},
      {"pipelines",
       {laid_out("x", {8, 8})},
       layout_operators({0, 1}) +
           std::vector{op("pipeline", {0, 2}), op("batch", {0, 2}), op("pipeline", {1, 2}), op("batch", {1, 2})}},
  };
}

// Operators of one operand beside the parallelization operators; each family names its operator.
std::vector<Family> unary_families() {
  std::vector<Family> families;
  for (const char* name : {"relu", "gelu", "sigmoid", "tanh", "exp", "log", "sqrt", "erf", "silu", "softmax"})
    families.push_back({name, {laid_out("x", {4, 6})}, std::vector{op(name)} + layout_operators({0, 1})});
  for (const char* name : {"scale", "shift", "power"})
    families.push_back({name, {laid_out("x", {4, 6})}, std::vector{op(name, {3.0})} + layout_operators({0, 1})});
  families.push_back(
      {"transpose", {laid_out("x", {4, 6})}, std::vector{op("transpose", {Ints{1, 0}})} + layout_operators({0, 1})});
  families.push_back(
      {"reductions",
       {laid_out("x", {4, 6})},
       std::vector{op("reduce_sum", {Ints{1}}), op("reduce_mean", {Ints{1}}), op("reduce_max", {Ints{1}})} +
           layout_operators({0, 1})});
  families.push_back(
      {"causal_softmax", {laid_out("x", {2, 4, 4})}, std::vector{op("causal_softmax")} + layout_operators({0, 1})});
  families.push_back({"pooling",
                      {laid_out("x", {2, 2, 5, 5})},
                      std::vector{pool("max_pool2d"), pool("avg_pool2d")} + layout_operators({0, 1, 2})});
  families.push_back(
      {"reshape", {laid_out("x", {4, 2, 3})}, std::vector{op("reshape", {Ints{4, 6}})} + layout_operators({0, 1})});
  families.push_back({"slices",
                      {laid_out("x", {4, 6})},
                      std::vector{op("slice", {Ints{0, 1}, Ints{4, 4}}), op("pad", {Ints{0, 1}, Ints{0, 1}, 0.0})} +
                          layout_operators({0, 1})});
  return families;
}

// Operators of two operands beside the parallelization operators.
std::vector<Family> binary_families() {
  std::vector<Family> families;
  for (const char* name : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
    std::vector<TermOperator> ops = std::vector{op(name)} + layout_operators({0, 1});
    if (std::string(name) == "add") ops.push_back(op("stack_partials"));
    families.push_back({name, {laid_out("x", {4, 6}), laid_out("y", {4, 6})}, ops});
  }
  families.push_back({"bias",
                      {laid_out("x", {4, 6}), laid_out("b", {6})},
                      std::vector{op("add"), op("mul")} + layout_operators({0, 1})});
  families.push_back({"matmul_layouts",
                      {laid_out("x", {4, 6}), laid_out("w", {6, 4})},
                      std::vector{op("matmul")} + layout_operators({0, 1})});
  families.push_back({"batch_matmul_layouts",
                      {laid_out("x", {2, 4, 6}), laid_out("y", {2, 6, 4})},
                      std::vector{op("batch_matmul")} + layout_operators({0, 1, 2})});
  families.push_back({"conv2d_layouts",
                      {laid_out("x", {2, 4, 5, 5}), laid_out("w", {4, 4, 3, 3})},
                      std::vector{conv(3)} + layout_operators({0, 1, 2})});
  families.push_back({"concat_layouts",
                      {laid_out("x", {4, 6}), laid_out("y", {4, 6})},
                      std::vector{op("concat", {1}, 2)} + layout_operators({0, 1})});
  families.push_back({"split_layouts",
                      {laid_out("x", {4, 6})},
                      std::vector{op("split", {1, Ints{2, 4}})} + layout_operators({0, 1}),
                      3,
                      2});
  families.push_back({"embedding_layouts",
                      {indices("i", {4}, 6), laid_out("t", {6, 4})},
                      std::vector{op("embedding")} + layout_operators({0, 1})});
  families.push_back({"embedding_bag_layouts",
                      {indices("i", {4, 2}, 6), laid_out("t", {6, 4})},
                      std::vector{op("embedding_bag", {std::string("sum")})} + layout_operators({0, 1})});
  families.push_back({"rms_norm",
                      {laid_out("x", {4, 6}), laid_out("g", {6})},
                      std::vector{op("rms_norm")} + layout_operators({0, 1})});
  return families;
}

// Serial graphs: identities of the operators themselves.
std::vector<Family> algebra_families() {
  std::vector<Family> families;
  families.push_back(
      {"arithmetic",
       {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("z", {4, 6})},
       {op("add"), op("mul"), op("sub"), op("scale", {3.0}), op("scale", {5.0}), op("shift", {3.0}), op("relu")}});
  families.push_back({"extrema",
                      {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("z", {4, 6})},
                      {op("maximum"), op("minimum"), op("concat", {0}, 2), op("exp")}});
  families.push_back({"matmul",
                      {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("w", {6, 6}), leaf("v", {6, 6})},
                      {op("matmul"), op("add"), op("scale", {3.0}), op("concat", {0}, 2), op("concat", {1}, 2),
                       op("split", {1, Ints{6, 6}}), op("split", {0, Ints{4, 4}}), op("split", {0, Ints{6, 6}})},
                      3,
                      2});
  families.push_back({"matmul_of_transposed",
                      {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("w", {5, 6}), leaf("v", {5, 6})},
                      {op("matmul", {std::string("none"), 1}), op("add"), op("concat", {0}, 2), op("concat", {1}, 2),
                       op("split", {1, Ints{5, 5}})},
                      3,
                      2});
  families.push_back({"matmul_transposes",
                      {leaf("x", {4, 6}), leaf("w", {6, 6}), leaf("v", {6, 6})},
                      {op("matmul"), op("matmul", {std::string("none"), 1}), op("matmul", {std::string("relu")}),
                       op("relu"), op("transpose", {Ints{1, 0}})}});
  families.push_back({"matmul_as_batch_matmul",
                      {leaf("x", {4, 6}), leaf("w", {6, 6})},
                      {op("matmul"), op("matmul", {std::string("none"), 1}), op("batch_matmul"),
                       op("batch_matmul", {0, 1}), op("batch_matmul", {1, 0}), op("transpose", {Ints{1, 0}})},
                      2});
  families.push_back({"batch_matmul",
                      {leaf("x", {2, 4, 6}), leaf("y", {2, 4, 6}), leaf("w", {2, 6, 6})},
                      {op("batch_matmul"), op("batch_matmul", {0, 1}), op("add"), op("scale", {3.0}),
                       op("transpose", {Ints{0, 2, 1}}), op("concat", {1}, 2), op("concat", {2}, 2)}});
  families.push_back(
      {"conv2d",
       {leaf("x", {1, 4, 5, 5}), leaf("y", {1, 4, 5, 5}), leaf("w", {4, 4, 3, 3}), leaf("v", {4, 4, 3, 3})},
       {conv(3), op("add"), op("scale", {3.0}), op("concat", {0}, 2), op("concat", {1}, 2),
        op("split", {1, Ints{4, 4}})},
       3,
       2});
  families.push_back(
      {"conv2d_kernels",
       {leaf("x", {1, 4, 5, 5}), leaf("w", {4, 4, 3, 3}), leaf("v", {4, 4, 1, 1}), leaf("u", {4, 1, 3, 3})},
       {conv(3), conv(1), conv(3, 4), op("add"), op("relu"), op("pad", {Ints{0, 0, 1, 1}, Ints{0, 0, 1, 1}, 0.0}),
        op("conv2d", {Ints{1, 1}, Ints{1, 1, 1, 1}, Ints{1, 1}, 1, std::string("relu")})}});
  families.push_back({"pooling_algebra",
                      {leaf("x", {1, 4, 5, 5}), leaf("y", {1, 4, 5, 5})},
                      {pool("max_pool2d"), pool("avg_pool2d"), op("add"), op("scale", {3.0}), op("concat", {1}, 2),
                       op("concat", {0}, 2)}});
  families.push_back({"movement",
                      {leaf("x", {4, 6}), leaf("y", {4, 6})},
                      {op("concat", {0}, 2), op("concat", {1}, 2), op("split", {0, Ints{4, 4}}),
                       op("split", {1, Ints{6, 6}}), op("transpose", {Ints{1, 0}}), op("relu")},
                      3,
                      2});
  families.push_back({"movement_three",
                      {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("z", {4, 6})},
                      {op("concat", {0}, 2), op("concat", {1}, 2), op("concat", {0}, 3), op("concat", {1}, 3)},
                      2});
  families.push_back({"joined_operands",
                      {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("u", {4, 6}), leaf("v", {4, 6})},
                      {op("concat", {0}, 2), op("concat", {1}, 2), op("mul"), op("stack_partials")}});
  families.push_back(
      {"movement_arithmetic",
       {leaf("x", {4, 6}), leaf("y", {4, 6}), leaf("z", {4, 6})},
       {op("concat", {0}, 2), op("concat", {1}, 2), op("split", {0, Ints{4, 4}}), op("split", {1, Ints{6, 6}}),
        op("transpose", {Ints{1, 0}}), op("add"), op("mul"), op("scale", {3.0})}});
  families.push_back({"reshapes",
                      {leaf("x", {2, 3, 4})},
                      {op("reshape", {Ints{6, 4}}), op("reshape", {Ints{2, 12}}), op("reshape", {Ints{2, 3, 4}}),
                       op("reshape", {Ints{24}}), op("relu"), op("scale", {3.0}), op("transpose", {Ints{1, 0, 2}})}});
  families.push_back({"reduction_algebra",
                      {leaf("x", {4, 6}), leaf("y", {4, 6})},
                      {op("reduce_sum", {Ints{0}}), op("reduce_sum", {Ints{1}}), op("reduce_sum", {Ints{0, 1}}),
                       op("reduce_mean", {Ints{0}}), op("add"), op("scale", {3.0}), op("concat", {0}, 2),
                       op("concat", {1}, 2), op("transpose", {Ints{1, 0}})}});
  families.push_back({"lookups",
                      {{"i", {serial({{4}, DType::i32})}, 6},
                       {"j", {serial({{4}, DType::i32})}, 6},
                       leaf("t", {6, 4}),
                       leaf("u", {6, 4})},
                      {op("embedding"), op("add"), op("scale", {3.0}), op("concat", {0}, 2), op("concat", {1}, 2),
                       op("split", {0, Ints{4, 4}}), op("split", {1, Ints{4, 4}})},
                      3,
                      2});
  families.push_back({"bags",
                      {{"i", {serial({{4, 2}, DType::i32})}, 6}, leaf("t", {6, 4}), leaf("u", {6, 4})},
                      {op("embedding_bag", {std::string("sum")}), op("embedding"), op("reduce_sum", {Ints{1}}),
                       op("add"), op("scale", {3.0}), op("concat", {0}, 2), op("concat", {1}, 2)}});
  return families;
}

}  // namespace

std::vector<ParallelShape> leaf_layouts(const Shape& shape, bool deep) {
  std::vector<ParallelShape> layouts = {serial(shape)};
  auto vary = [&](const ParallelShape& from, int degree, std::size_t first) {
    std::vector<ParallelShape> made;
    for (std::size_t i = first; i < shape.dims.size() + 2; ++i) {
      ParallelShape s = from;
      if (i < shape.dims.size()) {
        if (shape.dims[i] < degree) continue;
        s.dims[i].degree = degree;
      } else if (i == shape.dims.size()) {
        s.copies = degree;
      } else if (shape.dtype != DType::i32 && s.copies == 1) {
        s.partials = degree;
      } else {
        continue;
      }
      made.push_back(s);
    }
    return made;
  };
  auto append = [&](const std::vector<ParallelShape>& more) {
    layouts.insert(layouts.end(), more.begin(), more.end());
  };
  std::vector<ParallelShape> single = vary(layouts[0], 2, 0);
  append(single);
  if (!deep) return layouts;
  append(vary(layouts[0], 4, 0));
  for (std::size_t i = 0; i < single.size(); ++i) append(vary(single[i], 2, i + 1));
  return layouts;
}

std::vector<TermOperator> layout_operators(const Integers& dims, std::int64_t degree) {
  std::vector<TermOperator> ops;
  for (const char* name : {"partition", "combine"})
    for (std::int64_t dim : dims) ops.push_back(op(name, {dim, degree}));
  for (const char* name : {"replicate", "reduce"}) ops.push_back(op(name, {degree}));
  return ops;
}

std::vector<Family> default_families(bool exhaustive) {
  std::vector<Family> families;
  for (auto make : {layout_families, unary_families, binary_families, algebra_families})
    for (Family& family : make()) families.push_back(std::move(family));
  if (exhaustive)
    for (Family& family : families) {
      ++family.size;
      for (FamilyLeaf& l : family.leaves)
        if (l.layouts.size() > 1) l.layouts = leaf_layouts(l.layouts[0].shape(), true);
    }
  return families;
}

std::vector<Family> select_families(std::vector<Family> families, const std::vector<std::string>& names) {
  if (names.empty()) return families;
  std::vector<std::string> known;
  for (const Family& f : families) known.push_back(f.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_input_error("there is no family '{}'{}", name, suggestion(name, known));
  std::erase_if(families,
                [&](const Family& f) { return std::find(names.begin(), names.end(), f.name) == names.end(); });
  return families;
}

}  // namespace unity
