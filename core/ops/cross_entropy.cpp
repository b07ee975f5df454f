#include "core/ops/cross_entropy.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/rows.h"

namespace unity {
namespace {

struct Operands {
  AxisTable table;
  OperandAxes logits, labels;
};
Result<Operands> operands(std::string_view op, std::span<const Shape> in, AxisRole rows) {
  UNITY_TRY(expect_real(op, in.first(1)));
  UNITY_TRY(expect_rank(op, in, 0, 1));
  UNITY_TRY(expect_indices(op, in, 1));
  const Dims& x = in[0].dims;
  if (!std::equal(x.begin(), x.end() - 1, in[1].dims.begin(), in[1].dims.end()))
    return fail("{}: found logits {} and labels {}, expected one label for each row", op, to_string(in[0]),
                to_string(in[1]));
  Operands r;
  walk_dims(r.table, r.labels, x, 0, x.size() - 1, rows);
  r.logits = r.labels;
  r.logits.dims.push_back(walk({add_axis(r.table, "c", x.back(), AxisRole::whole)}));
  r.logits.dtype = in[0].dtype;
  r.labels.dtype = DType::i32;
  return r;
}

}  // namespace

std::int32_t checked_label(const Operand& labels, std::int64_t row, std::int64_t c) {
  std::int32_t label = labels.as<std::int32_t>()[row];
  if (label < 0 || label >= c) throw_input_error("cross_entropy: label is {}, expected 0 to {}", label, c - 1);
  return label;
}

Result<AxisTable> CrossEntropy::axes(const Attributes&, std::span<const Shape> in) const {
  Operands r = UNITY_TRY(operands(name(), in, AxisRole::reduction));
  OperandAxes loss;
  loss.dtype = in[0].dtype;
  r.table.inputs = {r.logits, r.labels};
  r.table.outputs = {loss};
  r.table.flops_per_point = 5;
  return r.table;
}

void CrossEntropy::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(0))
    g.set_input_gradient(0, g.apply("cross_entropy_gradient", {}, {g.input(0), g.input(1), g.output_gradient()}));
}

void CrossEntropy::reference(const OpCall& call) const {
  const Operand& logits = call.inputs[0];
  std::int64_t c = logits.extent.back();
  dispatch_reference(call, [&]<class T>() {
    T loss(0);
    std::vector<T> e(static_cast<std::size_t>(c));
    for (std::int64_t r = 0; r < row_count(logits); ++r) {
      const T* x = logits.as<T>() + r * c;
      auto [sum, shift] = exponentials(x, c, e.data(), true);
      loss += num::apply(num::Function::log, sum) + shift - x[checked_label(call.inputs[1], r, c)];
    }
    *call.outputs[0].as<T>() = loss * constant<T>(1.0 / static_cast<double>(global_rows(logits)));
  });
}

std::string_view CrossEntropy::axioms() const {
  return R"(
axiom cross_entropy_definition_of_rows
  let m = reduce_max([1], x, detached=1)
  cross_entropy(x, y) = reduce_mean([0], sub(add(log(reduce_sum([1], exp(sub(x, reshape([dim(x, 0), 1], m))))), m), pick(x, y)))
  where rank(x) == 2

axiom cross_entropy_definition_of_sequences
  let m = reduce_max([2], x, detached=1)
  cross_entropy(x, y) = reduce_mean([0, 1], sub(add(log(reduce_sum([2], exp(sub(x, reshape([dim(x, 0), dim(x, 1), 1], m))))), m), pick(x, y)))
  where rank(x) == 3
)";
}

std::vector<Example> CrossEntropy::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4}, DType::i32}}, 6}, {{}, {{{2, 4, 3}, DType::f32}, {{2, 4}, DType::i32}}, 3}};
}
std::optional<std::int64_t> CrossEntropy::index_bound(const Attributes&, std::span<const Shape> in,
                                                      std::size_t k) const {
  return k == 1 ? std::optional(in[0].dims.back()) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(cross_entropy, CrossEntropy)

Result<AxisTable> CrossEntropyGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Operands r = UNITY_TRY(operands(name(), in, AxisRole::parallel));
  if (Shape scalar{{}, in[0].dtype}; in[2] != scalar)
    return fail("cross_entropy_gradient: operand 2 is {}, expected {}", to_string(in[2]), to_string(scalar));
  OperandAxes dy;
  dy.dtype = in[0].dtype;
  dy.linear = true;
  r.table.inputs = {r.logits, r.labels, dy};
  r.table.outputs = {r.logits};
  r.table.linearity = Linearity::multilinear;
  r.table.flops_per_point = 6;
  return r.table;
}

void CrossEntropyGradient::reference(const OpCall& call) const {
  const Operand& logits = call.inputs[0];
  std::int64_t c = logits.extent.back();
  dispatch_reference(call, [&]<class T>() {
    T factor = *call.inputs[2].as<T>() * constant<T>(1.0 / static_cast<double>(global_rows(logits)));
    for (std::int64_t r = 0; r < row_count(logits); ++r) {
      T* dx = call.outputs[0].as<T>() + r * c;
      T inverse = num::apply(num::Function::reciprocal, exponentials(logits.as<T>() + r * c, c, dx).sum);
      std::int32_t label = checked_label(call.inputs[1], r, c);
      for (std::int64_t j = 0; j < c; ++j) dx[j] = (dx[j] * inverse - T(j == label ? 1 : 0)) * factor;
    }
  });
}

std::vector<Example> CrossEntropyGradient::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4}, DType::i32}, {{}, DType::f32}}, 6},
          {{}, {{{2, 4, 3}, DType::f32}, {{2, 4}, DType::i32}, {{}, DType::f32}}, 3}};
}
std::optional<std::int64_t> CrossEntropyGradient::index_bound(const Attributes&, std::span<const Shape> in,
                                                              std::size_t k) const {
  return k == 1 ? std::optional(in[0].dims.back()) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(cross_entropy_gradient, CrossEntropyGradient)

}  // namespace unity
