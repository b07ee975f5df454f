// The GPUs of this machine that the backend can use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/base/units.h"

namespace unity::cuda {

struct Gpu {
  int ordinal = 0;
  std::string name;
  int capability = 0;  // 10 major + minor
  Hash identity = 0;   // no two GPUs of a cluster share it
  Bytes cache;         // level 2
};

// InputError that says what is missing: no driver, one too old for this build, no device, or none of an architecture
// that this build has code for (8.0 and newer).
std::vector<Gpu> find_gpus();

// Of the current GPU. InputError that says why it takes no code of this build, such as a driver too old for PTX.
void require_code(const Gpu& gpu);

// What a process of a node sees: GPUs by a hash that no two share, in the order of their numbers there; and how many
// logical devices it has.
struct GpuView {
  std::vector<Hash> gpus;
  int devices = 0;
};

// The GPU of each logical device of process `self` of a node, by its place in the process's view. Processes that see
// the same GPUs share them out: neighbours go to the same one where there are fewer GPUs than devices. Launchers that
// bind processes to GPUs show each of them others, which then are theirs alone.
std::vector<std::size_t> share_gpus(std::span<const GpuView> node, std::size_t self);

}  // namespace unity::cuda
