#include "core/verify/detached.h"

#include <algorithm>

#include "core/verify/evaluation.h"

namespace unity {
namespace {

// By choice, that is: of an operator that never has a gradient (an index, a mask), the derivative is zero.
bool is_detached(const Node& node) {
  auto specs = node.op->attributes();
  return node.op->detached(node.attributes) &&
         std::any_of(specs.begin(), specs.end(), [](const AttributeSpec& a) { return a.name == "detached"; });
}

// The logical function of a graph, without parallelism and with an input for each detached value, named by its term.
class Erasure {
 public:
  explicit Erasure(const Pcg& side) : side_(side), values_(side.size()), terms_(side.size()) {}

  Result<Pcg> run() {
    for (std::size_t i = 0; i < side_.size(); ++i) UNITY_TRY_VOID(add(i));
    std::vector<ValueRef> outputs;
    for (ValueRef v : side_.outputs()) outputs.push_back(value(v));
    result_.set_outputs(std::move(outputs));
    return std::move(result_);
  }
  bool detached() const { return detached_; }

 private:
  ValueRef value(ValueRef v) const { return values_[v.node.index()][static_cast<std::size_t>(v.output)]; }

  Result<void> add(std::size_t i) {
    const Node& node = side_.nodes()[i];
    std::vector<ValueRef> inputs;
    for (ValueRef v : node.inputs) inputs.push_back(value(v));
    if (node.is_parallelization()) {
      terms_[i] = terms_[node.inputs[0].node.index()];
      ValueRef sum = inputs[0];
      for (std::size_t k = 1; k < inputs.size(); ++k) {
        sum = {UNITY_TRY(result_.try_add(get_operator("add"), {}, {sum, inputs[k]})), 0};
        terms_[i] += " + " + terms_[node.inputs[k].node.index()];
      }
      values_[i] = {sum};
      return {};
    }
    terms_[i] = node.is_leaf() ? node.name : node.op->name() + "(";
    for (const AttributeValue& a : node.attributes)
      if (!node.is_leaf()) terms_[i] += to_string(a) + ", ";
    for (ValueRef v : node.inputs) terms_[i] += fmt::format("{}.{}, ", terms_[v.node.index()], v.output);
    if (is_detached(node)) {
      detached_ = true;
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        Shape shape = node.outputs[o].shape();
        NodeId id = UNITY_TRY(result_.try_add(get_operator("input"), {shape.dims, std::string(to_string(shape.dtype))},
                                              {}, {}, fmt::format("{} result {}", terms_[i], o)));
        values_[i].push_back({id, 0});
      }
      return {};
    }
    NodeId id = UNITY_TRY(result_.try_add(*node.op, node.attributes, std::move(inputs), node.origin, node.name));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) values_[i].push_back({id, static_cast<int>(o)});
    return {};
  }

  const Pcg& side_;
  Pcg result_;
  std::vector<std::vector<ValueRef>> values_;  // by node of the side
  std::vector<std::string> terms_;             // by node of the side
  bool detached_ = false;
};

}  // namespace

bool equal_when_detached(const RuleInstance& instance, std::uint64_t seed) {
  Erasure of_source(instance.source), of_target(instance.target);
  auto source = of_source.run(), target = of_target.run();
  if (!of_source.detached() && !of_target.detached()) return true;
  if (!source.ok() || !target.ok()) return false;
  if (same_terms({{}, {}, *source, *target})) return true;
  EvaluateOptions options{DType::f64, seed, 0};
  LeafValues leaves = random_leaves(*source, options);
  leaves.merge(random_leaves(*target, options));
  return equal_reals(*source, *target, std::move(leaves), options);
}

}  // namespace unity
