// Rematerialisation (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): activations that the backward
// pass reads are dropped after the forward pass and computed again just before, segment by segment. Results are the
// same bit for bit: the same operators run on the same operands (random masks are drawn by logical index and step).
//
// A segment is a set of operators:
//   "blocks"   each repeated block ("encoder.3" of "encoder.3.ffn.gelu") is one
//   "all"      the operators in order, in about sqrt(n) segments of equal numbers of them (section 4.2 there); the
//              last is kept, as the backward pass begins with it
//   a label    the operators with this label, or whose label goes on after it with a dot
// What other segments or the outputs of the graph use of a segment is kept, and so is what a communication brought:
// nothing is sent again. Of the rest, what the backward pass reads is computed again on each device, for each
// micro-batch, before the first task that reads any of it, from what is kept.
#pragma once

#include <string>
#include <vector>

#include "core/plan/program.h"

namespace unity {

// The repeated block that an operator's label names: "encoder.3" of "encoder.3.ffn.gelu"; empty when there is none.
std::string repeated_block(const std::string& label);

// Error when a label names no operator, or "blocks" finds none.
Result<void> rematerialise(Program& program, const std::vector<std::string>& segments);

}  // namespace unity
