// Offload: what the backward pass reads of the forward pass's results waits in the memory of the device's host
// meanwhile (Rhu et al. 2016, "vDNN"). Copies run on the device's copy stream, beside computation: out after the last
// use in the forward pass, back a few tasks before the first in the backward pass.
#pragma once

#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

// A result is moved when at least twice kOffloadLead tasks of its device lie between its last use in the forward pass
// and the first in the backward pass: so many tasks after the one the copy must have ended, so many before the other
// the copy back may start. Results that the backward pass sends, and outputs of the graph, stay.
constexpr int kOffloadLead = 4;

void offload(Program& program, Offload what);

}  // namespace unity
