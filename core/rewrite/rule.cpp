#include "core/rewrite/rule.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/text.h"
#include "core/graph/lexer.h"

namespace unity {
namespace {

using Kind = Expression::Kind;

constexpr std::array<std::string_view, 5> kQueries = {"rank", "dim", "degree", "copies", "partials"};

class RulePrinter {
 public:
  explicit RulePrinter(const Rule& rule) : rule_(rule) {}

  std::string run() const {
    std::string text = fmt::format("rule {}\n", rule_.name);
    std::vector<std::string> lets;
    for (const PatternNode& node : rule_.nodes)
      if (!node.names.empty()) lets.push_back(fmt::format("{} = {}", tuple(node.names), call(node)));
    if (!lets.empty()) text += fmt::format("  let {}\n", join(lets));
    text += fmt::format("  {} => {}\n", side(rule_.source_outputs), side(rule_.target_outputs));
    std::vector<std::string> conditions;
    for (const Condition& c : rule_.conditions) conditions.push_back(condition(c));
    if (!conditions.empty()) text += fmt::format("  where {}\n", join(conditions));
    return text;
  }

  std::string condition(const Condition& c) const {
    if (c.kind == Condition::Kind::divides || c.kind == Condition::Kind::near)
      return fmt::format("{}({}, {})", c.kind == Condition::Kind::near ? "near" : "divides", expression(c.left, 0),
                         expression(c.right, 0));
    constexpr std::array<std::string_view, 8> kSymbols = {"", "", "==", "!=", "<", "<=", ">", ">="};
    return fmt::format("{} {} {}", expression(c.left, 0), kSymbols[static_cast<std::size_t>(c.kind)],
                       expression(c.right, 0));
  }

  // `level` is the precedence of what stands around: 0 none, 1 sum, 2 product.
  std::string expression(const Expression& e, int level) const {
    switch (e.kind) {
      case Kind::constant: {
        const auto* text = std::get_if<std::string>(&e.constant);
        return text ? quote_text(*text) : to_string(e.constant);
      }
      case Kind::variable:
        return rule_.attributes[static_cast<std::size_t>(e.variable)];
      case Kind::list: {
        std::vector<std::string> items;
        for (const Expression& item : e.arguments) items.push_back(expression(item, 0));
        return fmt::format("[{}]", join(items));
      }
      case Kind::shape: {
        std::string arguments = value(e.value);
        for (const Expression& a : e.arguments) arguments += ", " + expression(a, 0);
        return fmt::format("{}({})", kQueries[static_cast<std::size_t>(e.query)], arguments);
      }
      default:
        break;
    }
    bool product = e.kind != Kind::add && e.kind != Kind::subtract;
    constexpr std::array<std::string_view, 9> kOperators = {"", "", "", "", " + ", " - ", "*", " / ", " % "};
    int own = product ? 2 : 1;
    std::string text = fmt::format("{}{}{}", expression(e.arguments[0], own),
                                   kOperators[static_cast<std::size_t>(e.kind)], expression(e.arguments[1], own + 1));
    return own < level ? "(" + text + ")" : text;
  }

 private:
  static std::string tuple(const std::vector<std::string>& parts) {
    return parts.size() == 1 ? parts[0] : fmt::format("({})", join(parts));
  }

  std::string value(PatternValue v) const {
    if (v.variable >= 0) return rule_.values[static_cast<std::size_t>(v.variable)];
    const PatternNode& node = rule_.nodes[static_cast<std::size_t>(v.node)];
    return node.names.empty() ? call(node) : node.names[static_cast<std::size_t>(v.output)];
  }

  std::string call(const PatternNode& node) const {
    auto specs = node.op->attributes();
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].required) arguments.push_back(expression(*node.attributes[i], 0));
    for (PatternValue v : node.inputs) arguments.push_back(value(v));
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (!specs[i].required && node.attributes[i])
        arguments.push_back(fmt::format("{}={}", specs[i].name, expression(*node.attributes[i], 0)));
    return fmt::format("{}({})", node.op->name(), join(arguments));
  }

  std::string side(const std::vector<PatternValue>& outputs) const {
    // All the results of one nameless call are written as that call.
    if (outputs.size() > 1 && outputs[0].node >= 0) {
      const PatternNode& node = rule_.nodes[static_cast<std::size_t>(outputs[0].node)];
      if (node.names.empty() && node.results > 1) return call(node);
    }
    std::vector<std::string> parts;
    for (PatternValue v : outputs) parts.push_back(value(v));
    return tuple(parts);
  }

  const Rule& rule_;
};

Result<const ParallelShape*> shape_of(PatternValue v, const Bindings& bindings) {
  ValueRef ref = v.variable >= 0 ? bindings.values[static_cast<std::size_t>(v.variable)]
                                 : ValueRef{bindings.nodes[static_cast<std::size_t>(v.node)], v.output};
  if (!ref.node.valid()) return fail("a value is not bound");
  return &bindings.pcg.shape(ref);
}

Result<AttributeValue> evaluate_shape(const Expression& e, const Rule& rule, const Bindings& bindings) {
  const ParallelShape& shape = *UNITY_TRY(shape_of(e.value, bindings));
  switch (e.query) {
    case Expression::Query::rank:
      return AttributeValue(static_cast<std::int64_t>(shape.dims.size()));
    case Expression::Query::copies:
      return AttributeValue(std::int64_t{shape.copies});
    case Expression::Query::partials:
      return AttributeValue(std::int64_t{shape.partials});
    default:
      break;
  }
  std::int64_t i = UNITY_TRY(evaluate_integer(e.arguments[0], rule, bindings));
  if (i < 0 || i >= static_cast<std::int64_t>(shape.dims.size()))
    return fail("rule {}: dimension is {}, expected 0 to {} for {}", rule.name, i,
                static_cast<int>(shape.dims.size()) - 1, to_string(shape));
  const ParallelDim& dim = shape.dims[static_cast<std::size_t>(i)];
  return AttributeValue(e.query == Expression::Query::dim ? dim.size : std::int64_t{dim.degree});
}

Result<std::int64_t> as_integer(const AttributeValue& value, const Rule& rule) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (!integer) return fail("rule {}: found {}, expected an integer", rule.name, to_string(value));
  return *integer;
}

Result<double> as_real(const AttributeValue& value, const Rule& rule) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return fail("rule {}: found {}, expected a number", rule.name, to_string(value));
}

template <class T>
bool compare(Condition::Kind kind, T a, T b) {
  switch (kind) {
    case Condition::Kind::equal:
      return a == b;
    case Condition::Kind::not_equal:
      return a != b;
    case Condition::Kind::less:
      return a < b;
    case Condition::Kind::less_equal:
      return a <= b;
    case Condition::Kind::greater:
      return a > b;
    default:
      return a >= b;
  }
}

AttributeValue real_arithmetic(Kind kind, double a, double b) {
  if (kind == Kind::add) return a + b;
  if (kind == Kind::subtract) return a - b;
  return kind == Kind::multiply ? a * b : a / b;
}

}  // namespace

std::string_view to_string(Proof proof) {
  return proof == Proof::unproved ? "unproved" : proof == Proof::derived ? "derived" : "proved";
}

bool Rule::algebraic() const {
  auto computes = [](const PatternNode& node) { return node.op->category() == OpCategory::compute; };
  auto lays_out = [](const PatternNode& node) {
    return node.op->category() == OpCategory::parallelization && node.op->name() != "reduce" &&
           node.op->name() != "stack_partials";
  };
  auto end = nodes.begin() + static_cast<std::ptrdiff_t>(source_nodes);
  return parameters.empty() && std::any_of(nodes.begin(), end, computes) &&
         std::none_of(nodes.begin(), nodes.end(), lays_out);
}

std::string print(const Rule& rule) { return RulePrinter(rule).run(); }
std::string print(const Expression& e, const Rule& rule) { return RulePrinter(rule).expression(e, 0); }
std::string print(const Condition& c, const Rule& rule) { return RulePrinter(rule).condition(c); }

Result<AttributeValue> evaluate(const Expression& e, const Rule& rule, const Bindings& bindings) {
  switch (e.kind) {
    case Kind::constant:
      return e.constant;
    case Kind::variable: {
      auto i = static_cast<std::size_t>(e.variable);
      if (!bindings.attributes[i]) return fail("rule {}: parameter '{}' has no value", rule.name, rule.attributes[i]);
      return *bindings.attributes[i];
    }
    case Kind::list: {
      Integers items;
      for (const Expression& item : e.arguments) items.push_back(UNITY_TRY(evaluate_integer(item, rule, bindings)));
      return AttributeValue(std::move(items));
    }
    case Kind::shape:
      return evaluate_shape(e, rule, bindings);
    default:
      break;
  }
  AttributeValue left = UNITY_TRY(evaluate(e.arguments[0], rule, bindings));
  AttributeValue right = UNITY_TRY(evaluate(e.arguments[1], rule, bindings));
  if ((std::holds_alternative<double>(left) || std::holds_alternative<double>(right)) && e.kind != Kind::remainder)
    return real_arithmetic(e.kind, UNITY_TRY(as_real(left, rule)), UNITY_TRY(as_real(right, rule)));
  std::int64_t a = UNITY_TRY(as_integer(left, rule)), b = UNITY_TRY(as_integer(right, rule));
  if (b == 0 && (e.kind == Kind::divide || e.kind == Kind::remainder))
    return fail("rule {}: {} is divided by 0", rule.name, a);
  std::int64_t result = 0;
  bool overflow = false;
  switch (e.kind) {
    case Kind::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Kind::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Kind::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Kind::divide:
      overflow = b == -1 && a == INT64_MIN;
      result = overflow ? 0 : a / b;
      break;
    default:
      result = b == -1 ? 0 : a % b;
  }
  if (overflow) return fail("rule {}: an integer is out of range", rule.name);
  return AttributeValue(result);
}

Result<std::int64_t> evaluate_integer(const Expression& e, const Rule& rule, const Bindings& bindings) {
  return as_integer(UNITY_TRY(evaluate(e, rule, bindings)), rule);
}

Result<void> check(const Condition& c, const Rule& rule, const Bindings& bindings) {
  AttributeValue left = UNITY_TRY(evaluate(c.left, rule, bindings));
  AttributeValue right = UNITY_TRY(evaluate(c.right, rule, bindings));
  auto number = [](const AttributeValue& v) { return v.index() < 2; };
  bool real = std::holds_alternative<double>(left) || std::holds_alternative<double>(right);
  bool holds = false;
  if (c.kind == Condition::Kind::near) {
    double a = UNITY_TRY(as_real(left, rule)), b = UNITY_TRY(as_real(right, rule));
    holds = std::abs(a - b) <= kNear * std::max(std::abs(a), std::abs(b));
  } else if (c.kind == Condition::Kind::divides) {
    std::int64_t a = UNITY_TRY(as_integer(left, rule)), b = UNITY_TRY(as_integer(right, rule));
    holds = a > 0 && b % a == 0;
  } else if (real && (c.kind > Condition::Kind::not_equal || (number(left) && number(right)))) {
    holds = compare(c.kind, UNITY_TRY(as_real(left, rule)), UNITY_TRY(as_real(right, rule)));
  } else if (c.kind > Condition::Kind::not_equal) {
    holds = compare(c.kind, UNITY_TRY(as_integer(left, rule)), UNITY_TRY(as_integer(right, rule)));
  } else {
    holds = (left == right) == (c.kind == Condition::Kind::equal);
  }
  if (holds) return {};
  return fail("rule {}: {} does not hold (found {} and {})", rule.name, print(c, rule), to_string(left),
              to_string(right));
}

bool has_unbound(const Expression& e, const Bindings& bindings) {
  if (e.kind == Kind::variable) return !bindings.attributes[static_cast<std::size_t>(e.variable)];
  return std::any_of(e.arguments.begin(), e.arguments.end(),
                     [&](const Expression& a) { return has_unbound(a, bindings); });
}

bool has_unbound(const Condition& c, const Bindings& bindings) {
  return has_unbound(c.left, bindings) || has_unbound(c.right, bindings);
}

}  // namespace unity
