#include "core/rewrite/apply.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/graph/autodiff.h"
#include "core/rewrite/signature.h"

// UNITY_TRY needs a value; this is the same for Result<void>.
#define UNITY_TRY_VOID(expression)                       \
  do {                                                   \
    auto unity_result = (expression);                    \
    if (!unity_result.ok()) return unity_result.error(); \
  } while (false)

namespace unity {
namespace {

using BoundAttributes = std::vector<std::optional<AttributeValue>>;

bool chooses(const Operator* op) {
  return op->name() == "maximum" || op->name() == "minimum" || op->name() == "reduce_max";
}

// Whether a side takes the largest or smallest of what was taken so. Of three that are equal, the gradient of each
// depends on the order in which they were compared (maximum.h).
bool nests_choices(const Rule& rule) {
  std::vector<bool> over(rule.nodes.size());  // by node: a choice lies at it or below
  for (std::size_t n = 0; n < rule.nodes.size(); ++n) {
    const PatternNode& node = rule.nodes[n];
    for (PatternValue v : node.inputs) over[n] = over[n] || (v.node >= 0 && over[static_cast<std::size_t>(v.node)]);
    if (!chooses(node.op)) continue;
    if (over[n]) return true;
    over[n] = true;
  }
  return false;
}

// What has to stay in training: the leaves that are held, and those of them that are written after each iteration. Only
// of what the graph's outputs need.
struct Held {
  std::vector<bool> leaves, written;  // by node
  explicit Held(const Pcg& pcg) : leaves(pcg.size()), written(pcg.size()) {
    std::vector<bool> alive(pcg.size());
    for (ValueRef v : pcg.outputs()) alive[v.node.index()] = true;
    for (std::size_t i = pcg.size(); i-- > 0;) {
      if (!alive[i]) continue;
      const Node& node = pcg.nodes()[i];
      for (ValueRef v : node.inputs) alive[v.node.index()] = true;
      if (node.is_leaf()) leaves[i] = node.op->stored();
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        if (auto operand = node.op->new_state(static_cast<int>(o))) {
          NodeId state = node.inputs[static_cast<std::size_t>(*operand)].node;
          while (pcg[state].is_parallelization()) state = pcg[state].inputs[0].node;
          written[state.index()] = true;
        }
    }
  }
};

Result<BoundAttributes> bind_parameters(const Rule& rule, const Match& match, const Parameters& parameters) {
  BoundAttributes attributes = match.attributes;
  std::vector<std::string> known;
  for (int p : rule.parameters) {
    const std::string& name = rule.attributes[static_cast<std::size_t>(p)];
    known.push_back(name);
    auto given = parameters.find(name);
    if (given == parameters.end()) return fail("rule {}: parameter '{}' has no value", rule.name, name);
    attributes[static_cast<std::size_t>(p)] = given->second;
  }
  for (const auto& [name, value] : parameters)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail("rule {}: there is no parameter '{}'{}", rule.name, name, suggestion(name, known));
  return attributes;
}

// Copies the graph in order. Nodes of the match are copied only where something still asks for them, target nodes when
// the first user does.
class Applier {
 public:
  Applier(const Pcg& pcg, const Rule& rule, const Match& match, const BoundAttributes& attributes)
      : pcg_(pcg), rule_(rule), match_(match), attributes_(attributes), old_(pcg.size()), built_(rule.nodes.size()) {
    inherit();
  }

  Result<Pcg> run() {
    result_.set_name(pcg_.name());
    std::vector<bool> matched(pcg_.size(), false);
    for (NodeId id : match_.nodes) matched[id.index()] = true;
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (!matched[i]) UNITY_TRY_VOID(copy(NodeId(static_cast<std::int64_t>(i))));
    std::vector<ValueRef> outputs;
    for (ValueRef v : pcg_.outputs()) {
      outputs.push_back(UNITY_TRY(value(v)));
      ParallelShape was = pcg_.shape(v), is = result_.shape(outputs.back());
      was.copies = is.copies;
      if (was != is)
        return fail("rule {}: an output of the graph becomes {}, expected {}", rule_.name, to_string(is),
                    to_string(was));
    }
    for (std::size_t i = 0; i < rule_.target_outputs.size(); ++i) {
      ValueRef before{match_.nodes[static_cast<std::size_t>(rule_.source_outputs[i].node)],
                      rule_.source_outputs[i].output};
      ValueRef after = UNITY_TRY(value(before));
      if (pcg_.shape(before).shape() != result_.shape(after).shape())
        return fail("rule {}: result {} becomes {}, expected {}", rule_.name, i,
                    to_string(result_.shape(after).shape()), to_string(pcg_.shape(before).shape()));
    }
    UNITY_TRY_VOID(is_proved_here());
    result_.set_outputs(std::move(outputs));
    UNITY_TRY_VOID(keeps_what_is_held());
    return result_.without_dead_nodes();
  }

 private:
  struct Done {
    NodeId id;
    bool open = false;  // being built: meeting it again is a cycle
  };

  // Proofs are of signatures; one that is not on record may well be wrong.
  Result<void> is_proved_here() const {
    if (rule_.proof != Proof::proved) return {};
    RuleOccurrence at{pcg_, result_, {}, {}, {}};
    for (std::size_t n = 0; n < rule_.nodes.size(); ++n)
      at.nodes.push_back(n < rule_.source_nodes ? &pcg_[match_.nodes[n]] : &result_[built_[n].id]);
    for (ValueRef v : match_.values) at.variables.push_back(pcg_.shape(v));
    for (const auto& attribute : attributes_) at.attributes.push_back(attribute ? *attribute : std::int64_t{1});
    Hash signature = signature_of(rule_, at).logical;
    if (std::binary_search(rule_.signatures.begin(), rule_.signatures.end(), signature)) return {};
    std::vector<std::string> shapes;
    for (std::size_t v = 0; v < rule_.values.size(); ++v)
      shapes.push_back(fmt::format("{} {}", rule_.values[v], to_string(at.variables[v])));
    return fail("rule {}: there is no proof for {} (signature {:016x})", rule_.name, join(shapes), signature);
  }

  // A weight that no value depends on still decays and lies in checkpoints; a state would not be written any more.
  Result<void> keeps_what_is_held() const {
    Held before(pcg_), after(result_);
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      if (!before.leaves[i]) continue;
      NodeId now = old_[i].id;
      if (!now.valid() || !after.leaves[now.index()])
        return fail("rule {}: {} '{}' would be left out", rule_.name, pcg_.nodes()[i].op->name(), pcg_.nodes()[i].name);
      if (before.written[i] && !after.written[now.index()])
        return fail("rule {}: state '{}' would not be written", rule_.name, pcg_.nodes()[i].name);
    }
    return {};
  }

  Error cyclic() const { return fail("rule {}: the graph would become cyclic", rule_.name); }

  // The new value of an old one.
  Result<ValueRef> value(ValueRef v) {
    for (std::size_t i = 0; i < rule_.source_outputs.size(); ++i) {
      PatternValue output = rule_.source_outputs[i];
      if (match_.nodes[static_cast<std::size_t>(output.node)] == v.node && output.output == v.output)
        return pattern_value(rule_.target_outputs[i], i);
    }
    UNITY_TRY_VOID(copy(v.node));
    return ValueRef{old_[v.node.index()].id, v.output};
  }

  Result<void> copy(NodeId id) {
    Done& done = old_[id.index()];
    if (done.open) return cyclic();
    if (done.id.valid()) return {};
    done.open = true;
    const Node& node = pcg_[id];
    std::vector<ValueRef> inputs;
    for (ValueRef v : node.inputs) inputs.push_back(UNITY_TRY(value(v)));
    auto added = result_.try_add(*node.op, node.attributes, std::move(inputs), node.origin, node.name);
    if (!added.ok()) return fail("rule {}: {}: {}", rule_.name, node.name, added.error().message);
    done = {*added, false};
    return {};
  }

  // A value of the target. A value of the source that is an output of the rule and stays (its target is itself) is
  // kept.
  Result<ValueRef> pattern_value(PatternValue p, std::size_t output) {
    if (p.variable >= 0) return value(match_.values[static_cast<std::size_t>(p.variable)]);
    auto n = static_cast<std::size_t>(p.node);
    if (n < rule_.source_nodes) {
      if (output < rule_.source_outputs.size() && rule_.source_outputs[output] == p) {
        UNITY_TRY_VOID(copy(match_.nodes[n]));
        return ValueRef{old_[match_.nodes[n].index()].id, p.output};
      }
      return value({match_.nodes[n], p.output});
    }
    UNITY_TRY_VOID(build(n));
    return ValueRef{built_[n].id, p.output};
  }

  Result<void> build(std::size_t n) {
    if (built_[n].open) return cyclic();
    if (built_[n].id.valid()) return {};
    built_[n].open = true;
    const PatternNode& pattern = rule_.nodes[n];
    std::vector<ValueRef> inputs;
    for (PatternValue v : pattern.inputs) inputs.push_back(UNITY_TRY(pattern_value(v, rule_.source_outputs.size())));
    Bindings bindings{pcg_, match_.nodes, match_.values, attributes_};
    auto specs = pattern.op->attributes();
    Attributes attributes;
    for (std::size_t i = 0; i < specs.size(); ++i)
      attributes.push_back(pattern.attributes[i] ? UNITY_TRY(unity::evaluate(*pattern.attributes[i], rule_, bindings))
                                                 : specs[i].fallback);
    const Node& from = pattern.op->category() == OpCategory::parallelization ? result_[inputs[0].node] : pcg_[heir_[n]];
    OriginId origin = from.origin;
    std::string name = from.name;
    auto added = result_.try_add(*pattern.op, std::move(attributes), std::move(inputs), origin, std::move(name));
    if (!added.ok()) return fail("rule {}: {}", rule_.name, added.error().message);
    if (static_cast<int>(result_[*added].outputs.size()) != pattern.results)
      return fail("rule {}: {} has {} results, expected {}", rule_.name, pattern.op->name(),
                  result_[*added].outputs.size(), pattern.results);
    built_[n] = {*added, false};
    return {};
  }

  // Which matched node each target node continues.
  void inherit() {
    std::vector<bool> taken(rule_.source_nodes, false);
    heir_.assign(rule_.nodes.size(), match_.root());
    for (std::size_t n = rule_.source_nodes; n < rule_.nodes.size(); ++n)
      for (std::size_t s = 0; s < rule_.source_nodes; ++s)
        if (!taken[s] && rule_.nodes[s].op == rule_.nodes[n].op) {
          taken[s] = true;
          heir_[n] = match_.nodes[s];
          break;
        }
  }

  const Pcg& pcg_;
  const Rule& rule_;
  const Match& match_;
  const BoundAttributes& attributes_;
  Pcg result_;
  std::vector<Done> old_;    // by node of pcg
  std::vector<Done> built_;  // by target node of the rule
  std::vector<NodeId> heir_;
};

Result<void> check_conditions(const Pcg& pcg, const Rule& rule, const Match& match, const BoundAttributes& attributes) {
  Bindings bindings{pcg, match.nodes, match.values, attributes};
  for (const Condition& condition : rule.conditions) UNITY_TRY_VOID(check(condition, rule, bindings));
  return {};
}

Result<void> check_gradients(const Pcg& pcg, const Rule& rule, const Match& match) {
  if (!nests_choices(rule)) return {};
  std::vector<bool> needs = needs_gradient(pcg);
  for (NodeId id : match.nodes)
    if (needs[id.index()])
      return fail("rule {}: a gradient flows through {} '{}', and would be another where values are equal", rule.name,
                  pcg[id].op->name(), pcg[id].name);
  return {};
}

}  // namespace

Result<Pcg> apply(const Pcg& pcg, const Rule& rule, const Match& match, const Parameters& parameters) {
  BoundAttributes attributes = UNITY_TRY(bind_parameters(rule, match, parameters));
  UNITY_TRY_VOID(check_conditions(pcg, rule, match, attributes));
  UNITY_TRY_VOID(check_gradients(pcg, rule, match));
  return Applier(pcg, rule, match, attributes).run();
}

std::vector<Parameters> parameter_choices(const Pcg& pcg, const Rule& rule, const Match& match,
                                          const Integers& candidates) {
  std::vector<Parameters> choices = {{}};
  for (int p : rule.parameters) {
    std::vector<Parameters> longer;
    for (const Parameters& choice : choices)
      for (std::int64_t candidate : candidates) {
        longer.push_back(choice);
        longer.back()[rule.attributes[static_cast<std::size_t>(p)]] = candidate;
      }
    choices = std::move(longer);
  }
  std::erase_if(choices, [&](const Parameters& choice) {
    auto attributes = bind_parameters(rule, match, choice);
    return !attributes.ok() || !check_conditions(pcg, rule, match, *attributes).ok();
  });
  return choices;
}

}  // namespace unity
