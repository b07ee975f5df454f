// What a proof takes from a concrete instance of a rule: everything about it but sizes, degrees and those attributes
// that decide nothing. One proof then holds for all instances of the same signature.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/instance.h"

namespace unity {

// Axes, roles, monoids, which dimension walks which axes (and which of several have one element), linearity, element
// types; not the sizes, nor the parameters of windows.
Hash hash_structure(const AxisTable& table);

struct InstanceSignature {
  std::vector<const Node*> nodes;  // of the instance, by node of the rule
  std::vector<bool> symbolic;      // by attribute variable: its value decides nothing
  Hash logical =
      0;  // of operators' structures, ranks, element types, attributes that decide something, lengths of lists
  Hash parallel = 0;  // also which values are partial, with which monoid, and in micro-batches
  std::string ranks;  // "x:2 w:2"
};

// Of an instance without fault, which must outlive the result.
InstanceSignature signature_of(const Rule& rule, const RuleInstance& instance);

}  // namespace unity
