// What a plan can do to need less memory, at the price of time:
//
//   stored in parts   weights, gradients and optimizer states of replicas (ZeRO; Rajbhandari et al., 2020): the proved
//                     rule gather_stored_parts at every weight; in stages 2 and 3 (plan/zero_stages.h) where no other
//                     fits
//   micro-batches     the batch one part after the other, gradients added up
//   rematerialised    activations computed again in the backward pass (Chen et al., 2016): of blocks, of all operators
//   offloaded         optimizer states and activations wait in the memory of the host
//
// The first is a rewriting of the PCG, the others are said by operators and attributes that leave its parallelism as it
// is. So they are tried on complete plans, each combination scored as a whole.
#pragma once

#include <vector>

#include "core/search/strategy.h"

namespace unity {

// Every replicated weight whose replicas can each hold a part of it stored so, and gathered where it is used.
Result<Pcg> with_stored_parts(const Pcg& pcg);

// What may be faster, too: updates of stored parts take a share of the time, gradients as many bytes as before.
enum class Tradeoffs : std::uint8_t { stored_parts, all };

// The plan itself and its variants, as far as they can be lowered, on the front of (time, peak memory), fastest first
// (stored_parts: all of them, as other buckets may make them faster yet).
// What the plan's schedule has already (rematerialisation, offload) stays as it is; without SearchOptions::offload
// nothing is offloaded that is not already, without SearchOptions::remat nothing is computed again. Of plans of very
// many tasks, unless a front is asked for, variants are left out whose weights alone do not fit, and those that save
// more than one that fits.
std::vector<Outcome> memory_tradeoffs(const Outcome& plan, const StrategyInput& input, Tradeoffs which);

// Whether variants of a plan may be faster than the best plan that fits: it is not slower itself; of very many tasks,
// by enough to be worth the while.
bool may_gain(const Outcome& plan, const Outcome& best);

// Keeps the plans that no other beats in both time and peak memory, fastest first. Where devices differ, what needs
// more may fit: what does not fit beats nothing that does.
void keep_front(std::vector<Outcome>& plans, const Evaluator& evaluator);

}  // namespace unity
