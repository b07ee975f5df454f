#include "core/verify/layouts.h"

#include <algorithm>

#include "core/verify/shape_facts.h"

namespace unity {
namespace {

using Kind = Constraint::Kind;

struct SymbolicDim {
  Monomial size, degree, micro;
};
struct SymbolicShape {
  std::vector<SymbolicDim> dims;
  Monomial copies, partials;
};

class Walk {
 public:
  Walk(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature)
      : rule_(rule), instance_(instance), signature_(signature) {}

  Result<Constraints> run() {
    for (std::size_t v = 0; v < rule_.values.size(); ++v) variables_.push_back(variable(v));
    results_.resize(rule_.nodes.size());
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) UNITY_TRY_VOID(walk(n));
    for (const Condition& c : rule_.conditions) assume(c);
    in_target_ = true;
    for (std::size_t n = rule_.source_nodes; n < rule_.nodes.size(); ++n) UNITY_TRY_VOID(walk(n));
    for (std::size_t o = 0; o < rule_.source_outputs.size(); ++o) {
      const SymbolicShape &was = of(rule_.source_outputs[o]), &is = of(rule_.target_outputs[o]);
      if (was.dims.size() != is.dims.size())
        return fail("result {} has rank {}, expected {}", o, is.dims.size(), was.dims.size());
      for (std::size_t j = 0; j < was.dims.size(); ++j) {
        show(is.dims[j].degree, was.dims[j].degree, fmt::format("degree {} of result {}", j, o));
        show(is.dims[j].micro, was.dims[j].micro, fmt::format("micro-batches {} of result {}", j, o));
      }
      show(is.copies, was.copies, fmt::format("copies of result {}", o));
      show(is.partials, was.partials, fmt::format("partials of result {}", o));
    }
    return std::move(constraints_);
  }

 private:
  void add(Constraint c) { (in_target_ ? constraints_.asked : constraints_.assumed).push_back(std::move(c)); }
  void ask(Kind kind, Monomial left, Monomial right, std::string why) {
    add({kind, std::move(left), std::move(right), std::move(why)});
  }
  void show(Monomial is, Monomial was, std::string why) {
    constraints_.shown.push_back({Kind::equal, std::move(is), std::move(was), std::move(why)});
  }
  void assume(Kind kind, Monomial left, Monomial right) {
    constraints_.assumed.push_back({kind, std::move(left), std::move(right), {}});
  }

  SymbolicShape variable(std::size_t v) {
    const ParallelShape& at = instance_.variables[v];
    const std::string& name = rule_.values[v];
    SymbolicShape shape;
    for (std::size_t j = 0; j < at.dims.size(); ++j) {
      SymbolicDim dim{{{fmt::format("dim({}, {})", name, j), 1}}, {{fmt::format("degree({}, {})", name, j), 1}}, {}};
      if (at.dims[j].micro > 1) dim.micro = {{fmt::format("micro({}, {})", name, j), 1}};
      assume(Kind::at_most, dim.degree * dim.micro, dim.size);
      if (at.dims[j].micro > 1) assume(Kind::divides, dim.degree * dim.micro, dim.size);
      shape.dims.push_back(std::move(dim));
    }
    shape.copies = {{fmt::format("copies({})", name), 1}};
    if (at.partials > 1) shape.partials = {{fmt::format("partials({})", name), 1}};
    return shape;
  }

  const SymbolicShape& of(PatternValue v) const {
    return v.variable >= 0 ? variables_[static_cast<std::size_t>(v.variable)]
                           : results_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  }

  // ---- Expressions

  // Only as a degree is an attribute known to be positive.
  bool is_degree(int variable) const {
    auto is_parameter = std::find(rule_.parameters.begin(), rule_.parameters.end(), variable);
    if (is_parameter != rule_.parameters.end()) return true;
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) {
      if (rule_.nodes[n].op->category() != OpCategory::parallelization) continue;
      const auto& attributes = rule_.nodes[n].attributes;
      if (!attributes.empty() && attributes.back() && attributes.back()->kind == Expression::Kind::variable &&
          attributes.back()->variable == variable)
        return true;
    }
    return false;
  }

  // The value as a product, when it is one and positive. An exact quotient counts as one; `quotients` are those that
  // must be exact.
  std::optional<Monomial> monomial(const Expression& e, std::vector<Constraint>& quotients) const {
    switch (e.kind) {
      case Expression::Kind::constant: {
        const auto* value = std::get_if<std::int64_t>(&e.constant);
        return value && *value > 0 ? std::optional(monomial_of(*value)) : std::nullopt;
      }
      case Expression::Kind::variable: {
        auto a = static_cast<std::size_t>(e.variable);
        // The number of a dimension is known in one signature only, and is no degree.
        if (!signature_.symbolic[a]) return std::nullopt;
        return is_degree(e.variable) ? std::optional(Monomial{{rule_.attributes[a], 1}}) : std::nullopt;
      }
      case Expression::Kind::shape:
        return query(e);
      case Expression::Kind::multiply:
      case Expression::Kind::divide: {
        auto a = monomial(e.arguments[0], quotients), b = monomial(e.arguments[1], quotients);
        if (!a || !b) return std::nullopt;
        if (e.kind == Expression::Kind::multiply) return *a * *b;
        quotients.push_back({Kind::divides, *b, *a, "an exact quotient"});
        return *a / *b;
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<Monomial> query(const Expression& e) const {
    const SymbolicShape& shape = of(e.value);
    if (e.query == Expression::Query::copies) return shape.copies;
    if (e.query == Expression::Query::partials) return shape.partials;
    if (e.query == Expression::Query::rank)
      return shape.dims.empty() ? std::nullopt
                                : std::optional(monomial_of(static_cast<std::int64_t>(shape.dims.size())));
    auto j = dimension(e.arguments[0]);
    if (!j || *j < 0 || *j >= static_cast<std::int64_t>(shape.dims.size())) return std::nullopt;
    const SymbolicDim& dim = shape.dims[static_cast<std::size_t>(*j)];
    return e.query == Expression::Query::dim ? dim.size : dim.degree;
  }

  // Of an expression over constants, ranks and attributes that decide something.
  std::optional<std::int64_t> dimension(const Expression& e) const {
    if (e.kind == Expression::Kind::constant) {
      const auto* value = std::get_if<std::int64_t>(&e.constant);
      return value ? std::optional(*value) : std::nullopt;
    }
    if (e.kind == Expression::Kind::variable) {
      auto a = static_cast<std::size_t>(e.variable);
      const auto* value = std::get_if<std::int64_t>(&instance_.attributes[a]);
      return value && !signature_.symbolic[a] ? std::optional(*value) : std::nullopt;
    }
    if (e.kind == Expression::Kind::shape)
      return e.query == Expression::Query::rank ? std::optional(static_cast<std::int64_t>(of(e.value).dims.size()))
                                                : std::nullopt;
    if (e.kind != Expression::Kind::add && e.kind != Expression::Kind::subtract) return std::nullopt;
    auto a = dimension(e.arguments[0]), b = dimension(e.arguments[1]);
    if (!a || !b) return std::nullopt;
    return e.kind == Expression::Kind::add ? *a + *b : *a - *b;
  }

  void assume(const Condition& c) {
    std::vector<Constraint> quotients;
    auto left = monomial(c.left, quotients), right = monomial(c.right, quotients);
    if (!left || !right || !quotients.empty()) return;
    switch (c.kind) {
      case Condition::Kind::divides:
        return assume(Kind::divides, *left, *right);
      case Condition::Kind::equal:
        return assume(Kind::equal, *left, *right);
      case Condition::Kind::less:
        return assume(Kind::less, *left, *right);
      case Condition::Kind::less_equal:
        return assume(Kind::at_most, *left, *right);
      case Condition::Kind::greater:
        return assume(Kind::less, *right, *left);
      case Condition::Kind::greater_equal:
        return assume(Kind::at_most, *right, *left);
      default:
        return;
    }
  }

  // ---- Operators

  Result<void> walk(std::size_t n) {
    const PatternNode& pattern = rule_.nodes[n];
    std::vector<SymbolicShape> inputs;
    for (PatternValue v : pattern.inputs) inputs.push_back(of(v));
    if (pattern.op->category() == OpCategory::parallelization) {
      results_[n] = {UNITY_TRY(lay_out(n, std::move(inputs)))};
      return {};
    }
    results_[n] = compute(n, inputs);
    return {};
  }

  Result<Monomial> degree(const PatternNode& pattern) {
    std::vector<Constraint> quotients;
    auto d = monomial(*pattern.attributes.back(), quotients);
    if (!d) return fail("{}: a degree is not a product of degrees and sizes", pattern.op->name());
    for (Constraint& q : quotients) add(std::move(q));
    return *d;
  }

  Result<SymbolicShape> lay_out(std::size_t n, std::vector<SymbolicShape> inputs) {
    const PatternNode& pattern = rule_.nodes[n];
    const std::string& op = pattern.op->name();
    SymbolicShape x = inputs[0];
    if (op == "stack_partials") {
      for (const SymbolicShape& in : inputs) {
        ask(Kind::equal, in.partials, {}, "stack_partials: no operand is partial");
        ask(Kind::equal, in.copies, x.copies, "stack_partials: equal copies");
        for (std::size_t j = 0; j < in.dims.size(); ++j) {
          ask(Kind::equal, in.dims[j].degree, x.dims[j].degree, "stack_partials: equal degrees");
          ask(Kind::equal, in.dims[j].micro, x.dims[j].micro, "stack_partials: equal micro-batches");
        }
      }
      x.partials = monomial_of(static_cast<std::int64_t>(inputs.size()));
      return x;
    }
    Monomial d = UNITY_TRY(degree(pattern));
    if (op == "replicate") {
      ask(Kind::equal, x.partials, {}, "replicate: the operand is not partial");
      x.copies = x.copies * d;
      return x;
    }
    if (op == "reduce") {
      ask(Kind::divides, d, x.partials, "reduce: the degree divides the partials");
      x.partials = x.partials / d;
      return x;
    }
    SymbolicDim& dim = x.dims[static_cast<std::size_t>(int_attribute(signature_.nodes[n]->attributes, 0))];
    bool in_micro_batches = micro_of_operand(n);
    if (op == "partition") {
      dim.degree = dim.degree * d;
      ask(Kind::at_most, dim.degree * dim.micro, dim.size, "partition: the degree is at most the size");
      if (in_micro_batches)
        ask(Kind::divides, dim.degree * dim.micro, dim.size, "partition: micro-batches divide the size");
      else
        ask(Kind::equal, dim.micro, {}, "partition: no micro-batches");
    } else if (op == "combine") {
      ask(Kind::divides, d, dim.degree, "combine: the degree divides that of the dimension");
      dim.degree = dim.degree / d;
    } else if (op == "pipeline") {
      dim.micro = dim.micro * d;
      ask(Kind::divides, dim.degree * dim.micro, dim.size, "pipeline: micro-batches divide the size");
      ask(Kind::at_most, dim.degree * dim.micro, dim.size, "pipeline: no more micro-batches than the size");
    } else {
      UNITY_CHECK(op == "batch", "{} has no typing here", op);
      ask(Kind::divides, d, dim.micro, "batch: the number divides that of micro-batches");
      dim.micro = dim.micro / d;
    }
    return x;
  }

  const ParallelShape& operand(std::size_t n, std::size_t i) const {
    const Pcg& pcg = n < rule_.source_nodes ? instance_.source : instance_.target;
    return pcg.shape(signature_.nodes[n]->inputs[i]);
  }
  bool micro_of_operand(std::size_t n) const {
    return operand(n, 0).dims[static_cast<std::size_t>(int_attribute(signature_.nodes[n]->attributes, 0))].micro > 1;
  }

  // As infer_sharding does. Which operands are partial is part of the signature.
  std::vector<SymbolicShape> compute(std::size_t n, const std::vector<SymbolicShape>& inputs) {
    const Node& node = *signature_.nodes[n];
    const AxisTable& table = *node.table;
    const std::string& op = node.op->name();
    std::vector<Monomial> sizes = axis_sizes(n, inputs);
    std::vector<std::optional<Monomial>> degrees(table.axes.size()), micro(table.axes.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (std::size_t j = 0; j < inputs[i].dims.size(); ++j) {
        const SymbolicDim& dim = inputs[i].dims[j];
        std::string at = fmt::format("{}: dimension {} of operand {}", op, j, i);
        Monomial parts = dim.degree * dim.micro;
        int axis = split_axis(table, table.inputs[i].dims[j]);
        auto a = static_cast<std::size_t>(axis);
        if (axis < 0 || table.axes[a].role == AxisRole::whole || is_minor(table, axis)) {
          ask(Kind::equal, parts, {}, at + " is whole");
          if (axis < 0) continue;
        }
        ask(Kind::at_most, parts, sizes[a], at + " has no more parts than elements");
        if (operand(n, i).dims[j].micro > 1)
          ask(Kind::divides, parts, sizes[a], at + " is divided by its parts");
        else
          ask(Kind::equal, dim.micro, {}, at + " has no micro-batches");
        if (degrees[a]) {
          ask(Kind::equal, dim.degree, *degrees[a], at + " is split as the operands before it");
          ask(Kind::equal, dim.micro, *micro[a], at + " is pipelined as the operands before it");
        }
        degrees[a] = dim.degree;
        micro[a] = dim.micro;
      }

    Monomial passing;
    bool some_passing = false;
    std::vector<bool> partial(inputs.size(), false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (table.inputs[i].shape_only) continue;
      bool joint = table.linearity == Linearity::joint && table.inputs[i].linear;
      bool alone = table.linearity == Linearity::multilinear && operand(n, i).partials > 1;
      partial[i] = joint || alone;
      if (!partial[i])
        ask(Kind::equal, inputs[i].partials, {}, fmt::format("{}: operand {} is not partial", op, i));
      else if (some_passing)
        ask(Kind::equal, inputs[i].partials, passing, fmt::format("{}: operand {} is partial as the others", op, i));
      else
        passing = inputs[i].partials, some_passing = true;
    }

    auto unwalked = [&](const OperandAxes& o) {
      Monomial product;
      for (std::size_t a = 0; a < table.axes.size(); ++a) {
        bool walks = std::any_of(o.dims.begin(), o.dims.end(),
                                 [&](const DimAxes& d) { return split_axis(table, d) == static_cast<int>(a); });
        if (!walks && degrees[a]) product = product * *degrees[a];
      }
      return product;
    };
    std::optional<Monomial> copies;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (table.inputs[i].shape_only) continue;
      Monomial needed = unwalked(table.inputs[i]) * (partial[i] ? Monomial() : passing);
      ask(Kind::divides, needed, inputs[i].copies, fmt::format("{}: operand {} has the copies it needs", op, i));
      Monomial left = inputs[i].copies / needed;
      if (copies) ask(Kind::equal, left, *copies, fmt::format("{}: operand {} has copies as the others", op, i));
      copies = left;
    }

    std::vector<SymbolicShape> outputs;
    ShapeFacts facts = shape_facts(*node.op, node.attributes, logical_operands(n), table);
    for (std::size_t o = 0; o < table.outputs.size(); ++o) {
      SymbolicShape y;
      for (std::size_t j = 0; j < table.outputs[o].dims.size(); ++j) {
        SymbolicDim dim;
        int axis = split_axis(table, table.outputs[o].dims[j]);
        auto a = static_cast<std::size_t>(axis);
        if (axis >= 0 && degrees[a]) dim.degree = *degrees[a], dim.micro = *micro[a];
        dim.size = result_size(n, inputs, facts.outputs[o][j], table.outputs[o].dims[j], sizes);
        y.dims.push_back(std::move(dim));
      }
      y.partials = unwalked(table.outputs[o]) * passing;
      y.copies = copies ? *copies : Monomial();
      outputs.push_back(std::move(y));
    }
    return outputs;
  }

  std::vector<Shape> logical_operands(std::size_t n) const {
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < signature_.nodes[n]->inputs.size(); ++i) shapes.push_back(operand(n, i).shape());
    return shapes;
  }

  // ---- Sizes. What is assumed of them holds in every well-typed call of the signature, on either side.

  std::vector<Monomial> axis_sizes(std::size_t n, const std::vector<SymbolicShape>& inputs) {
    const AxisTable& table = *signature_.nodes[n]->table;
    std::vector<std::optional<Monomial>> sizes(table.axes.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (std::size_t j = 0; j < inputs[i].dims.size(); ++j) {
        const DimAxes& dim = table.inputs[i].dims[j];
        const Monomial& size = inputs[i].dims[j].size;
        if (dim.axes.empty()) assume(Kind::equal, size, {});
        if (dim.axes.size() != 1 || dim.window) continue;
        auto& axis = sizes[static_cast<std::size_t>(dim.axes[0])];
        if (axis)
          assume(Kind::equal, size, *axis);
        else
          axis = size;
      }
    std::string call = name_of_call(n, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (std::size_t j = 0; j < inputs[i].dims.size(); ++j) {
        const DimAxes& dim = table.inputs[i].dims[j];
        if (dim.axes.size() < 2 || dim.window) continue;
        Monomial product;
        for (int axis : dim.axes) {
          auto a = static_cast<std::size_t>(axis);
          if (!sizes[a])
            sizes[a] = table.axes[a].size == 1 ? Monomial() : Monomial{{table.axes[a].name + " of " + call, 1}};
          product = product * *sizes[a];
        }
        assume(Kind::equal, product, inputs[i].dims[j].size);
      }
    std::vector<Monomial> all;
    for (std::size_t a = 0; a < sizes.size(); ++a)
      all.push_back(sizes[a] ? *sizes[a] : Monomial{{table.axes[a].name + " of " + call, 1}});
    return all;
  }

  // The same for calls that have the same sizes, in both sides: by operator, sizes of operands and those attributes on
  // which sizes may depend (none that is a text, where leaving it out gives the same table's sizes).
  std::string name_of_call(std::size_t n, const std::vector<SymbolicShape>& inputs) const {
    const Node& node = *signature_.nodes[n];
    auto specs = node.op->attributes();
    std::string name = node.op->name();
    for (std::size_t a = 0; a < specs.size(); ++a)
      if (specs[a].kind != AttributeKind::text || specs[a].required || sizes_depend_on(n, a, specs[a].fallback))
        name += " " +
                (rule_.nodes[n].attributes[a] ? text_of(*rule_.nodes[n].attributes[a]) : to_string(specs[a].fallback));
    for (const SymbolicShape& in : inputs) {
      name += ";";
      for (const SymbolicDim& dim : in.dims) name += " " + to_string(dim.size);
    }
    return name;
  }

  bool sizes_depend_on(std::size_t n, std::size_t attribute, const AttributeValue& other) const {
    const Node& node = *signature_.nodes[n];
    Attributes attributes = node.attributes;
    attributes[attribute] = other;
    auto table = node.op->axes(attributes, logical_operands(n));
    if (!table.ok() || table->axes.size() != node.table->axes.size()) return true;
    for (std::size_t a = 0; a < table->axes.size(); ++a)
      if (table->axes[a].size != node.table->axes[a].size) return true;
    return false;
  }

  // Equal texts mean equal values.
  std::string text_of(const Expression& e) const {
    if (e.kind == Expression::Kind::constant) return to_string(e.constant);
    if (e.kind == Expression::Kind::variable) {
      auto a = static_cast<std::size_t>(e.variable);
      return signature_.symbolic[a] ? rule_.attributes[a] : to_string(instance_.attributes[a]);
    }
    std::string text = fmt::format("{}/{}({} {} {}", static_cast<int>(e.kind), static_cast<int>(e.query),
                                   e.value.variable, e.value.node, e.value.output);
    for (const Expression& a : e.arguments) text += ", " + text_of(a);
    return text + ")";
  }

  Monomial result_size(std::size_t n, const std::vector<SymbolicShape>& inputs, const SizeSource& source,
                       const DimAxes& dim, const std::vector<Monomial>& axes) {
    auto at = [&](OperandDim d) {
      return inputs[static_cast<std::size_t>(d.operand)].dims[static_cast<std::size_t>(d.dim)].size;
    };
    const AxisTable& table = *signature_.nodes[n]->table;
    if (dim.axes.empty()) return {};
    if (dim.axes.size() == 1)
      for (std::size_t i = 0; i < inputs.size(); ++i)
        for (std::size_t j = 0; j < inputs[i].dims.size(); ++j)
          if (table.inputs[i].dims[j].axes == dim.axes && !table.inputs[i].dims[j].window)
            return inputs[i].dims[j].size;
    if (source.kind == SizeSource::Kind::operand) return at(source.dims[0]);
    if (source.kind == SizeSource::Kind::sum) {
      std::vector<Monomial> summands;
      std::vector<std::string> texts;
      for (OperandDim d : source.dims) texts.push_back(to_string(summands.emplace_back(at(d))));
      std::sort(texts.begin(), texts.end());
      std::string name;
      for (const std::string& text : texts) name += (name.empty() ? "" : " + ") + text;
      constraints_.sums[name] = summands;
      return {{name, 1}};
    }
    if (source.kind == SizeSource::Kind::element) {
      const auto& e = rule_.nodes[n].attributes[static_cast<std::size_t>(source.attribute)];
      std::vector<Constraint> quotients;
      if (e && e->kind == Expression::Kind::list)
        if (auto size = monomial(e->arguments[static_cast<std::size_t>(source.index)], quotients);
            size && quotients.empty())
          return *size;
      if (e) return {{fmt::format("{}[{}]", text_of(*e), source.index), 1}};
    }
    Monomial product;
    for (int axis : dim.axes) product = product * axes[static_cast<std::size_t>(axis)];
    return product;
  }

  const Rule& rule_;
  const RuleInstance& instance_;
  const InstanceSignature& signature_;
  std::vector<SymbolicShape> variables_;
  std::vector<std::vector<SymbolicShape>> results_;
  Constraints constraints_;
  bool in_target_ = false;
};

}  // namespace

Monomial operator*(const Monomial& a, const Monomial& b) {
  Monomial m = a;
  for (const auto& [symbol, exponent] : b)
    if ((m[symbol] += exponent) == 0) m.erase(symbol);
  return m;
}
Monomial operator/(const Monomial& a, const Monomial& b) {
  Monomial m = a;
  for (const auto& [symbol, exponent] : b)
    if ((m[symbol] -= exponent) == 0) m.erase(symbol);
  return m;
}
Monomial monomial_of(std::int64_t positive) {
  Monomial m;
  for (std::int64_t p = 2; p * p <= positive; ++p)
    for (; positive % p == 0; positive /= p) ++m[std::to_string(p)];
  if (positive > 1) ++m[std::to_string(positive)];
  return m;
}
std::string to_string(const Monomial& m) {
  std::string text;
  for (const auto& [symbol, exponent] : m)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", symbol, exponent == 1 ? "" : fmt::format("^{}", exponent));
  return text.empty() ? "1" : text;
}

Result<Constraints> typing_constraints(const Rule& rule, const RuleInstance& instance,
                                       const InstanceSignature& signature) {
  return Walk(rule, instance, signature).run();
}

}  // namespace unity
