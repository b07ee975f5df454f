#include "core/rewrite/logical_sample.h"

#include <algorithm>
#include <utility>

namespace unity {
namespace {

const Integers kSizes = {4, 6, 12, 2, 3, 8};

}  // namespace

LogicalSample::LogicalSample(const Rule& rule, const InstanceSampler::Facts& facts, const SampleOptions& options,
                             Draw& draw)
    : rule_(rule),
      of_nodes_(facts.nodes),
      facts_(facts.conditions),
      known_(facts.conditions.known()),
      options_(options),
      draw_(draw),
      equal_size_(draw_.chance(25) ? draw_.of(kSizes) : 0),
      alike_(facts.conditions.has_likeness() && draw_.chance(75)),
      leaves_(rule.values.size()),
      nodes_(rule.source_nodes),
      attributes_(rule.attributes.size()) {}

Result<void> LogicalSample::choose() {
  for (const auto& [variable, value] : options_.attributes) attributes_.at(static_cast<std::size_t>(variable)) = value;
  for (std::size_t n = 0; n < rule_.source_nodes; ++n)
    if (computes(n)) UNITY_TRY_VOID(choose_logical(n));
  for (std::size_t n : stacks()) alike(n);
  for (std::size_t v = 0; v < leaves_.size(); ++v)
    if (!leaves_[v].node.valid()) add_leaf(v, {fit(v, random_dims(rank()), known_), DType::f32});
  for (std::size_t n = 0; n < rule_.source_nodes; ++n) static_cast<void>(UNITY_TRY(attributes_of(n)));
  for (int p : rule_.parameters) {
    auto& attribute = attributes_[static_cast<std::size_t>(p)];
    if (!attribute) attribute = std::int64_t{draw_.of(options_.degrees)};
  }
  return {};
}

std::vector<AttributeValue> LogicalSample::attributes() const {
  std::vector<AttributeValue> values;
  for (const auto& attribute : attributes_) values.push_back(attribute ? *attribute : std::int64_t{1});
  return values;
}

// In some attempts all sizes are equal: then transpositions and permutations of dimensions are well-typed anywhere.
std::int64_t LogicalSample::size() { return equal_size_ ? equal_size_ : draw_.of(kSizes); }

Dims LogicalSample::random_dims(std::int64_t rank) {
  Dims dims;
  for (std::int64_t i = 0; i < rank; ++i) dims.push_back(size());
  return dims;
}

Dims LogicalSample::fit(std::size_t v, Dims dims, ConditionFacts::Known& known) {
  return facts_.fit(
      v, std::move(dims), known, [this] { return size(); }, alike_);
}

void LogicalSample::add_leaf(std::size_t v, const Shape& shape) {
  auto leaf =
      pcg_.try_add(get_operator("input"), {shape.dims, std::string(to_string(shape.dtype))}, {}, {}, rule_.values[v]);
  leaves_[v] = {leaf.value(), 0};
}

// The value in the graph, once all variables under it are known.
std::optional<ValueRef> LogicalSample::known(PatternValue v) {
  if (v.variable >= 0) {
    ValueRef leaf = leaves_[static_cast<std::size_t>(v.variable)];
    return leaf.node.valid() ? std::optional(leaf) : std::nullopt;
  }
  auto n = static_cast<std::size_t>(v.node);
  if (!nodes_[n].valid() && !computes(n)) {
    for (PatternValue in : rule_.nodes[n].inputs)
      if (auto from = known(in))
        nodes_[n] = pcg_.try_add(get_operator("replicate"), {std::int64_t{1}}, {*from}).value();
  }
  return nodes_[n].valid() ? std::optional(ValueRef{nodes_[n], v.output}) : std::nullopt;
}

// The variables that stand, through parallelization operators, in the place of an operand.
void LogicalSample::variables_of(PatternValue v, std::vector<std::size_t>& variables) const {
  if (v.variable >= 0)
    variables.push_back(static_cast<std::size_t>(v.variable));
  else if (!computes(static_cast<std::size_t>(v.node)))
    for (PatternValue in : rule_.nodes[static_cast<std::size_t>(v.node)].inputs) variables_of(in, variables);
}

// The nodes that need operands of one shape.
std::vector<std::size_t> LogicalSample::stacks() const {
  std::vector<std::size_t> found;
  for (std::size_t n = 0; n < rule_.source_nodes; ++n)
    if (!computes(n) && rule_.nodes[n].inputs.size() > 1) found.push_back(n);
  return found;
}

void LogicalSample::alike(std::size_t stack) {
  std::vector<std::size_t> variables;
  variables_of({-1, static_cast<int>(stack), 0}, variables);
  Shape shape{random_dims(rank()), DType::f32};
  for (PatternValue in : rule_.nodes[stack].inputs)
    if (auto ref = known(in)) shape = pcg_.shape(*ref).shape();
  for (std::size_t v : variables)
    if (!leaves_[v].node.valid()) add_leaf(v, {fit(v, shape.dims, known_), shape.dtype});
}

// The value that a condition `variable == ..` gives.
std::optional<AttributeValue> LogicalSample::given(int variable) const {
  for (const Condition& c : rule_.conditions) {
    if (c.kind != Condition::Kind::equal) continue;
    for (auto [one, other] : {std::pair(&c.left, &c.right), std::pair(&c.right, &c.left)}) {
      if (one->kind != Expression::Kind::variable || one->variable != variable) continue;
      auto value = evaluate(*other, rule_, bindings());
      if (value.ok()) return *value;
    }
  }
  return std::nullopt;
}

AttributeValue LogicalSample::random_attribute(const AttributeSpec& spec, const PatternNode& node,
                                               std::optional<AttributeValue> of_example) {
  if (node.op->category() == OpCategory::parallelization)
    return spec.name == "dim" ? draw_.below(2 + draw_.below(2)) : std::int64_t{draw_.of(options_.degrees)};
  // Flags are as often set as not, and lists of dimensions in any order: what an attribute decides must be seen.
  if (spec.kind == AttributeKind::integer && spec.name.starts_with("transpose")) return draw_.below(2);
  if (of_example && draw_.chance(80)) {
    auto* list = std::get_if<Integers>(&*of_example);
    if (list && draw_.chance(40))
      for (std::size_t i = list->size(); i > 1; --i)
        std::swap((*list)[i - 1], (*list)[static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(i)))]);
    return *of_example;
  }
  switch (spec.kind) {
    case AttributeKind::integer:
      return draw_.below(4);
    case AttributeKind::real:
      return draw_.of(std::vector<double>{2, 3, 0.5, 1, -1});
    case AttributeKind::integers: {
      Integers list;
      for (std::int64_t i = 1 + draw_.below(3); i > 0; --i) list.push_back(draw_.below(4));
      return list;
    }
    default:
      if (spec.required) return of_example ? *of_example : AttributeValue(std::string());
      return spec.fallback;
  }
}

// Values for those attribute variables that stand alone in this node.
Result<Attributes> LogicalSample::choose_attributes(std::size_t n, const Example* example) {
  const PatternNode& node = rule_.nodes[n];
  const std::vector<AttributeSpec>& specs = of_nodes_[n].specs;
  Attributes all;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!node.attributes[i]) {
      all.push_back(specs[i].fallback);
      continue;
    }
    const Expression& e = *node.attributes[i];
    if (e.kind == Expression::Kind::variable && !attributes_[static_cast<std::size_t>(e.variable)]) {
      auto value = given(e.variable);
      std::optional<AttributeValue> of_example;
      if (example && i < example->attributes.size()) of_example = example->attributes[i];
      attributes_[static_cast<std::size_t>(e.variable)] = value ? *value : random_attribute(specs[i], node, of_example);
    }
    all.push_back(UNITY_TRY(evaluate(e, rule_, bindings())));
  }
  return all;
}

// Attributes of the node, with the proposed shapes for those variables that have none.
Result<Attributes> LogicalSample::with_operands(std::size_t n, const std::vector<std::optional<Shape>>& of_variable,
                                                const Example* example) {
  Pcg pcg = pcg_;
  auto leaves = leaves_;
  for (std::size_t v = 0; v < of_variable.size(); ++v)
    if (of_variable[v]) add_leaf(v, *of_variable[v]);
  auto attributes = choose_attributes(n, example);
  pcg_ = std::move(pcg);
  leaves_ = std::move(leaves);
  return attributes;
}

Result<void> LogicalSample::choose_logical(std::size_t n) {
  const PatternNode& node = rule_.nodes[n];
  const auto attributes_before = attributes_;
  std::vector<std::optional<Shape>> operands;
  for (PatternValue v : node.inputs) {
    auto ref = known(v);
    operands.push_back(ref ? std::optional(pcg_.shape(*ref).shape()) : std::nullopt);
  }
  const std::vector<Example>& examples = of_nodes_[n].examples;
  Error last = fail("{}: no operands were found", node.op->name());
  const bool sized = sized_by_operands(n);
  for (int t = 0; t < kSampleProposals; ++t) {
    attributes_ = attributes_before;
    const Example* example = examples.empty() || draw_.chance(25) ? nullptr : &draw_.of(examples);
    Result<Attributes> attributes = Attributes();
    if (!sized) attributes = choose_attributes(n, example);
    if (!attributes.ok()) {
      last = attributes.error();
      continue;
    }
    std::vector<Shape> shapes =
        example
            ? from_example(*example, of_nodes_[n].tables[static_cast<std::size_t>(example - examples.data())], operands)
            : from_known(operands);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      if (of_nodes_[n].indices[i] && !operands[i]) shapes[i].dtype = DType::i32;
    // One variable in two places has one shape.
    std::vector<std::optional<Shape>> of_variable(leaves_.size());
    ConditionFacts::Known known_sizes = known_;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      std::vector<std::size_t> variables;
      variables_of(node.inputs[i], variables);
      for (std::size_t v : variables) {
        if (leaves_[v].node.valid()) continue;
        if (!of_variable[v]) of_variable[v] = {fit(v, shapes[i].dims, known_sizes), shapes[i].dtype};
        shapes[i] = *of_variable[v];
      }
    }
    if (sized) {
      attributes = with_operands(n, of_variable, example);
      if (!attributes.ok()) {
        last = attributes.error();
        continue;
      }
    }
    auto table = node.op->axes(*attributes, shapes);
    if (!table.ok()) {
      last = table.error();
      continue;
    }
    if (static_cast<int>(table->outputs.size()) != node.results) {
      last = fail("{} has {} results, expected {}", node.op->name(), table->outputs.size(), node.results);
      continue;
    }
    known_ = std::move(known_sizes);
    for (std::size_t v = 0; v < of_variable.size(); ++v)
      if (of_variable[v]) add_leaf(v, *of_variable[v]);
    std::vector<ValueRef> inputs;
    for (PatternValue v : node.inputs) inputs.push_back(known(v).value());
    nodes_[n] = UNITY_TRY(pcg_.try_add(*node.op, std::move(*attributes), std::move(inputs)));
    return {};
  }
  return last;
}

// The example's operands, with the sizes of its axes drawn anew or taken from what is known.
std::vector<Shape> LogicalSample::from_example(const Example& example, std::optional<AxisTable> table,
                                               const std::vector<std::optional<Shape>>& operands) {
  std::vector<Shape> shapes = example.inputs;
  if (table) {
    for (Axis& axis : table->axes)
      if (axis.size > 1 && axis.role != AxisRole::window && (equal_size_ || draw_.chance(40))) axis.size = size();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i] || operands[i]->dims.size() != table->inputs[i].dims.size()) continue;
      for (std::size_t j = 0; j < operands[i]->dims.size(); ++j) {
        const DimAxes& dim = table->inputs[i].dims[j];
        if (dim.axes.size() == 1 && !dim.window)
          table->axes[static_cast<std::size_t>(dim.axes[0])].size = operands[i]->dims[j];
      }
    }
    for (std::size_t i = 0; i < operands.size(); ++i) shapes[i].dims = operand_shape(*table, table->inputs[i]).dims;
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i]) shapes[i] = *operands[i];
  return shapes;
}

// Whether a condition gives an attribute of the node once its operands are there.
bool LogicalSample::sized_by_operands(std::size_t n) const {
  for (const auto& e : rule_.nodes[n].attributes) {
    if (!e || e->kind != Expression::Kind::variable || attributes_[static_cast<std::size_t>(e->variable)]) continue;
    for (const Condition& c : rule_.conditions)
      for (auto [one, other] : {std::pair(&c.left, &c.right), std::pair(&c.right, &c.left)})
        if (c.kind == Condition::Kind::equal && one->kind == Expression::Kind::variable &&
            one->variable == e->variable && other->kind == Expression::Kind::list && !given(e->variable))
          return true;
  }
  return false;
}

// Shapes like those of a known operand, else any.
std::vector<Shape> LogicalSample::from_known(const std::vector<std::optional<Shape>>& operands) {
  std::vector<Shape> shapes(operands.size());
  Shape like{random_dims(rank()), DType::f32};
  for (const auto& operand : operands)
    if (operand && draw_.chance(75)) like = *operand;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    shapes[i] = operands[i] ? *operands[i] : like;
    if (operands[i]) continue;
    for (std::int64_t& size : shapes[i].dims)
      if (draw_.chance(15)) size = this->size();
    if (draw_.chance(20) && shapes[i].dims.size() > 1)
      shapes[i].dims.erase(
          shapes[i].dims.begin(),
          shapes[i].dims.begin() + 1 + draw_.below(static_cast<std::int64_t>(shapes[i].dims.size()) - 1));
  }
  return shapes;
}

}  // namespace unity
