#include "core/models/onnx/loss.h"

#include <algorithm>

#include "core/base/text.h"

namespace unity {
namespace {

ValueRef below(const Pcg& pcg, ValueRef v, std::string_view op) {
  const Node& node = pcg[v.node];
  return node.op->name() == op ? node.inputs[0] : v;
}

// x where v is x - m - log(sum(exp(x - m))), as a LogSoftmax is imported; else v.
ValueRef below_log_softmax(const Pcg& pcg, ValueRef v) {
  auto operand = [&](ValueRef of, std::string_view op, std::size_t i) {
    return of.node.valid() && pcg[of.node].op->name() == op ? pcg[of.node].inputs[i] : ValueRef{};
  };
  ValueRef centred = operand(v, "sub", 0), sum = operand(operand(operand(v, "sub", 1), "reshape", 0), "log", 0);
  ValueRef x = operand(centred, "sub", 0), most = operand(operand(centred, "sub", 1), "reshape", 0);
  bool same = x.node.valid() && operand(operand(sum, "reduce_sum", 0), "exp", 0) == centred &&
              operand(most, "reduce_max", 0) == x &&
              ints_attribute(pcg[sum.node].attributes, 0) == ints_attribute(pcg[most.node].attributes, 0) &&
              ints_attribute(pcg[sum.node].attributes, 0) ==
                  Dims{static_cast<std::int64_t>(pcg.shape(x).shape().dims.size()) - 1};
  return same ? x : v;
}

ValueRef logits_of(const Pcg& pcg, ValueRef output, const std::string& loss) {
  if (loss == "binary_cross_entropy") return below(pcg, output, "sigmoid");
  if (loss != "cross_entropy") return output;
  if (ValueRef x = below_log_softmax(pcg, output); x != output) return x;
  ValueRef probabilities = below(pcg, output, "log"), logits = below(pcg, probabilities, "softmax");
  return logits == probabilities ? output : logits;
}

}  // namespace

const std::vector<std::string>& onnx_losses() {
  static const std::vector<std::string> losses = {"cross_entropy", "mean_squared_error", "binary_cross_entropy",
                                                  "none"};
  return losses;
}

void append_onnx_loss(Pcg& pcg, const std::string& loss, const std::string& labels) {
  const std::vector<std::string>& known = onnx_losses();
  if (std::find(known.begin(), known.end(), loss) == known.end())
    throw_input_error("loss: found '{}'{}", loss, suggestion(loss, known));
  if (loss == "none") return;
  const Operator* op = find_operator(loss);
  if (!op) throw_input_error("loss {}: is not in this build", loss);
  for (const Node& node : pcg.nodes())
    if (node.is_leaf() && node.name == labels)
      throw_input_error("loss {}: the name '{}' of its labels is taken, expected another (--labels)", loss, labels);
  std::vector<ValueRef> outputs = pcg.outputs();
  ValueRef x = logits_of(pcg, outputs.at(0), loss);
  Shape shape = pcg.shape(x).shape();
  if (shape.dtype != DType::f32 || shape.dims.empty())
    throw_input_error("loss {}: the first output is {}, expected a tensor of real numbers", loss, to_string(shape));
  Dims dims = shape.dims;
  bool classes = loss == "cross_entropy";
  if (classes) dims.pop_back();
  auto add = [&](const Operator& which, Attributes attributes, std::vector<ValueRef> inputs, const std::string& name) {
    auto added = pcg.try_add(which, std::move(attributes), std::move(inputs),
                             OriginId(static_cast<std::int64_t>(pcg.size())), name);
    if (!added.ok()) throw_input_error("loss {}: {}", loss, added.error().message);
    return ValueRef{*added, 0};
  };
  ValueRef targets = add(get_operator("input"), {dims, std::string(classes ? "i32" : "f32")}, {}, labels);
  Attributes attributes;
  for (const AttributeSpec& spec : op->attributes()) attributes.push_back(spec.fallback);
  outputs.insert(outputs.begin(), add(*op, std::move(attributes), {x, targets}, "loss"));
  pcg.set_outputs(std::move(outputs));
}

}  // namespace unity
