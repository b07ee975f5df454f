#include "core/rewrite/rule_text.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/text.h"
#include "core/graph/lexer.h"

namespace unity {
namespace {

constexpr int kMostOperations = 500;  // a sum of many is as deep as it is long
constexpr int kDeepest = 200;         // nesting, so that hostile text can't exhaust the stack

using Kind = Expression::Kind;

bool is_keyword(std::string_view word) { return word == "rule" || word == "axiom" || word == "let" || word == "where"; }

const std::vector<std::string> kQueries = {"rank", "dim", "degree", "copies", "partials"};

class RuleParser {
 public:
  // `keyword` starts each rule, `arrow` stands between its sides.
  RuleParser(TokenStream& tokens, std::string_view keyword, std::string_view arrow)
      : tokens_(tokens), keyword_(keyword), arrow_(arrow) {}

  Rule run() {
    tokens_.expect(keyword_);
    at_ = tokens_.expect(TokenKind::identifier, fmt::format("the name of the {}", keyword_));
    rule_.name = at_.text;
    while (tokens_.accept("let")) {
      do let();
      while (tokens_.accept(","));
    }
    Token source_at = tokens_.peek();
    rule_.source_outputs = side(0);
    rule_.one_way = arrow_ == "=" && tokens_.accept("<=");
    if (!rule_.one_way) tokens_.expect(arrow_);
    Token target_at = tokens_.peek();
    rule_.target_outputs = side(rule_.source_outputs.size());
    if (tokens_.accept("where")) {
      do rule_.conditions.push_back(condition());
      while (tokens_.accept(","));
    }
    if (!tokens_.at_end() && !tokens_.is(keyword_))
      tokens_.fail_expected(fmt::format("'where' or the next {}", keyword_));
    if (rule_.source_outputs.size() != rule_.target_outputs.size())
      tokens_.fail(target_at, fmt::format("found {} results, expected {} as in the source", rule_.target_outputs.size(),
                                          rule_.source_outputs.size()));
    check_source(source_at);
    order_nodes();
    check_bound();
    return std::move(rule_);
  }

 private:
  // ---- Terms

  void let() {
    std::vector<Token> names;
    bool tuple = tokens_.accept("(");
    do names.push_back(name("the name of a result"));
    while (tuple && tokens_.accept(","));
    if (tuple) tokens_.expect(")");
    tokens_.expect("=");
    int node = call(0);
    results(node) = static_cast<int>(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& text = names[i].text;
      if (lets_.contains(text)) tokens_.fail(names[i], fmt::format("'{}' is defined twice", text));
      if (value_index_.contains(text) || attribute_index_.contains(text))
        tokens_.fail(names[i], fmt::format("'{}' is used before its definition", text));
      lets_[text] = {-1, node, static_cast<int>(i)};
      rule_.nodes[static_cast<std::size_t>(node)].names.push_back(text);
    }
  }

  // One term, a tuple of terms, or a call with `expected` results.
  std::vector<PatternValue> side(std::size_t expected) {
    std::vector<PatternValue> outputs;
    if (tokens_.accept("(")) {
      do outputs.push_back(term(0));
      while (tokens_.accept(","));
      tokens_.expect(")");
      return outputs;
    }
    outputs.push_back(term(0));
    const PatternValue first = outputs[0];
    if (expected > 1 && first.node >= 0 && rule_.nodes[static_cast<std::size_t>(first.node)].names.empty()) {
      results(first.node) = static_cast<int>(expected);
      for (std::size_t i = 1; i < expected; ++i) outputs.push_back({-1, first.node, static_cast<int>(i)});
    }
    return outputs;
  }

  PatternValue term(int depth) {
    if (tokens_.is("(", 1)) return {-1, call(depth), 0};
    return named_value("the name of a value or a call");
  }

  // A result that `let` names, or a variable; whether the source binds the variable shows at the end.
  PatternValue named_value(std::string_view what) {
    Token at = name(what);
    auto let = lets_.find(at.text);
    if (let != lets_.end()) return let->second;
    if (attribute_index_.contains(at.text))
      tokens_.fail(at, fmt::format("'{}' is an attribute, expected a value", at.text));
    auto [found, inserted] = value_index_.emplace(at.text, static_cast<int>(rule_.values.size()));
    if (inserted) {
      rule_.values.push_back(at.text);
      value_at_.push_back(at);
    }
    return {found->second, -1, 0};
  }

  int call(int depth) {
    Token at = tokens_.expect(TokenKind::identifier, "a call of an operator");
    if (depth > kDeepest) tokens_.fail(at, fmt::format("calls nest deeper than {}", kDeepest));
    const Operator* op = find_operator(at.text);
    if (!op) tokens_.fail(at, fmt::format("unknown operator '{}'{}", at.text, suggestion(at.text, operator_names())));
    if (op->category() == OpCategory::leaf)
      tokens_.fail(
          at, fmt::format("{} is a leaf, expected an operator with operands (rules never replace leaves)", at.text));
    auto specs = op->attributes();
    PatternNode node;
    node.op = op;
    node.attributes.resize(specs.size());
    tokens_.expect("(");
    bool first = true;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i].required) continue;
      if (tokens_.is(")")) tokens_.fail(at, fmt::format("{}: attribute '{}' is missing", at.text, specs[i].name));
      if (!first) tokens_.expect(",");
      first = false;
      node.attributes[i] = attribute(specs[i]);
    }
    while (!tokens_.is(")")) {
      if (!first) tokens_.expect(",");
      first = false;
      if (tokens_.is("=", 1))
        named_attribute(at.text, specs, node);
      else
        node.inputs.push_back(term(depth + 1));
    }
    tokens_.expect(")");
    Arity arity = op->arity();
    int n = static_cast<int>(node.inputs.size());
    if (n < arity.min || (arity.max >= 0 && n > arity.max))
      tokens_.fail(at, fmt::format("{}: found {} operands, expected {}", at.text, n,
                                   arity.max < 0            ? fmt::format("at least {}", arity.min)
                                   : arity.max == arity.min ? fmt::format("{}", arity.min)
                                                            : fmt::format("{} to {}", arity.min, arity.max)));
    rule_.nodes.push_back(std::move(node));
    node_at_.push_back(at);
    return static_cast<int>(rule_.nodes.size()) - 1;
  }

  void named_attribute(const std::string& op, const std::vector<AttributeSpec>& specs, PatternNode& node) {
    Token key = tokens_.expect(TokenKind::identifier, "the name of an attribute");
    std::vector<std::string> known;
    for (const AttributeSpec& spec : specs) known.push_back(spec.name);
    auto i = static_cast<std::size_t>(std::find(known.begin(), known.end(), key.text) - known.begin());
    if (i == known.size())
      tokens_.fail(key, fmt::format("{}: unknown attribute '{}'{}", op, key.text,
                                    known.empty() ? " (it has none)" : suggestion(key.text, known)));
    if (node.attributes[i]) tokens_.fail(key, fmt::format("{}: attribute '{}' is given twice", op, key.text));
    tokens_.expect("=");
    node.attributes[i] = attribute(specs[i]);
  }

  // A whole number in the place of a real one is that number: graphs have no other.
  Expression attribute(const AttributeSpec& spec) {
    Expression e = sum(0);
    const auto* integer = std::get_if<std::int64_t>(&e.constant);
    if (spec.kind == AttributeKind::real && e.kind == Kind::constant && integer)
      e.constant = static_cast<double>(*integer);
    return e;
  }

  // ---- Attributes and conditions

  Expression binary(Kind kind, Expression a, Expression b) {
    if (++operations_ > kMostOperations)
      tokens_.fail(tokens_.peek(), fmt::format("found more than {} arithmetic operations in a rule", kMostOperations));
    Expression e;
    e.kind = kind;
    e.arguments = {std::move(a), std::move(b)};
    return e;
  }

  Expression sum(int depth) {
    Expression e = product(depth);
    for (;;) {
      if (tokens_.accept("+"))
        e = binary(Kind::add, std::move(e), product(depth));
      else if (tokens_.accept("-"))
        e = binary(Kind::subtract, std::move(e), product(depth));
      else
        return e;
    }
  }

  Expression product(int depth) {
    Expression e = atom(depth);
    for (;;) {
      if (tokens_.accept("*"))
        e = binary(Kind::multiply, std::move(e), atom(depth));
      else if (tokens_.accept("/"))
        e = binary(Kind::divide, std::move(e), atom(depth));
      else if (tokens_.accept("%"))
        e = binary(Kind::remainder, std::move(e), atom(depth));
      else
        return e;
    }
  }

  Expression atom(int depth) {
    Token at = tokens_.peek();
    if (depth > kDeepest) tokens_.fail(at, fmt::format("expressions nest deeper than {}", kDeepest));
    Expression e;
    if (tokens_.accept("-")) {
      Token number = tokens_.next();
      if (number.kind == TokenKind::integer)
        e.constant = -number.integer;
      else if (number.kind == TokenKind::real)
        e.constant = -number.real;
      else
        tokens_.fail(number, "expected a number after '-'");
      return e;
    }
    if (tokens_.accept("(")) {
      e = sum(depth + 1);
      tokens_.expect(")");
      return e;
    }
    if (tokens_.accept("[")) {
      e.kind = Kind::list;
      if (!tokens_.is("]")) {
        do e.arguments.push_back(sum(depth + 1));
        while (tokens_.accept(","));
      }
      tokens_.expect("]");
      return e;
    }
    if (at.kind == TokenKind::integer) return e.constant = tokens_.next().integer, e;
    if (at.kind == TokenKind::real) return e.constant = tokens_.next().real, e;
    if (at.kind == TokenKind::text) return e.constant = tokens_.next().text, e;
    if (at.kind == TokenKind::identifier && tokens_.is("(", 1)) return query(depth);
    at = name("an attribute");
    if (lets_.contains(at.text) || value_index_.contains(at.text))
      tokens_.fail(at, fmt::format("'{}' is a value, expected an attribute", at.text));
    auto [found, inserted] = attribute_index_.emplace(at.text, static_cast<int>(rule_.attributes.size()));
    if (inserted) {
      rule_.attributes.push_back(at.text);
      attribute_at_.push_back(at);
    }
    e.kind = Kind::variable;
    e.variable = found->second;
    return e;
  }

  Expression query(int depth) {
    Token at = tokens_.next();
    auto found = std::find(kQueries.begin(), kQueries.end(), at.text);
    if (found == kQueries.end())
      tokens_.fail(at, fmt::format("found '{}', expected an attribute or one of {}{}", at.text, join(kQueries),
                                   find_operator(at.text) ? " (attributes come before operands)" : ""));
    Expression e;
    e.kind = Kind::shape;
    e.query = static_cast<Expression::Query>(found - kQueries.begin());
    tokens_.expect("(");
    Token value_at = tokens_.peek();
    e.value = named_value("the name of a value");
    queries_.emplace_back(e.value, value_at);
    if (e.query == Expression::Query::dim || e.query == Expression::Query::degree) {
      tokens_.expect(",");
      e.arguments.push_back(sum(depth + 1));
    }
    tokens_.expect(")");
    return e;
  }

  Condition condition() {
    Condition c;
    std::size_t attributes_before = rule_.attributes.size();
    if ((tokens_.is("divides") || tokens_.is("near")) && tokens_.is("(", 1)) {
      c.kind = tokens_.next().text == "near" ? Condition::Kind::near : Condition::Kind::divides;
      tokens_.expect("(");
      c.left = sum(0);
      tokens_.expect(",");
      c.right = sum(0);
      tokens_.expect(")");
    } else {
      c.left = sum(0);
      constexpr std::array<std::string_view, 6> kSymbols = {"==", "!=", "<", "<=", ">", ">="};
      std::size_t i = 0;
      while (i < kSymbols.size() && !tokens_.accept(kSymbols[i])) ++i;
      if (i == kSymbols.size()) tokens_.fail_expected("one of == != < <= > >=");
      c.kind = static_cast<Condition::Kind>(i + 2);
      c.right = sum(0);
    }
    if (rule_.attributes.size() > attributes_before) {
      const Token& at = attribute_at_[attributes_before];
      std::vector<std::string> known(rule_.attributes.begin(),
                                     rule_.attributes.begin() + static_cast<std::ptrdiff_t>(attributes_before));
      tokens_.fail(at, fmt::format("unbound name '{}'{}", at.text, suggestion(at.text, known)));
    }
    return c;
  }

  Token name(std::string_view what) {
    if (is_keyword(tokens_.peek().text)) tokens_.fail_expected(what);
    return tokens_.expect(TokenKind::identifier, what);
  }

  int& results(int node) { return rule_.nodes[static_cast<std::size_t>(node)].results; }

  // ---- Checks of the whole

  void check_source(const Token& at) {
    for (std::size_t i = 0; i < rule_.source_outputs.size(); ++i) {
      if (rule_.source_outputs[i].node < 0)
        tokens_.fail(at, "the source is a variable, expected a call of an operator");
      for (std::size_t j = 0; j < i; ++j)
        if (rule_.source_outputs[j] == rule_.source_outputs[i]) tokens_.fail(at, "the source lists a result twice");
    }
  }

  std::vector<bool> reachable(const std::vector<PatternValue>& outputs) const {
    std::vector<bool> seen(rule_.nodes.size(), false);
    for (PatternValue v : outputs)
      if (v.node >= 0) seen[static_cast<std::size_t>(v.node)] = true;
    for (std::size_t i = seen.size(); i-- > 0;)
      if (seen[i])
        for (PatternValue v : rule_.nodes[i].inputs)
          if (v.node >= 0) seen[static_cast<std::size_t>(v.node)] = true;
    return seen;
  }

  // Source nodes first; both sides keep the order of the text.
  void order_nodes() {
    std::vector<bool> source = reachable(rule_.source_outputs), target = reachable(rule_.target_outputs);
    std::vector<int> order;
    for (bool on_source : {true, false})
      for (std::size_t i = 0; i < source.size(); ++i) {
        if (!source[i] && !target[i])
          tokens_.fail(node_at_[i], fmt::format("{} is on neither side of rule {}", node_at_[i].text, rule_.name));
        if (source[i] == on_source) order.push_back(static_cast<int>(i));
      }
    std::vector<int> moved(order.size());
    std::vector<PatternNode> nodes;
    std::vector<Token> at;
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto from = static_cast<std::size_t>(order[i]);
      moved[from] = static_cast<int>(i);
      nodes.push_back(std::move(rule_.nodes[from]));
      at.push_back(node_at_[from]);
      if (source[from]) rule_.source_nodes = i + 1;
    }
    rule_.nodes = std::move(nodes);
    node_at_ = std::move(at);
    auto move = [&](PatternValue& v) {
      if (v.node >= 0) v.node = moved[static_cast<std::size_t>(v.node)];
    };
    for (PatternValue& v : rule_.source_outputs) move(v);
    for (PatternValue& v : rule_.target_outputs) move(v);
    for (auto& [v, token] : queries_) move(v);
    for (PatternNode& node : rule_.nodes) {
      for (PatternValue& v : node.inputs) move(v);
      for (auto& attribute : node.attributes)
        if (attribute) move_queries(*attribute, move);
    }
    for (Condition& c : rule_.conditions) move_queries(c.left, move), move_queries(c.right, move);
  }

  template <class Move>
  static void move_queries(Expression& e, const Move& move) {
    move(e.value);
    for (Expression& a : e.arguments) move_queries(a, move);
  }

  void check_bound() {
    std::vector<bool> value_bound(rule_.values.size(), false), attribute_bound(rule_.attributes.size(), false);
    for (std::size_t i = 0; i < rule_.source_nodes; ++i) {
      for (PatternValue v : rule_.nodes[i].inputs)
        if (v.variable >= 0) value_bound[static_cast<std::size_t>(v.variable)] = true;
      for (const auto& attribute : rule_.nodes[i].attributes)
        if (attribute && attribute->kind == Kind::variable)
          attribute_bound[static_cast<std::size_t>(attribute->variable)] = true;
    }
    std::vector<std::string> known;
    for (std::size_t i = 0; i < value_bound.size(); ++i)
      if (value_bound[i]) known.push_back(rule_.values[i]);
    for (std::size_t i = 0; i < value_bound.size(); ++i)
      if (!value_bound[i])
        tokens_.fail(value_at_[i],
                     fmt::format("unbound name '{}'{}", rule_.values[i], suggestion(rule_.values[i], known)));
    for (std::size_t i = 0; i < attribute_bound.size(); ++i) {
      if (attribute_bound[i]) continue;
      for (std::size_t n = 0; n < rule_.source_nodes; ++n)
        for (const auto& attribute : rule_.nodes[n].attributes)
          if (attribute && mentions(*attribute, static_cast<int>(i)))
            tokens_.fail(attribute_at_[i],
                         fmt::format("'{}' occurs in the source only inside an expression, expected it "
                                     "alone somewhere",
                                     rule_.attributes[i]));
      rule_.parameters.push_back(static_cast<int>(i));
    }
    for (const auto& [v, at] : queries_)
      if (v.node >= static_cast<int>(rule_.source_nodes))
        tokens_.fail(at,
                     fmt::format("'{}' is a result of the target, expected a value that the source binds", at.text));
  }

  static bool mentions(const Expression& e, int variable) {
    if (e.kind == Kind::variable) return e.variable == variable;
    return std::any_of(e.arguments.begin(), e.arguments.end(),
                       [&](const Expression& a) { return mentions(a, variable); });
  }

  TokenStream& tokens_;
  std::string_view keyword_, arrow_;
  Rule rule_;
  Token at_;
  int operations_ = 0;
  std::map<std::string, PatternValue> lets_;
  std::map<std::string, int> value_index_, attribute_index_;
  std::vector<Token> value_at_, attribute_at_, node_at_;
  std::vector<std::pair<PatternValue, Token>> queries_;
};

std::vector<Rule> parse_all(std::string_view text, const std::string& file, std::string_view keyword,
                            std::string_view arrow) {
  TokenStream tokens(text, file);
  std::vector<Rule> rules;
  std::set<std::string> names;
  while (!tokens.at_end()) {
    Token at = tokens.peek(1);
    rules.push_back(RuleParser(tokens, keyword, arrow).run());
    if (!names.insert(rules.back().name).second)
      tokens.fail(at, fmt::format("{} '{}' is defined twice", keyword, rules.back().name));
  }
  return rules;
}

}  // namespace

std::vector<Rule> parse_rules(std::string_view text, const std::string& file) {
  return parse_all(text, file, "rule", "=>");
}

std::vector<Rule> parse_axioms(std::string_view text, const std::string& file) {
  return parse_all(text, file, "axiom", "=");
}

std::vector<Rule> load_rules(const std::string& path) { return parse_rules(read_file(path), path); }

}  // namespace unity
