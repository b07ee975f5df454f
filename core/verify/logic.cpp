#include "core/verify/logic.h"

#include <algorithm>
#include <set>

#include "core/verify/elementwise.h"
#include "core/verify/shape_facts.h"
#include "core/verify/theory.h"

namespace unity {
namespace {

bool same(const Expression& a, const Expression& b) {
  return a.kind == b.kind && a.constant == b.constant && a.variable == b.variable && a.query == b.query &&
         a.value == b.value &&
         std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(), same);
}

// Whether two values are the same term without parallelization operators: equal by what `=` means.
bool same(const Rule& rule, PatternValue a, PatternValue b) {
  auto computed = [&](PatternValue v) {
    while (v.node >= 0) {
      const PatternNode& node = rule.nodes[static_cast<std::size_t>(v.node)];
      if (node.op->category() != OpCategory::parallelization || node.inputs.size() != 1) break;
      v = node.inputs[0];
    }
    return v;
  };
  a = computed(a), b = computed(b);
  if (a == b) return true;
  if (a.node < 0 || b.node < 0) return false;
  const PatternNode &x = rule.nodes[static_cast<std::size_t>(a.node)],
                    &y = rule.nodes[static_cast<std::size_t>(b.node)];
  if (x.op != y.op || a.output != b.output || x.results != y.results || x.inputs.size() != y.inputs.size())
    return false;
  for (std::size_t i = 0; i < x.attributes.size(); ++i)
    if (x.attributes[i].has_value() != y.attributes[i].has_value() ||
        (x.attributes[i] && !same(*x.attributes[i], *y.attributes[i])))
      return false;
  for (std::size_t i = 0; i < x.inputs.size(); ++i)
    if (!same(rule, x.inputs[i], y.inputs[i])) return false;
  return true;
}

bool same_sides(const Rule& rule) {
  for (std::size_t o = 0; o < rule.source_outputs.size(); ++o)
    if (!same(rule, rule.source_outputs[o], rule.target_outputs[o])) return false;
  return true;
}

// What is to be proved for one signature, as terms.
class Question {
 public:
  Question(Theory& theory, const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature)
      : theory_(theory), language_(theory.language()), rule_(rule), instance_(instance), signature_(signature) {
    for (const std::string& x : rule.values) values_.push_back(context().constant(x.c_str(), language_.tensor()));
    auto kinds = attribute_kinds(rule);
    for (std::size_t a = 0; a < rule.attributes.size(); ++a)
      attributes_.emplace_back(signature.symbolic[a]
                                   ? context().constant(rule.attributes[a].c_str(), language_.sort_of(kinds[a]))
                                   : language_.constant(instance.attributes[a], kinds[a]));
    std::vector<int> results;
    for (const Node* node : signature_.nodes) results.push_back(static_cast<int>(node->outputs.size()));
    reading_.emplace(language_, rule, values_, attributes_, results);
  }

  // An equation for each result that is not the same term on both sides.
  std::vector<z3::expr> goals() {
    std::vector<z3::expr> goals;
    for (std::size_t o = 0; o < rule_.source_outputs.size(); ++o) {
      z3::expr left = reading_->value(rule_.source_outputs[o]), right = reading_->value(rule_.target_outputs[o]);
      if (!z3::eq(left, right)) goals.push_back(left == right);
    }
    return goals;
  }

  // `own`: only with axioms of the rule's own operators, besides sums, joins and multiples.
  std::vector<Assertion> assertions(bool own, const std::string& without) {
    theory_.clear();
    std::vector<KnownCall> calls;
    assume_instance(calls);
    theory_.add_calls(calls);
    std::set<std::size_t> ranks;
    for (const ParallelShape& v : instance_.variables) ranks.insert(v.dims.size());
    for (const Node* node : signature_.nodes)
      for (const ParallelShape& out : node->outputs) ranks.insert(out.dims.size());
    theory_.add_once(fmt::format("{} at {}", own ? "own" : "all", fmt::join(ranks, " ")), [&] {
      std::set<std::string> operators = {"add", "concat", "scale"};
      for (std::size_t n = 0; n < rule_.nodes.size(); ++n)
        if (computes(n)) operators.insert(rule_.nodes[n].op->name());
      std::vector<const Rule*> axioms = relevant_axioms(operators, own);
      const bool many = joins_many();
      theory_.add_calls(supporting_calls(operators, ranks));
      theory_.add_once(own ? "own" : "all", [&] {
        for (const Rule* axiom : axioms)
          if (axiom->name != without && !(many && reorders(*axiom))) theory_.add_axiom(axiom->name, *axiom, {});
      });
    });
    theory_.add_background();
    return theory_.assertions();
  }

 private:
  z3::context& context() { return language_.context(); }
  // Where so many are joined, there are too many orders and nestings: proofs keep those that both sides have.
  bool joins_many() const {
    constexpr std::size_t kMany = 5;
    return std::any_of(rule_.nodes.begin(), rule_.nodes.end(),
                       [](const PatternNode& n) { return n.op->name() == "concat" && n.inputs.size() >= kMany; });
  }
  // Associativity, commutativity: one operator alone.
  static bool reorders(const Rule& axiom) {
    return std::all_of(axiom.nodes.begin(), axiom.nodes.end(),
                       [&](const PatternNode& node) { return node.op == axiom.nodes[0].op; });
  }

  bool computes(std::size_t n) const { return rule_.nodes[n].op->category() == OpCategory::compute; }

  // Types do not say that the call is defined: an index may be out of range.
  static bool selects(const KnownCall& call) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (call.op->index_bound(call.attributes, call.inputs, i)) return true;
    return false;
  }

  KnownCall call_of(std::size_t n) {
    const Pcg& pcg = n < rule_.source_nodes ? instance_.source : instance_.target;
    const Node& node = *signature_.nodes[n];
    KnownCall call{node.op, node.attributes, {}, {}};
    for (ValueRef v : node.inputs) call.inputs.push_back(pcg.shape(v).shape());
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto& e = rule_.nodes[n].attributes[i];
      z3::expr term =
          e ? reading_->expression(*e, specs[i].kind).value() : language_.constant(specs[i].fallback, specs[i].kind);
      call.terms.push_back(specs[i].kind == AttributeKind::real && term.is_int() ? z3::to_real(term) : term);
    }
    return call;
  }

  // A stack of summands: a sum of tensors of one shape.
  void assume_stack(std::size_t n) {
    const std::vector<PatternValue>& inputs = rule_.nodes[n].inputs;
    if (inputs.size() < 2) return;
    theory_.add("rule", language_.typed(reading_->value({-1, static_cast<int>(n), 0})));
    auto rank = static_cast<int>(signature_.nodes[n]->outputs[0].dims.size());
    for (std::size_t i = 1; i < inputs.size(); ++i)
      for (int j = 0; j < rank; ++j)
        theory_.add("rule",
                    language_.dim(reading_->value(inputs[0]), j) == language_.dim(reading_->value(inputs[i]), j));
  }

  // What is known of the rule's own values: the signature, and the conditions.
  void assume_instance(std::vector<KnownCall>& calls) {
    for (std::size_t v = 0; v < values_.size(); ++v) {
      theory_.add("rule", language_.typed(values_[v]));
      theory_.add("rule", language_.rank(values_[v]) == static_cast<int>(instance_.variables[v].dims.size()));
    }
    for (std::size_t a = 0; a < attributes_.size(); ++a)
      if (const auto* list = std::get_if<Integers>(&instance_.attributes[a])) {
        z3::expr_vector elements(context());
        for (std::size_t i = 0; i < list->size(); ++i)
          elements.push_back(language_.element(*attributes_[a], static_cast<int>(i)));
        theory_.add("rule", *attributes_[a] == language_.list(elements));
      }
    for (std::size_t n = 0; n < rule_.nodes.size(); ++n) {
      if (!computes(n)) {
        assume_stack(n);
        continue;
      }
      calls.push_back(call_of(n));
      const KnownCall& call = calls.back();
      for (int o = 0; o < rule_.nodes[n].results && (n < rule_.source_nodes || !selects(call)); ++o)
        theory_.add("rule", language_.typed(reading_->value({-1, static_cast<int>(n), o})));
      ShapeFacts facts = shape_facts(*call.op, call.attributes, call.inputs, *signature_.nodes[n]->table);
      auto dim = [&](OperandDim d) {
        return language_.dim(reading_->value(rule_.nodes[n].inputs[static_cast<std::size_t>(d.operand)]), d.dim);
      };
      for (const auto& [a, b] : facts.aligned) theory_.add("rule", dim(a) == dim(b));
      for (OperandDim d : facts.ones) theory_.add("rule", dim(d) == 1);
    }
    for (const Condition& c : rule_.conditions)
      if (auto formula = reading_->condition(c)) theory_.add("rule", *formula);
    for (std::size_t i = 0, n = calls.size(); i < n; ++i)
      if (auto plain = without_activation(calls[i])) calls.push_back(std::move(*plain));
  }

  // The call that an axiom makes of one with an activation: schemas say how its result is joined and added up.
  std::optional<KnownCall> without_activation(const KnownCall& call) {
    auto specs = call.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].name == "activation" && call.attributes[i] != specs[i].fallback) {
        KnownCall plain = call;
        plain.attributes[i] = specs[i].fallback;
        plain.terms[i] = language_.constant(specs[i].fallback, specs[i].kind);
        return plain;
      }
    return std::nullopt;
  }

  // Calls that the rule does not make but its proof may: joins, sums and multiples at the rule's ranks, and what axioms
  // bring in, as in its examples.
  std::vector<KnownCall> supporting_calls(const std::set<std::string>& operators, const std::set<std::size_t>& ranks) {
    std::vector<KnownCall> calls;
    for (std::size_t rank : ranks) {
      Shape shape{Dims(rank, 4), DType::f32};
      for (std::size_t j = 0; j < rank; ++j)
        theory_.add_concrete("concat", {static_cast<std::int64_t>(j), std::int64_t{1}}, {shape, shape}, calls);
      theory_.add_concrete("add", {}, {shape, shape}, calls);
    }
    std::set<std::string> own;
    for (std::size_t n = 0; n < rule_.nodes.size(); ++n) own.insert(rule_.nodes[n].op->name());
    for (const std::string& name : operators) {
      if (own.contains(name) || name == "concat" || name == "add") continue;
      const Operator& op = get_operator(name);
      for (const Example& e : op.examples())
        theory_.add_concrete(name, complete_attributes(name, op.attributes(), e.attributes).value(), e.inputs, calls);
    }
    return calls;
  }

  Theory& theory_;
  Language& language_;
  const Rule& rule_;
  const RuleInstance& instance_;
  const InstanceSignature& signature_;
  std::vector<z3::expr> values_;
  std::vector<std::optional<z3::expr>> attributes_;
  std::optional<Reading> reading_;
};

// What every proof may use beside axioms.
bool is_ours(const std::string& name) {
  return name == "rule" || name == "strict" || name == "list" || name == "arithmetic";
}

}  // namespace

class EqualityProver::Impl {
 public:
  Impl(const Rule& rule, const ProofLimit& limit)
      : rule_(rule), limit_(limit), language_(context_), theory_(language_) {}

  // Most proofs need few axioms, and find them sooner among few: first those of the proof before, then the operators'
  // own, then all.
  ProofAttempt prove(const RuleInstance& instance, const InstanceSignature& signature) {
    Question question(theory_, rule_, instance, signature);
    std::vector<z3::expr> goals = question.goals();
    if (goals.empty()) return {true, {}, {}};
    unsigned all = limit_.steps(), few = std::max(1U, all / 10);
    std::vector<Assertion> own = question.assertions(true, limit_.without), every;
    if (auto known = known_proof(goals, own)) return *known;
    auto from_last = [&](const std::vector<Assertion>& assertions) {
      std::vector<Assertion> last;
      for (const Assertion& a : assertions)
        if (is_ours(a.name) || last_.contains(a.name)) last.push_back(a);
      return attempt(goals, last, few);
    };
    if (!last_.empty() && !last_needs_others_)
      if (auto proof = from_last(own)) return *proof;
    if (!last_needs_others_)
      if (auto proof = attempt(goals, own, few)) return *proof;
    every = question.assertions(false, limit_.without);
    if (auto known = known_proof(goals, every)) return *known;
    if (last_needs_others_)
      if (auto proof = from_last(every)) return *proof;
    if (auto proof = attempt(goals, every, all)) return last_needs_others_ = true, *proof;
    return {false, fmt::format("result {} of the target is not shown to equal that of the source", shown_), {}};
  }

 private:
  struct Known {
    std::vector<z3::expr> goals;
    std::vector<z3::expr> from;
    ProofAttempt proof;
  };

  static unsigned id(const z3::expr& e) { return Z3_get_ast_id(e.ctx(), e); }

  // A proof of the same goals from formulas that are asserted here, too.
  std::optional<ProofAttempt> known_proof(const std::vector<z3::expr>& goals,
                                          const std::vector<Assertion>& assertions) const {
    std::set<unsigned> ids;
    for (const Assertion& a : assertions) ids.insert(id(a.formula));
    for (const Known& known : known_)
      if (std::equal(goals.begin(), goals.end(), known.goals.begin(), known.goals.end(),
                     [](const z3::expr& a, const z3::expr& b) { return z3::eq(a, b); }) &&
          std::all_of(known.from.begin(), known.from.end(), [&](const z3::expr& f) { return ids.contains(id(f)); }))
        return known.proof;
    return std::nullopt;
  }

  std::optional<ProofAttempt> attempt(const std::vector<z3::expr>& goals, const std::vector<Assertion>& assertions,
                                      unsigned steps) {
    Consequence found = consequence(context_, assertions, goals, steps);
    shown_ = found.shown;
    if (found.shown < goals.size()) return std::nullopt;
    Known known{goals, {}, {true, {}, {}}};
    last_.clear();
    std::set<std::string> names;
    for (std::size_t i : found.from) {
      const Assertion& a = assertions[i];
      known.from.push_back(a.formula);
      last_.insert(a.name);
      if (!is_ours(a.name) || a.name == "arithmetic") names.insert(a.name);
    }
    known.proof.used.assign(names.begin(), names.end());
    known_.push_back(known);
    return known.proof;
  }

  const Rule& rule_;
  const ProofLimit& limit_;
  z3::context context_;
  Language language_;
  Theory theory_;
  std::vector<Known> known_;
  std::set<std::string> last_;      // names of what the last proof follows from
  bool last_needs_others_ = false;  // it needs axioms of other operators
  std::size_t shown_ = 0;           // goals, in the last attempt
};

EqualityProver::EqualityProver(const Rule& rule, ProofLimit limit) : rule_(rule), limit_(std::move(limit)) {}
EqualityProver::~EqualityProver() = default;

ProofAttempt EqualityProver::prove(const RuleInstance& instance, const InstanceSignature& signature) try {
  if (same_sides(rule_)) return {true, {}, {}};
  if (same_normal_forms(rule_, instance, signature)) return {true, {}, {"elementwise"}};
  if (!impl_) impl_ = std::make_unique<Impl>(rule_, limit_);
  return impl_->prove(instance, signature);
} catch (const z3::exception& e) {
  return {false, fmt::format("Z3: {}", e.msg()), {}};
}

}  // namespace unity
