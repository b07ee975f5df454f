// A rule at concrete shapes: a small graph with its source and the same with its target. Tests, refutation, pruning and
// imports all look at rules through such instances.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

struct RuleInstance {
  std::vector<ParallelShape> variables;    // by value variable
  std::vector<AttributeValue> attributes;  // by attribute variable, parameters too
  // The same leaves, each laid out as its variable (of a partial one, as many leaves as summands); outputs are those of
  // the rule. The target is empty where it is ill-typed.
  Pcg source, target;
};

// What keeps an instance from being an example of the rule.
enum class InstanceFault : std::uint8_t {
  none,
  source,     // the source is ill-typed: the rule says nothing here
  condition,  // a condition does not hold: nor here
  target,     // the target is ill-typed
  shapes,     // a result of the target has another parallel shape than that of the source
};
std::string_view to_string(InstanceFault fault);

struct Instantiation {
  InstanceFault fault = InstanceFault::none;
  std::string why;  // of a fault: subject, found, expected
  RuleInstance instance;
};

// A value for each variable, partial or not; its copies are whole tensors.
Instantiation instantiate(const Rule& rule, const std::vector<ParallelShape>& variables,
                          const std::vector<AttributeValue>& attributes);

// The places in a graph where the rule applies, each as an instance without fault, equal ones once; parameters take all
// values from the candidates.
std::vector<RuleInstance> instances_in(const Pcg& pcg, const Rule& rule, const Integers& candidates);

// Points of the loops of both sides: what evaluating them takes.
std::int64_t loop_points(const RuleInstance& instance);

// How the outputs of both sides compare on random leaves.
enum class Agreement : std::uint8_t {
  exact,     // equal in integers modulo a prime, where nonlinear functions have stand-ins: no accident
  rounding,  // only in real numbers, within rounding: an identity of the real functions (relu(relu(x)) = relu(x)),
             // or nearly one
  none,      // different: one side is wrong
};

// Whether both sides are the same terms once parallelization operators, which leave every tensor as it is, are left
// out: then they are equal whatever the leaves hold, and nothing need be computed.
bool same_terms(const RuleInstance& instance);

// Of an instance without fault.
Agreement compare_sides(const RuleInstance& instance, std::uint64_t seed);
inline bool evaluates_equal(const RuleInstance& instance, std::uint64_t seed) {
  return compare_sides(instance, seed) == Agreement::exact;
}

struct SampleOptions {
  std::uint64_t seed = 1;
  int max_rank = 4;
  std::vector<int> degrees = {1, 1, 2, 3, 4, 6};  // that layouts and parameters are drawn from
  int tries = 400;                                // for each sample
  bool serial = false;                            // variables are not parallel
  std::map<int, AttributeValue> attributes;       // given values, by attribute variable
};

// Random instances whose source is well-typed and whose conditions hold (the fault may be target or shapes). Operands
// are proposed by the operators' own examples, by the shapes of what is known, and at random.
class InstanceSampler {
 public:
  InstanceSampler(const Rule& rule, SampleOptions options);
  struct Facts;  // what all draws start from
  // None: no instance was found in so many tries; `obstacle` says what stood in the way last.
  std::optional<Instantiation> next();
  const std::string& obstacle() const { return obstacle_; }

 private:
  const Rule& rule_;
  SampleOptions options_;
  std::shared_ptr<const Facts> facts_;
  std::uint64_t draws_ = 0;
  std::string obstacle_;
};

}  // namespace unity
