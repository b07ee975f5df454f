// What a proof takes from a concrete occurrence of a rule: everything about it but sizes, degrees and those attributes
// that decide nothing. One proof then holds for all occurrences of the same signature, and a proved rule applies only
// where its signature is on record (proof.h).
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/instance.h"

namespace unity {

// Axes, roles, monoids, which dimension walks which axes (and which of several have one element), linearity, element
// types; not the sizes, nor the parameters of windows.
Hash hash_structure(const AxisTable& table);

// A rule somewhere in a graph (source) that it has rewritten (target).
struct RuleOccurrence {
  const Pcg& source;
  const Pcg& target;
  std::vector<const Node*> nodes;  // by node of the rule: of the source graph, then of the target graph
  std::vector<ParallelShape> variables;
  std::vector<AttributeValue> attributes;  // by attribute variable, parameters too
};

struct RuleSignature {
  std::vector<bool> symbolic;  // by attribute variable: its value decides nothing
  Hash logical =
      0;  // of operators' structures, ranks, element types, attributes that decide something, lengths of lists
  Hash parallel = 0;  // also which values are partial, with which monoid, and in micro-batches
};

RuleSignature signature_of(const Rule& rule, const RuleOccurrence& at);

struct InstanceSignature : RuleSignature {
  std::vector<const Node*> nodes;  // of the instance, by node of the rule
  std::string ranks;               // "x:2 w:2"
};

// Of an instance without fault (or of shapes only), which must outlive the result.
InstanceSignature signature_of(const Rule& rule, const RuleInstance& instance);

}  // namespace unity
