#include "core/models/transformer_layers.h"

#include <cmath>
#include <numbers>

namespace unity {
namespace {

// [b, s, heads * e] -> [b, heads, s, e]
ValueRef project_heads(Builder& b, const AttentionLayer& layer, const Projection& projection, ValueRef x) {
  ValueRef y = dense(b, projection.name, x, layer.heads * layer.head_size, projection.dense);
  Builder::Scope scope(b, projection.name);
  Dims d = b.dims(y);
  y = b.apply("reshape", {Dims{d[0], d[1], layer.heads, layer.head_size}}, {y}, "split_heads");
  return b.apply("transpose", {Dims{0, 2, 1, 3}}, {y}, "transpose");
}

ValueRef attend(Builder& b, const AttentionLayer& layer, ValueRef q, ValueRef k, ValueRef v) {
  if (layer.fused) return b.apply("attention", {layer.scale, std::int64_t{layer.causal}}, {q, k, v}, "context");
  ValueRef scores = b.apply("batch_matmul", {std::int64_t{0}, std::int64_t{1}}, {q, k}, "scores");
  if (layer.scale != 1) scores = b.apply("scale", {layer.scale}, {scores}, "scores.scale");
  if (layer.bias) scores = b.apply("add", {}, {scores, *layer.bias}, "scores.add_bias");
  ValueRef weights = b.apply(layer.causal ? "causal_softmax" : "softmax", {}, {scores}, "softmax");
  return b.apply("batch_matmul", {}, {weights, v}, "context");
}

}  // namespace

ValueRef norm_layer(Builder& b, const std::string& name, ValueRef x, double epsilon) {
  Builder::Scope scope(b, name);
  Dims size = {b.dims(x).back()};
  return b.apply("layer_norm", {epsilon}, {x, b.weight("weight", size, "ones"), b.weight("bias", size, "zeros")});
}

ValueRef rms_norm_layer(Builder& b, const std::string& name, ValueRef x, double epsilon) {
  Builder::Scope scope(b, name);
  return b.apply("rms_norm", {epsilon}, {x, b.weight("weight", {b.dims(x).back()}, "ones")});
}

ValueRef gelu_tanh(Builder& b, ValueRef x, const std::string& name) {
  Builder::Scope scope(b, name);
  ValueRef cubed = b.apply("scale", {0.044715}, {b.apply("power", {3.0}, {x}, "cube")}, "cube.scale");
  ValueRef z = b.apply("add", {}, {x, cubed}, "sum");
  ValueRef twice = b.apply("scale", {2 * std::sqrt(2 / std::numbers::pi)}, {z}, "scale");
  return b.apply("mul", {}, {x, b.apply("sigmoid", {}, {twice}, "sigmoid")}, "mul");
}

ValueRef attention_layer(Builder& b, const AttentionLayer& layer, ValueRef x, ValueRef memory) {
  ValueRef q = project_heads(b, layer, layer.query, x);
  ValueRef k = project_heads(b, layer, layer.key, memory);
  ValueRef v = project_heads(b, layer, layer.value, memory);
  ValueRef context = attend(b, layer, q, k, v);
  context = b.apply("transpose", {Dims{0, 2, 1, 3}}, {context}, "context.transpose");
  Dims d = b.dims(context);
  context = b.apply("reshape", {Dims{d[0], d[1], d[2] * d[3]}}, {context}, "merge_heads");
  return dense(b, layer.output.name, context, b.dims(x).back(), layer.output.dense);
}

void expect_divisor(const std::string& model, const ModelOptions& options, const std::string& divisor,
                    const std::string& of) {
  if (options.at(of) % options.at(divisor) != 0)
    throw_input_error("model {}: option '{}' is {}, expected a divisor of '{}', which is {}", model, divisor,
                      options.at(divisor), of, options.at(of));
}

}  // namespace unity
