#include "core/models/onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/models/onnx/fold_array.h"

namespace unity {

using namespace folding;

namespace {

using Rule = std::function<Array(const Call&)>;

enum class Kind : std::uint8_t { as_operands, truth };

// Of two operands, or of any number from `least` on.
Rule binary(Kind kind, double (*f)(double, double, bool), std::size_t least = 2) {
  return [kind, f, least](const Call& c) {
    Array r = c.in(0);
    for (std::size_t k = 1; k < std::max(least, c.tensors.size()); ++k) {
      Array y = c.in(k);
      Dims dims = broadcast_dims(r.dims, y.dims);
      Array a = broadcast(r, dims), b = broadcast(y, dims);
      for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] = f(a.values[i], b.values[i], a.integral);
      a.integral |= kind == Kind::truth;
      r = std::move(a);
    }
    return r;
  };
}

Rule unary(double (*f)(double)) {
  return [f](const Call& c) {
    Array x = c.in(0);
    std::transform(x.values.begin(), x.values.end(), x.values.begin(), f);
    return x;
  };
}

Array constant(const Call& c) {
  for (const auto& [name, value] : c.node.attributes) {
    if (auto t = std::get_if<OnnxTensorRef>(&value)) return Array(**t);
    Array r;
    if (auto integer = std::get_if<std::int64_t>(&value)) {
      r = Array({}, true);
      r.values[0] = static_cast<double>(*integer);
    } else if (auto real = std::get_if<double>(&value)) {
      r = Array({}, false);
      r.values[0] = *real;
    } else if (auto integers = std::get_if<Dims>(&value)) {
      r = Array({static_cast<std::int64_t>(integers->size())}, true);
      r.values.assign(integers->begin(), integers->end());
    } else if (auto reals = std::get_if<std::vector<double>>(&value)) {
      r = Array({static_cast<std::int64_t>(reals->size())}, false);
      r.values = *reals;
    } else {
      continue;
    }
    return r;
  }
  throw_input_error("found no value of numbers");
}

Array constant_of_shape(const Call& c) {
  OnnxTensorRef value = c.attribute<OnnxTensorRef>("value", nullptr);
  Array r(c.integers(0, "", {}), value && value->integral);
  std::fill(r.values.begin(), r.values.end(), value && value->elements() > 0 ? value->number(0) : 0.0);
  return r;
}

Array cast(const Call& c) {
  Array x = c.in(0);
  std::int64_t to = c.attribute<std::int64_t>("to", 1);
  x.integral = to != 1 && to != 10 && to != 11 && to != 16;  // FLOAT, FLOAT16, DOUBLE, BFLOAT16
  for (double& v : x.values)
    if (to == 9)  // BOOL
      v = v != 0;
    else if (x.integral)
      v = std::trunc(v);
  return x;
}

Array where(const Call& c) {
  Array condition = c.in(0), x = c.in(1), y = c.in(2);
  Dims dims = broadcast_dims(condition.dims, broadcast_dims(x.dims, y.dims));
  condition = broadcast(condition, dims), x = broadcast(x, dims), y = broadcast(y, dims);
  for (std::size_t i = 0; i < x.values.size(); ++i)
    if (condition.values[i] == 0) x.values[i] = y.values[i];
  return x;
}

Array product(const Call& c) {
  Array x = c.in(0), r({}, x.integral);
  if (x.dims.size() != 1) throw_input_error("found a constant of {} dimensions, expected 1", x.dims.size());
  r.values[0] = std::accumulate(x.values.begin(), x.values.end(), 1.0, std::multiplies<>());
  return c.attribute<std::int64_t>("keepdims", 1) ? with_dims(std::move(r), {1}) : r;
}

double divided(double a, double b, bool integral) {
  if (integral && b == 0) throw_input_error("found a division by 0");
  return integral ? std::trunc(a / b) : a / b;
}
// With the sign of b, or with fmod=1 of a.
double floored(double a, double b, bool integral) {
  if (integral && b == 0) throw_input_error("found a division by 0");
  double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double truncated(double a, double b, bool integral) {
  if (integral && b == 0) throw_input_error("found a division by 0");
  return std::fmod(a, b);
}
Array remainder(const Call& c) {
  return binary(Kind::as_operands, c.attribute<std::int64_t>("fmod", 0) ? truncated : floored)(c);
}

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> table = {
      {"Abs", unary([](double x) { return std::abs(x); })},
      {"Add", binary(Kind::as_operands, [](double a, double b, bool) { return a + b; })},
      {"And", binary(Kind::truth, [](double a, double b, bool) { return double(a != 0 && b != 0); })},
      {"Cast", cast},
      {"Ceil", unary([](double x) { return std::ceil(x); })},
      {"Concat", concat},
      {"Constant", constant},
      {"ConstantOfShape", constant_of_shape},
      {"Div", binary(Kind::as_operands, divided)},
      {"Equal", binary(Kind::truth, [](double a, double b, bool) { return double(a == b); })},
      {"Exp", unary([](double x) { return std::exp(x); })},
      {"Expand", expand},
      {"Floor", unary([](double x) { return std::floor(x); })},
      {"Gather", gather},
      {"Greater", binary(Kind::truth, [](double a, double b, bool) { return double(a > b); })},
      {"GreaterOrEqual", binary(Kind::truth, [](double a, double b, bool) { return double(a >= b); })},
      {"Identity", [](const Call& c) { return c.in(0); }},
      {"Less", binary(Kind::truth, [](double a, double b, bool) { return double(a < b); })},
      {"LessOrEqual", binary(Kind::truth, [](double a, double b, bool) { return double(a <= b); })},
      {"Log", unary([](double x) { return std::log(x); })},
      {"Max", binary(
                  Kind::as_operands, [](double a, double b, bool) { return std::max(a, b); }, 1)},
      {"Min", binary(
                  Kind::as_operands, [](double a, double b, bool) { return std::min(a, b); }, 1)},
      {"Mod", remainder},
      {"Mul", binary(Kind::as_operands, [](double a, double b, bool) { return a * b; })},
      {"Neg", unary([](double x) { return -x; })},
      {"Not", unary([](double x) { return double(x == 0); })},
      {"Or", binary(Kind::truth, [](double a, double b, bool) { return double(a != 0 || b != 0); })},
      {"Pow", binary(Kind::as_operands, [](double a, double b, bool) { return std::pow(a, b); })},
      {"Range", range},
      {"ReduceProd", product},
      {"Reshape", reshape},
      {"Slice", slice},
      {"Sqrt", unary([](double x) { return std::sqrt(x); })},
      {"Squeeze", squeeze},
      {"Sub", binary(Kind::as_operands, [](double a, double b, bool) { return a - b; })},
      {"Transpose", transpose},
      {"Trilu", triangle},
      {"Unsqueeze", unsqueeze},
      {"Where", where},
  };
  return table;
}

}  // namespace

std::optional<std::vector<OnnxTensorRef>> fold(const OnnxNode& node, const std::vector<OnnxTensorRef>& inputs,
                                               std::int64_t opset) {
  auto found = rules().find(node.op);
  if (found == rules().end() || !node.domain.empty()) return std::nullopt;
  return std::vector<OnnxTensorRef>{found->second(Call{node, inputs, opset}).tensor()};
}

}  // namespace unity
