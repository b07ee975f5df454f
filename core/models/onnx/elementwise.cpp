// Element-wise operators. Constants of one element become attributes (shift, scale, power), so that rules can see them.
#include <algorithm>
#include <cmath>

#include "core/models/onnx/fold.h"
#include "core/models/onnx/translations.h"

namespace unity {
namespace {

// The constant of operand i, when the other operand alone gives the result its shape.
std::optional<double> factor(const OnnxContext& c, std::size_t i) {
  auto value = c.scalar(i);
  if (!value || !std::isfinite(*value) || c.integral(1 - i) || c.dims(i).size() > c.dims(1 - i).size())
    return std::nullopt;
  return value;
}

void require_reals(const OnnxContext& c) {
  for (std::size_t i = 0; i < c.operands(); ++i)
    if (c.given(i) && c.integral(i)) c.unsupported("arithmetic on integers that are computed from data");
}

void binary(OnnxContext& c, const std::string& op) {
  require_reals(c);
  c.result(0, c.emit(op, {}, {c.tensor(0), c.tensor(1)}));
}

void unary(OnnxContext& c, const std::string& op, const NamedAttributes& attributes = {}) {
  require_reals(c);
  c.result(0, c.emit(op, attributes, {c.tensor(0)}));
}

// A sum, minimum or maximum of any number of operands.
void many(OnnxContext& c, const std::string& op) {
  require_reals(c);
  ValueRef r = c.tensor(0);
  for (std::size_t i = 1; i < c.operands(); ++i) r = c.emit(op, {}, {r, c.tensor(i)});
  c.result(0, r);
}

ValueRef at_least(OnnxContext& c, ValueRef x, double low) {
  return low == 0 ? c.emit("relu", {}, {x}) : c.emit("maximum", {}, {x, c.scalar_state(low)});
}

}  // namespace

void onnx_Abs(OnnxContext& c) {
  require_reals(c);
  ValueRef x = c.tensor(0);
  c.result(0, c.emit("add", {}, {c.emit("relu", {}, {x}), c.emit("relu", {}, {c.scale(-1, x)})}));
}

void onnx_Add(OnnxContext& c) {
  if (auto s = factor(c, 1)) return c.result(0, c.shift(*s, c.tensor(0)));
  if (auto s = factor(c, 0)) return c.result(0, c.shift(*s, c.tensor(1)));
  binary(c, "add");
}

void onnx_Sub(OnnxContext& c) {
  if (auto s = factor(c, 1)) return c.result(0, c.shift(-*s, c.tensor(0)));
  if (auto s = factor(c, 0)) return c.result(0, c.shift(*s, c.scale(-1, c.tensor(1))));
  binary(c, "sub");
}

void onnx_Mul(OnnxContext& c) {
  if (auto s = factor(c, 1)) return c.result(0, c.scale(*s, c.tensor(0)));
  if (auto s = factor(c, 0)) return c.result(0, c.scale(*s, c.tensor(1)));
  binary(c, "mul");
}

void onnx_Div(OnnxContext& c) {
  if (auto s = factor(c, 1); s && *s != 0) return c.result(0, c.scale(1 / *s, c.tensor(0)));
  if (auto s = factor(c, 0)) {
    require_reals(c);
    return c.result(0, c.scale(*s, c.emit("power", {{"exponent", -1.0}}, {c.tensor(1)})));
  }
  binary(c, "div");
}

void onnx_Pow(OnnxContext& c) {
  auto exponent = c.scalar(1);
  if (!exponent) c.unsupported("an exponent that is not a constant number");
  if (c.integral(0)) c.unsupported("arithmetic on integers that are computed from data");
  ValueRef y = *exponent == 1 ? c.tensor(0) : c.emit("power", {{"exponent", *exponent}}, {c.tensor(0)});
  c.result(0, c.reshape(y, broadcast_dims(c.dims(0), c.dims(1))));
}

void onnx_Min(OnnxContext& c) { many(c, "minimum"); }
void onnx_Max(OnnxContext& c) { many(c, "maximum"); }
void onnx_Sum(OnnxContext& c) { many(c, "add"); }
void onnx_Sqrt(OnnxContext& c) { unary(c, "sqrt"); }
void onnx_Exp(OnnxContext& c) { unary(c, "exp"); }
void onnx_Log(OnnxContext& c) { unary(c, "log"); }
void onnx_Erf(OnnxContext& c) { unary(c, "erf"); }
void onnx_Relu(OnnxContext& c) { unary(c, "relu"); }
void onnx_Tanh(OnnxContext& c) { unary(c, "tanh"); }
void onnx_Sigmoid(OnnxContext& c) { unary(c, "sigmoid"); }
void onnx_Reciprocal(OnnxContext& c) { unary(c, "power", {{"exponent", -1.0}}); }

void onnx_Neg(OnnxContext& c) {
  require_reals(c);
  c.result(0, c.scale(-1, c.tensor(0)));
}

void onnx_LeakyRelu(OnnxContext& c) {
  require_reals(c);
  double alpha = c.real("alpha", 0.01);
  ValueRef x = c.tensor(0), negative = c.emit("relu", {}, {c.scale(-1, x)});
  c.result(0, c.emit("add", {}, {c.emit("relu", {}, {x}), c.scale(-alpha, negative)}));
}

void onnx_Clip(OnnxContext& c) {
  if (c.integral(0)) c.unsupported("arithmetic on integers that are computed from data");
  auto bound = [&](std::size_t i, const char* name) -> std::optional<double> {
    if (!c.given(i)) return c.has(name) ? std::optional(c.real(name, 0)) : std::nullopt;
    auto value = c.scalar(i);
    if (!value) c.unsupported("a bound that is computed from data");
    return value;
  };
  auto low = bound(1, "min"), high = bound(2, "max");
  constexpr double kWidest = 3e38;  // what exporters write for 'none'
  ValueRef x = c.tensor(0);
  if (low && *low > -kWidest) x = at_least(c, x, *low);
  if (high && *high < kWidest) x = c.emit("minimum", {}, {x, c.scalar_state(*high)});
  c.result(0, x);
}

// gelu; with approximate="tanh": x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
void onnx_Gelu(OnnxContext& c) {
  ValueRef x = c.tensor(0);
  if (c.text("approximate", "none") == "none") return c.result(0, c.emit("gelu", {}, {x}));
  ValueRef cube = c.emit("power", {{"exponent", 3.0}}, {x});
  ValueRef inner = c.scale(std::sqrt(2 / M_PI), c.emit("add", {}, {x, c.scale(0.044715, cube)}));
  c.result(0, c.scale(0.5, c.emit("mul", {}, {x, c.shift(1, c.emit("tanh", {}, {inner}))})));
}

void onnx_Where(OnnxContext& c) {
  if (c.integral(1) || c.integral(2)) c.unsupported("a choice between integers that are computed from data");
  c.result(0, c.emit("where", {}, {c.tensor(0), c.tensor(1), c.tensor(2)}));
}

void onnx_Cast(OnnxContext& c) {
  const OnnxValue& v = c.value(0);
  std::int64_t to = c.integer("to", 1);
  bool to_real = to == 1 || to == 10 || to == 11 || to == 16;  // FLOAT, FLOAT16, DOUBLE, BFLOAT16
  if (!to_real && (to == 8 || to > 13)) c.unsupported("a cast to element type number {}", to);
  if (v.parameter && to_real) return c.result(0, v);
  ValueRef x = c.tensor(0);
  bool was_integer = c.integral_of(x);
  if (to == 9) {  // every number but 0 is true, which is 1
    if (!was_integer) c.unsupported("a cast of reals to booleans");
    ValueRef real = c.emit("cast", {{"dtype", std::string("f32")}}, {x});
    ValueRef above = c.emit("greater", {}, {c.emit("mul", {}, {real, real}), c.scalar_state(0)});
    return c.result(0, above);
  }
  if (to_real == was_integer) x = c.emit("cast", {{"dtype", std::string(to_real ? "f32" : "i32")}}, {x});
  c.result(0, x);
}

void onnx_Identity(OnnxContext& c) { c.result(0, c.value(0)); }

// In inference the identity; in training a product with a mask.
void onnx_Dropout(OnnxContext& c) {
  if (c.wanted(1)) c.unsupported("the mask as a result");
  double rate = c.real("ratio", 0.5);
  bool training = false;
  if (c.given(1)) {
    auto ratio = c.scalar(1);
    if (!ratio) c.unsupported("a ratio that is computed from data");
    rate = *ratio;
  }
  if (c.given(2)) {
    auto mode = c.scalar(2);
    if (!mode) c.unsupported("a training mode that is computed from data");
    training = *mode != 0;
  }
  if (!training || rate == 0) return c.result(0, c.value(0));
  c.result(0, c.translation().builder.dropout(rate, c.tensor(0), c.label()));
}

}  // namespace unity
