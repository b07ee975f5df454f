#include "core/verify/terms.h"

#include <algorithm>

namespace unity {
namespace {

// A double in the shortest decimal digits that give it back, as a fraction: what people mean who write 0.1.
std::string fraction(double value) {
  std::string text = fmt::format("{}", value);
  std::string mantissa = text, zeros;
  int exponent = 0;
  if (std::size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    mantissa = text.substr(0, e);
  }
  if (std::size_t dot = mantissa.find('.'); dot != std::string::npos) {
    exponent -= static_cast<int>(mantissa.size() - dot - 1);
    mantissa.erase(dot, 1);
  }
  zeros.assign(static_cast<std::size_t>(std::abs(exponent)), '0');
  return exponent >= 0 ? mantissa + zeros : mantissa + "/1" + zeros;
}

bool is_plain(const Expression& e) {
  if (e.kind == Expression::Kind::list) return std::all_of(e.arguments.begin(), e.arguments.end(), is_plain);
  return e.kind == Expression::Kind::constant || e.kind == Expression::Kind::variable;
}

}  // namespace

Language::Language(z3::context& context)
    : context_(context),
      tensor_(context.uninterpreted_sort("tensor")),
      list_(context.uninterpreted_sort("list")),
      text_(context.uninterpreted_sort("text")),
      typed_(context.function("typed", tensor_, context.bool_sort())),
      rank_(context.function("rank", tensor_, context.int_sort())),
      dim_(context.function("dim", tensor_, context.int_sort(), context.int_sort())),
      element_(context.function("element", list_, context.int_sort(), context.int_sort())) {}

z3::sort Language::sort_of(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::integer:
      return context_.int_sort();
    case AttributeKind::real:
      return context_.real_sort();
    case AttributeKind::integers:
      return list_;
    default:
      return text_;
  }
}

z3::expr Language::constant(const AttributeValue& value, AttributeKind kind) {
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return kind == AttributeKind::real ? context_.real_val(*integer) : context_.int_val(*integer);
  if (const auto* real = std::get_if<double>(&value)) {
    numerals_.insert(fraction(*real));
    return context_.real_val(fraction(*real).c_str());
  }
  if (const auto* text = std::get_if<std::string>(&value))
    return context_.constant(("\"" + *text + "\"").c_str(), text_);
  z3::expr_vector elements(context_);
  for (std::int64_t e : std::get<Integers>(value)) elements.push_back(context_.int_val(e));
  return list(elements);
}

z3::expr Language::list(const z3::expr_vector& elements) {
  auto found = lists_.find(elements.size());
  if (found == lists_.end()) {
    z3::sort_vector domain(context_);
    for (unsigned i = 0; i < elements.size(); ++i) domain.push_back(context_.int_sort());
    found =
        lists_
            .emplace(elements.size(), context_.function(fmt::format("list{}", elements.size()).c_str(), domain, list_))
            .first;
  }
  return found->second(elements);
}

z3::expr Language::divides(const z3::expr& a, const z3::expr& b) {
  return context_.function("divides", context_.int_sort(), context_.int_sort(), context_.bool_sort())(a, b);
}

z3::expr Language::arithmetic(Expression::Kind kind, z3::expr a, z3::expr b) {
  if (a.is_int() && b.is_real()) a = z3::to_real(a);
  if (a.is_real() && b.is_int()) b = z3::to_real(b);
  switch (kind) {
    case Expression::Kind::add:
      return a + b;
    case Expression::Kind::subtract:
      return a - b;
    case Expression::Kind::multiply:
      if (a.is_numeral() || b.is_numeral()) return a * b;
      products_ = true;
      return context_.function(a.is_int() ? "times" : "real_times", a.get_sort(), a.get_sort(), a.get_sort())(a, b);
    case Expression::Kind::divide:
      return context_.function(a.is_int() ? "quotient" : "real_quotient", a.get_sort(), a.get_sort(), a.get_sort())(a,
                                                                                                                    b);
    default:
      return context_.function("remainder", a.get_sort(), a.get_sort(), a.get_sort())(a, b);
  }
}

z3::expr Language::call(const Operator& op, const std::vector<z3::expr>& attributes,
                        const std::vector<z3::expr>& operands, int result, int results) {
  std::string name = fmt::format("{}/{}.{}/{}", op.name(), operands.size(), result, results);
  z3::expr_vector arguments(context_);
  for (const z3::expr& a : attributes) arguments.push_back(a);
  for (const z3::expr& x : operands) arguments.push_back(x);
  auto found = calls_.find(name);
  if (found == calls_.end()) {
    z3::sort_vector domain(context_);
    for (unsigned i = 0; i < arguments.size(); ++i) domain.push_back(arguments[static_cast<int>(i)].get_sort());
    found = calls_.emplace(name, Symbol{context_.function(name.c_str(), domain, tensor_), attributes.size()}).first;
  }
  return found->second.function(arguments);
}

std::vector<std::pair<std::string, z3::expr>> Language::background() {
  std::vector<std::pair<std::string, z3::expr>> facts;
  auto variable = [&](const char* name, std::size_t i, const z3::sort& sort) {
    return context_.constant(fmt::format("{}!{}", name, i).c_str(), sort);
  };
  for (const auto& [name, symbol] : calls_) {
    std::vector<z3::expr> variables;
    z3::expr_vector arguments(context_), operands(context_);
    for (unsigned i = 0; i < symbol.function.arity(); ++i) {
      variables.push_back(variable("a", i, symbol.function.domain(i)));
      arguments.push_back(variables.back());
      if (i >= symbol.attributes) operands.push_back(typed(variables.back()));
    }
    z3::expr call = symbol.function(arguments);
    facts.emplace_back("strict", forall(variables, {call}, z3::implies(typed(call), z3::mk_and(operands))));
  }
  for (const auto& [size, function] : lists_) {
    std::vector<z3::expr> variables;
    z3::expr_vector arguments(context_), all(context_);
    for (std::size_t i = 0; i < size; ++i) {
      variables.push_back(variable("e", i, context_.int_sort()));
      arguments.push_back(variables.back());
    }
    z3::expr list = function(arguments);
    for (std::size_t i = 0; i < size; ++i) all.push_back(element(list, static_cast<int>(i)) == variables[i]);
    if (size > 0) facts.emplace_back("list", forall(variables, {list}, z3::mk_and(all)));
  }
  for (const z3::sort& sort : {context_.int_sort(), context_.real_sort()}) {
    if (!products_) break;
    auto times = context_.function(sort.is_int() ? "times" : "real_times", sort, sort, sort);
    z3::expr a = variable("p", 0, sort), b = variable("p", 1, sort), c = variable("p", 2, sort);
    facts.emplace_back("arithmetic", forall({a, b}, {times(a, b)}, times(a, b) == times(b, a)));
    if (sort.is_real())  // a multiple by a number is linear
      for (const std::string& n : numerals_) {
        z3::expr number = context_.real_val(n.c_str());
        facts.emplace_back("arithmetic", forall({a}, {times(number, a)}, times(number, a) == number * a));
      }
    facts.emplace_back("arithmetic",
                       forall({a, b, c}, {times(times(a, b), c)}, times(times(a, b), c) == times(a, times(b, c))));
  }
  return facts;
}

z3::expr Language::forall(const std::vector<z3::expr>& variables, const std::vector<z3::expr>& pattern,
                          const z3::expr& body) {
  if (variables.empty()) return body;
  std::vector<Z3_app> bound;
  for (const z3::expr& v : variables) bound.push_back(Z3_to_app(context_, v));
  std::vector<Z3_ast> terms(pattern.begin(), pattern.end());
  Z3_pattern p = Z3_mk_pattern(context_, static_cast<unsigned>(terms.size()), terms.data());
  context_.check_error();
  Z3_ast formula = Z3_mk_forall_const(context_, 0, static_cast<unsigned>(bound.size()), bound.data(), 1, &p, body);
  context_.check_error();
  return {context_, formula};
}

Reading::Reading(Language& language, const Rule& rule, std::vector<z3::expr> values,
                 std::vector<std::optional<z3::expr>> attributes, std::vector<int> results)
    : language_(language),
      rule_(rule),
      values_(std::move(values)),
      attributes_(std::move(attributes)),
      results_(std::move(results)) {
  if (results_.empty())
    for (const PatternNode& node : rule.nodes) results_.push_back(node.results);
}

z3::expr Reading::value(PatternValue v) { return build(v, nullptr); }
z3::expr Reading::pattern(PatternValue v, Abstraction& abstraction) { return build(v, &abstraction); }

z3::expr Reading::build(PatternValue v, Abstraction* abstraction) {
  if (v.variable >= 0) return values_[static_cast<std::size_t>(v.variable)];
  const PatternNode& node = rule_.nodes[static_cast<std::size_t>(v.node)];
  std::vector<z3::expr> operands;
  for (PatternValue in : node.inputs) operands.push_back(build(in, abstraction));
  if (node.op->category() == OpCategory::parallelization) {
    z3::expr sum = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i)
      sum = language_.call(get_operator("add"), {}, {sum, operands[i]}, 0, 1);
    return sum;
  }
  auto specs = node.op->attributes();
  std::vector<z3::expr> attributes;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!node.attributes[i]) {
      attributes.push_back(language_.constant(specs[i].fallback, specs[i].kind));
      continue;
    }
    const Expression& e = *node.attributes[i];
    auto term = expression(e, specs[i].kind);
    UNITY_CHECK(term, "{}: attribute '{}' is out of reach of proofs", node.op->name(), specs[i].name);
    if (specs[i].kind == AttributeKind::real && term->is_int()) term = z3::to_real(*term);
    if (abstraction && !is_plain(e)) {
      z3::sort sort = language_.sort_of(specs[i].kind);
      z3::expr variable =
          language_.context().constant(fmt::format("e!{}", abstraction->variables.size()).c_str(), sort);
      abstraction->variables.push_back(variable);
      abstraction->equations.push_back(variable == *term);
      attributes.push_back(variable);
    } else {
      attributes.push_back(*term);
    }
  }
  return language_.call(*node.op, attributes, operands, v.output, results_[static_cast<std::size_t>(v.node)]);
}

std::optional<z3::expr> Reading::expression(const Expression& e, AttributeKind kind) {
  auto number = [&](const Expression& argument) {
    return expression(argument, kind == AttributeKind::real ? kind : AttributeKind::integer);
  };
  switch (e.kind) {
    case Expression::Kind::constant:
      return language_.constant(e.constant, kind);
    case Expression::Kind::variable:
      return attributes_[static_cast<std::size_t>(e.variable)];
    case Expression::Kind::list: {
      z3::expr_vector elements(language_.context());
      for (const Expression& a : e.arguments) {
        auto element = expression(a, AttributeKind::integer);
        if (!element) return std::nullopt;
        elements.push_back(*element);
      }
      return language_.list(elements);
    }
    case Expression::Kind::shape: {
      z3::expr of = value(e.value);
      if (e.query == Expression::Query::rank) return language_.rank(of);
      auto dim = e.arguments.empty() ? std::nullopt : expression(e.arguments[0], AttributeKind::integer);
      if (e.query == Expression::Query::dim) return dim ? std::optional(language_.dim(of, *dim)) : std::nullopt;
      // Layouts are no function of logical tensors: a number for each value of the rule.
      return language_.context().int_const(fmt::format("layout {} of {}.{}.{} {}", static_cast<int>(e.query),
                                                       e.value.variable, e.value.node, e.value.output,
                                                       dim ? dim->to_string() : "")
                                               .c_str());
    }
    default: {
      auto a = number(e.arguments[0]), b = number(e.arguments[1]);
      if (!a || !b) return std::nullopt;
      return language_.arithmetic(e.kind, *a, *b);
    }
  }
}

std::optional<z3::expr> Reading::condition(const Condition& c) {
  if (c.kind == Condition::Kind::near) return std::nullopt;
  // The kind of what is compared is that of an attribute variable alone on one side, or of a list, or text.
  AttributeKind kind = AttributeKind::integer;
  auto kinds = attribute_kinds(rule_);
  for (const Expression* side : {&c.left, &c.right}) {
    if (side->kind == Expression::Kind::variable) kind = kinds[static_cast<std::size_t>(side->variable)];
    if (side->kind == Expression::Kind::list) kind = AttributeKind::integers;
    if (std::holds_alternative<double>(side->constant)) kind = AttributeKind::real;
    if (std::holds_alternative<std::string>(side->constant)) kind = AttributeKind::text;
  }
  auto a = expression(c.left, kind), b = expression(c.right, kind);
  if (!a || !b || !z3::eq(a->get_sort(), b->get_sort())) return std::nullopt;
  switch (c.kind) {
    case Condition::Kind::divides:
      return language_.divides(*a, *b);
    case Condition::Kind::equal:
      return *a == *b;
    case Condition::Kind::not_equal:
      return *a != *b;
    case Condition::Kind::less:
      return *a < *b;
    case Condition::Kind::less_equal:
      return *a <= *b;
    case Condition::Kind::greater:
      return *a > *b;
    default:
      return *a >= *b;
  }
}

std::vector<AttributeKind> attribute_kinds(const Rule& rule) {
  std::vector<AttributeKind> kinds(rule.attributes.size(), AttributeKind::integer);
  for (const PatternNode& node : rule.nodes) {
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (node.attributes[i] && node.attributes[i]->kind == Expression::Kind::variable)
        kinds[static_cast<std::size_t>(node.attributes[i]->variable)] = specs[i].kind;
  }
  return kinds;
}

}  // namespace unity
