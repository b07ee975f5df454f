#include "core/verify/verify.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>

#include <z3.h>

#include "core/base/text.h"
#include "core/rewrite/axioms.h"
#include "core/verify/logic.h"
#include "core/verify/typing.h"

namespace unity {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t elements(const RuleInstance& instance) {
  std::int64_t total = 0;
  for (const ParallelShape& v : instance.variables) total += v.shape().elements() * v.parts();
  return total;
}

struct Sample {
  std::vector<Instantiation> instances;
  std::string obstacle;
};

Sample sample(const Rule& rule, const VerifyOptions& options) {
  Sample found;
  SampleOptions sampling;
  sampling.seed = options.seed;
  InstanceSampler sampler(rule, sampling);
  for (int i = 0; i < options.instances; ++i) {
    auto instance = sampler.next();
    if (!instance) {
      found.obstacle = sampler.obstacle();
      break;
    }
    found.instances.push_back(std::move(*instance));
  }
  return found;
}

// The smallest instance that shows the rule to be wrong.
std::optional<Verification> refute(const std::vector<Instantiation>& instances) {
  std::vector<const Instantiation*> smallest;
  for (const Instantiation& i : instances) smallest.push_back(&i);
  std::stable_sort(smallest.begin(), smallest.end(), [](const Instantiation* a, const Instantiation* b) {
    return elements(a->instance) < elements(b->instance);
  });
  bool target_typed = false;
  for (const Instantiation& i : instances) target_typed = target_typed || i.fault != InstanceFault::target;
  for (const Instantiation* i : smallest) {
    if (i->fault != InstanceFault::none)
      return Verification{target_typed ? Verdict::refuted : Verdict::ill_typed,
                          fmt::format("{}: {}", to_string(i->fault), i->why),
                          {},
                          i->instance};
    for (std::uint64_t seed : {1, 2})
      if (!evaluates_equal(i->instance, seed))
        return Verification{Verdict::refuted, "the sides differ on random values", {}, i->instance};
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

Verification prove_signatures(const Rule& rule, const std::vector<Instantiation>& instances,
                              const VerifyOptions& options) {
  auto start = Clock::now();
  ProofLimit limit{options.seconds};
  Verification result;
  std::set<Hash> logical, parallel;
  std::set<std::string> used, ranks;
  for (const Instantiation& i : instances) {
    if (i.fault == InstanceFault::target) return {Verdict::unknown, "an ill-typed target: " + i.why, {}, {}};
    InstanceSignature signature = signature_of(rule, i.instance);
    auto attempt = [&](auto&& prover, const char* half) {
      ProofAttempt proof = prover(rule, i.instance, signature, limit);
      if (!proof.proved) result.why = fmt::format("{} at {}: {}", half, signature.ranks, proof.why);
      used.insert(proof.used.begin(), proof.used.end());
      return proof.proved;
    };
    if (parallel.insert(signature.parallel).second && !attempt(prove_typing, "typing")) return result;
    if (logical.insert(signature.logical).second && !attempt(prove_equality, "equality")) return result;
    ranks.insert(signature.ranks);
  }
  result.verdict = Verdict::proved;
  ProofRecord& r = result.record;
  r.rule = rule.name;
  r.rule_hash = hash_rule(rule);
  r.axioms.assign(used.begin(), used.end());
  r.axioms_hash = axioms_hash(rule, r.axioms);
  r.prover = prover_version();
  r.degrees = degrees_of(rule);
  r.shapes.assign(ranks.begin(), ranks.end());
  r.seconds = std::chrono::duration<double>(Clock::now() - start).count();
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
  if (found.instances.empty())
    return {Verdict::ill_typed, "no instance of the source is well-typed: " + found.obstacle, {}, {}};
  if (auto refuted = refute(found.instances)) return std::move(*refuted);
  Verification result = prove_signatures(rule, found.instances, options);
  result.record.instances = static_cast<int>(found.instances.size());
  return result;
}

Verification prove(const Rule& rule, const VerifyOptions& options) {
  Sample found = sample(rule, options);
  if (found.instances.empty())
    return {Verdict::unknown, "no instance of the source is well-typed: " + found.obstacle, {}, {}};
  return prove_signatures(rule, found.instances, options);
}

}  // namespace unity
