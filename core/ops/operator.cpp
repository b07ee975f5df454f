#include "core/ops/operator.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {

#define UNITY_LEAF(name, Class) const Operator& name##_operator();
#define UNITY_PARALLELIZATION(name, Class) const Operator& name##_operator();
#define UNITY_OPERATOR(name, Class) const Operator& name##_operator();
#include "core/ops/operators.def"
#undef UNITY_LEAF
#undef UNITY_PARALLELIZATION
#undef UNITY_OPERATOR

namespace {

const std::vector<const Operator*>& registry() {
  static const std::vector<const Operator*> operators = {
#define UNITY_LEAF(name, Class) &name##_operator(),
#define UNITY_PARALLELIZATION(name, Class) &name##_operator(),
#define UNITY_OPERATOR(name, Class) &name##_operator(),
#include "core/ops/operators.def"
#undef UNITY_LEAF
#undef UNITY_PARALLELIZATION
#undef UNITY_OPERATOR
  };
  return operators;
}

}  // namespace

std::span<const Operator* const> all_operators() { return registry(); }

const Operator* find_operator(std::string_view name) {
  for (const Operator* op : registry())
    if (op->name() == name) return op;
  return nullptr;
}

const Operator& get_operator(std::string_view name) {
  const Operator* op = find_operator(name);
  UNITY_CHECK(op, "there is no operator '{}'", name);
  return *op;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const Operator* op : registry()) names.push_back(op->name());
  return names;
}

Result<std::vector<ParallelShape>> Operator::parallel_shapes(const Attributes& attributes,
                                                             const std::vector<ParallelShape>& inputs) const {
  std::vector<Shape> logical;
  for (const ParallelShape& in : inputs) logical.push_back(in.shape());
  AxisTable table = UNITY_TRY(axes(attributes, logical));
  Sharding sharding = UNITY_TRY(infer_sharding(name_, table, inputs));
  std::vector<ParallelShape> outputs;
  for (std::size_t i = 0; i < table.outputs.size(); ++i) outputs.push_back(output_parallel_shape(table, sharding, i));
  return outputs;
}

void Operator::gradient(const Attributes&, GradientBuilder&) const {}

Result<std::vector<Shape>> infer_shapes(const Operator& op, const Attributes& attributes,
                                        std::span<const Shape> inputs) {
  std::vector<ParallelShape> parallel;
  for (const Shape& in : inputs) parallel.push_back(serial(in));
  std::vector<ParallelShape> outputs = UNITY_TRY(infer_parallel_shapes(op, attributes, parallel));
  std::vector<Shape> shapes;
  for (const ParallelShape& out : outputs) shapes.push_back(out.shape());
  return shapes;
}

Result<std::vector<ParallelShape>> infer_parallel_shapes(const Operator& op, const Attributes& attributes,
                                                         const std::vector<ParallelShape>& inputs) {
  Arity arity = op.arity();
  int n = static_cast<int>(inputs.size());
  if (n < arity.min || (arity.max >= 0 && n > arity.max))
    return fail("{}: found {} operands, expected {}", op.name(), n,
                arity.max < 0            ? fmt::format("at least {}", arity.min)
                : arity.min == arity.max ? fmt::format("{}", arity.min)
                                         : fmt::format("{} to {}", arity.min, arity.max));
  return op.parallel_shapes(attributes, inputs);
}

GradientBuilder::GradientBuilder(std::vector<Shape> inputs, std::vector<Shape> outputs, std::vector<bool> wanted)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), wanted_(std::move(wanted)) {
  program_.input_gradients.resize(inputs_.size());
}

const Shape& GradientBuilder::shape(GradientValue value) const {
  auto i = static_cast<std::size_t>(value.index);
  switch (value.kind) {
    case GradientValue::Kind::input:
      return inputs_.at(i);
    case GradientValue::Kind::output:
    case GradientValue::Kind::output_gradient:
      return outputs_.at(i);
    case GradientValue::Kind::step:
      break;
  }
  return step_shapes_.at(i).at(static_cast<std::size_t>(value.result));
}

GradientValue GradientBuilder::apply(std::string_view name, Attributes given, std::vector<GradientValue> inputs) {
  const Operator& op = get_operator(name);
  auto attributes = complete_attributes(name, op.attributes(), std::move(given));
  UNITY_CHECK(attributes.ok(), "{}", attributes.error().message);
  std::vector<Shape> shapes;
  for (GradientValue v : inputs) shapes.push_back(shape(v));
  auto results = infer_shapes(op, *attributes, shapes);
  UNITY_CHECK(results.ok(), "{}", results.error().message);
  step_shapes_.push_back(*results);
  program_.steps.push_back({&op, *attributes, std::move(inputs)});
  return {GradientValue::Kind::step, static_cast<int>(program_.steps.size()) - 1, 0};
}

void GradientBuilder::set_input_gradient(int input, GradientValue value) {
  UNITY_CHECK(shape(value).dims == inputs_.at(static_cast<std::size_t>(input)).dims,
              "gradient of operand {} has shape {}", input, to_string(shape(value)));
  program_.input_gradients.at(static_cast<std::size_t>(input)) = value;
}

GradientValue GradientBuilder::sum_to_input(GradientValue value, int input) {
  const Dims& from = shape(value).dims;
  const Dims& to = inputs_.at(static_cast<std::size_t>(input)).dims;
  if (from == to) return value;
  Integers dims;
  std::size_t extra = from.size() - to.size();
  for (std::size_t i = 0; i < from.size(); ++i)
    if (i < extra || (to[i - extra] == 1 && from[i] != 1)) dims.push_back(static_cast<std::int64_t>(i));
  GradientValue sum = apply("reduce_sum", {dims}, {value});
  return shape(sum).dims == to ? sum : apply("reshape", {to}, {sum});
}

}  // namespace unity
