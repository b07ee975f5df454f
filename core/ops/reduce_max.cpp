#include "core/ops/reduce_max.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/reduce_sum.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kDims = {{"dims", AttributeKind::integers, true, {}}};

struct Walks {
  AxisTable table;
  OperandAxes x, y;
};
Result<Walks> walks_of(std::string_view op, const Dims& dims, const Shape& x) {
  Walks w;
  std::int64_t least = 0;
  for (std::int64_t d : dims) {
    if (d < least || d >= static_cast<std::int64_t>(x.dims.size()))
      return fail("{}: dims are {}, expected increasing dimensions of {}", op, to_string(AttributeValue(dims)),
                  to_string(x));
    least = d + 1;
  }
  walk_dims(w.table, w.x, x.dims, 0, x.dims.size(), AxisRole::parallel);
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    bool reduced = std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
    if (reduced) w.table.axes[d].role = AxisRole::whole;
    if (!reduced) w.y.dims.push_back(w.x.dims[d]);
  }
  w.x.dtype = w.y.dtype = x.dtype;
  return w;
}

}  // namespace

std::vector<AttributeSpec> ReduceMax::attributes() const {
  return {kDims[0], {"detached", AttributeKind::integer, false, std::int64_t{0}}};
}

Result<AxisTable> ReduceMax::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_flag(*this, a, 1));
  Walks w = UNITY_TRY(walks_of(name(), ints_attribute(a, 0), in[0]));
  for (Axis& axis : w.table.axes)
    if (detached(a) && axis.role == AxisRole::whole) axis.role = AxisRole::reduction, axis.monoid = Monoid::max;
  w.table.inputs = {w.x};
  w.table.outputs = {w.y};
  return w.table;
}

void ReduceMax::gradient(const Attributes& a, GradientBuilder& g) const {
  if (detached(a)) return;
  g.set_input_gradient(0, g.apply("reduce_max_gradient", {a[0]}, {g.input(0), g.output(), g.output_gradient()}));
}

void ReduceMax::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  dispatch_reference(call, [&]<class T>() {
    std::vector<bool> seen(static_cast<std::size_t>(y.elements()), false);
    for_each_index(x.extent, [&](const Dims& index, std::int64_t i) {
      std::int64_t o = kept_position(call.attributes, x.extent, index);
      auto first = !seen[static_cast<std::size_t>(o)];
      if (first || takes_place_of(x.as<T>()[i], y.as<T>()[o], true)) y.as<T>()[o] = x.as<T>()[i];
      seen[static_cast<std::size_t>(o)] = true;
    });
  });
}

std::vector<Example> ReduceMax::examples() const {
  return {{{Dims{1}}, {{{4, 6}, DType::f32}}},
          {{Dims{0, 2}}, {{{2, 4, 6}, DType::f32}}},
          {{Dims{1}, std::int64_t{1}}, {{{4, 6}, DType::f32}}},
          {{Dims{0, 2}, std::int64_t{1}}, {{{2, 4, 6}, DType::f32}}}};
}
std::string_view ReduceMax::axioms() const {
  return R"(
axiom reduce_max_of_transpose_0
  reduce_max([0], transpose([1, 0], x)) = reduce_max([1], x)
  where rank(x) == 2
axiom reduce_max_of_transpose_1
  reduce_max([1], transpose([1, 0], x)) = reduce_max([0], x)
  where rank(x) == 2
axiom reduce_max_of_transpose_01
  reduce_max([0, 1], transpose([1, 0], x)) = reduce_max([0, 1], x)
  where rank(x) == 2
axiom reduce_max_of_reduce_max_00
  reduce_max([0], reduce_max([0], x)) = reduce_max([0, 1], x)
axiom reduce_max_of_reduce_max_01
  reduce_max([0], reduce_max([1], x)) = reduce_max([0, 1], x)
)";
}
UNITY_DEFINE_OPERATOR(reduce_max, ReduceMax)

std::vector<AttributeSpec> ReduceMaxGradient::attributes() const { return kDims; }

Result<AxisTable> ReduceMaxGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Walks w = UNITY_TRY(walks_of(name(), ints_attribute(a, 0), in[0]));
  Shape expected = operand_shape(w.table, w.y);
  for (std::size_t i : {1, 2})
    if (in[i] != expected)
      return fail("reduce_max_gradient: operand {} is {}, expected {}", i, to_string(in[i]), to_string(expected));
  OperandAxes dy = w.y;
  dy.linear = true;
  w.table.inputs = {w.x, w.y, dy};
  w.table.outputs = {w.x};
  w.table.linearity = Linearity::multilinear;
  return w.table;
}

void ReduceMaxGradient::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.inputs[1];
  dispatch_reference(call, [&]<class T>() {
    Integers ties(static_cast<std::size_t>(y.elements()), 0);
    auto visit = [&](auto&& f) {
      for_each_index(x.extent, [&](const Dims& index, std::int64_t i) {
        std::int64_t o = kept_position(call.attributes, x.extent, index);
        const T here = x.as<T>()[i], most = y.as<T>()[o];
        f(i, o, here == most || (is_no_number(here) && is_no_number(most)));
      });
    };
    visit([&](std::int64_t, std::int64_t o, bool attains) { ties[static_cast<std::size_t>(o)] += attains; });
    visit([&](std::int64_t i, std::int64_t o, bool attains) {
      T share = constant<T>(1.0 / static_cast<double>(std::max<std::int64_t>(ties[static_cast<std::size_t>(o)], 1)));
      call.outputs[0].as<T>()[i] = attains ? call.inputs[2].as<T>()[o] * share : T(0);
    });
  });
}

std::vector<Example> ReduceMaxGradient::examples() const {
  return {{{Dims{1}}, {{{4, 6}, DType::f32}, {{4}, DType::f32}, {{4}, DType::f32}}},
          {{Dims{0, 2}}, {{{2, 4, 6}, DType::f32}, {{4}, DType::f32}, {{4}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(reduce_max_gradient, ReduceMaxGradient)

std::vector<AttributeSpec> Argmax::attributes() const { return {{"dim", AttributeKind::integer, true, {}}}; }

Result<AxisTable> Argmax::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Walks w = UNITY_TRY(walks_of(name(), {int_attribute(a, 0)}, in[0]));
  w.y.dtype = DType::i32;
  w.table.inputs = {w.x};
  w.table.outputs = {w.y};
  return w.table;
}

void Argmax::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  auto dim = static_cast<std::size_t>(int_attribute(call.attributes, 0));
  Attributes dims = {Dims{int_attribute(call.attributes, 0)}};
  dispatch_reference_type(x.dtype, [&]<class T>() {
    std::vector<T> best(static_cast<std::size_t>(y.elements()));
    for_each_index(x.extent, [&](const Dims& index, std::int64_t i) {
      std::int64_t o = kept_position(dims, x.extent, index);
      T& largest = best[static_cast<std::size_t>(o)];
      if (index[dim] != 0 && !takes_place_of(x.as<T>()[i], largest, true)) return;
      largest = x.as<T>()[i];
      y.as<std::int32_t>()[o] = static_cast<std::int32_t>(index[dim]);
    });
  });
}

std::vector<Example> Argmax::examples() const {
  return {{{std::int64_t{1}}, {{{4, 6}, DType::f32}}}, {{std::int64_t{0}}, {{{3, 2, 4}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(argmax, Argmax)

}  // namespace unity
