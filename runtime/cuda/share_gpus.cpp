#include <algorithm>

#include "runtime/cuda/devices.h"

namespace unity::cuda {

std::vector<std::size_t> share_gpus(std::span<const GpuView> node, std::size_t self) {
  auto sorted = [](std::vector<Hash> gpus) {
    std::sort(gpus.begin(), gpus.end());
    return gpus;
  };
  const GpuView& mine = node[self];
  const std::vector<Hash>* shared = nullptr;  // in the order of the first that sees them
  int before = 0, all = 0;
  for (std::size_t p = 0; p < node.size(); ++p) {
    if (sorted(node[p].gpus) != sorted(mine.gpus)) continue;
    if (!shared) shared = &node[p].gpus;
    if (p < self) before += node[p].devices;
    all += node[p].devices;
  }
  auto gpus = static_cast<int>(shared->size());
  std::vector<std::size_t> places;
  for (int i = before; i < before + mine.devices; ++i) {
    int which = all <= gpus ? i : static_cast<int>(std::int64_t{i} * gpus / all);
    auto place = std::find(mine.gpus.begin(), mine.gpus.end(), (*shared)[static_cast<std::size_t>(which)]);
    places.push_back(static_cast<std::size_t>(place - mine.gpus.begin()));
  }
  return places;
}

}  // namespace unity::cuda
