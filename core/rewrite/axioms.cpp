#include "core/rewrite/axioms.h"

#include <map>
#include <set>

#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

constexpr Hash kSchemas = 3;  // raise when core/verify derives other axioms from the same tables

Hash hash_operand(const OperandAxes& operand) {
  Hash h = combine(operand.linear, operand.shape_only);
  for (const DimAxes& dim : operand.dims) {
    h = combine(h, dim.axes.size());
    for (int axis : dim.axes) h = combine(h, static_cast<Hash>(axis));
    if (dim.window)
      for (std::int64_t x : {dim.window->kernel, dim.window->stride, dim.window->dilation, dim.window->pad_before,
                             dim.window->pad_after, dim.window_size})
        h = combine(h, static_cast<Hash>(x));
  }
  return h;
}

Hash hash_table(const AxisTable& table) {
  Hash h = static_cast<Hash>(table.linearity);
  for (const Axis& axis : table.axes)
    h = combine(
        combine(h, hash_text(axis.name)),
        combine(static_cast<Hash>(axis.size), static_cast<Hash>(axis.role) << 8 | static_cast<Hash>(axis.monoid)));
  for (const OperandAxes& operand : table.inputs) h = combine(h, hash_operand(operand));
  for (const OperandAxes& operand : table.outputs) h = combine(h, hash_operand(operand));
  return h;
}

Hash compute_definition(const Operator& op) {
  Hash h = combine(hash_text(op.name()), hash_text(op.axioms()));
  for (const Example& example : op.examples()) {
    Attributes attributes = complete_attributes(op.name(), op.attributes(), example.attributes).value();
    auto table = op.axes(attributes, example.inputs);
    if (table.ok()) h = combine(combine(h, hash_attributes(attributes)), hash_table(*table));
  }
  return h;
}

Hash hash_definition(const std::string& name) {
  static const std::map<std::string, Hash> hashes = [] {
    std::map<std::string, Hash> all;
    for (const Operator* op : all_operators()) all[op->name()] = compute_definition(*op);
    return all;
  }();
  auto found = hashes.find(name);
  return found == hashes.end() ? hash_text(name) : found->second;
}

void add_operators(const Rule& rule, std::set<std::string>& names) {
  for (const PatternNode& node : rule.nodes) names.insert(node.op->name());
}

}  // namespace

const std::vector<Rule>& operator_axioms() {
  static const std::vector<Rule> axioms = [] {
    std::vector<Rule> all;
    std::set<std::string> names;
    for (const Operator* op : all_operators())
      for (Rule& axiom : parse_axioms(op->axioms(), "axioms of " + op->name())) {
        UNITY_CHECK(names.insert(axiom.name).second, "axiom {} is stated twice", axiom.name);
        all.push_back(std::move(axiom));
      }
    return all;
  }();
  return axioms;
}

Hash axioms_hash(const Rule& rule, const std::vector<std::string>& used) {
  std::set<std::string> names;
  add_operators(rule, names);
  for (const std::string& name : used) {
    for (const Rule& axiom : operator_axioms())
      if (axiom.name == name) add_operators(axiom, names);
    if (std::size_t open = name.find('('); open != std::string::npos)
      names.insert(name.substr(open + 1, name.find_first_of(".)", open) - open - 1));
  }
  Hash h = kSchemas;
  for (const std::string& name : names) h = combine(h, hash_definition(name));
  return h;
}

}  // namespace unity
