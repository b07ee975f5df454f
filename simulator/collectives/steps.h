// A stage of a collective as point-to-point transfers that wait for one another: what stands behind the one flow of
// shapes.h, step by step. Rings: in each step every edge sends one part on, when the edge before has brought it and its
// own part of the step before has gone out. Chains, trees, switches: chunk by chunk, in the same way. Slow; shows
// stragglers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/collectives/shapes.h"

namespace unity {

struct Step {
  std::uint32_t phase = 0;  // of the shape
  std::uint32_t edge = 0;   // of the phase's pattern: its links
  double bytes = 0;         // on the wire
  Picoseconds latency;      // after its data have come
};

struct StepGraph {
  // A step waits until those before it have ended: those that bring its data and, without its latency, the one that had
  // the edge before it.
  struct Follower {
    std::uint32_t step : 31;
    std::uint32_t data : 1;
  };
  std::vector<Step> steps;
  std::vector<std::uint32_t> waits;  // by step: how many it waits for
  std::span<const Follower> followers(std::size_t step) const {
    return {list.data() + begin[step], list.data() + begin[step + 1]};
  }
  std::vector<std::uint32_t> begin;
  std::vector<Follower> list;
};

// `chunk` as in CollectiveOptions; where it is 0, 32 chunks for each hop of the longest way, at least 64 and at most
// 4096. InputError for more steps than memory holds (2^26).
StepGraph make_steps(const CollectiveShape& shape, std::size_t stage, double bytes, Bytes chunk);

}  // namespace unity
