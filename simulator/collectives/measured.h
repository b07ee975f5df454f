// Collectives whose times were measured (core/machine/measured_collectives.h), in place of those of the model of links.
//
// A measured time holds for the idle machine. What a collective does to others, and others to it, is the model's: the
// choice that the model makes is stretched. All its times (latencies, waits, bytes on the links) are multiplied by
// measured / modelled, the one on the idle machine over the other. So it takes the measured time where nothing else
// moves, and where a flow gets half of a link that it had alone, that part of its time doubles. A factor above 1 is
// bandwidth that the links do not give, or latency that the model does not know; one below 1 links that give more.
#pragma once

#include "core/machine/measured_collectives.h"
#include "simulator/collectives/choice.h"

namespace unity {

// What the profile of a device says of the topology's collectives; null: nothing, or those of another topology.
const MeasuredCollectives* collectives_measured_on(const Topology& topology, DeviceId device);

// Makes a choice on the topology one that takes `measured` on the idle machine, without the alternatives, of which the
// model alone would speak; one that moves nothing stays.
void stretch(CollectiveChoice& choice, Picoseconds measured, const Topology& topology);

}  // namespace unity
