#include "core/ops/chain.h"

#include <array>
#include <set>

namespace unity {

#define UNITY_LEAF(name, Class)
#define UNITY_PARALLELIZATION(name, Class)
#define UNITY_OPERATOR(name, Class)
bool is_elementwise(const Operator& op) {
  static const std::set<std::string_view> names = {
#define UNITY_ELEMENTWISE(name, Class) #name,
#define UNITY_PRODUCT(name, Class)
#include "core/ops/operators.def"
  };
  return names.contains(op.name());
}

bool leads_chains(const Operator& op) {
  static const std::set<std::string_view> names = {
#define UNITY_ELEMENTWISE(name, Class)
#define UNITY_PRODUCT(name, Class) #name,
#include "core/ops/operators.def"
  };
  return names.contains(op.name());
}
#undef UNITY_LEAF
#undef UNITY_PARALLELIZATION
#undef UNITY_OPERATOR

namespace {

std::string joined_names(const std::vector<ChainStep>& steps) {
  std::string name;
  for (const ChainStep& step : steps) name += (name.empty() ? "" : "+") + step.op->name();
  return name;
}

std::string text_of(const std::vector<ChainStep>& steps) {
  std::string text;
  for (const ChainStep& step : steps) {
    text += (text.empty() ? "" : " + ") + step.op->name();
    for (std::size_t i = 0; i < step.attributes.size(); ++i)
      text += (i == 0 ? "{" : ", ") + to_string(step.attributes[i]);
    text += step.attributes.empty() ? "(" : "}(";
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      text += (i == 0 ? "" : ", ") +
              (step.operands[i] == ChainStep::kBefore ? std::string(".") : std::to_string(step.operands[i]));
    text += ")";
    if (step.kept != ChainStep::kNotKept) text += fmt::format(" -> {}", step.kept);
  }
  return text;
}

}  // namespace

Chain::Chain(std::vector<ChainStep> steps, std::size_t inputs)
    : Operator(joined_names(steps)), steps_(std::move(steps)), inputs_(inputs), text_(text_of(steps_)) {
  UNITY_CHECK(steps_.size() <= kMostSteps, "chain {}: {} steps", text_, steps_.size());
  for (const ChainStep& step : steps_)
    for (int operand : step.operands)
      UNITY_CHECK(std::max(operand, step.kept) < static_cast<int>(kMostOperands), "chain {}: too many operands", text_);
  UNITY_CHECK(!steps_.empty() && steps_.back().kept != ChainStep::kNotKept, "chain {}: its result is not kept", text_);
}

Arity Chain::arity() const { return {static_cast<int>(inputs_), static_cast<int>(inputs_)}; }

Result<AxisTable> Chain::axes(const Attributes&, std::span<const Shape>) const {
  return fail("{}: a chain of tasks is no operator of a graph", name());
}

void Chain::reference(const OpCall& call) const {
  Operand value = call.outputs.back();
  for (std::span<const Operand> operands : {call.inputs, call.outputs})
    for (const Operand& o : operands)
      if (o.dtype != DType::i32) value.dtype = o.dtype;
  std::array<std::vector<std::byte>, 2> between;
  for (std::vector<std::byte>& memory : between)
    memory.resize(static_cast<std::size_t>(value.elements() * size_of(value.dtype)));
  auto operand = [&](int i) {
    auto at = static_cast<std::size_t>(i);
    return at < inputs_ ? call.inputs[at] : call.outputs[at - inputs_];
  };
  Operand before;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const ChainStep& step = steps_[s];
    std::vector<Operand> inputs;
    for (int i : step.operands) inputs.push_back(i == ChainStep::kBefore ? before : operand(i));
    Operand result = value;
    if (step.kept != ChainStep::kNotKept)
      result = operand(step.kept);
    else
      result.data = between[s % 2].data(), result.dtype = step.dtype == DType::i32 ? DType::i32 : value.dtype;
    step.op->reference({step.attributes, inputs, {&result, 1}, call.random});
    before = result;
  }
}

std::optional<std::int64_t> Chain::index_bound(const Attributes&, std::span<const Shape> inputs,
                                               std::size_t operand) const {
  for (const ChainStep& step : steps_)
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i] != static_cast<int>(operand)) continue;
      if (auto bound = step.op->index_bound(step.attributes, inputs, i)) return bound;
    }
  return std::nullopt;
}

}  // namespace unity
