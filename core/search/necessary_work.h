// What every plan of a model computes, whatever rules rewrite its graph, however its operators are split and wherever
// they run: the work from which lower_bound.h derives times.
//
// Rules keep the function of a graph, so between two operators that no rule sees through its tensors stay. Counted are:
//
//   kept operators  whose kind no rule makes more or fewer of (layer_norm, gelu, moments): as the model has them
//   products        matmul, conv2d and batch_matmul of two *given* operands (leaves, or results of operators that no
//                   rule sees through to a product, mul among them, arranged by transpose, scale, concat and add) whose
//                   result such an operator reads whole, if no other product of a common operand is added to it on the
//                   way: no bilinear algorithm in the space has fewer products than the definition. x v + x w (one
//                   product, x (v + w)), (x v) w and a product that is summed afterwards count nothing. Equal products
//                   count once. No rule sees a product through a reshape, so one that no other undoes reads it whole,
//                   and gives its result.
//   attention       its two products, in the same way
//   batch_norm      as it is, or folded into a second convolution beside the one whose moments are taken. As it is, the
//                   gradient of what it normalises is a sum of two, its own and that of the moments: the sum is read
//                   once more, by what computes the second one (accumulation.h), or by an addition
//   relu            of a sum with a result that is no product: it can not become a product's activation
//   add             on one device: of an operand that is no product to another of its shape, for an operator that reads
//                   the sum whole. On several a collective may do it, of summands on different devices
//   lookups         of rows in tables, and the update of those rows
//   updates         of the other weights: weight, gradient and states once
//
// Their gradients count where the loss depends on them. Nothing else does: other sums (those of gradients are done by
// what computes these, which in products costs nothing where the FLOPs decide), activations that rules can fuse,
// re-layouts, everything that is communicated. A kind in the source of one of the user's rules counts nothing, nor does
// what lies behind it.
//
// Which kinds of operators rules change in number, and see products through, is read off the library, but for the rules
// that are written by hand (definitions.rules, named.rules), which this list accounts for, and relu, which rules fuse
// or move padding and transposes around. Where the model pads with `pad`, or a window reads padding alone, products
// count nothing.
//
// Assumed: no rule of the library multiplies matrices by fewer products than the definition has (Strassen), or writes a
// nonlinear operator in terms of linear ones other than batch_norm. The property test walks through all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/pcg.h"
#include "core/plan/optimizer.h"
#include "core/rewrite/rule.h"

namespace unity {

struct WorkStep {
  double flops = 0;
  double bytes = 0;              // of memory traffic
  bool forward = true;           // else of the gradient
  std::vector<int> toward = {};  // of the gradient: operands whose gradient waits for this step
  double task_bytes = 0;         // of all of the task that may do this with other work, for its rate; 0: as `bytes`
};

// Tasks on the same shards: an operator and its gradient's steps. A task of a share s of the operator does at least a
// share s of each step.
struct WorkUnit {
  std::vector<WorkStep> steps;
  double joined = 1;                 // rules may join it with others into tasks of so many times the FLOPs; above 1, it
                                     // may have no task of its own
  std::vector<std::int64_t> uneven;  // sizes of axes whose parts may differ by an element
};

struct WorkItem {
  NodeId node;                                      // of the model; a weight: its update
  std::vector<std::vector<WorkUnit>> alternatives;  // every plan does all units of one of them
};

// By node of an unparallelised model, at most one item each.
std::vector<WorkItem> necessary_work(const Pcg& model, const OptimizerSpec& optimizer,
                                     const std::vector<Rule>& users_rules, int devices);

}  // namespace unity
