#include "core/verify/small_shapes.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace unity {
namespace {

// Values for an attribute of a node with these operands.
std::vector<AttributeValue> domain(const Operator& op, std::size_t attribute, const std::vector<Shape>& operands) {
  AttributeSpec spec = op.attributes()[attribute];
  std::vector<AttributeValue> values;
  auto add = [&](const AttributeValue& v) {
    if (std::find(values.begin(), values.end(), v) == values.end()) values.push_back(v);
  };
  if (!spec.required) add(spec.fallback);
  for (const Example& e : op.examples()) {
    Attributes all = complete_attributes(op.name(), op.attributes(), e.attributes).value();
    if (spec.kind != AttributeKind::real) add(all[attribute]);
  }
  if (spec.kind == AttributeKind::real)
    for (double f : {2.0, -3.0}) add(f);
  if (spec.kind == AttributeKind::integer)
    for (std::int64_t i : {0, 1, 2, 3}) add(i);
  if (spec.kind != AttributeKind::integers || !spec.required || operands.empty()) return values;
  // Lists made of the sizes and numbers of the dimensions of the first operand: shapes, parts, permutations.
  const Dims& dims = operands[0].dims;
  Dims numbers(dims.size()), longer = dims;
  std::iota(numbers.begin(), numbers.end(), 0);
  add(dims);
  add(Dims(dims.rbegin(), dims.rend()));
  add(Dims{element_count(dims)});
  longer.insert(longer.begin(), 1);
  add(longer);
  longer.erase(longer.begin());
  longer.push_back(1);
  add(longer);
  for (std::int64_t n : dims) {
    if (n > 1) add(Dims{1, n - 1}), add(Dims{n - 1, 1});
    if (n > 2) add(Dims{1, 1, n - 2});
    if (n > 3) add(Dims{1, 1, 1, n - 3});
    if (n == 4) add(Dims{2, 2});
  }
  for (std::int64_t d : numbers) add(Dims{d});
  Dims permutation = numbers;
  int count = 0;
  do add(permutation);
  while (std::next_permutation(permutation.begin(), permutation.end()) && ++count < 8);
  return values;
}

class Search {
 public:
  using Visit = std::function<bool(const std::vector<ParallelShape>&, const std::vector<AttributeValue>&)>;
  Search(const Rule& rule, const std::vector<std::optional<AttributeValue>>& bound, const SmallShapes& limits,
         const Visit& visit)
      : rule_(rule), limits_(limits), visit_(&visit), attributes_(rule.attributes.size()) {
    for (std::size_t a = 0; a < bound.size(); ++a) attributes_[a] = bound[a];
    for (std::size_t n = 0; n < rule.source_nodes; ++n)
      for (PatternValue v : rule.nodes[n].inputs)
        if (v.variable >= 0 && std::find(order_.begin(), order_.end(), v.variable) == order_.end())
          order_.push_back(v.variable);
    dtypes_.assign(rule.values.size(), DType::f32);
    for (const PatternNode& node : rule.nodes) {
      auto examples = node.op->examples();
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i].variable >= 0 && !examples.empty() && i < examples[0].inputs.size() &&
            examples[0].inputs[i].dtype == DType::i32)
          dtypes_[static_cast<std::size_t>(node.inputs[i].variable)] = DType::i32;
    }
  }

  std::int64_t run() {
    ranks_.assign(rule_.values.size(), 0);
    choose_ranks(0, 0);
    return tried_;
  }

 private:
  void choose_ranks(std::size_t i, int total) {
    if (stopped_) return;
    if (i == order_.size()) {
      largest_ = 2;
      for (std::int64_t m : {4, 3}) {
        std::int64_t count = 1;
        for (int d = 0; d < total && count <= limits_.candidates; ++d) count *= m;
        if (count <= limits_.candidates) {
          largest_ = m;
          break;
        }
      }
      many_ = total > 4;
      shapes_.assign(rule_.values.size(), std::nullopt);
      bool all_given = std::all_of(order_.begin(), order_.end(), [&](int v) { return given_rank(v).has_value(); });
      if (all_given || is_typed_with_equal_sizes()) extend(0);
      return;
    }
    auto given = given_rank(order_[i]);
    for (int rank = given.value_or(0); rank <= given.value_or(limits_.max_rank); ++rank) {
      ranks_[static_cast<std::size_t>(order_[i])] = rank;
      choose_ranks(i + 1, total + rank);
    }
  }

  // What a condition `rank(x) == 2` says.
  std::optional<int> given_rank(int variable) const {
    for (const Condition& c : rule_.conditions)
      if (c.kind == Condition::Kind::equal && c.left.kind == Expression::Kind::shape &&
          c.left.query == Expression::Query::rank && c.left.value.variable == variable &&
          c.right.kind == Expression::Kind::constant)
        return static_cast<int>(std::get<std::int64_t>(c.right.constant));
    return std::nullopt;
  }

  // No condition over what is chosen is known to be false.
  bool possible() const {
    for (const Condition& c : rule_.conditions) {
      if (c.kind != Condition::Kind::equal) continue;
      auto a = value_of(c.left), b = value_of(c.right);
      if (a && b && *a != *b) return false;
    }
    return true;
  }

  bool is_typed_with_equal_sizes() {
    bool found = false;
    Visit note = [&](const auto&, const auto&) { return found = true, false; };
    for (std::int64_t size : {2, 1, 3, 4}) {
      Search equal = *this;
      equal.visit_ = &note;
      equal.many_ = false;
      for (int v : order_)
        equal.shapes_[static_cast<std::size_t>(v)] =
            Shape{Dims(static_cast<std::size_t>(ranks_[static_cast<std::size_t>(v)]), size),
                  dtypes_[static_cast<std::size_t>(v)]};
      equal.extend(0);
      if (found) return true;
    }
    return false;
  }

  // Types node n, after choosing what it needs.
  void extend(std::size_t n) {
    if (stopped_) return;
    if (n == rule_.source_nodes) {
      complete();
      return;
    }
    const PatternNode& node = rule_.nodes[n];
    for (PatternValue v : node.inputs)
      if (v.variable >= 0 && !shapes_[static_cast<std::size_t>(v.variable)]) {
        choose_shape(static_cast<std::size_t>(v.variable), n);
        return;
      }
    std::vector<Shape> operands;
    for (PatternValue v : node.inputs) operands.push_back(shape_of(v));
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!node.attributes[i] || node.attributes[i]->kind != Expression::Kind::variable) continue;
      auto& attribute = attributes_[static_cast<std::size_t>(node.attributes[i]->variable)];
      if (attribute) continue;
      auto given = given_value(node.attributes[i]->variable);
      std::vector<AttributeValue> values = given ? std::vector{*given} : domain(*node.op, i, operands);
      // Where there are many shapes, one value of an optional attribute for each of them, in turn.
      if (!specs[i].required && many_ && values.size() > 1) values = {values[mix(turn_++) % values.size()]};
      for (AttributeValue& value : values) {
        attribute = std::move(value);
        extend(n);
        if (stopped_) return;
      }
      attribute.reset();
      return;
    }
    ++tried_;
    Attributes attributes;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!node.attributes[i]) {
        attributes.push_back(specs[i].fallback);
        continue;
      }
      auto value = value_of(*node.attributes[i]);
      if (!value) return;
      attributes.push_back(std::move(*value));
    }
    auto results = infer_shapes(*node.op, attributes, operands);
    // An axiom names all results of its calls.
    if (!results.ok() || static_cast<int>(results->size()) != node.results) return;
    results_.resize(n);
    results_.push_back(std::move(*results));
    extend(n + 1);
  }

  void choose_shape(std::size_t v, std::size_t n) {
    Dims dims(static_cast<std::size_t>(ranks_[v]), 1);
    auto results = results_;
    for (;;) {
      shapes_[v] = Shape{dims, dtypes_[v]};
      results_ = results;
      if (possible()) extend(n);
      std::size_t d = 0;
      while (d < dims.size() && ++dims[d] > largest_) dims[d++] = 1;
      if (d == dims.size() || stopped_) break;
    }
    shapes_[v].reset();
    results_ = results;
  }

  const Shape& shape_of(PatternValue v) const {
    return v.variable >= 0 ? *shapes_[static_cast<std::size_t>(v.variable)]
                           : results_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  }

  // Of expressions over known shapes, without a graph.
  std::optional<AttributeValue> value_of(const Expression& e) const {
    switch (e.kind) {
      case Expression::Kind::constant:
        return e.constant;
      case Expression::Kind::variable:
        return attributes_[static_cast<std::size_t>(e.variable)];
      case Expression::Kind::list: {
        Integers list;
        for (const Expression& a : e.arguments) {
          auto value = value_of(a);
          if (!value || !std::holds_alternative<std::int64_t>(*value)) return std::nullopt;
          list.push_back(std::get<std::int64_t>(*value));
        }
        return AttributeValue(list);
      }
      case Expression::Kind::shape: {
        bool known = e.value.variable < 0 ? static_cast<std::size_t>(e.value.node) < results_.size()
                                          : shapes_[static_cast<std::size_t>(e.value.variable)].has_value();
        if (!known) return std::nullopt;
        const Shape& shape = shape_of(e.value);
        if (e.query == Expression::Query::rank) return AttributeValue(static_cast<std::int64_t>(shape.dims.size()));
        if (e.query != Expression::Query::dim) return AttributeValue(std::int64_t{1});
        auto i = value_of(e.arguments[0]);
        if (!i || !std::holds_alternative<std::int64_t>(*i)) return std::nullopt;
        auto index = std::get<std::int64_t>(*i);
        if (index < 0 || index >= static_cast<std::int64_t>(shape.dims.size())) return std::nullopt;
        return AttributeValue(shape.dims[static_cast<std::size_t>(index)]);
      }
      default: {
        auto a = value_of(e.arguments[0]), b = value_of(e.arguments[1]);
        if (!a || !b || a->index() != b->index()) return std::nullopt;
        auto apply = [&](auto x, auto y) -> std::optional<AttributeValue> {
          if (e.kind == Expression::Kind::add) return AttributeValue(x + y);
          if (e.kind == Expression::Kind::subtract) return AttributeValue(x - y);
          if (e.kind == Expression::Kind::multiply) return AttributeValue(x * y);
          if (y == 0 || e.kind == Expression::Kind::remainder) return std::nullopt;
          return AttributeValue(x / y);
        };
        if (const auto* x = std::get_if<std::int64_t>(&*a)) return apply(*x, std::get<std::int64_t>(*b));
        if (const auto* x = std::get_if<double>(&*a)) return apply(*x, std::get<double>(*b));
        return std::nullopt;
      }
    }
  }

  // The value that a condition `variable == ..` gives.
  std::optional<AttributeValue> given_value(int variable) const {
    for (const Condition& c : rule_.conditions) {
      if (c.kind != Condition::Kind::equal) continue;
      for (auto [one, other] : {std::pair(&c.left, &c.right), std::pair(&c.right, &c.left)})
        if (one->kind == Expression::Kind::variable && one->variable == variable)
          if (auto value = value_of(*other)) return value;
    }
    return std::nullopt;
  }

  bool holds(const Condition& c) const {
    auto a = value_of(c.left), b = value_of(c.right);
    if (!a || !b) return false;
    if (c.kind == Condition::Kind::equal) return *a == *b;
    if (c.kind == Condition::Kind::not_equal) return *a != *b;
    return true;  // the others are left to the instance
  }

  void complete() {
    for (const Condition& c : rule_.conditions)
      if (!holds(c)) return;
    // Parameters that only the other side has: from the conditions, else small numbers.
    for (std::size_t a = 0; a < attributes_.size(); ++a)
      if (!attributes_[a]) {
        choose_parameter(a);
        return;
      }
    std::vector<ParallelShape> variables;
    for (const auto& shape : shapes_) variables.push_back(serial(*shape));
    std::vector<AttributeValue> attributes;
    for (const auto& a : attributes_) attributes.push_back(*a);
    stopped_ = !(*visit_)(variables, attributes);
  }

  void choose_parameter(std::size_t a) {
    for (std::size_t n = rule_.source_nodes; n < rule_.nodes.size(); ++n) {
      const PatternNode& node = rule_.nodes[n];
      for (std::size_t i = 0; i < node.attributes.size(); ++i) {
        if (!node.attributes[i] || node.attributes[i]->kind != Expression::Kind::variable ||
            static_cast<std::size_t>(node.attributes[i]->variable) != a)
          continue;
        auto given = given_value(static_cast<int>(a));
        for (AttributeValue& value : given ? std::vector{*given} : domain(*node.op, i, {})) {
          attributes_[a] = std::move(value);
          complete();
          if (stopped_) return;
        }
        attributes_[a].reset();
        return;
      }
    }
  }

  const Rule& rule_;
  const SmallShapes& limits_;
  const Visit* visit_;
  std::vector<int> order_;  // of value variables, as the left side uses them
  std::vector<DType> dtypes_;
  std::vector<int> ranks_;
  std::int64_t largest_ = 2;
  bool many_ = false;
  Hash turn_ = 0;
  std::vector<std::optional<Shape>> shapes_;
  std::vector<std::vector<Shape>> results_;
  std::vector<std::optional<AttributeValue>> attributes_;
  std::int64_t tried_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::int64_t for_each_small_instance(
    const Rule& axiom, const std::vector<std::optional<AttributeValue>>& bound, const SmallShapes& limits,
    const std::function<bool(const std::vector<ParallelShape>&, const std::vector<AttributeValue>&)>& visit) {
  return Search(axiom, bound, limits, visit).run();
}

}  // namespace unity
