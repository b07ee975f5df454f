// A machine whose devices have so much memory, for tests of what fits there.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/command.h"

namespace command {

// The path of its file, in that folder.
inline std::string machine_with_memory(const Folder& folder, const std::string& name, std::int64_t bytes,
                                       int devices = 1) {
  fs::create_directories(folder.path / "devices");
  folder.write("devices/" + name + ".yaml",
               "format: unity-device\nversion: 1\nname: small\nkind: cpu\npeak: {f32: 100 GFLOPS}\n"
               "memory_bandwidth: 10 GB/s\nmemory: " +
                   std::to_string(bytes) +
                   " B\nlaunch_overhead: 1 us\nmatmul_efficiency: {1 MFLOP: 1.0}\n"
                   "memory_efficiency: {1 MB: 1.0}\n");
  const std::string links =
      devices == 1 ? ""
                   : "switches: {node: [bus]}\nlinks:\n  - {within: node, between: [device*, bus], kind: memory, "
                     "bandwidth: 2 GB/s, latency: 3 us}\n";
  return folder.write(name + ".yaml", "format: unity-topology\nversion: 1\nhierarchy: {node: 1, device: " +
                                          std::to_string(devices) + "}\ndevice: " + name + "\n" + links);
}

}  // namespace command
