// What all draws of a sampler start from: conditions, and the operators' examples, each asked for once.
#pragma once

#include <optional>
#include <vector>

#include "core/rewrite/condition_facts.h"
#include "core/rewrite/instance.h"

namespace unity {

struct InstanceSampler::Facts {
  explicit Facts(const Rule& rule);

  struct OfNode {
    std::vector<AttributeSpec> specs;
    std::vector<Example> examples;                 // with as many operands, and with all attributes
    std::vector<std::optional<AxisTable>> tables;  // by example
    std::vector<bool> indices;                     // by operand: it holds indices
  };
  ConditionFacts conditions;
  std::vector<OfNode> nodes;  // of the source
};

}  // namespace unity
