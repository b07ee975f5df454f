#include "core/verify/elementwise.h"

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

namespace unity {
namespace {

constexpr std::size_t kMostTerms = 64;       // of a polynomial
constexpr std::int64_t kLargestPower = 8;    // that is multiplied out
constexpr std::int64_t kLargest = 1L << 30;  // numerator or denominator
constexpr int kLargestExponent = 1 << 20;

struct Fraction {
  std::int64_t numerator = 0, denominator = 1;
  bool operator==(const Fraction&) const = default;
};

std::optional<Fraction> fraction(std::int64_t numerator, std::int64_t denominator) {
  std::int64_t common = std::gcd(numerator, denominator);
  if (common == 0) return std::nullopt;
  if (denominator < 0) common = -common;
  Fraction f{numerator / common, denominator / common};
  if (std::abs(f.numerator) > kLargest || f.denominator > kLargest) return std::nullopt;
  return f;
}

// What the shortest decimal digits of the number say: 0.1 is a tenth.
std::optional<Fraction> fraction(double value) {
  for (std::int64_t denominator = 1; denominator <= 1'000'000; denominator *= 10) {
    double scaled = value * static_cast<double>(denominator);
    if (std::abs(scaled) > static_cast<double>(kLargest)) return std::nullopt;
    auto whole = std::llround(scaled);
    if (static_cast<double>(whole) / static_cast<double>(denominator) == value) return fraction(whole, denominator);
  }
  return std::nullopt;
}

using Powers = std::map<std::string, int>;  // of opaque values, none of them 0

struct Polynomial {
  std::map<Powers, Fraction> terms;  // none of them 0
  std::set<std::string> domain;      // where it is defined: "x != 0" of divisors, and the calls that it is made of
  bool operator==(const Polynomial&) const = default;
};
using Form = std::optional<Polynomial>;  // none: too large

Form constant(std::optional<Fraction> f) {
  if (!f) return std::nullopt;
  Polynomial p;
  if (f->numerator != 0) p.terms[{}] = *f;
  return p;
}
Form opaque(const std::string& name) {
  Polynomial p;
  p.terms[{{name, 1}}] = {1, 1};
  return p;
}

Form add(const Form& a, const Form& b, std::int64_t times) {
  if (!a || !b) return std::nullopt;
  Polynomial sum = *a;
  sum.domain.insert(b->domain.begin(), b->domain.end());
  for (const auto& [powers, f] : b->terms) {
    Fraction& g = sum.terms[powers];
    auto total =
        fraction(g.numerator * f.denominator + times * f.numerator * g.denominator, g.denominator * f.denominator);
    if (!total || sum.terms.size() > kMostTerms) return std::nullopt;
    g = *total;
    if (g.numerator == 0) sum.terms.erase(powers);
  }
  return sum;
}

// None: an exponent is too large.
std::optional<Powers> product(const Powers& a, const Powers& b, int sign) {
  Powers all = a;
  for (const auto& [name, exponent] : b) {
    int& total = all[name];
    total += sign * exponent;
    if (std::abs(total) > kLargestExponent) return std::nullopt;
    if (total == 0) all.erase(name);
  }
  return all;
}

Form multiply(const Form& a, const Form& b) {
  if (!a || !b) return std::nullopt;
  Form sum = Polynomial();
  sum->domain = a->domain;
  sum->domain.insert(b->domain.begin(), b->domain.end());
  for (const auto& [p, f] : a->terms)
    for (const auto& [q, g] : b->terms) {
      auto coefficient = fraction(f.numerator * g.numerator, f.denominator * g.denominator);
      auto powers = product(p, q, 1);
      if (!coefficient || !powers) return std::nullopt;
      Polynomial term;
      term.terms[std::move(*powers)] = *coefficient;
      sum = add(sum, term, 1);
      if (!sum) return std::nullopt;
    }
  return sum;
}

std::string print(const Polynomial& p) {
  std::string text;
  for (const auto& [powers, f] : p.terms) {
    text += fmt::format(" + {}/{}", f.numerator, f.denominator);
    for (const auto& [name, exponent] : powers) text += fmt::format(" {}^{}", name, exponent);
  }
  return fmt::format("[{} where {}]", text, fmt::join(p.domain, ", "));
}

// By one product of opaque values: all of them must not be zero.
Form divide(const Form& a, const Form& b) {
  if (!a || !b || b->terms.size() != 1) return std::nullopt;
  const auto& [powers, f] = *b->terms.begin();
  Polynomial inverse;
  inverse.domain = b->domain;
  for (const auto& [name, exponent] : powers) inverse.domain.insert(name + " != 0");
  auto coefficient = fraction(f.denominator, f.numerator);
  auto negative = product({}, powers, -1);
  if (!coefficient || !negative) return std::nullopt;
  inverse.terms[std::move(*negative)] = *coefficient;
  return multiply(a, inverse);
}

// Dimensions of values, in classes of equal size.
class Sizes {
 public:
  static constexpr std::size_t kOne = 0;  // the class of dimensions of one element
  std::size_t add() { return parents_.emplace_back(parents_.size()); }
  std::size_t find(std::size_t a) const { return parents_[a] == a ? a : find(parents_[a]); }
  void join(std::size_t a, std::size_t b) {
    a = find(a), b = find(b);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parents_ = {kOne};
};

class Reader {
 public:
  Reader(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature)
      : rule_(rule), instance_(instance), signature_(signature) {
    for (const ParallelShape& v : instance.variables) {
      variables_.emplace_back();
      for (std::size_t j = 0; j < v.dims.size(); ++j) variables_.back().push_back(sizes_.add());
    }
    for (std::size_t n = 0; n < rule.nodes.size(); ++n) {
      results_.emplace_back();
      read_sizes(n);
    }
    // Equal calls have results of equal sizes; only now are all sizes known that tables make equal.
    std::map<std::string, std::size_t> calls;
    for (std::size_t n = 0; n < rule.nodes.size(); ++n) {
      forms_.emplace_back();
      const PatternNode& node = rule.nodes[n];
      for (std::size_t o = 0; o < results_[n].size(); ++o) forms_[n].push_back(read(n, static_cast<int>(o)));
      if (node.op->category() == OpCategory::parallelization) continue;
      auto [known, added] = calls.emplace(call_text(n), n);
      if (!added)
        for (std::size_t o = 0; o < results_[n].size(); ++o)
          for (std::size_t j = 0; j < results_[n][o].size(); ++j)
            sizes_.join(results_[n][o][j], results_[known->second][o][j]);
    }
  }

  bool same(PatternValue a, PatternValue b) const {
    Form p = form(a), q = form(b);
    return p && p == q && dims_text(a) == dims_text(b);
  }

 private:
  using Dims = std::vector<std::size_t>;

  const Dims& dims(PatternValue v) const {
    return v.variable >= 0 ? variables_[static_cast<std::size_t>(v.variable)]
                           : results_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  }
  std::string dims_text(PatternValue v) const {
    std::string text;
    for (std::size_t d : dims(v)) text += fmt::format(" {}", sizes_.find(d));
    return text;
  }
  Form form(PatternValue v) const {
    if (v.variable >= 0) return opaque(rule_.values[static_cast<std::size_t>(v.variable)]);
    return forms_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  }

  void read_sizes(std::size_t n) {
    const PatternNode& node = rule_.nodes[n];
    if (node.op->category() == OpCategory::parallelization) {
      results_[n].push_back(dims(node.inputs[0]));
      for (PatternValue v : node.inputs)
        for (std::size_t j = 0; j < dims(v).size(); ++j) sizes_.join(dims(v)[j], results_[n][0][j]);
      return;
    }
    const AxisTable& table = *signature_.nodes[n]->table;
    std::map<int, std::size_t> of_axis;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      for (std::size_t j = 0; j < table.inputs[i].dims.size(); ++j) {
        const DimAxes& dim = table.inputs[i].dims[j];
        std::size_t size = dims(node.inputs[i])[j];
        if (dim.window) continue;
        if (dim.axes.empty()) sizes_.join(size, Sizes::kOne);
        if (dim.axes.size() != 1) continue;
        auto [known, added] = of_axis.emplace(dim.axes[0], size);
        if (!added) sizes_.join(size, known->second);
      }
    for (const OperandAxes& output : table.outputs) {
      Dims result;
      for (const DimAxes& dim : output.dims) {
        auto known = dim.axes.size() == 1 && !dim.window ? of_axis.find(dim.axes[0]) : of_axis.end();
        result.push_back(known != of_axis.end() ? known->second
                         : dim.axes.empty()     ? std::size_t{Sizes::kOne}
                                                : sizes_.add());
      }
      results_[n].push_back(std::move(result));
    }
  }

  // ---- Attributes

  std::string text_of(const Expression& e) const {
    if (e.kind == Expression::Kind::constant) return to_string(e.constant);
    if (e.kind == Expression::Kind::variable) {
      auto a = static_cast<std::size_t>(e.variable);
      return signature_.symbolic[a] ? "attribute " + rule_.attributes[a] : to_string(instance_.attributes[a]);
    }
    std::string text = fmt::format("{}/{}/{}({}", static_cast<int>(e.kind), static_cast<int>(e.query), e.variable,
                                   e.kind == Expression::Kind::shape
                                       ? fmt::format("{}.{}.{}", e.value.variable, e.value.node, e.value.output)
                                       : "");
    for (const Expression& argument : e.arguments) text += ", " + text_of(argument);
    return text + ")";
  }

  Form number(const Expression& e) const {
    using Kind = Expression::Kind;
    auto of_value = [](const AttributeValue& value) -> Form {
      if (const auto* integer = std::get_if<std::int64_t>(&value)) return constant(fraction(*integer, 1));
      if (const auto* real = std::get_if<double>(&value)) return constant(fraction(*real));
      return std::nullopt;
    };
    if (e.kind == Kind::constant) return of_value(e.constant);
    if (e.kind == Kind::variable) {
      auto a = static_cast<std::size_t>(e.variable);
      return signature_.symbolic[a] ? opaque("attribute " + rule_.attributes[a]) : of_value(instance_.attributes[a]);
    }
    if (e.kind != Kind::add && e.kind != Kind::subtract && e.kind != Kind::multiply) return std::nullopt;
    Form a = number(e.arguments[0]), b = number(e.arguments[1]);
    return e.kind == Kind::multiply ? multiply(a, b) : add(a, b, e.kind == Kind::add ? 1 : -1);
  }

  // ---- Values

  Form read(std::size_t n, int output) {
    const PatternNode& node = rule_.nodes[n];
    const std::string& op = node.op->name();
    if (node.op->category() == OpCategory::parallelization) {
      Form sum = form(node.inputs[0]);
      for (std::size_t i = 1; i < node.inputs.size(); ++i) sum = add(sum, form(node.inputs[i]), 1);
      return sum;
    }
    Form known;
    if (op == "add" || op == "sub") known = add(form(node.inputs[0]), form(node.inputs[1]), op == "add" ? 1 : -1);
    if (op == "mul") known = multiply(form(node.inputs[0]), form(node.inputs[1]));
    if (op == "div") known = divide(form(node.inputs[0]), form(node.inputs[1]));
    if (op == "scale") known = multiply(form(node.inputs[0]), number(*node.attributes[0]));
    if (op == "shift") known = add(form(node.inputs[0]), number(*node.attributes[0]), 1);
    if (op == "power") known = power(form(node.inputs[0]), number(*node.attributes[0]));
    if (known) return known;
    std::string name = fmt::format("{}.{}", call_text(n), output);
    Form result = opaque(name);
    result->domain.insert(name);  // a call of no value (of a logarithm, a table) has none where nothing of it is left
    return result;
  }

  static Form power(const Form& x, const Form& exponent) {
    if (!x || !exponent || exponent->terms.size() != 1 || !exponent->terms.begin()->first.empty()) return std::nullopt;
    Fraction e = exponent->terms.begin()->second;
    if (e.denominator != 1 || e.numerator < 1 || e.numerator > kLargestPower) return std::nullopt;
    Form result = x;
    for (std::int64_t k = 1; k < e.numerator; ++k) result = multiply(result, x);
    return result;
  }

  // Equal texts mean equal calls.
  std::string call_text(std::size_t n) const {
    const PatternNode& node = rule_.nodes[n];
    auto specs = node.op->attributes();
    std::string text = node.op->name() + "(";
    for (std::size_t i = 0; i < specs.size(); ++i)
      text += (node.attributes[i] ? text_of(*node.attributes[i]) : to_string(specs[i].fallback)) + ", ";
    for (PatternValue v : node.inputs) {
      Form in = form(v);
      text += (in ? print(*in) : fmt::format("value {}.{}.{}", v.variable, v.node, v.output)) + dims_text(v) + "; ";
    }
    return text + ")";
  }

  const Rule& rule_;
  const RuleInstance& instance_;
  const InstanceSignature& signature_;
  Sizes sizes_;
  std::vector<Dims> variables_;
  std::vector<std::vector<Dims>> results_;  // by node
  std::vector<std::vector<Form>> forms_;    // by node
};

}  // namespace

bool same_normal_forms(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature) {
  Reader reader(rule, instance, signature);
  for (std::size_t o = 0; o < rule.source_outputs.size(); ++o)
    if (!reader.same(rule.source_outputs[o], rule.target_outputs[o])) return false;
  return true;
}

}  // namespace unity
