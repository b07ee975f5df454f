// Flows by hand: give a list, get the time at which each ends. For `unity simulate --flows` and for tests.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

struct PlaygroundFlow {
  std::string id;
  std::string src, dst;  // vertex names, such as "node0.socket1.gpu2", or device numbers
  Bytes bytes;
  Picoseconds start;               // at the earliest
  std::vector<std::string> after;  // ids of flows that must have ended
};

// When each flow ends, in the order given. A flow waits the latency of its route, then drains at its max-min fair rate.
// InputError on unknown or repeated ids, unknown devices, negative sizes or times, and cycles.
std::vector<Picoseconds> simulate_flows(const std::vector<PlaygroundFlow>& flows, const Topology& topology);

// {"flows": [{"id", "src", "dst", "bytes", "start_s", "after"}]}; bytes and start_s are numbers (bytes, seconds) or
// texts with a unit ("3 MB", "5 us"); start_s and after may be left out. InputError names file, flow and key.
std::vector<PlaygroundFlow> flows_from_json(const std::string& text, const std::string& file);

}  // namespace unity
