#include "core/models/onnx/loss.h"

#include <algorithm>

#include "core/base/text.h"

namespace unity {
namespace {

ValueRef below(const Pcg& pcg, ValueRef v, std::string_view op) {
  const Node& node = pcg[v.node];
  return node.op->name() == op ? node.inputs[0] : v;
}

ValueRef logits_of(const Pcg& pcg, ValueRef output, const std::string& loss) {
  if (loss == "binary_cross_entropy") return below(pcg, output, "sigmoid");
  if (loss != "cross_entropy") return output;
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
