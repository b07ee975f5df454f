// Offload to the memory of the device's host, by copies on the device's copy stream, beside computation.
//
//   activations  what the backward pass reads of the forward pass's results (Rhu et al. 2016, "vDNN"): out after the
//                last use in the forward pass, back a few tasks before the first in the backward pass
//   optimizer    states live on the host; each update's are fetched before it and written back after it (the states of
//                Ren et al. 2021, "ZeRO-Offload", but the update stays on the device)
#pragma once

#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

// A result is moved when at least twice kOffloadLead tasks of its device lie between its last use in the forward pass
// and the first in the backward pass: so many tasks after the one the copy must have ended, so many before the other
// the copy back may start. Results that the backward pass sends, and outputs of the graph, stay.
constexpr int kOffloadLead = 4;

// States are fetched once the tasks up to so many before their update, on the device's compute stream, have ended, and
// what those update is written back: of updates one after the other, no more than so many have states on the device.
constexpr int kStateLead = 2;

void offload(Program& program, Offload what);

}  // namespace unity
