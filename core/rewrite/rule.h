// A rewrite rule as data: two patterns over the same variables, and the conditions under which they are equal. The text
// form is in rule_text.h; matching and application are in match.h and apply.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

// A value in a pattern: a variable that stands for any value of the graph, or a result of a pattern node.
struct PatternValue {
  int variable = -1;  // index into Rule::values, or -1
  int node = -1;      // index into Rule::nodes, or -1
  int output = 0;     // which result of the node
  bool operator==(const PatternValue&) const = default;
};

// Attributes and bounds: constants, attribute variables, shapes of values that the source binds, and integer
// arithmetic.
struct Expression {
  enum class Kind : std::uint8_t { constant, variable, list, shape, add, subtract, multiply, divide, remainder };
  enum class Query : std::uint8_t { rank, dim, degree, copies, partials };
  Kind kind = Kind::constant;
  AttributeValue constant = std::int64_t{0};
  int variable = -1;                  // Kind::variable: index into Rule::attributes
  Query query = Query::rank;          // Kind::shape
  PatternValue value;                 // Kind::shape: whose shape
  std::vector<Expression> arguments;  // of a list, of arithmetic (two), and the dimension of dim and degree
};

// near(a, b): two numbers differ by at most this share of the larger, as constants do that went through single
// precision.
inline constexpr double kNear = 1e-6;

struct Condition {
  enum class Kind : std::uint8_t { divides, near, equal, not_equal, less, less_equal, greater, greater_equal };
  Kind kind = Kind::equal;
  Expression left, right;  // divides(left, right): left divides right; near: see kNear
};

struct PatternNode {
  const Operator* op = nullptr;
  // By position in op->attributes(). Absent: the default, which a source pattern requires and a target takes.
  std::vector<std::optional<Expression>> attributes;
  std::vector<PatternValue> inputs;
  int results = 1;
  std::vector<std::string> names;  // of its results, when a `let` names them; else empty
};

enum class Proof : std::uint8_t {
  unproved,  // written by hand; tested, not proved
  derived,   // follows from an operator's axis table
  proved,    // by core/verify; the record is beside the rule (proof.h)
};
std::string_view to_string(Proof proof);

// Invariants (the parser ensures them): every node lies on one side; source nodes come first; a node's inputs come
// before it; every variable of the target occurs in the source, except attribute variables, which are then parameters.
struct Rule {
  std::string name;
  std::vector<PatternNode> nodes;
  std::size_t source_nodes = 0;  // nodes [0, source_nodes) are the source, the others the target
  std::vector<PatternValue> source_outputs;
  std::vector<PatternValue> target_outputs;  // as many; values of the target, of the source, or variables
  std::vector<Condition> conditions;
  std::vector<std::string> values;      // names of value variables
  std::vector<std::string> attributes;  // names of attribute variables
  std::vector<int> parameters;          // attribute variables that the source does not bind: chosen at application
  Proof proof = Proof::unproved;
  bool one_way = false;          // of an axiom written with `<=`
  std::vector<Hash> signatures;  // of a proved rule: for which, sorted (signature.h); it applies nowhere else

  // Rewrites computations, not their layouts, and leaves nothing to choose: what search applies as it stands.
  bool algebraic() const;
};

// The rule in its text form, three lines: parse_rules(print(rule)) gives the same rule.
std::string print(const Rule& rule);
std::string print(const Expression& expression, const Rule& rule);
std::string print(const Condition& condition, const Rule& rule);

// What a match has bound, for evaluating expressions.
struct Bindings {
  const Pcg& pcg;
  const std::vector<NodeId>& nodes;                              // by source node
  const std::vector<ValueRef>& values;                           // by value variable
  const std::vector<std::optional<AttributeValue>>& attributes;  // by attribute variable
};

// Error when a variable is unbound, a dimension does not exist, or arithmetic meets something that is not a number.
// Integers stay integers; with a real operand the result is real.
Result<AttributeValue> evaluate(const Expression& expression, const Rule& rule, const Bindings& bindings);
Result<std::int64_t> evaluate_integer(const Expression& expression, const Rule& rule, const Bindings& bindings);

// Error says which condition does not hold, with the values of both sides.
Result<void> check(const Condition& condition, const Rule& rule, const Bindings& bindings);

// Whether an attribute variable without a value occurs.
bool has_unbound(const Expression& expression, const Bindings& bindings);
bool has_unbound(const Condition& condition, const Bindings& bindings);

}  // namespace unity
