#include "core/ops/batch_norm.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

// Axes of [n, c, ..]: one for each dimension; the vectors walk that of dimension 1.
struct Channels {
  AxisTable table;
  OperandAxes x, vector;
};
Result<Channels> channels(std::string_view op, std::span<const Shape> in, AxisRole others) {
  UNITY_TRY(expect_real(op, in));
  UNITY_TRY(expect_rank(op, in, 0, 2));
  Channels c;
  for (std::size_t d = 0; d < in[0].dims.size(); ++d)
    c.x.dims.push_back(walk({add_axis(c.table, d == 1 ? "c" : fmt::format("d{}", d), in[0].dims[d],
                                      d == 1 ? AxisRole::parallel : others)}));
  c.vector = walks(1);
  c.x.dtype = c.vector.dtype = in[0].dtype;
  return c;
}

Result<void> expect_vectors(std::string_view op, std::span<const Shape> in, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i)
    if (in[i].dims != Dims{in[0].dims[1]})
      return fail("{}: operand {} is {}, expected [{}], dimension 1 of operand 0", op, i, to_string(in[i]),
                  in[0].dims[1]);
  return {};
}

// Calls f(channel, index) for every element of a block.
template <class F>
void for_each_in_channel(const Operand& x, F&& f) {
  ChannelLoops l = channel_loops(x.extent);
  std::int64_t i = 0;
  for (std::int64_t o = 0; o < l.outer; ++o)
    for (std::int64_t c = 0; c < l.channels; ++c)
      for (std::int64_t k = 0; k < l.inner; ++k) f(c, i++);
}

double elements_per_channel(const Operand& x) {
  return static_cast<double>(element_count(x.global)) / static_cast<double>(x.global[1]);
}

template <class T>
T inverse_deviation(T variance, double epsilon) {
  return num::apply(num::Function::reciprocal, num::apply(num::Function::sqrt, variance + constant<T>(epsilon)));
}

const std::vector<AttributeSpec> kEpsilon = {{"epsilon", AttributeKind::real, false, 1e-5}};

std::vector<Shape> shapes(std::initializer_list<Dims> list) {
  std::vector<Shape> result;
  for (const Dims& dims : list) result.push_back({dims, DType::f32});
  return result;
}

}  // namespace

ChannelLoops channel_loops(const Dims& extent) {
  ChannelLoops l{extent[0], extent[1], 1};
  for (std::size_t d = 2; d < extent.size(); ++d) l.inner *= extent[d];
  return l;
}

Result<AxisTable> Moments::axes(const Attributes&, std::span<const Shape> in) const {
  Channels c = UNITY_TRY(channels(name(), in, AxisRole::reduction));
  c.table.inputs = {c.x};
  c.table.outputs = {c.vector, c.vector};
  c.table.flops_per_point = 3;
  return c.table;
}

void Moments::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("moments_gradient", {}, {g.input(0), g.output_gradient(0), g.output_gradient(1)}));
}

void Moments::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  dispatch_reference(call, [&]<class T>() {
    T *mean = call.outputs[0].as<T>(), *square = call.outputs[1].as<T>();
    std::int64_t c = call.outputs[0].elements();
    std::fill_n(mean, c, T(0));
    std::fill_n(square, c, T(0));
    for_each_in_channel(x, [&](std::int64_t k, std::int64_t i) {
      T value = x.as<T>()[i];
      mean[k] += value, square[k] += value * value;
    });
    T factor = constant<T>(1 / elements_per_channel(x));
    for (std::int64_t k = 0; k < c; ++k) mean[k] *= factor, square[k] *= factor;
  });
}

std::vector<Example> Moments::examples() const { return {{{}, shapes({{4, 6}})}, {{}, shapes({{2, 4, 3, 2}})}}; }
UNITY_DEFINE_OPERATOR(moments, Moments)

Result<AxisTable> MomentsGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Channels c = UNITY_TRY(channels(name(), in, AxisRole::parallel));
  UNITY_TRY(expect_vectors(name(), in, 1, 3));
  c.table.outputs = {c.x};
  c.vector.linear = true;
  c.table.inputs = {c.x, c.vector, c.vector};
  c.table.linearity = Linearity::joint;
  c.table.flops_per_point = 3;
  return c.table;
}

void MomentsGradient::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  dispatch_reference(call, [&]<class T>() {
    const T *mean = call.inputs[1].as<T>(), *square = call.inputs[2].as<T>();
    T factor = constant<T>(1 / elements_per_channel(x));
    for_each_in_channel(x, [&](std::int64_t k, std::int64_t i) {
      call.outputs[0].as<T>()[i] = (mean[k] + T(2) * x.as<T>()[i] * square[k]) * factor;
    });
  });
}

std::vector<Example> MomentsGradient::examples() const {
  return {{{}, shapes({{4, 6}, {6}, {6}})}, {{}, shapes({{2, 4, 3, 2}, {4}, {4}})}};
}
UNITY_DEFINE_OPERATOR(moments_gradient, MomentsGradient)

std::vector<AttributeSpec> CombineMoments::attributes() const {
  return {{"count", AttributeKind::integer, true, {}}, {"momentum", AttributeKind::real, false, 0.1}};
}

Result<AxisTable> CombineMoments::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  if (int_attribute(a, 0) < 1) return fail("combine_moments: count is {}, expected at least 1", int_attribute(a, 0));
  AxisTable t;
  OperandAxes v;
  walk_dims(t, v, in[0].dims, 0, in[0].dims.size(), AxisRole::parallel);
  v.dtype = in[0].dtype;
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i] != in[0])
      return fail("combine_moments: operand {} is {}, expected {} as operand 0", i, to_string(in[i]), to_string(in[0]));
  t.inputs = {v, v, v, v};
  t.outputs = {v, v, v, v};
  t.flops_per_point = 8;
  return t;
}

// That of the difference, though it is cut off at zero: what lies below is rounding.
void CombineMoments::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue dmean = g.output_gradient(0), dvariance = g.output_gradient(1);
  if (g.wanted(0)) {
    GradientValue through = g.apply("mul", {}, {g.input(0), dvariance});
    g.set_input_gradient(0, g.apply("add", {}, {dmean, g.apply("scale", {-2.0}, {through})}));
  }
  if (g.wanted(1)) g.set_input_gradient(1, dvariance);
}

void CombineMoments::reference(const OpCall& call) const {
  auto count = static_cast<double>(int_attribute(call.attributes, 0));
  double momentum = real_attribute(call.attributes, 1);
  dispatch_reference(call, [&]<class T>() {
    auto in = [&](std::size_t i) { return call.inputs[i].as<T>(); };
    auto out = [&](std::size_t i) { return call.outputs[i].as<T>(); };
    T keep = constant<T>(1 - momentum), take = constant<T>(momentum);
    T unbiased = constant<T>(momentum * count / std::max(count - 1, 1.0));
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T mean = in(0)[i], variance = in(1)[i] - mean * mean;
      if constexpr (std::is_same_v<T, double>) variance = std::max(variance, 0.0);
      out(0)[i] = mean, out(1)[i] = variance;
      out(2)[i] = keep * in(2)[i] + take * mean;
      out(3)[i] = keep * in(3)[i] + unbiased * variance;
    }
  });
}

// Between 0.1 and 0.3 every number is above every square.
std::vector<Example> CombineMoments::examples() const {
  return {{{std::int64_t{24}, 0.1}, shapes({{6}, {6}, {6}, {6}}), 0, 0.1, 0.3},
          {{std::int64_t{8}, 0.5}, shapes({{4}, {4}, {4}, {4}}), 0, 0.1, 0.3}};
}
UNITY_DEFINE_OPERATOR(combine_moments, CombineMoments)

std::vector<AttributeSpec> BatchNorm::attributes() const {
  return {kEpsilon[0], {"activation", AttributeKind::text, false, std::string("none")}};
}

Result<AxisTable> BatchNorm::axes(const Attributes& a, std::span<const Shape> in) const {
  if (text_attribute(a, 1) != "none" && text_attribute(a, 1) != "relu")
    return fail("batch_norm: activation is '{}', expected none or relu", text_attribute(a, 1));
  Channels c = UNITY_TRY(channels(name(), in, AxisRole::parallel));
  UNITY_TRY(expect_vectors(name(), in, 1, 5));
  c.table.inputs = {c.x, c.vector, c.vector, c.vector, c.vector};
  c.table.outputs = {c.x};
  c.table.flops_per_point = 4;
  return c.table;
}

void BatchNorm::gradient(const Attributes& a, GradientBuilder& g) const {
  std::vector<GradientValue> operands = {g.input(0), g.input(1), g.input(2), g.input(3), g.output_gradient()};
  if (text_attribute(a, 1) == "relu") operands.push_back(g.output());
  GradientValue d = g.apply("batch_norm_gradient", {a[0]}, operands);
  for (int i = 0; i < 5; ++i)
    if (g.wanted(i)) g.set_input_gradient(i, g.result(d, i));
}

void BatchNorm::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  bool relu = text_attribute(call.attributes, 1) == "relu";
  dispatch_reference(call, [&]<class T>() {
    auto in = [&](std::size_t i) { return call.inputs[i].as<T>(); };
    for_each_in_channel(x, [&](std::int64_t k, std::int64_t i) {
      T inverse = inverse_deviation(in(2)[k], real_attribute(call.attributes, 0));
      T y = (in(0)[i] - in(1)[k]) * inverse * in(3)[k] + in(4)[k];
      call.outputs[0].as<T>()[i] = relu ? num::apply(num::Function::relu, y) : y;
    });
  });
}

std::vector<Example> BatchNorm::examples() const {
  auto attributes = [](const char* activation) { return Attributes{2.0, std::string(activation)}; };
  return {{attributes("none"), shapes({{4, 6}, {6}, {6}, {6}, {6}})},
          {attributes("none"), shapes({{2, 4, 3, 2}, {4}, {4}, {4}, {4}})},
          {attributes("relu"), shapes({{2, 4, 2, 2}, {4}, {4}, {4}, {4}})},
          {attributes("relu"), shapes({{2, 3, 3, 3}, {3}, {3}, {3}, {3}})}};
}

std::string_view BatchNorm::axioms() const {
  return R"(
axiom batch_norm_activation
  relu(batch_norm(x, m, v, gamma, beta, epsilon=e)) = batch_norm(x, m, v, gamma, beta, epsilon=e, activation="relu")
axiom batch_norm_definition
  batch_norm(x, m, v, gamma, beta, epsilon=e)
    = add(mul(sub(x, reshape([dim(x, 1), 1, 1], m)), reshape([dim(x, 1), 1, 1], div(gamma, sqrt(shift(e, v))))),
          reshape([dim(x, 1), 1, 1], beta))
  where rank(x) == 4
)";
}
UNITY_DEFINE_OPERATOR(batch_norm, BatchNorm)

std::vector<AttributeSpec> BatchNormGradient::attributes() const { return kEpsilon; }

Result<AxisTable> BatchNormGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Channels c = UNITY_TRY(channels(name(), in, AxisRole::parallel));
  UNITY_TRY(expect_vectors(name(), in, 1, 4));
  for (std::size_t i = 4; i < in.size(); ++i)
    if (in[i] != in[0])
      return fail("batch_norm_gradient: operand {} is {}, expected {} as operand 0", i, to_string(in[i]),
                  to_string(in[0]));
  OperandAxes dy = c.x;
  dy.linear = true;
  c.table.inputs = {c.x, c.vector, c.vector, c.vector, dy};
  if (in.size() > 5) c.table.inputs.push_back(c.x);
  c.table.outputs = {c.x, c.vector, c.vector, c.vector, c.vector};
  c.table.linearity = Linearity::multilinear;
  c.table.flops_per_point = 8;
  return c.table;
}

// With r = 1 / sqrt(variance + epsilon) and h = (x - mean) r:  dx = dy gamma r, dbeta = sum dy, dgamma = sum dy h,
// dmean = -gamma r sum dy, dvariance = -gamma r^2 / 2 sum dy h.
void BatchNormGradient::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  dispatch_reference(call, [&]<class T>() {
    auto in = [&](std::size_t i) { return call.inputs[i].as<T>(); };
    auto out = [&](std::size_t i) { return call.outputs[i].as<T>(); };
    std::int64_t channels = call.outputs[1].elements();
    for (std::size_t o = 1; o < 5; ++o) std::fill_n(out(o), channels, T(0));
    for_each_in_channel(x, [&](std::int64_t k, std::int64_t i) {
      T r = inverse_deviation(in(2)[k], real_attribute(call.attributes, 0));
      T dy = in(4)[i];
      if (call.inputs.size() > 5) dy = num::apply(num::Function::step, in(5)[i]) * dy;
      out(0)[i] = dy * in(3)[k] * r;
      out(3)[k] += dy * (in(0)[i] - in(1)[k]) * r;
      out(4)[k] += dy;
    });
    for (std::int64_t k = 0; k < channels; ++k) {
      T r = inverse_deviation(in(2)[k], real_attribute(call.attributes, 0));
      out(1)[k] = T(0) - in(3)[k] * r * out(4)[k];
      out(2)[k] = constant<T>(-0.5) * in(3)[k] * r * r * out(3)[k];
    }
  });
}

std::vector<Example> BatchNormGradient::examples() const {
  return {{{2.0}, shapes({{4, 6}, {6}, {6}, {6}, {4, 6}})},
          {{2.0}, shapes({{2, 4, 3, 2}, {4}, {4}, {4}, {2, 4, 3, 2}})},
          {{2.0}, shapes({{2, 4, 2, 2}, {4}, {4}, {4}, {2, 4, 2, 2}, {2, 4, 2, 2}})}};
}
UNITY_DEFINE_OPERATOR(batch_norm_gradient, BatchNormGradient)

}  // namespace unity
