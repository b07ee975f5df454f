#include "core/graph/autodiff.h"

#include <algorithm>
#include <map>
#include <set>

namespace unity {
namespace {

bool differentiable(const Pcg& pcg, ValueRef v) { return pcg.shape(v).dtype != DType::i32; }

// Builds the training graph: a copy of the forward graph, then the gradient of each node in reverse order.
class Differentiation {
 public:
  explicit Differentiation(const Pcg& forward) : forward_(forward), graph_(forward), needs_(needs_gradient(forward)) {
    for (const Node& node : forward.nodes()) {
      names_.insert(node.name);
      next_origin_ = std::max(next_origin_, node.origin.value + 1);
    }
  }

  Result<Pcg> run() {
    for (const Node& node : forward_.nodes())
      for (const ParallelShape& shape : node.outputs)
        if (node.is_parallelization() || shape.parallel())
          return fail("differentiate: {} '{}' is parallel, expected a graph without parallelism", node.op->name(),
                      node.name);
    ValueRef loss = forward_.outputs().at(0);
    if (!forward_.shape(loss).dims.empty())
      return fail("differentiate: output 0 of '{}' is {}, expected a scalar loss", forward_.name(),
                  to_string(forward_.shape(loss)));
    gradients_[loss] = UNITY_TRY(add(get_operator("input"), {Integers{}}, {}, "loss_gradient"));
    for (std::size_t i = forward_.size(); i-- > 0;) UNITY_TRY(backward(NodeId(static_cast<std::int64_t>(i))));
    std::vector<ValueRef> outputs = forward_.outputs();
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      ValueRef weight{NodeId(static_cast<std::int64_t>(i)), 0};
      if (forward_.nodes()[i].op->name() != "weight") continue;
      if (!gradients_.contains(weight))
        return fail("differentiate: the loss does not depend on weight '{}'", forward_.nodes()[i].name);
      outputs.push_back(gradients_.at(weight));
    }
    graph_.set_outputs(std::move(outputs));
    return std::move(graph_);
  }

 private:
  Result<int> backward(NodeId id) {
    const Node& node = forward_[id];
    bool reached = false;
    for (std::size_t r = 0; r < node.outputs.size(); ++r)
      reached = reached || gradients_.contains({id, static_cast<int>(r)});
    if (!reached || node.is_leaf() || !needs_[id.index()]) return 0;
    GradientProgram program = gradient_program(forward_, id, needs_);
    std::vector<std::vector<ValueRef>> steps;
    for (const GradientStep& step : program.steps) {
      std::vector<ValueRef> inputs;
      for (GradientValue v : step.inputs) inputs.push_back(UNITY_TRY(value(id, v, steps)));
      ValueRef first = UNITY_TRY(add(*step.op, step.attributes, inputs, node.name + ".gradient"));
      steps.emplace_back();
      for (std::size_t r = 0; r < graph_[first.node].outputs.size(); ++r)
        steps.back().push_back({first.node, static_cast<int>(r)});
    }
    for (std::size_t j = 0; j < node.inputs.size(); ++j) {
      ValueRef input = node.inputs[j];
      if (!needs_[input.node.index()] || !differentiable(forward_, input)) continue;
      if (!program.input_gradients[j])
        return fail("differentiate: {} '{}' has no gradient for operand {}", node.op->name(), node.name, j);
      UNITY_TRY(accumulate(input, UNITY_TRY(value(id, *program.input_gradients[j], steps))));
    }
    return 0;
  }

  // A value of the gradient program of `id`, in the training graph. An output that the loss does not reach has gradient
  // zero.
  Result<ValueRef> value(NodeId id, GradientValue v, const std::vector<std::vector<ValueRef>>& steps) {
    auto i = static_cast<std::size_t>(v.index);
    switch (v.kind) {
      case GradientValue::Kind::input:
        return forward_[id].inputs.at(i);
      case GradientValue::Kind::output:
        return ValueRef{id, v.index};
      case GradientValue::Kind::step:
        return steps.at(i).at(static_cast<std::size_t>(v.result));
      case GradientValue::Kind::output_gradient:
        break;
    }
    auto found = gradients_.find({id, v.index});
    if (found != gradients_.end()) return found->second;
    return add(get_operator("scale"), {0.0}, {ValueRef{id, v.index}}, forward_[id].name + ".no_gradient");
  }

  Result<int> accumulate(ValueRef target, ValueRef gradient) {
    auto [at, fresh] = gradients_.emplace(target, gradient);
    if (!fresh)
      at->second =
          UNITY_TRY(add(get_operator("add"), {}, {at->second, gradient}, forward_[target.node].name + ".gradient_sum"));
    return 0;
  }

  Result<ValueRef> add(const Operator& op, Attributes attributes, std::vector<ValueRef> inputs,
                       const std::string& name) {
    std::string unique = name;
    for (int i = 2; !names_.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
    return ValueRef{
        UNITY_TRY(graph_.try_add(op, std::move(attributes), std::move(inputs), OriginId(next_origin_++), unique)), 0};
  }

  const Pcg& forward_;
  Pcg graph_;
  std::vector<bool> needs_;
  std::map<ValueRef, ValueRef> gradients_;
  std::set<std::string> names_;
  std::int32_t next_origin_ = 0;
};

}  // namespace

std::vector<bool> needs_gradient(const Pcg& pcg) {
  std::vector<bool> from_weight(pcg.size(), false), to_loss(pcg.size(), false);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    from_weight[i] = node.op->trainable();
    for (ValueRef v : node.op->detached(node.attributes) ? std::vector<ValueRef>() : node.inputs)
      from_weight[i] = from_weight[i] || (from_weight[v.node.index()] && differentiable(pcg, v));
  }
  if (!pcg.outputs().empty()) to_loss[pcg.outputs()[0].node.index()] = true;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == "deliver") to_loss[i] = true;
  for (std::size_t i = pcg.size(); i-- > 0;)
    if (to_loss[i])
      for (ValueRef v : pcg.nodes()[i].inputs) to_loss[v.node.index()] = true;
  for (std::size_t i = 0; i < pcg.size(); ++i) from_weight[i] = from_weight[i] && to_loss[i];
  return from_weight;
}

GradientProgram gradient_program(const Pcg& pcg, NodeId id, const std::vector<bool>& needs) {
  const Node& node = pcg[id];
  std::vector<Shape> inputs, outputs;
  std::vector<bool> wanted;
  for (ValueRef v : node.inputs) {
    inputs.push_back(pcg.shape(v).shape());
    wanted.push_back(needs[v.node.index()] && differentiable(pcg, v));
  }
  for (const ParallelShape& shape : node.outputs) outputs.push_back(shape.shape());
  GradientBuilder builder(std::move(inputs), std::move(outputs), wanted);
  if (std::find(wanted.begin(), wanted.end(), true) != wanted.end()) node.op->gradient(node.attributes, builder);
  GradientProgram program = std::move(builder).take();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!wanted[i]) program.input_gradients[i].reset();
  return program;
}

bool looks_up_rows(const Pcg& pcg, NodeId node, const GradientProgram& program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [&](const GradientStep& s) {
    const GradientValue& ids = s.inputs[0];
    if (ids.kind != GradientValue::Kind::input) return false;
    ValueRef v = pcg[node].inputs[static_cast<std::size_t>(ids.index)];
    return s.op->row_factor(s.attributes, pcg.shape(v).shape().dims).has_value();
  });
}

Result<Pcg> differentiate(const Pcg& pcg) { return Differentiation(pcg).run(); }

}  // namespace unity
