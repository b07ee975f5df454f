// The certificate of a plan: a lower bound on the iteration of every plan of a model on a machine, whatever rules,
// layouts, mappings, micro-batches and schedule it has.
//
// Of the work that every plan does (necessary_work.h), let unit u have the steps 1..k (an operator and its gradient),
// of F_i FLOPs and B_i bytes. A plan runs u as tasks; let s be the share of u that its largest task has. The cost model
// gives t(f, b), what a task takes alone, hence r(f) and q(b), the most FLOPs and bytes per second of any task of at
// most f FLOPs and b bytes (fewer than 1e4 are taken to be as quick as so many), and l, the overhead of a task. Tasks
// of one device run one after the other, so
//
//   area   D T >= sum over u of A_u(s)
//          A_u(s) = sum over all steps of max(F_i / r(s F_i), B_i / q(s B_i)) + l / s
//   path   T >= sum over u on a path of C_u(s)
//          C_u(s) = sum over steps on the path of max(s F_i / r(s F_i), s B_i / q(s B_i)) + l
//
// with D the devices (of logical devices on shared cores: those that can be busy at full speed), and for any path of
// dependencies through the model's operators, there and back through their gradients: large tasks are efficient, but
// what waits for them waits long. For every 0 <= c <= 1, T is at least c path + (1 - c) area / D, and
//
//   T >= max over c of sum over u of min over s of (c C_u(s) + (1 - c) A_u(s) / D)
//
// (c = 0 alone where weights are those of one update before: such a step is the mean of several that overlap, and none
// of them waits for the end of the one before), which needs to know nothing about how a plan splits its operators. The
// path is the longest one of tasks of a D-th each. Parts that may differ by an element (windows) put the smallest part
// on the path; what rules may join into larger tasks has the rates of these. Unequal shares of unequal devices are
// those of all operators of a plan, so that the largest is on a path from end to end.
//
// Communication counts nothing: a pipeline of stages with many micro-batches moves as good as nothing, and the bounds
// for products on machines with little memory (Irony, Toledo, Tiskin, JPDC 2004: F / (sqrt(8 M)) - M words for each
// device) are below zero where a device's memory M holds several gigabytes. The gap therefore also holds what
// communication the best plan needs.
//
// Source: the area and path bounds of list scheduling (Graham, 1969) for malleable tasks, weighted against each other.
#pragma once

#include <optional>

#include "core/search/cost_model.h"
#include "core/search/search.h"

namespace unity {

// Of training the model with the options' optimizer and rules. None where the cost model's times are measured ones
// (a device has a profile), for which there is no such r and q.
std::optional<Picoseconds> lower_bound(const Pcg& model, const CostModel& cost, const SearchOptions& options);

}  // namespace unity
