#include "core/graph/text.h"

#include <map>
#include <optional>
#include <set>

#include "core/base/text.h"
#include "core/graph/lexer.h"

namespace unity {
namespace {

constexpr int kDeepest = 200;  // nesting of calls, so that hostile text can't exhaust the stack

bool is_keyword(std::string_view word) { return word == "pcg" || word == "return"; }

// Printing

class Printer {
 public:
  explicit Printer(const Pcg& pcg) : pcg_(pcg) {
    for (const Node& node : pcg.nodes()) taken_.insert(node.name);
  }

  std::string run() {
    std::string text = fmt::format("pcg {} {{\n", name_text(pcg_.name()));
    for (std::size_t i = 0; i < pcg_.size(); ++i) text += "  " + line(i) + "\n";
    std::vector<std::string> outputs;
    for (ValueRef v : pcg_.outputs()) outputs.push_back(name(v));
    return text + fmt::format("  return {}\n}}\n", join(outputs));
  }

 private:
  static bool plain(const std::string& name) { return is_identifier(name) && !is_keyword(name); }
  static std::string name_text(const std::string& name) { return plain(name) ? name : quote_text(name); }

  std::string line(std::size_t i) {
    const Node& node = pcg_.nodes()[i];
    bool labelled = name_values(i);
    std::string head = join(names_[i]);
    if (node.outputs.size() != 1) head = "(" + head + ")";
    if (!node.origin.valid()) head += " @ none";
    if (node.origin.valid() && node.origin.index() != i) head += fmt::format(" @ {}", node.origin);
    if (!labelled) head += " " + quote_text(node.name);
    std::vector<std::string> shapes;
    for (const ParallelShape& shape : node.outputs) shapes.push_back(to_string(shape));
    return fmt::format("{} = {}  # {}", head, call(node), join(shapes, "; "));
  }

  // Chooses names for the results of a node. True when they imply its label.
  bool name_values(std::size_t i) {
    const Node& node = pcg_.nodes()[i];
    names_.emplace_back();
    if (node.outputs.size() == 1 && plain(node.name) && used_.insert(node.name).second) {
      names_.back().push_back(node.name);
      return true;
    }
    std::string base = plain(node.name) && node.outputs.size() > 1 ? node.name : fmt::format("v{}", i);
    for (std::size_t r = 0; r < node.outputs.size(); ++r) {
      std::string name = node.outputs.size() > 1 ? fmt::format("{}.{}", base, r) : base;
      while (taken_.contains(name) || !used_.insert(name).second) name += "_";
      names_.back().push_back(name);
    }
    return false;
  }

  std::string call(const Node& node) const {
    auto specs = node.op->attributes();
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].required) arguments.push_back(attribute(node.attributes[i]));
    for (ValueRef v : node.inputs) arguments.push_back(name(v));
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (!specs[i].required && node.attributes[i] != specs[i].fallback)
        arguments.push_back(specs[i].name + "=" + attribute(node.attributes[i]));
    return fmt::format("{}({})", node.op->name(), join(arguments));
  }

  static std::string attribute(const AttributeValue& value) {
    const auto* text = std::get_if<std::string>(&value);
    return text ? quote_text(*text) : to_string(value);
  }

  const std::string& name(ValueRef v) const { return names_.at(v.node.index()).at(static_cast<std::size_t>(v.output)); }

  const Pcg& pcg_;
  std::vector<std::vector<std::string>> names_;
  std::set<std::string> taken_, used_;
};

// Parsing

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : tokens_(text, file) {}

  Pcg run() {
    tokens_.expect("pcg");
    bool quoted_name = tokens_.peek().kind == TokenKind::text;
    pcg_.set_name(quoted_name ? tokens_.next().text
                              : tokens_.expect(TokenKind::identifier, "the name of the graph").text);
    tokens_.expect("{");
    while (!tokens_.is("return")) statement();
    Token at = tokens_.next();
    std::vector<ValueRef> outputs;
    do outputs.push_back(expression(0));
    while (tokens_.accept(","));
    tokens_.expect("}");
    if (!tokens_.at_end()) tokens_.fail_expected("the end of the text");
    pcg_.set_outputs(std::move(outputs));
    auto checked = check_well_formed(pcg_);
    if (!checked.ok()) tokens_.fail(at, checked.error().message);
    return std::move(pcg_);
  }

 private:
  struct Head {
    std::vector<Token> names;
    std::optional<OriginId> origin;
    std::string label;
  };

  void statement() {
    Head head;
    bool tuple = tokens_.accept("(");
    do {
      if (is_keyword(tokens_.peek().text)) tokens_.fail_expected("the name of a value");
      head.names.push_back(tokens_.expect(TokenKind::identifier, "the name of a value or 'return'"));
    } while (tuple && tokens_.accept(","));
    if (tuple) tokens_.expect(")");
    if (tokens_.accept("@")) {
      if (tokens_.accept("none"))
        head.origin = OriginId();
      else
        head.origin = OriginId(small(tokens_.expect(TokenKind::integer, "an origin id or 'none'")));
    }
    head.label = tokens_.peek().kind == TokenKind::text ? tokens_.next().text : head.names[0].text;
    tokens_.expect("=");
    Token at = tokens_.peek();
    if (at.kind != TokenKind::identifier || !tokens_.is("(", 1)) tokens_.fail_expected("a call of an operator");
    NodeId node = call(0, &head);
    std::size_t results = pcg_[node].outputs.size();
    if (results != head.names.size())
      tokens_.fail(head.names[0],
                   fmt::format("{}: found names for {} results, expected {}", at.text, head.names.size(), results));
    for (std::size_t i = 0; i < results; ++i)
      if (!values_.emplace(head.names[i].text, ValueRef{node, static_cast<int>(i)}).second)
        tokens_.fail(head.names[i], fmt::format("'{}' is defined twice", head.names[i].text));
  }

  ValueRef expression(int depth) {
    Token at = tokens_.peek();
    if (tokens_.is("(", 1)) {
      NodeId node = call(depth, nullptr);
      if (pcg_[node].outputs.size() != 1)
        tokens_.fail(
            at, fmt::format("{}: found {} results, expected one in an expression", at.text, pcg_[node].outputs.size()));
      return {node, 0};
    }
    tokens_.expect(TokenKind::identifier, "the name of a value or a call");
    auto found = values_.find(at.text);
    if (found == values_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : values_) names.push_back(name);
      std::string near = nearest_name(at.text, names);
      tokens_.fail(at, fmt::format("unknown value '{}'{}", at.text,
                                   near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
    }
    return found->second;
  }

  NodeId call(int depth, const Head* head) {
    Token at = tokens_.expect(TokenKind::identifier, "an operator");
    if (depth > kDeepest) tokens_.fail(at, fmt::format("calls nest deeper than {}", kDeepest));
    const Operator* op = find_operator(at.text);
    if (!op) tokens_.fail(at, fmt::format("unknown operator '{}'{}", at.text, suggestion(at.text, operator_names())));
    tokens_.expect("(");
    auto specs = op->attributes();
    std::vector<std::optional<AttributeValue>> attributes(specs.size());
    std::vector<ValueRef> inputs;
    std::size_t positional = 0;
    if (!tokens_.is(")")) {
      do {
        if (starts_attribute()) {
          while (positional < specs.size() && (!specs[positional].required || attributes[positional])) ++positional;
          if (positional == specs.size()) tokens_.fail_expected(fmt::format("no further attribute of {}", at.text));
          attributes[positional] = attribute();
        } else if (tokens_.is("=", 1)) {
          named_attribute(at.text, specs, attributes);
        } else {
          inputs.push_back(expression(depth + 1));
        }
      } while (tokens_.accept(","));
    }
    tokens_.expect(")");
    Attributes values;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!attributes[i] && specs[i].required)
        tokens_.fail(at, fmt::format("{}: attribute '{}' is missing", at.text, specs[i].name));
      values.push_back(attributes[i] ? *attributes[i] : specs[i].fallback);
    }
    OriginId origin = head && head->origin ? *head->origin : OriginId(static_cast<std::int64_t>(pcg_.size()));
    std::string label = head                                 ? head->label
                        : op->category() == OpCategory::leaf ? unused_leaf_name(at.text)
                                                             : std::string();
    if (op->category() == OpCategory::leaf) leaf_names_.insert(label);
    auto added = pcg_.try_add(*op, std::move(values), std::move(inputs), origin, std::move(label));
    if (!added.ok()) tokens_.fail(at, added.error().message);
    return *added;
  }

  bool starts_attribute() const {
    TokenKind kind = tokens_.peek().kind;
    return kind == TokenKind::integer || kind == TokenKind::real || kind == TokenKind::text || tokens_.is("[") ||
           tokens_.is("-");
  }

  void named_attribute(const std::string& op, const std::vector<AttributeSpec>& specs,
                       std::vector<std::optional<AttributeValue>>& attributes) {
    Token name = tokens_.expect(TokenKind::identifier, "the name of an attribute");
    std::vector<std::string> known;
    std::size_t i = 0;
    for (const AttributeSpec& spec : specs) known.push_back(spec.name);
    while (i < specs.size() && specs[i].name != name.text) ++i;
    if (i == specs.size())
      tokens_.fail(name, fmt::format("{}: unknown attribute '{}'{}", op, name.text,
                                     known.empty() ? " (it has none)" : suggestion(name.text, known)));
    if (attributes[i]) tokens_.fail(name, fmt::format("{}: attribute '{}' is given twice", op, name.text));
    tokens_.expect("=");
    attributes[i] = attribute();
  }

  AttributeValue attribute() {
    if (tokens_.peek().kind == TokenKind::text) return tokens_.next().text;
    if (tokens_.accept("[")) {
      Integers list;
      if (!tokens_.is("]")) {
        do list.push_back(integer());
        while (tokens_.accept(","));
      }
      tokens_.expect("]");
      return list;
    }
    bool negative = tokens_.is("-");
    if (tokens_.peek(negative ? 1 : 0).kind == TokenKind::real) {
      if (negative) tokens_.next();
      double value = tokens_.next().real;
      return negative ? -value : value;
    }
    return integer();
  }

  std::int64_t integer() {
    bool negative = tokens_.accept("-");
    std::int64_t value = tokens_.expect(TokenKind::integer, "an attribute").integer;
    return negative ? -value : value;
  }

  std::int64_t small(const Token& token) const {
    if (token.integer >= std::int64_t{1} << 31)
      tokens_.fail(token, fmt::format("origin {} is out of range", token.text));
    return token.integer;
  }

  std::string unused_leaf_name(const std::string& op) const {
    std::string name = op;
    for (int i = 2; leaf_names_.contains(name); ++i) name = fmt::format("{}_{}", op, i);
    return name;
  }

  TokenStream tokens_;
  Pcg pcg_;
  std::map<std::string, ValueRef> values_;
  std::set<std::string> leaf_names_;
};

}  // namespace

std::string print(const Pcg& pcg) { return Printer(pcg).run(); }

Pcg parse_pcg(std::string_view text, const std::string& file) { return Parser(text, file).run(); }

}  // namespace unity
