// The parallelization operators (paper, section 3.1): they change how a tensor is laid out, never what it is. Each is
// the other's gradient in pairs: partition/combine, replicate/reduce, pipeline/batch.
//   partition(dim, d, x)      cuts each part of dimension dim in d
//   combine(dim, d, x)        joins d adjacent parts of dimension dim
//   replicate(d, x)           d copies of what was one; error on summands (a copied summand would count twice)
//   reduce(d, x)              adds up d summands
//   pipeline(dim, m, x)       m micro-batches along dim;  batch(dim, m, x) joins them
//   stack_partials(x1, .., xd)  the summands of one tensor: x1 + .. + xd, not yet added (the paper's Fig. 11b)
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Parallelization : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::parallelization; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;  // the identity on logical tensors
};

#define UNITY_PARALLELIZATION_CLASS(Class)                                           \
  class Class final : public Parallelization {                                       \
   public:                                                                           \
    using Parallelization::Parallelization;                                          \
    std::vector<AttributeSpec> attributes() const override;                          \
    Result<std::vector<ParallelShape>> parallel_shapes(const Attributes& attributes, \
                                                       const std::vector<ParallelShape>& in) const override;

UNITY_PARALLELIZATION_CLASS(Partition)
};
UNITY_PARALLELIZATION_CLASS(Combine)
}
;
UNITY_PARALLELIZATION_CLASS(Replicate)
}
;
UNITY_PARALLELIZATION_CLASS(Reduce)
}
;
UNITY_PARALLELIZATION_CLASS(Pipeline)
}
;
UNITY_PARALLELIZATION_CLASS(Batch)
}
;
UNITY_PARALLELIZATION_CLASS(StackPartials)
Arity arity() const override { return {2, -1}; }
void reference(const OpCall& call) const override;  // the sum
}
;
#undef UNITY_PARALLELIZATION_CLASS

}  // namespace unity
