#include "core/ops/attention.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/masked_softmax.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kAttributes = {{"scale", AttributeKind::real, true, 1.0},
                                                {"causal", AttributeKind::integer, false, std::int64_t{0}}};

struct Walks {
  AxisTable table;
  OperandAxes q, k, v, y;
};
Result<Walks> walks_of(std::string_view op, std::span<const Shape> in) {
  UNITY_TRY(expect_real(op, in));
  UNITY_TRY(expect_rank(op, in, 0, 2));
  std::size_t rank = in[0].dims.size();
  const Dims &q = in[0].dims, &k = in[1].dims, &v = in[2].dims;
  bool fits = k.size() == rank && v.size() == rank && std::equal(q.begin(), q.end() - 2, k.begin()) &&
              std::equal(q.begin(), q.end() - 2, v.begin()) && k[rank - 1] == q[rank - 1] && v[rank - 2] == k[rank - 2];
  if (!fits)
    return fail("{}: q {}, k {} and v {}, expected [b.., s, e], [b.., t, e] and [b.., t, f]", op, to_string(in[0]),
                to_string(in[1]), to_string(in[2]));
  Walks w;
  for (std::size_t d = 0; d + 2 < rank; ++d)
    w.q.dims.push_back(walk({add_axis(w.table, fmt::format("b{}", d), q[d], AxisRole::parallel)}));
  w.k = w.v = w.y = w.q;
  int s = add_axis(w.table, "s", q[rank - 2], AxisRole::parallel),
      f = add_axis(w.table, "f", v[rank - 1], AxisRole::whole);
  int t = add_axis(w.table, "t", k[rank - 2], AxisRole::whole),
      e = add_axis(w.table, "e", q[rank - 1], AxisRole::whole);
  auto extend = [](OperandAxes& o, int a, int b) { o.dims.push_back(walk({a})), o.dims.push_back(walk({b})); };
  extend(w.q, s, e), extend(w.k, t, e), extend(w.v, t, f), extend(w.y, s, f);
  w.q.dtype = w.k.dtype = w.v.dtype = w.y.dtype = in[0].dtype;
  // Two products: b s t (e + f) multiply-adds.
  w.table.flops_per_point = 2 * static_cast<double>(q[rank - 1] + v[rank - 1]);
  for (int a = 0; a <= t; ++a)
    if (a != f) w.table.flop_axes.push_back(a);
  return w;
}

// The probabilities of one row.
template <class T>
void probabilities(const T* q, const T* k, const AttentionLoops& l, T scale, std::int64_t length, T* p) {
  T shift(0), sum(0);
  for (std::int64_t j = 0; j < length; ++j) {
    T dot(0);
    for (std::int64_t i = 0; i < l.e; ++i) dot += q[i] * k[j * l.e + i];
    p[j] = scale * dot;
  }
  if constexpr (std::is_same_v<T, double>)
    if (length > 0) shift = *std::max_element(p, p + length);
  for (std::int64_t j = 0; j < length; ++j) sum += p[j] = num::apply(num::Function::exp, p[j] - shift);
  T inverse = sum == T(0) ? T(0) : num::apply(num::Function::reciprocal, sum);
  for (std::int64_t j = 0; j < length; ++j) p[j] *= inverse;
}

std::int64_t visible(const Attributes& a, const AttentionLoops& l, std::int64_t row) {
  return int_attribute(a, 1) != 0 ? causal_length(l.first + row, l.rows, l.t) : l.t;
}

std::vector<Shape> shapes(std::initializer_list<Dims> list) {
  std::vector<Shape> result;
  for (const Dims& dims : list) result.push_back({dims, DType::f32});
  return result;
}

}  // namespace

AttentionLoops attention_loops(const Operand& q, const Operand& k, const Operand& v) {
  std::size_t rank = q.extent.size();
  AttentionLoops l;
  for (std::size_t d = 0; d + 2 < rank; ++d) l.batch *= q.extent[d];
  l.s = q.extent[rank - 2], l.e = q.extent[rank - 1], l.t = k.extent[rank - 2], l.f = v.extent[rank - 1];
  l.first = q.offset[rank - 2], l.rows = q.global[rank - 2];
  return l;
}

std::vector<AttributeSpec> Attention::attributes() const { return kAttributes; }

Result<AxisTable> Attention::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_flag(*this, a, 1));
  Walks w = UNITY_TRY(walks_of(name(), in));
  // Linear in v alone.
  w.v.linear = true;
  w.table.linearity = Linearity::multilinear;
  w.table.inputs = {w.q, w.k, w.v};
  w.table.outputs = {w.y};
  return w.table;
}

void Attention::gradient(const Attributes& a, GradientBuilder& g) const {
  GradientValue d = g.apply("attention_gradient", a, {g.input(0), g.input(1), g.input(2), g.output_gradient()});
  for (int i : {0, 1, 2})
    if (g.wanted(i)) g.set_input_gradient(i, g.result(d, i));
}

void Attention::reference(const OpCall& call) const {
  AttentionLoops l = attention_loops(call.inputs[0], call.inputs[1], call.inputs[2]);
  dispatch_reference(call, [&]<class T>() {
    std::vector<T> p(static_cast<std::size_t>(l.t));
    T scale = constant<T>(real_attribute(call.attributes, 0));
    for (std::int64_t b = 0; b < l.batch; ++b)
      for (std::int64_t r = 0; r < l.s; ++r) {
        const T *q = call.inputs[0].as<T>() + (b * l.s + r) * l.e, *k = call.inputs[1].as<T>() + b * l.t * l.e;
        const T* v = call.inputs[2].as<T>() + b * l.t * l.f;
        std::int64_t length = visible(call.attributes, l, r);
        probabilities(q, k, l, scale, length, p.data());
        for (std::int64_t j = 0; j < l.f; ++j) {
          T sum(0);
          for (std::int64_t i = 0; i < length; ++i) sum += p[static_cast<std::size_t>(i)] * v[i * l.f + j];
          call.outputs[0].as<T>()[(b * l.s + r) * l.f + j] = sum;
        }
      }
  });
}

std::vector<Example> Attention::examples() const {
  auto attributes = [](double scale, std::int64_t causal) { return Attributes{scale, causal}; };
  return {{attributes(0.5, 0), shapes({{2, 4, 3}, {2, 6, 3}, {2, 6, 2}})},
          {attributes(0.5, 1), shapes({{2, 2, 4, 2}, {2, 2, 4, 2}, {2, 2, 4, 2}})}};
}

std::string_view Attention::axioms() const {
  return R"(
axiom attention_definition
  attention(f, q, k, v) = batch_matmul(softmax(scale(f, batch_matmul(q, k, transpose_b=1))), v)
axiom causal_attention_definition
  attention(f, q, k, v, causal=1) = batch_matmul(causal_softmax(scale(f, batch_matmul(q, k, transpose_b=1))), v)
)";
}
UNITY_DEFINE_OPERATOR(attention, Attention)

std::vector<AttributeSpec> AttentionGradient::attributes() const { return kAttributes; }

Result<AxisTable> AttentionGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_flag(*this, a, 1));
  Walks w = UNITY_TRY(walks_of(name(), in.first(3)));
  UNITY_TRY(expect_real(name(), in));
  Shape expected = operand_shape(w.table, w.y);
  if (in[3] != expected)
    return fail("attention_gradient: operand 3 is {}, expected {}", to_string(in[3]), to_string(expected));
  w.y.linear = true;
  w.table.linearity = Linearity::multilinear;
  w.table.inputs = {w.q, w.k, w.v, w.y};
  w.table.outputs = {w.q, w.k, w.v};
  // Five products: q k^T again, dq and dk of e, dv and dy v^T of f.
  w.table.flops_per_point = 2 * static_cast<double>(3 * in[0].dims.back() + 2 * in[2].dims.back());
  return w.table;
}

// With p the probabilities of a row:  dv += p^T dy;  dp = dy v^T;  ds = p (dp - sum p dp);  dq = scale ds k;
// dk += scale ds^T q.
void AttentionGradient::reference(const OpCall& call) const {
  AttentionLoops l = attention_loops(call.inputs[0], call.inputs[1], call.inputs[2]);
  dispatch_reference(call, [&]<class T>() {
    std::vector<T> p(static_cast<std::size_t>(l.t)), ds(static_cast<std::size_t>(l.t));
    T scale = constant<T>(real_attribute(call.attributes, 0));
    for (const Operand& out : call.outputs) std::fill_n(out.as<T>(), out.elements(), T(0));
    for (std::int64_t b = 0; b < l.batch; ++b) {
      const T *k = call.inputs[1].as<T>() + b * l.t * l.e, *v = call.inputs[2].as<T>() + b * l.t * l.f;
      T *dk = call.outputs[1].as<T>() + b * l.t * l.e, *dv = call.outputs[2].as<T>() + b * l.t * l.f;
      for (std::int64_t r = 0; r < l.s; ++r) {
        const T *q = call.inputs[0].as<T>() + (b * l.s + r) * l.e, *dy = call.inputs[3].as<T>() + (b * l.s + r) * l.f;
        T *dq = call.outputs[0].as<T>() + (b * l.s + r) * l.e, inner(0);
        std::int64_t length = visible(call.attributes, l, r);
        probabilities(q, k, l, scale, length, p.data());
        for (std::int64_t i = 0; i < length; ++i) {
          auto n = static_cast<std::size_t>(i);
          ds[n] = T(0);
          for (std::int64_t j = 0; j < l.f; ++j) {
            ds[n] += dy[j] * v[i * l.f + j];
            dv[i * l.f + j] += p[n] * dy[j];
          }
          inner += p[n] * ds[n];
        }
        for (std::int64_t i = 0; i < length; ++i) {
          auto n = static_cast<std::size_t>(i);
          T slope = scale * p[n] * (ds[n] - inner);
          for (std::int64_t j = 0; j < l.e; ++j) dq[j] += slope * k[i * l.e + j], dk[i * l.e + j] += slope * q[j];
        }
      }
    }
  });
}

std::vector<Example> AttentionGradient::examples() const {
  auto attributes = [](double scale, std::int64_t causal) { return Attributes{scale, causal}; };
  return {{attributes(0.5, 0), shapes({{2, 4, 3}, {2, 6, 3}, {2, 6, 2}, {2, 4, 2}})},
          {attributes(0.5, 1), shapes({{2, 2, 4, 2}, {2, 2, 4, 2}, {2, 2, 4, 2}, {2, 2, 4, 2}})}};
}
UNITY_DEFINE_OPERATOR(attention_gradient, AttentionGradient)

}  // namespace unity
