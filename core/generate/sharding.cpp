#include "core/generate/sharding.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/rewrite/apply.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

constexpr std::int64_t kDegree = 2;

class ShardingWriter {
 public:
  ShardingWriter(const Operator& op, const Example& example) : op_(op) {
    auto attributes = complete_attributes(op.name(), op.attributes(), example.attributes);
    UNITY_CHECK(attributes.ok(), "example of {}: {}", op.name(), attributes.error().message);
    attributes_ = std::move(*attributes);
    auto table = op.axes(attributes_, example.inputs);
    UNITY_CHECK(table.ok(), "example of {}: {}", op.name(), table.error().message);
    table_ = std::move(*table);
    for (const Shape& s : example.inputs) serial_.push_back(serial(s));
  }

  std::vector<NamedPattern> run() {
    for (int a = 0; a < static_cast<int>(table_.axes.size()); ++a) {
      if (!can_split(table_, a) || !walked(a)) continue;
      shard(a);
      spread(a);
    }
    replicate();
    if (table_.linearity == Linearity::joint) reduce(-1);
    if (table_.linearity == Linearity::multilinear)
      for (std::size_t i = 0; i < table_.inputs.size(); ++i)
        if (table_.inputs[i].linear && !table_.inputs[i].shape_only) reduce(static_cast<int>(i));
    return std::move(made_);
  }

 private:
  using Values = std::vector<PatternValue>;

  // ---- Parts of sides

  std::size_t inputs() const { return table_.inputs.size(); }
  bool real(std::size_t i) const { return !table_.inputs[i].shape_only; }

  static PatternValue add(PairPattern& p, std::string_view name, Attributes attributes, PatternValue x) {
    p.nodes.push_back({{&get_operator(name), std::move(attributes), 1}, {x}, 1});
    return {-1, static_cast<int>(p.nodes.size()) - 1, 0};
  }
  Values compute(PairPattern& p, Values operands) const {
    p.nodes.push_back({{&op_, attributes_, static_cast<int>(operands.size())},
                       std::move(operands),
                       static_cast<int>(table_.outputs.size())});
    Values results;
    for (std::size_t o = 0; o < table_.outputs.size(); ++o)
      results.push_back({-1, static_cast<int>(p.nodes.size()) - 1, static_cast<int>(o)});
    return results;
  }
  Values variables() const {
    Values values;
    for (std::size_t i = 0; i < inputs(); ++i) values.push_back({static_cast<int>(i), -1, 0});
    return values;
  }
  static PatternValue replicated(PairPattern& p, PatternValue x) { return add(p, "replicate", {kDegree}, x); }

  bool walks(const OperandAxes& operand, int axis) const {
    return std::any_of(operand.dims.begin(), operand.dims.end(),
                       [&](const DimAxes& d) { return split_axis(table_, d) == axis; });
  }
  bool walked(int axis) const {
    return std::any_of(table_.inputs.begin(), table_.inputs.end(),
                       [&](const OperandAxes& o) { return walks(o, axis); });
  }
  // op with `name` on each dimension that walks the axis.
  PatternValue along(PairPattern& p, std::string_view name, const OperandAxes& operand, int axis,
                     PatternValue x) const {
    for (std::size_t j = 0; j < operand.dims.size(); ++j)
      if (split_axis(table_, operand.dims[j]) == axis) x = add(p, name, {static_cast<std::int64_t>(j), kDegree}, x);
    return x;
  }
  PatternValue joined(PairPattern& p, std::size_t o, int axis, PatternValue y) const {
    return walks(table_.outputs[o], axis) ? along(p, "combine", table_.outputs[o], axis, y)
                                          : add(p, "reduce", {kDegree}, y);
  }

  // ---- The pairs

  void shard(int axis) {
    PairPattern p = empty();
    p.source_outputs = compute(p, variables());
    p.source_nodes = p.nodes.size();
    Values operands = variables();
    for (std::size_t i = 0; i < inputs(); ++i)
      if (walks(table_.inputs[i], axis))
        operands[i] = along(p, "partition", table_.inputs[i], axis, operands[i]);
      else if (real(i))
        operands[i] = replicated(p, operands[i]);
    p.target_outputs = compute(p, operands);
    for (std::size_t o = 0; o < p.target_outputs.size(); ++o)
      p.target_outputs[o] = joined(p, o, axis, p.target_outputs[o]);
    keep("shard", "_" + table_.axes[static_cast<std::size_t>(axis)].name, std::move(p));
  }

  void spread(int axis) {
    PairPattern p = empty();
    Values operands = variables();
    for (std::size_t i = 0; i < inputs(); ++i)
      if (walks(table_.inputs[i], axis) && real(i))
        operands[i] = replicated(p, operands[i]);
      else if (real(i))
        p.layouts[i].copies = kDegree;
    p.source_outputs = compute(p, operands);
    p.source_nodes = p.nodes.size();
    operands = variables();
    for (std::size_t i = 0; i < inputs(); ++i) operands[i] = along(p, "partition", table_.inputs[i], axis, operands[i]);
    p.target_outputs = compute(p, operands);
    for (std::size_t o = 0; o < p.target_outputs.size(); ++o)
      p.target_outputs[o] = replicated(p, joined(p, o, axis, p.target_outputs[o]));
    keep("spread", "_" + table_.axes[static_cast<std::size_t>(axis)].name, std::move(p));
  }

  void replicate() {
    PairPattern p = empty();
    p.source_outputs = compute(p, variables());
    for (PatternValue& v : p.source_outputs) v = replicated(p, v);
    p.source_nodes = p.nodes.size();
    Values operands = variables();
    for (std::size_t i = 0; i < inputs(); ++i)
      if (real(i)) operands[i] = replicated(p, operands[i]);
    p.target_outputs = compute(p, operands);
    keep("replicate", "", std::move(p));
  }

  // `operand`: the partial one of a multilinear operator; -1: all linear ones.
  void reduce(int operand) {
    PairPattern p = empty();
    Values operands = variables();
    auto partial = [&](std::size_t i) {
      return table_.inputs[i].linear && real(i) && (operand < 0 || static_cast<int>(i) == operand);
    };
    for (std::size_t i = 0; i < inputs(); ++i)
      if (partial(i)) {
        operands[i] = add(p, "reduce", {kDegree}, operands[i]);
        p.layouts[i].partials = kDegree;
      }
    p.source_outputs = compute(p, operands);
    p.source_nodes = p.nodes.size();
    operands = variables();
    for (std::size_t i = 0; i < inputs(); ++i)
      if (!partial(i) && real(i)) operands[i] = replicated(p, operands[i]);
    p.target_outputs = compute(p, operands);
    for (PatternValue& v : p.target_outputs) v = add(p, "reduce", {kDegree}, v);
    keep("reduce", operand < 0 ? "" : fmt::format("_{}", operand), std::move(p));
  }

  PairPattern empty() const {
    PairPattern p;
    p.layouts = serial_;
    for (std::size_t i = 0; i < inputs(); ++i) p.values.push_back(fmt::format("x{}", i + 1));
    return p;
  }

  // Both directions, when both sides are well-typed and give equal shapes.
  void keep(const std::string& what, const std::string& suffix, PairPattern p) {
    std::vector<std::vector<ParallelShape>> results;
    for (const PairPattern::Node& node : p.nodes) {
      std::vector<ParallelShape> operands;
      for (PatternValue v : node.inputs) operands.push_back(shape(p, results, v));
      auto typed = infer_parallel_shapes(*node.op.op, node.op.attributes, operands);
      if (!typed.ok()) return;
      results.push_back(std::move(*typed));
    }
    for (std::size_t o = 0; o < p.source_outputs.size(); ++o)
      if (shape(p, results, p.source_outputs[o]) != shape(p, results, p.target_outputs[o])) return;
    made_.push_back({fmt::format("{}_{}{}", what, op_.name(), suffix), p});
    // Gradients come after all rewriting: nobody asks for theirs.
    if (op_.name().ends_with("_gradient")) return;
    made_.push_back({fmt::format("un{}_{}{}", what, op_.name(), suffix), reversed(p)});
  }

  static ParallelShape shape(const PairPattern& p, const std::vector<std::vector<ParallelShape>>& results,
                             PatternValue v) {
    return v.variable >= 0 ? p.layouts[static_cast<std::size_t>(v.variable)]
                           : results[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  }

  static PairPattern reversed(const PairPattern& p) {
    PairPattern r = p;
    std::rotate(r.nodes.begin(), r.nodes.begin() + static_cast<std::ptrdiff_t>(p.source_nodes), r.nodes.end());
    r.source_nodes = p.nodes.size() - p.source_nodes;
    auto move = [&](PatternValue& v) {
      if (v.node >= 0) v.node = static_cast<int>((static_cast<std::size_t>(v.node) + r.source_nodes) % p.nodes.size());
    };
    for (PairPattern::Node& node : r.nodes)
      for (PatternValue& v : node.inputs) move(v);
    std::swap(r.source_outputs, r.target_outputs);
    for (PatternValue& v : r.source_outputs) move(v);
    for (PatternValue& v : r.target_outputs) move(v);
    return r;
  }

  const Operator& op_;
  Attributes attributes_;
  AxisTable table_;
  std::vector<ParallelShape> serial_;
  std::vector<NamedPattern> made_;
};

}  // namespace

std::string literal_text(const NamedPattern& named) {
  const PairPattern& p = named.pattern;
  std::vector<std::string> ranks;
  for (std::size_t v = 0; v < p.values.size(); ++v)
    ranks.push_back(fmt::format("rank({}) == {}", p.values[v], p.layouts[v].dims.size()));
  return rule_text(p, named.name, literal_attributes(p), ranks);
}

std::vector<NamedPattern> sharding_patterns(const Operator& op) {
  std::vector<NamedPattern> patterns;
  std::set<std::string> texts;
  if (op.category() != OpCategory::compute) return patterns;
  for (const Example& example : op.examples()) {
    if (example.inputs.empty()) continue;
    for (NamedPattern& p : ShardingWriter(op, example).run()) {
      if (texts.insert(literal_text(p)).second) patterns.push_back(std::move(p));
    }
  }
  return patterns;
}

std::vector<NamedPattern> sharding_patterns() {
  std::vector<std::pair<int, NamedPattern>> all;
  std::map<std::string, int> met;
  for (const Operator* op : all_operators())
    for (NamedPattern& p : sharding_patterns(*op)) {
      int occurrence = met[p.name]++;
      all.emplace_back(occurrence, std::move(p));
    }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<NamedPattern> patterns;
  for (auto& [occurrence, p] : all) patterns.push_back(std::move(p));
  return patterns;
}

bool gives(const Rule& rule, const NamedPattern& named) {
  Rule literal = std::move(parse_rules(literal_text(named)).front());
  Instantiation at = instantiate(literal, named.pattern.layouts, {});
  if (at.fault != InstanceFault::none) return false;
  Rule tested = rule;
  tested.proof = Proof::unproved;  // of generated rules there is no record yet
  Hash target = canonical_hash(at.instance.target);
  for (const Match& match : find_matches(at.instance.source, tested))
    for (const Parameters& parameters : parameter_choices(at.instance.source, tested, match, {kDegree})) {
      auto after = apply(at.instance.source, tested, match, parameters);
      if (after.ok() && canonical_hash(*after) == target) return true;
    }
  return false;
}

}  // namespace unity
