#include "core/verify/logic.h"

#include <set>

#include "core/verify/shape_facts.h"
#include "core/verify/theory.h"

namespace unity {
namespace {

class EqualityProof {
 public:
  // `own`: only with axioms of the rule's own operators, besides sums, joins and multiples.
  EqualityProof(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature,
                const ProofLimit& limit, bool own)
      : own_(own), rule_(rule), instance_(instance), signature_(signature), without_(limit.without), theory_(limit) {
    Language& language = theory_.language();
    for (std::size_t v = 0; v < rule.values.size(); ++v)
      values_.push_back(theory_.context().constant(rule.values[v].c_str(), language.tensor()));
    auto kinds = attribute_kinds(rule);
    for (std::size_t a = 0; a < rule.attributes.size(); ++a)
      attributes_.emplace_back(signature.symbolic[a]
                                   ? theory_.context().constant(rule.attributes[a].c_str(), language.sort_of(kinds[a]))
                                   : language.constant(instance.attributes[a], kinds[a]));
  }

  ProofAttempt run() {
    std::vector<int> results;
    for (const Node* node : signature_.nodes) results.push_back(static_cast<int>(node->outputs.size()));
    Reading reading(theory_.language(), rule_, values_, attributes_, results);
    std::vector<z3::expr> goals;
    for (std::size_t o = 0; o < rule_.source_outputs.size(); ++o) {
      z3::expr left = reading.value(rule_.source_outputs[o]), right = reading.value(rule_.target_outputs[o]);
      if (!z3::eq(left, right)) goals.push_back(left == right);
    }
    ProofAttempt proof{true, {}, {}};
    if (goals.empty()) return proof;

    assume_instance(reading);
    assume_axioms();
    std::set<std::string> used;
    for (std::size_t g = 0; g < goals.size(); ++g) {
      if (theory_.proves(goals[g], used)) continue;
      return {false, fmt::format("result {} of the target is not shown to equal that of the source", g), {}};
    }
    for (const char* ours : {"rule", "strict", "list"}) used.erase(ours);
    proof.used.assign(used.begin(), used.end());
    return proof;
  }

 private:
  bool computes(std::size_t n) const { return rule_.nodes[n].op->category() == OpCategory::compute; }

  KnownCall call_of(std::size_t n, Reading& reading) {
    const Pcg& pcg = n < rule_.source_nodes ? instance_.source : instance_.target;
    const Node& node = *signature_.nodes[n];
    KnownCall call{node.op, node.attributes, {}, {}};
    for (ValueRef v : node.inputs) call.inputs.push_back(pcg.shape(v).shape());
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto& e = rule_.nodes[n].attributes[i];
      z3::expr term = e ? reading.expression(*e, specs[i].kind).value()
                        : theory_.language().constant(specs[i].fallback, specs[i].kind);
      call.terms.push_back(specs[i].kind == AttributeKind::real && term.is_int() ? z3::to_real(term) : term);
    }
    return call;
  }

  // What is known of the rule's own values: the signature, and the conditions.
  void assume_instance(Reading& reading) {
    Language& language = theory_.language();
    for (std::size_t v = 0; v < values_.size(); ++v) {
      theory_.add("rule", language.typed(values_[v]));
      theory_.add("rule", language.rank(values_[v]) == static_cast<int>(instance_.variables[v].dims.size()));
    }
    for (std::size_t a = 0; a < attributes_.size(); ++a)
      if (const auto* list = std::get_if<std::vector<std::int64_t>>(&instance_.attributes[a])) {
        z3::expr_vector elements(theory_.context());
        for (std::size_t i = 0; i < list->size(); ++i)
          elements.push_back(language.element(*attributes_[a], static_cast<int>(i)));
        theory_.add("rule", *attributes_[a] == language.list(elements));
      }
    for (std::size_t n = 0; n < rule_.nodes.size(); ++n) {
      if (!computes(n)) continue;
      calls_.push_back(call_of(n, reading));
      const KnownCall& call = calls_.back();
      for (int o = 0; o < rule_.nodes[n].results; ++o)
        theory_.add("rule", language.typed(reading.value({-1, static_cast<int>(n), o})));
      ShapeFacts facts = shape_facts(*call.op, call.attributes, call.inputs, *signature_.nodes[n]->table);
      auto dim = [&](OperandDim d) {
        return language.dim(reading.value(rule_.nodes[n].inputs[static_cast<std::size_t>(d.operand)]), d.dim);
      };
      for (const auto& [a, b] : facts.aligned) theory_.add("rule", dim(a) == dim(b));
      for (OperandDim d : facts.ones) theory_.add("rule", dim(d) == 1);
    }
    for (const Condition& c : rule_.conditions)
      if (auto formula = reading.condition(c)) theory_.add("rule", *formula);
  }

  void assume_axioms() {
    std::set<std::string> operators = {"add", "concat", "scale"};
    for (std::size_t n = 0; n < rule_.nodes.size(); ++n)
      if (computes(n)) operators.insert(rule_.nodes[n].op->name());
    std::vector<const Rule*> axioms = relevant_axioms(operators, own_);
    add_supporting_calls(operators);
    theory_.add_calls(calls_);
    for (const Rule* axiom : axioms)
      if (axiom->name != without_) theory_.add_axiom(axiom->name, *axiom, {});
    theory_.add_background();
  }

  // Calls that the rule does not make but its proof may: joins, sums and multiples at the rule's ranks, and what
  // axioms bring in, as in its examples.
  void add_supporting_calls(const std::set<std::string>& operators) {
    std::set<std::size_t> ranks;
    for (const ParallelShape& v : instance_.variables) ranks.insert(v.dims.size());
    for (const Node* node : signature_.nodes)
      for (const ParallelShape& out : node->outputs) ranks.insert(out.dims.size());
    for (std::size_t rank : ranks) {
      Shape shape{Dims(rank, 4), DType::f32};
      for (std::size_t j = 0; j < rank; ++j)
        theory_.add_concrete("concat", {static_cast<std::int64_t>(j), std::int64_t{1}}, {shape, shape}, calls_);
      theory_.add_concrete("add", {}, {shape, shape}, calls_);
    }
    std::set<std::string> own;
    for (std::size_t n = 0; n < rule_.nodes.size(); ++n) own.insert(rule_.nodes[n].op->name());
    for (const std::string& name : operators) {
      if (own.contains(name) || name == "concat" || name == "add") continue;
      const Operator& op = get_operator(name);
      for (const Example& e : op.examples())
        theory_.add_concrete(name, complete_attributes(name, op.attributes(), e.attributes).value(), e.inputs, calls_);
    }
  }

  bool own_;
  const Rule& rule_;
  const RuleInstance& instance_;
  const InstanceSignature& signature_;
  std::string without_;
  Theory theory_;
  std::vector<z3::expr> values_;
  std::vector<std::optional<z3::expr>> attributes_;
  std::vector<KnownCall> calls_;
};

}  // namespace

// Most proofs need few axioms, and find them sooner among few.
ProofAttempt prove_equality(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature,
                            const ProofLimit& limit) try {
  ProofLimit short_limit = limit;
  short_limit.seconds = limit.seconds / 10;
  ProofAttempt proof = EqualityProof(rule, instance, signature, short_limit, true).run();
  return proof.proved ? proof : EqualityProof(rule, instance, signature, limit, false).run();
} catch (const z3::exception& e) {
  return {false, fmt::format("Z3: {}", e.msg()), {}};
}

}  // namespace unity
