#include "core/models/mixture.h"

#include "core/models/transformer_layers.h"

namespace unity {
namespace {

// tokens: [e, n, d]
ValueRef experts(Builder& b, const SwitchLayer& layer, ValueRef tokens) {
  Builder::Scope scope(b, "experts");
  std::int64_t d = b.dims(tokens).back();
  ValueRef in = b.weight("wi", {layer.experts, d, layer.hidden}, "normal", layer.scale);
  ValueRef out = b.weight("wo", {layer.experts, layer.hidden, d}, "normal", layer.output_scale);
  ValueRef h = gelu_tanh(b, b.apply("batch_matmul", {}, {tokens, in}, "in"), "gelu");
  return b.apply("batch_matmul", {}, {h, out}, "out");
}

ValueRef balance_loss(Builder& b, ValueRef gates) {
  Builder::Scope scope(b, "balance");
  // The best expert of each token, whether or not that has a place for it: every token is a group of its own.
  Dims d = b.dims(gates);
  ValueRef alone = b.apply("reshape", {Dims{d[0] * d[1], 1, d[2]}}, {gates}, "tokens");
  ValueRef best = b.apply("top1_dispatch", {std::int64_t{1}}, {alone}, "best");
  ValueRef share = b.apply("reduce_mean", {Dims{0, 1}}, {b.apply("reshape", {d}, {best}, "best.by_token")}, "share");
  ValueRef gate = b.apply("reduce_mean", {Dims{0, 1}}, {gates}, "gate");
  ValueRef sum = b.apply("reduce_sum", {Dims{0}}, {b.apply("mul", {}, {share, gate}, "product")}, "sum");
  return b.apply("scale", {static_cast<double>(b.dims(gates).back())}, {sum}, "scale");
}

}  // namespace

SwitchResult switch_layer(Builder& b, const std::string& name, const SwitchLayer& layer, ValueRef x, bool balance) {
  Builder::Scope scope(b, name);
  Dims size = b.dims(x);
  std::int64_t n = size[0], t = size[1], d = size[2], e = layer.experts, c = layer.capacity;
  auto reshape = [&](ValueRef v, Dims shape, const char* label) {
    return b.apply("reshape", {std::move(shape)}, {v}, label);
  };
  ValueRef scores = dense(b, "router", x, e, {.bias = false, .init = "normal", .scale = layer.scale});
  ValueRef gates = b.apply("softmax", {}, {scores}, "gates");
  ValueRef dispatch = b.apply("top1_dispatch", {c}, {gates}, "dispatch");

  ValueRef places = reshape(dispatch, {n, t, e * c}, "dispatch.places");
  ValueRef tokens = b.apply("batch_matmul", {std::int64_t{1}, std::int64_t{0}}, {places, x}, "tokens");
  tokens = reshape(tokens, {n, e, c, d}, "tokens.by_expert");
  tokens = b.apply("transpose", {Dims{1, 0, 2, 3}}, {tokens}, "tokens.transpose");
  ValueRef y = experts(b, layer, reshape(tokens, {e, n * c, d}, "tokens.merge"));
  y = b.apply("transpose", {Dims{1, 0, 2, 3}}, {reshape(y, {e, n, c, d}, "results.split")}, "results.transpose");
  y = reshape(y, {n, e * c, d}, "results.places");

  ValueRef combine = b.apply("mul", {}, {dispatch, reshape(gates, {n, t, e, 1}, "gates.expand")}, "combine");
  combine = reshape(combine, {n, t, e * c}, "combine.places");
  SwitchResult result;
  result.y = b.apply("batch_matmul", {}, {combine, y}, "output");
  if (balance) result.balance = balance_loss(b, gates);
  return result;
}

}  // namespace unity
