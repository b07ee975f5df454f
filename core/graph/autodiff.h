// Reverse-mode differentiation. Search rewrites the forward PCG; differentiation belongs to lowering, which runs each
// operator's GradientProgram on the shards of its tasks. `differentiate` stitches the same programs into one graph.
#pragma once

#include <vector>

#include "core/graph/pcg.h"

namespace unity {

// Which nodes the gradient of output 0 flows through: those on a path from a weight to it. In a piece of a graph
// (core/ops/boundary.h) paths also start at its boundaries and end at its deliveries.
std::vector<bool> needs_gradient(const Pcg& pcg);

// The gradient program of a node for the operands that need gradients. Empty when none does.
GradientProgram gradient_program(const Pcg& pcg, NodeId node, const std::vector<bool>& needs);

// Whether it forms the gradient of a table of which the node looks up rows (Operator::row_factor).
bool looks_up_rows(const Pcg& pcg, NodeId node, const GradientProgram& program);

// The training graph of an unparallelised PCG: its nodes, then the input "loss_gradient" (a scalar: 1 for the plain
// gradient) and the backward operators. Outputs: those of the forward graph, then the gradient of every weight, in node
// order. Error when an operator on the way is not differentiable, the loss does not depend on a weight, or the graph is
// parallel.
Result<Pcg> differentiate(const Pcg& pcg);

}  // namespace unity
