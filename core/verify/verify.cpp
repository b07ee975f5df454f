#include "core/verify/verify.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include <z3.h>

#include "core/base/text.h"
#include "core/rewrite/axioms.h"
#include "core/verify/detached.h"
#include "core/verify/evaluation.h"
#include "core/verify/logic.h"
#include "core/verify/typing.h"

namespace unity {
namespace {

using Clock = std::chrono::steady_clock;

const Integers kChosenInGraphs = {0, 1, 2};    // values of parameters: dimensions, degrees
constexpr int kIdleDraws = 24;                 // without a new signature, after which sampling ends
constexpr std::int64_t kMostPoints = 1 << 22;  // of loops, after which larger instances are not evaluated
constexpr std::size_t kFewDims = 12;  // of all operands of a rule, of which each two are tried with one element

std::int64_t elements(const RuleInstance& instance) {
  std::int64_t total = 0;
  for (const ParallelShape& v : instance.variables) total += v.shape().elements() * v.parts();
  return total;
}

struct Sample {
  std::vector<Instantiation> typed;    // on both sides
  std::vector<Instantiation> untyped;  // the target is not
  std::vector<Instantiation> rare;     // on both sides, of signatures that `typed` lacks
  std::string obstacle;                // to finding one
};

// Of attributes that number a dimension: those of parallelization operators, and arguments of dim and degree.
void collect_dimensions(const Expression& e, std::set<int>& variables) {
  if (e.kind == Expression::Kind::variable) variables.insert(e.variable);
  for (const Expression& a : e.arguments) collect_dimensions(a, variables);
}
void collect_queried(const Expression& e, std::set<int>& variables) {
  for (const Expression& a : e.arguments)
    e.kind == Expression::Kind::shape ? collect_dimensions(a, variables) : collect_queried(a, variables);
}
std::set<int> dimension_variables(const Rule& rule) {
  std::set<int> variables;
  for (const PatternNode& node : rule.nodes) {
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!node.attributes[i]) continue;
      if (specs[i].name == "dim") collect_dimensions(*node.attributes[i], variables);
      collect_queried(*node.attributes[i], variables);
    }
  }
  for (const Condition& c : rule.conditions) collect_queried(c.left, variables), collect_queried(c.right, variables);
  return variables;
}

// The instances that were found, with each of their dimensions in the place of each other, and with one or two
// dimensions of one element, which may broadcast: few draws miss some. Of each ranks, the instance with the most
// dimensions that are neither of one element already nor split, which one element can not be.
void add_variants(const Rule& rule, Sample& found) {
  std::set<int> variables = dimension_variables(rule);
  std::map<std::string, std::pair<std::size_t, std::size_t>> bases;  // by ranks: other dimensions, instance
  for (std::size_t i = 0; i < found.typed.size(); ++i) {
    std::string ranks;
    std::size_t spoilt = 0;
    for (const ParallelShape& v : found.typed[i].instance.variables) {
      ranks += fmt::format("{} ", v.dims.size());
      for (const auto& dim : v.dims) spoilt += dim.size == 1 || dim.degree > 1;
    }
    std::pair base(spoilt, i);
    auto [known, added] = bases.try_emplace(ranks, base);
    known->second = std::min(known->second, base);
  }
  for (const auto& [ranks, base] : bases) {
    RuleInstance at = found.typed[base.second].instance;
    auto add = [&](const std::vector<ParallelShape>& shapes, const std::vector<AttributeValue>& attributes) {
      Instantiation other = instantiate(rule, shapes, attributes);
      if (other.fault == InstanceFault::none || other.fault == InstanceFault::shapes)
        found.typed.push_back(std::move(other));
    };
    for (int variable : variables)
      for (std::int64_t dim = 0; dim < 4; ++dim) {
        auto attributes = at.attributes;
        if (attributes[static_cast<std::size_t>(variable)] == AttributeValue(dim)) continue;
        attributes[static_cast<std::size_t>(variable)] = dim;
        add(at.variables, attributes);
      }
    std::vector<std::pair<std::size_t, std::size_t>> dims;
    for (std::size_t v = 0; v < at.variables.size(); ++v)
      for (std::size_t j = 0; j < at.variables[v].dims.size(); ++j) dims.emplace_back(v, j);
    for (std::size_t one = 0; one < dims.size(); ++one)
      for (std::size_t other = one; other < dims.size() && dims.size() <= kFewDims; ++other) {
        std::vector<ParallelShape> shapes = at.variables;
        for (auto [v, j] : {dims[one], dims[other]}) shapes[v].dims[j] = {1, 1, 1};
        add(shapes, at.attributes);
      }
  }
}

// The degrees that no instance has above 1, though it could: a target that is well-typed only without them is none.
std::optional<std::string> idle_degree(const Rule& rule, const Sample& found) {
  for (const PatternNode& node : rule.nodes) {
    if (node.op->category() != OpCategory::parallelization || node.attributes.empty()) continue;
    const Expression& degree = *node.attributes.back();
    if (degree.kind != Expression::Kind::variable) continue;
    auto one = [&](const Instantiation& i) {
      return i.instance.attributes[static_cast<std::size_t>(degree.variable)] == AttributeValue(std::int64_t{1});
    };
    if (std::all_of(found.typed.begin(), found.typed.end(), one) &&
        !std::all_of(found.untyped.begin(), found.untyped.end(), one))
      return rule.attributes[static_cast<std::size_t>(degree.variable)];
  }
  return std::nullopt;
}

// Values that an attribute variable of computations may well have and that decide what they compute: flags and numbers
// of groups, orders of dimensions. Chance alone finds some of them rarely, where only special shapes are well-typed.
std::vector<std::pair<int, AttributeValue>> deciding_values(const Rule& rule) {
  std::vector<std::pair<int, AttributeValue>> values;
  std::set<int> seen;
  for (const PatternNode& node : rule.nodes) {
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (node.op->category() != OpCategory::compute || !node.attributes[i]) continue;
      const Expression& e = *node.attributes[i];
      if (e.kind != Expression::Kind::variable || !seen.insert(e.variable).second) continue;
      if (specs[i].kind == AttributeKind::integer && !specs[i].required)
        for (std::int64_t v : {0, 1, 2}) values.emplace_back(e.variable, v);
      if (specs[i].kind == AttributeKind::text) {
        std::set<std::string> texts;
        for (const Example& example : node.op->examples()) {
          Attributes all = complete_attributes(node.op->name(), specs, example.attributes).value();
          if (texts.insert(std::get<std::string>(all[i])).second) values.emplace_back(e.variable, all[i]);
        }
      }
      if (specs[i].kind == AttributeKind::integers && node.op->name() == "transpose")
        for (std::int64_t rank : {2, 3, 4}) {
          Integers order(static_cast<std::size_t>(rank));
          std::iota(order.begin(), order.end(), 0);
          do values.emplace_back(e.variable, order);
          while (std::next_permutation(order.begin(), order.end()));
        }
    }
  }
  return values;
}

// Instances of further signatures, until none is met for a while: at them the rule may be wrong, and where it is proved
// it applies.
void add_rare(const Rule& rule, SampleOptions sampling, std::vector<std::pair<int, AttributeValue>> deciding,
              Sample& found) {
  std::set<Hash> known;
  for (const Instantiation& i : found.typed) known.insert(signature_of(rule, i.instance).logical);
  deciding.insert(deciding.begin(), {-1, {}});
  for (const auto& value : deciding) {
    sampling.seed = combine(sampling.seed, 1);
    sampling.attributes.clear();
    if (value.first >= 0) sampling.attributes = {value};
    InstanceSampler sampler(rule, sampling);
    for (int idle = 0; idle < kIdleDraws; ++idle) {
      auto at = sampler.next();
      if (!at) break;
      if (at->fault != InstanceFault::none && at->fault != InstanceFault::shapes) continue;
      if (!known.insert(signature_of(rule, at->instance).logical).second) continue;
      found.rare.push_back(std::move(*at));
      idle = 0;
    }
  }
}

Sample sample(const Rule& rule, const VerifyOptions& options) {
  Sample found;
  auto draw = [&](const SampleOptions& sampling, int instances) {
    InstanceSampler sampler(rule, sampling);
    int typed = 0;
    for (int i = 0; i < 3 * instances && typed < instances; ++i) {
      auto instance = sampler.next();
      if (!instance) {
        found.obstacle = sampler.obstacle();
        break;
      }
      bool ill = instance->fault == InstanceFault::target;
      typed += !ill;
      (ill ? found.untyped : found.typed).push_back(std::move(*instance));
    }
  };
  SampleOptions sampling;
  sampling.seed = options.seed;
  draw(sampling, options.instances);
  if (!found.typed.empty() && idle_degree(rule, found)) {
    sampling.degrees = {2, 3, 4, 6};
    draw(sampling, options.instances);
  }
  auto deciding = deciding_values(rule);
  for (const auto& value : deciding) {
    sampling.attributes = {value};
    draw(sampling, std::max(options.instances / 4, 4));
  }
  add_variants(rule, found);
  add_rare(rule, sampling, deciding, found);
  auto smaller = [](const Instantiation& a, const Instantiation& b) {
    return elements(a.instance) < elements(b.instance);
  };
  std::stable_sort(found.typed.begin(), found.typed.end(), smaller);
  std::stable_sort(found.untyped.begin(), found.untyped.end(), smaller);
  std::stable_sort(found.rare.begin(), found.rare.end(), smaller);
  return found;
}

// The verdict on a rule of which no instance says anything.
std::optional<Verification> ill_typed(const Rule& rule, const Sample& found) {
  Verification v;
  v.verdict = Verdict::ill_typed;
  if (!found.typed.empty()) {
    auto idle = idle_degree(rule, found);
    if (!idle) return std::nullopt;
    auto shown = std::find_if(found.untyped.begin(), found.untyped.end(), [&](const Instantiation& i) {
      auto at = std::find(rule.attributes.begin(), rule.attributes.end(), *idle) - rule.attributes.begin();
      return i.instance.attributes[static_cast<std::size_t>(at)] != AttributeValue(std::int64_t{1});
    });
    v.why = fmt::format("no target is well-typed with {} above 1: {}", *idle, shown->why);
    v.counterexample = shown->instance;
    return v;
  }
  v.why = "no instance of the source is well-typed: " + found.obstacle;
  if (found.untyped.empty()) return v;
  v.why = "no target is well-typed: " + found.untyped[0].why;
  v.counterexample = found.untyped[0].instance;
  return v;
}

// Whether the sides differ: in integers modulo a prime, and also in real numbers, since in those integers a function is
// a stand-in that keeps no identity of its own (a maximum of zero twice, a half of a double).
bool differs(const RuleInstance& instance, std::uint64_t seed) {
  return !equal_values(instance, DType::mod, seed) && !equal_values(instance, DType::f64, seed);
}

// The smallest instance that shows the rule to be wrong. They are in order.
std::optional<Verification> refute(const std::vector<Instantiation>& instances) {
  std::int64_t points = 0;
  for (const Instantiation& i : instances) {
    auto refuted = [&](std::string why) {
      Verification v;
      v.verdict = Verdict::refuted;
      v.counterexample = i.instance;
      v.why = std::move(why);
      return v;
    };
    if (i.fault != InstanceFault::none) return refuted(i.why);
    if (points > kMostPoints) continue;
    points += loop_points(i.instance);
    for (std::uint64_t seed : {1, 2})
      if (differs(i.instance, seed)) return refuted("the sides differ on random values");
    if (!equal_when_detached(i.instance, 1))
      return refuted("a value that is detached changes the result: gradients would differ");
  }
  return std::nullopt;
}

// Whether the degree of some operator of the rule must be a number that the rule gives: then it is proved for those.
std::string degrees_of(const Rule& rule) {
  std::set<std::int64_t> literal;
  bool any = false;
  for (const PatternNode& node : rule.nodes) {
    if (node.op->category() != OpCategory::parallelization) continue;
    if (node.op->name() == "stack_partials") {
      literal.insert(static_cast<std::int64_t>(node.inputs.size()));
      continue;
    }
    const Expression& degree = *node.attributes.back();
    const auto* value = std::get_if<std::int64_t>(&degree.constant);
    if (degree.kind == Expression::Kind::constant && value)
      literal.insert(*value);
    else
      any = true;
  }
  if (any || literal.empty()) return "all";
  std::vector<std::string> texts;
  for (std::int64_t d : literal) texts.push_back(std::to_string(d));
  return join(texts);
}

class SignatureProofs {
 public:
  SignatureProofs(const Rule& rule, const VerifyOptions& options)
      : rule_(rule), limit_{options.seconds, {}}, equality_(rule, limit_) {}

  // Error: what is not proved, where.
  Result<void> add(const RuleInstance& instance) {
    InstanceSignature signature = signature_of(rule_, instance);
    if (parallel_.insert(signature.parallel).second) {
      TypingProof typing = prove_typing(rule_, instance, signature, limit_, total);
      if (!typing.proved) return fail("typing at {}: {}", signature.ranks, typing.why);
      if (total && !typing.total) partial = typing.partial;
      total = total && typing.total;
      used_.insert(typing.used.begin(), typing.used.end());
    }
    if (!tried_.insert(signature.logical).second) return {};
    ProofAttempt equality = equality_.prove(instance, signature);
    if (!equality.proved) return fail("equality at {}: {}", signature.ranks, equality.why);
    used_.insert(equality.used.begin(), equality.used.end());
    proved_.insert(signature.logical);
    ranks_.insert(signature.ranks);
    return {};
  }

  ProofRecord record() const {
    ProofRecord r;
    r.rule = rule_.name;
    r.rule_hash = hash_rule(rule_);
    r.axioms.assign(used_.begin(), used_.end());
    r.axioms_hash = axioms_hash(rule_, r.axioms);
    r.prover = prover_version();
    r.degrees = degrees_of(rule_);
    r.shapes.assign(ranks_.begin(), ranks_.end());
    r.signatures.assign(proved_.begin(), proved_.end());
    return r;
  }

  bool total = true;
  std::string partial;

 private:
  const Rule& rule_;
  ProofLimit limit_;
  EqualityProver equality_;
  std::set<Hash> tried_, proved_, parallel_;  // signatures, logical and parallel ones
  std::set<std::string> used_, ranks_;
};

Verification prove_signatures(const Rule& rule, const Sample& found, const VerifyOptions& options) {
  auto start = Clock::now();
  Verification result;
  SignatureProofs proofs(rule, options);
  proofs.total = found.untyped.empty();
  if (!proofs.total) proofs.partial = found.untyped[0].why;
  for (const Instantiation& i : found.typed) {
    auto added = proofs.add(i.instance);
    if (added.ok()) continue;
    result.why = added.error().message;
    return result;
  }
  for (const Instantiation& i : found.rare) (void)proofs.add(i.instance);
  for (const Pcg* graph : options.graphs)
    for (const RuleInstance& instance : instances_in(*graph, rule, kChosenInGraphs)) (void)proofs.add(instance);
  result.verdict = Verdict::proved;
  result.total = proofs.total;
  result.partial = proofs.partial;
  result.record = proofs.record();
  result.record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"proved", "refuted", "ill-typed", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string prover_version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return fmt::format("Z3 {}.{}.{}", major, minor, build);
}

Verification verify(const Rule& rule, const VerifyOptions& options) {
  Sample found = sample(rule, options);
  if (auto none = ill_typed(rule, found)) return std::move(*none);
  for (const auto* instances : {&found.typed, &found.rare})
    if (auto refuted = refute(*instances)) return std::move(*refuted);
  Verification result = prove_signatures(rule, found, options);
  result.record.instances = static_cast<int>(found.typed.size());
  return result;
}

Verification prove(const Rule& rule, const VerifyOptions& options) {
  Sample found = sample(rule, options);
  if (auto none = ill_typed(rule, found)) return std::move(*none);
  return prove_signatures(rule, found, options);
}

}  // namespace unity
