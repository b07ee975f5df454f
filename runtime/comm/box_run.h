// Where a box lies in memory.
#pragma once

#include <optional>

#include "core/ops/axes.h"

namespace unity {

// Where `box` begins in a row-major block of `outer`, in elements, if it is one run there.
inline std::optional<std::int64_t> run_in(const Box& outer, const Box& box) {
  if (!outer.contains(box)) return std::nullopt;
  std::int64_t begin = 0;
  bool partial = false;  // a dimension further in is not whole: those further out must have one index
  for (std::size_t d = box.rank(), stride = 1; d-- > 0; stride *= static_cast<std::size_t>(outer.extent[d])) {
    if (partial && box.extent[d] != 1) return std::nullopt;
    partial = partial || box.extent[d] != outer.extent[d];
    begin += (box.offset[d] - outer.offset[d]) * static_cast<std::int64_t>(stride);
  }
  return begin;
}

}  // namespace unity
