// The normal form of a graph's parallelization operators, so that different derivations of one plan meet.
#pragma once

#include "core/graph/pcg.h"

namespace unity {

// Every chain of partition, combine, replicate and reduce becomes the canonical minimal one (relayout.h); equal
// parallelization operators on equal operands become one; chains from one value share their common prefix; dead nodes
// are removed. The logical function and the parallel shapes at operands of compute operators and at graph outputs stay.
// Idempotent.
Pcg normalize(const Pcg& pcg);

}  // namespace unity
