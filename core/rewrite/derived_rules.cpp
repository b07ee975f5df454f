// The derived rules as text, on operators' examples.
#include <set>

#include "core/base/text.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

// An example as a graph of its own: input leaves, the operator, its results as outputs.
struct Instance {
  Pcg pcg;
  NodeId node;
};

Result<Instance> instance(const Operator& op, const Example& example) {
  Instance result;
  std::vector<ValueRef> inputs;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    Attributes attributes = {example.inputs[i].dims, std::string(to_string(example.inputs[i].dtype))};
    NodeId leaf = UNITY_TRY(result.pcg.try_add(get_operator("input"), std::move(attributes), {},
                                               OriginId(static_cast<std::int64_t>(i)), fmt::format("x{}", i + 1)));
    inputs.push_back({leaf, 0});
  }
  auto origin = OriginId(static_cast<std::int64_t>(inputs.size()));
  result.node = UNITY_TRY(result.pcg.try_add(op, example.attributes, std::move(inputs), origin, op.name()));
  std::vector<ValueRef> outputs;
  for (std::size_t o = 0; o < result.pcg[result.node].outputs.size(); ++o)
    outputs.push_back({result.node, static_cast<int>(o)});
  result.pcg.set_outputs(std::move(outputs));
  return result;
}

// Writes rules on one node.
class Writer {
 public:
  explicit Writer(const Node& node) : node_(node), table_(*node.table) {}

  std::string shard(int axis) const {
    std::vector<std::string> operands, results;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i) {
      std::string x = split(i, axis);
      operands.push_back(x.empty() ? (table_.inputs[i].shape_only ? variable(i) : replicate(variable(i))) : x);
    }
    for (std::size_t o = 0; o < table_.outputs.size(); ++o) results.push_back(join_parts(o, axis, result("z", o)));
    return rule(shard_rule_name(node_, axis), variables(), names("y"), operands, results) + condition(axis);
  }

  std::string spread(int axis) const {
    std::vector<std::string> source, operands, results;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i) {
      std::string x = split(i, axis);
      bool moves = !x.empty() && !table_.inputs[i].shape_only;
      source.push_back(moves ? replicate(variable(i)) : variable(i));
      operands.push_back(x.empty() ? variable(i) : x);
    }
    for (std::size_t o = 0; o < table_.outputs.size(); ++o)
      results.push_back(replicate(join_parts(o, axis, result("z", o))));
    return rule(spread_rule_name(node_, axis), source, names("y"), operands, results) + condition(axis);
  }

  std::string replicated() const {
    std::vector<std::string> source, operands;
    for (std::size_t o = 0; o < table_.outputs.size(); ++o) source.push_back(replicate(result("y", o)));
    for (std::size_t i = 0; i < table_.inputs.size(); ++i)
      operands.push_back(table_.inputs[i].shape_only ? variable(i) : replicate(variable(i)));
    return rule("replicate_" + node_.op->name(), variables(), source, operands, names("z"));
  }

  // `operand`: the partial one of a multilinear operator; -1: all linear ones.
  std::string reduced(int operand) const {
    std::vector<std::string> source, operands, results;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i) {
      bool partial = table_.inputs[i].linear && (operand < 0 || static_cast<int>(i) == operand);
      source.push_back(partial ? fmt::format("reduce(d, {})", variable(i)) : variable(i));
      operands.push_back(partial || table_.inputs[i].shape_only ? variable(i) : replicate(variable(i)));
    }
    for (std::size_t o = 0; o < table_.outputs.size(); ++o)
      results.push_back(fmt::format("reduce(d, {})", result("z", o)));
    std::string name = "reduce_" + node_.op->name() + (operand < 0 ? "" : fmt::format("_{}", operand));
    return rule(name, source, names("y"), operands, results);
  }

 private:
  // With several results, both calls are named by `let`: y (source) and z (target).
  std::string rule(const std::string& name, const std::vector<std::string>& from, std::vector<std::string> source,
                   const std::vector<std::string>& operands, std::vector<std::string> target) const {
    std::string text = fmt::format("rule {}\n", name);
    if (table_.outputs.size() == 1) {
      auto inlined = [&](const std::string& side, const std::string& placeholder,
                         const std::vector<std::string>& arguments) {
        std::size_t at = side.rfind(placeholder);
        return side.substr(0, at) + call(arguments) + side.substr(at + placeholder.size());
      };
      return text + fmt::format("  {} => {}\n", inlined(source[0], "y1", from), inlined(target[0], "z1", operands));
    }
    return text + fmt::format("  let ({}) = {}, ({}) = {}\n  ({}) => ({})\n", join(names("y")), call(from),
                              join(names("z")), call(operands), join(source), join(target));
  }

  std::string call(const std::vector<std::string>& operands) const {
    auto specs = node_.op->attributes();
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].required) arguments.push_back(to_string(node_.attributes[i]));
    arguments.insert(arguments.end(), operands.begin(), operands.end());
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (!specs[i].required && node_.attributes[i] != specs[i].fallback)
        arguments.push_back(fmt::format("{}={}", specs[i].name, to_string(node_.attributes[i])));
    return fmt::format("{}({})", node_.op->name(), join(arguments));
  }

  std::string variable(std::size_t i) const { return fmt::format("x{}", i + 1); }
  static std::string result(const std::string& prefix, std::size_t o) { return fmt::format("{}{}", prefix, o + 1); }
  static std::string replicate(const std::string& x) { return fmt::format("replicate(d, {})", x); }
  std::vector<std::string> variables() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i) all.push_back(variable(i));
    return all;
  }
  std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> all;
    for (std::size_t o = 0; o < table_.outputs.size(); ++o) all.push_back(result(prefix, o));
    return all;
  }

  // The operand partitioned along the dimensions that walk the axis; empty when none does.
  std::string split(std::size_t i, int axis) const {
    std::string x = variable(i);
    bool walks = false;
    for (std::size_t j = 0; j < table_.inputs[i].dims.size(); ++j)
      if (split_axis(table_, table_.inputs[i].dims[j]) == axis)
        x = fmt::format("partition({}, d, {})", j, x), walks = true;
    return walks ? x : "";
  }

  std::string join_parts(std::size_t o, int axis, const std::string& y) const {
    std::string joined = y;
    bool walks = false;
    for (std::size_t j = 0; j < table_.outputs[o].dims.size(); ++j)
      if (split_axis(table_, table_.outputs[o].dims[j]) == axis)
        joined = fmt::format("combine({}, d, {})", j, joined), walks = true;
    return walks ? joined : fmt::format("reduce(d, {})", y);
  }

  // The axis lies where the ranks say. Windows may be split unevenly: what types allow is right.
  std::string condition(int axis) const {
    std::vector<std::string> conditions;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i)
      conditions.push_back(fmt::format("rank({}) == {}", variable(i), table_.inputs[i].dims.size()));
    if (table_.axes[static_cast<std::size_t>(axis)].role != AxisRole::window) conditions.push_back(divisibility(axis));
    return fmt::format("  where {}\n", join(conditions));
  }

  std::string divisibility(int axis) const {
    for (std::size_t i = 0; i < table_.inputs.size(); ++i)
      for (std::size_t j = 0; j < table_.inputs[i].dims.size(); ++j)
        if (split_axis(table_, table_.inputs[i].dims[j]) == axis)
          return fmt::format("divides(d, dim({}, {}))", variable(i), j);
    UNITY_CHECK(false, "axis {} is walked by no operand", axis);
  }

  const Node& node_;
  const AxisTable& table_;
};

bool some_degree_fits(const Instance& in, int axis) {
  std::int64_t size = in.pcg[in.node].table->axes[static_cast<std::size_t>(axis)].size;
  for (int d = 2; d <= size; ++d)
    if (apply_shard(in.pcg, in.node, axis, d).ok()) return true;
  return false;
}

bool walked_by_operand(const AxisTable& table, int axis) {
  for (const OperandAxes& operand : table.inputs)
    for (const DimAxes& dim : operand.dims)
      if (split_axis(table, dim) == axis) return true;
  return false;
}

std::vector<std::string> rules_of(const Instance& in) {
  const Node& node = in.pcg[in.node];
  Writer writer(node);
  std::vector<std::string> texts;
  for (int a = 0; a < static_cast<int>(node.table->axes.size()); ++a) {
    if (!walked_by_operand(*node.table, a) || !some_degree_fits(in, a)) continue;
    texts.push_back(writer.shard(a));
    texts.push_back(writer.spread(a));
  }
  texts.push_back(writer.replicated());
  if (node.table->linearity == Linearity::joint) texts.push_back(writer.reduced(-1));
  if (node.table->linearity == Linearity::multilinear)
    for (std::size_t i = 0; i < node.table->inputs.size(); ++i)
      if (node.table->inputs[i].linear) texts.push_back(writer.reduced(static_cast<int>(i)));
  return texts;
}

}  // namespace

std::vector<Rule> derived_rules() {
  std::vector<Rule> rules;
  std::set<std::string> names;
  for (const Operator* op : all_operators()) {
    if (op->category() != OpCategory::compute) continue;
    for (const Example& example : op->examples()) {
      auto in = instance(*op, example);
      UNITY_CHECK(in.ok(), "example of {}: {}", op->name(), in.error().message);
      for (const std::string& text : rules_of(*in)) {
        Rule rule = std::move(parse_rules(text, "derived from " + op->name()).front());
        rule.proof = Proof::derived;
        if (names.insert(rule.name).second) rules.push_back(std::move(rule));
      }
    }
  }
  return rules;
}

}  // namespace unity
