// The order in which the devices of a pipeline take micro-batches: a permutation of a Program's tasks.
//
// A plain pipeline has one part of the graph on each of p groups of devices (stages.h), an interleaved one v parts.
// With s a group's position among p, and m micro-batches:
//
//   gpipe        m forward passes, then m backward passes (of several parts: part by part)
//                m micro-batches in flight; bubble (p - 1) / m of the ideal time
//   1f1b         min(p - 1 - s, m) forward passes, then one forward, one backward in turn, then the backward passes
//                left; at most p - s micro-batches in flight; the same bubble. One part for each group.
//   interleaved  forward passes of p micro-batches of a part, then of the next part; min(2 (p - 1 - s) + (v - 1) p, v
//   m)
//                to begin with (all of them when m = p), then in turn as above; bubble (p - 1) / (v m). p divides m.
//
//   zb-h1        1f1b in whose backward passes gradients of weights are left out: on group s they come s + h backward
//                passes later. So what a stage sends back is not held up by them, and they fill the time in which it
//                would wait. With passes of f, b and w (of weights) the bubble is (p - 1) (f + b - w) in place of
//                (p - 1) (f + b + w). h is 0 where nothing sums the gradients (ZB-H1 of Qi et al., "Zero Bubble
//                Pipeline Parallelism", ICLR 2024, section 2.1), else as many as take about as long as that, at most 2
//                p, where m is less than 4 p at most p, less than 2 p none: what is left behind the last backward pass
//                comes operator by operator, and hides the sums of those before. Operands of p + h micro-batches at
//                most are held. One part for each group.
//
// With an overlap of b > 0, b micro-batches take the place of one in all this, and a pass of b has its tasks in the
// places of overlap.h, so that one micro-batch is computed while another is communicated. b times as many are in flight
// (gpipe: as many). Then the forward and the backward pass of Programs without micro-batches have these places, too.
//
// The passes of all groups are laid out in time, each after what it needs, with durations estimated from FLOPs and
// bytes; tasks are sorted by the end of their pass. What is no micro-batched operator (copies, sums, communications)
// goes with the latest that it depends on; sums of the weights' gradients behind what that pass sends on. Where passes
// wait for what is communicated inside them (columns and rows, weights in parts), tasks are then sorted by the time at
// which they end within their pass: a stage's communications take turns, in order, and one that comes from another
// stage too early in that order would hold up all those of the pass that has begun. Hence dependencies and, on every
// device, the order of communications agree among all participants, and no executor deadlocks. Updates stay at the end.
// Without micro-batches nothing changes.
//
// In a Program of several iterations, micro-batches are counted on from one to the next: 1f1b and interleaved go on in
// turn, without flush, and fill and drain once (interleaved only if 2 (p - 1) + (v - 1) p <= v m). That needs weights
// that an iteration's passes may read before the update of the one before (delayed_weights.h); what dependencies forbid
// stays in their order. An update stands before the first backward pass of the next iteration on its device.
#pragma once

#include "core/plan/program.h"
#include "core/plan/schedule.h"
#include "core/plan/stages.h"
#include "core/plan/task_pool.h"

namespace unity {

// By the schedule's order and overlap. Error when the stages have not the form that the order needs.
Result<void> order_micro_batches(Program& program, const Schedule& schedule);
// The pool that holds the Program's tasks. Whether there is anything to order.
Result<bool> order_micro_batches(const Program& program, std::vector<PooledTask>& pool, const Schedule& schedule);

}  // namespace unity
