// For model sources only: the layers that transformers share.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/models/family.h"

namespace unity {

// layer_norm and rms_norm over the last dimension, with weights "<name>.weight" (and "<name>.bias").
ValueRef norm_layer(Builder& b, const std::string& name, ValueRef x, double epsilon);
ValueRef rms_norm_layer(Builder& b, const std::string& name, ValueRef x, double epsilon);

// x Phi(x) in the approximation by tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016),
// composed of power, scale, add, sigmoid and mul, for (1 + tanh(z)) / 2 = sigmoid(2 z).
ValueRef gelu_tanh(Builder& b, ValueRef x, const std::string& name);

struct Projection {
  std::string name;
  DenseOptions dense;
};

// softmax(scale q k^T + bias) v W_out with q of x, and k and v of memory; x: [b, s, h], memory: [b, t, h']. Queries,
// keys and values are three matrices, also where published weights keep them as one: so heads can be split.
struct AttentionLayer {
  std::int64_t heads = 1, head_size = 1;
  double scale = 1;
  bool causal = false;
  bool fused = false;            // as the operator `attention`, which takes no bias
  std::optional<ValueRef> bias;  // of the scores, broadcast to [b, heads, s, t]
  Projection query, key, value, output;
};
ValueRef attention_layer(Builder& b, const AttentionLayer& layer, ValueRef x, ValueRef memory);

// InputError "model M: option 'a' is .., expected a divisor of 'b', which is ..".
void expect_divisor(const std::string& model, const ModelOptions& options, const std::string& divisor,
                    const std::string& of);

}  // namespace unity
