// Flows by hand: give a list, get the time at which each ends. For `unity simulate --flows` and for tests.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"
#include "simulator/network/transfers.h"

namespace unity {

struct PlaygroundFlow {
  std::string id;
  std::string src, dst;  // vertex names, such as "node0.socket1.gpu2", or device numbers
  Bytes bytes;
  Picoseconds start;               // at the earliest
  std::vector<std::string> after;  // ids of flows that must have ended
  bool numeric_id = false;         // the file has a number for an id
  int line = 0;                    // in the file; 0: in none
};

// The flows as transfers, with the same numbers. InputError on unknown or repeated ids, unknown devices, negative sizes
// or times, and cycles; for flows with a line it begins with file and line.
TransferGraph transfers_of(const std::vector<PlaygroundFlow>& flows, const Topology& topology,
                           const std::string& file = "");

// When each flow ends, in the order given: simulate_transfers(transfers_of(...)).
std::vector<Picoseconds> simulate_flows(const std::vector<PlaygroundFlow>& flows, const Topology& topology,
                                        const std::string& file = "");

// {"flows": [{"id", "src", "dst", "bytes", "start_s", "after"}]}; bytes and start_s are numbers (bytes, seconds) or
// texts with a unit ("3 MB", "5 us"); start_s and after may be left out, and id, which is the position then. InputError
// names file, line, flow and key.
std::vector<PlaygroundFlow> flows_from_json(const std::string& text, const std::string& file);

}  // namespace unity
