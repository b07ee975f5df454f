// What a simulation is asked for.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "simulator/collectives/choice.h"

namespace unity {

// Devices that are not as fast as their specification says. Off by default.
struct Noise {
  std::uint64_t seed = 1;
  // Each task's time, but not that of what crosses links (communications, copies to and from hosts), is multiplied by
  // exp(s z - s^2 / 2), z standard normal by (seed, task): on average by 1.
  double jitter = 0;                                    // s
  std::vector<std::pair<DeviceId, double>> stragglers;  // whose tasks take this many times as long
};

struct SimulationOptions {
  bool trace = true;   // spans, memory samples, choices of collectives; off for scoring
  bool fold = false;   // simulate one device of each class (folding/symmetry.h): the same times
  bool links = false;  // with `trace`: also what the links carry and when (Trace::links, Trace::link_use)
  bool steps = false;  // collectives transfer by transfer (collectives/steps.h): slow, shows stragglers
  CollectiveOptions collectives;
  Noise noise;
};

}  // namespace unity
