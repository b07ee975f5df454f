// A machine of one device with so much memory, for tests of what fits there.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/command.h"

namespace command {

// The path of its file, in that folder.
inline std::string machine_with_memory(const Folder& folder, const std::string& name, std::int64_t bytes) {
  fs::create_directories(folder.path / "devices");
  folder.write("devices/" + name + ".yaml",
               "format: unity-device\nversion: 1\nname: small\nkind: cpu\npeak: {f32: 100 GFLOPS}\n"
               "memory_bandwidth: 10 GB/s\nmemory: " +
                   std::to_string(bytes) +
                   " B\nlaunch_overhead: 1 us\nmatmul_efficiency: {1 MFLOP: 1.0}\n"
                   "memory_efficiency: {1 MB: 1.0}\n");
  return folder.write(name + ".yaml",
                      "format: unity-topology\nversion: 1\nhierarchy: {device: 1}\ndevice: " + name + "\n");
}

}  // namespace command
