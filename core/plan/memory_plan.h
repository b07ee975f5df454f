// Where the buffers of each device lie in one block of memory, its arena (those on its host in another): buffers share
// memory when their order allows it (buffer_order.h).
//
// Weights, optimizer states, inputs, outputs, and buffers that are read before they are written have a place of their
// own, and start as zeros. All others start with whatever is there. Gradients that an optimizer reads stay to the end
// of the step, where they may be asked for.
#pragma once

#include <vector>

#include "core/plan/program.h"

namespace unity {

struct MemoryOptions {
  std::int64_t alignment = 64;
  bool share = true;  // false: every buffer has a place of its own
};

struct MemoryPlan {
  static constexpr std::int64_t kNone = -1;  // the offset of a buffer that nothing uses
  std::vector<std::int64_t> offsets;         // by buffer, in bytes from the start of its arena
  std::vector<Bytes> arenas;                 // by device
  std::vector<Bytes> host_arenas;            // by device: what its buffers on the host take there
};

// `bytes`: by buffer. Greedy: the largest buffer first, each in the smallest gap between those it may not overlap.
MemoryPlan plan_memory(const Program& program, const std::vector<Bytes>& bytes, const MemoryOptions& options = {});
// With the sizes of the program's own element types.
MemoryPlan plan_memory(const Program& program, const MemoryOptions& options = {});

}  // namespace unity
