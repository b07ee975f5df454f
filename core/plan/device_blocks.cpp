#include "core/plan/device_blocks.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/graph/pcg.h"

namespace unity {
namespace {

// The devices that an operator's tasks are on, and how they repeat there.
struct Extent {
  int first = 0, count = 0;
  int period = 0;  // devices of the smallest part whose images they are, in equal parts; 0: they do not repeat
};

Extent extent_of(const Pcg& pcg, NodeId id, const MachineMapping& mapping) {
  const Node& n = pcg[id];
  TaskGrid grid = node_grid(pcg, id);
  Extent extent{mapping.start, 1, 0};
  std::size_t outer = 0;
  for (std::size_t g = 0; g < grid.size(); ++g) {
    extent.count += (grid[g].degree - 1) * mapping.strides[g];
    if (mapping.strides[g] > mapping.strides[outer]) outer = g;
  }
  if (grid.empty()) return extent;
  const GridDim& walk = grid[outer];
  int stride = mapping.strides[outer];
  if (extent.count - (walk.degree - 1) * stride > stride) return extent;
  if (walk.kind == GridDim::Kind::axis) {
    auto at = static_cast<std::size_t>(walk.axis);
    bool leaf = n.is_leaf();
    std::int64_t size = leaf ? n.outputs[0].dims[at].size : n.table->axes[at].size;
    if (size % walk.degree != 0 || (!leaf && n.table->axes[at].role == AxisRole::window)) return extent;
  }
  extent.count = walk.degree * stride;
  extent.period = stride;
  return extent;
}

}  // namespace

// Whether blocks are built alike, and what moves inside one leaves the links of the others alone.
bool DeviceBlocks::alike(int block) const {
  {
    std::lock_guard lock(mutex_);
    if (auto it = alike_.find(block); it != alike_.end()) return it->second;
  }
  auto count = static_cast<int>(topology_.device_count());
  auto same = [&] {
    std::map<LinkId, int> owner;  // the block that uses a link
    for (int first = 0; first < count; first += block)
      for (int a = 0; a < block; ++a) {
        DeviceId from(first + a);
        const Device &device = topology_.device(from), &model = topology_.device(DeviceId(a));
        if (device.spec != model.spec) return false;
        for (int b = 0; b < block; ++b) {
          if (a == b) continue;
          DeviceId to(first + b);
          for (LinkId l : topology_.route(from, to))
            if (owner.try_emplace(l, first).first->second != first) return false;
          if (topology_.latency(from, to) != topology_.latency(DeviceId(a), DeviceId(b)) ||
              topology_.bandwidth(from, to).rate != topology_.bandwidth(DeviceId(a), DeviceId(b)).rate)
            return false;
        }
      }
    std::set<std::size_t> physical;
    for (const Device& device : topology_.devices) physical.insert(device.physical);
    return physical.size() == topology_.device_count();
  }();
  std::lock_guard lock(mutex_);
  return alike_.emplace(block, same).first->second;
}

LoweredBlocks DeviceBlocks::find(const Pcg& pcg, const std::vector<MachineMapping>& mappings) const {
  auto devices = static_cast<int>(topology_.device_count());
  std::vector<Extent> extents;
  int size = 1;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (pcg[id].is_parallelization() || (pcg[id].is_leaf() && !pcg[id].op->stored())) continue;
    extents.push_back(extent_of(pcg, id, mappings[i]));
    const Extent& e = extents.back();
    if (e.period > 0 && e.first % e.period == 0 && e.first + e.count <= devices) size = std::lcm(size, e.period);
  }
  int period = size;
  while (2 * size < devices && (devices % size != 0 || !alike(size))) size += period;
  if (2 * size >= devices) return {};
  // Blocks are alike that the same operators are on; one of each kind is lowered.
  auto count = static_cast<std::size_t>(devices / size);
  std::vector<Hash> kinds(count, 0);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const Extent& e = extents[i];
    if (e.first < 0 || e.first + e.count > devices) return {};
    bool repeats = e.period > 0 && e.first % size == 0 && e.count % size == 0;
    for (int b = e.first / size; b <= (e.first + e.count - 1) / size; ++b) {
      Hash& kind = kinds[static_cast<std::size_t>(b)];
      kind = combine(combine(kind, i), repeats ? 0 : static_cast<Hash>(b) + 1);
    }
  }
  LoweredBlocks blocks{size, std::vector<int>(count)};
  std::map<Hash, int> first;
  for (std::size_t b = 0; b < count; ++b)
    blocks.stands_for[b] = first.try_emplace(kinds[b], static_cast<int>(b)).first->second;
  return 2 * first.size() > count ? LoweredBlocks() : blocks;
}

}  // namespace unity
