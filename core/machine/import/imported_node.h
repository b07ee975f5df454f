// A node that was read from another program's description, as a topology file.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

// Where it says so, what the figures of an importer rest on: the letters of the files in topologies/.
//   V vendor, C NCCL's code, F the imported file, E engineering estimate
struct ImportedLink {
  std::string a, b;  // names in the node, or "fabric" for the network that joins nodes
  LinkKind kind = LinkKind::pcie;
  BytesPerSecond bandwidth;
  Picoseconds latency;
  std::string source;  // of the bandwidth, as a remark
};

struct ImportedNode {
  std::string from;                   // first line of the header
  std::vector<std::string> notes;     // further lines: what was assumed
  std::string device;                 // device file of all GPUs
  int gpus = 0;                       // gpu0, gpu1, ..
  std::vector<std::string> vertices;  // all others in the node
  std::vector<ImportedLink> links;
  bool forwarding = false;  // GPUs pass on what others send
};

// A topology file with a hierarchy of nodes and GPUs, so that --nodes N makes a cluster of such nodes.
std::string topology_text(const ImportedNode& node);

// What the GPUs of a generation bring along.
struct GpuGeneration {
  int sm = 0;                // 10 x compute capability: 70, 80, 90
  std::string device;        // file of topologies/devices
  int nvlinks = 0;           // of one GPU (V)
  double nvlink = 25e9;      // bytes per second, one link, one direction (V)
  double pcie = 0;           // x16 (C: usable)
  double network = 0;        // bytes per second of a port that is sold with it (E)
  double between_hosts = 0;  // bytes per second (E)
};
const std::vector<GpuGeneration>& gpu_generations();
// By a device's name ("h200" is like "h100-sxm5"); of an unknown one the A100's.
const GpuGeneration& generation_of_device(const std::string& device);
// The oldest generation that has at least so many NVLinks; of more than any, the newest.
const GpuGeneration& generation_with(int nvlinks);

}  // namespace unity
