#include "core/plan/device_blocks.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/graph/pcg.h"
#include "core/machine/profile.h"

namespace unity {
namespace {

// The devices that an operator's tasks are on, and how they repeat there.
struct Extent {
  int first = 0, count = 0;
  int period = 0;  // devices of the smallest part whose images they are, in equal parts; 0: they do not repeat
  int larger = 0;  // so many of the parts, the first ones, have an element more
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
    if (size < walk.degree || (!leaf && (size % walk.degree != 0 || n.table->axes[at].role == AxisRole::window)))
      return extent;
    extent.larger = static_cast<int>(size % walk.degree);
  }
  extent.count = walk.degree * stride;
  extent.period = stride;
  return extent;
}

// Of the parts on `count` devices from `first` on, those that have an element more.
int larger_parts(const Extent& extent, int first, int count) {
  return std::clamp(extent.larger - (first - extent.first) / extent.period, 0, count / extent.period);
}

// All that repeats does so on the same devices, and what does not is on some of these.
bool are_one_stage(const std::vector<Extent>& extents, const std::vector<std::size_t>& placed) {
  const Extent* stage = nullptr;
  for (std::size_t i : placed)
    if (extents[i].period > 0 && !stage) stage = &extents[i];
  return stage && std::all_of(placed.begin(), placed.end(), [&](std::size_t i) {
           const Extent& e = extents[i];
           if (e.period > 0) return e.first == stage->first && e.count == stage->count;
           return e.first >= stage->first && e.first + e.count <= stage->first + stage->count;
         });
}

// A block of a narrow stage exchanges with several of a wide one, which do not all do the same then. What hangs
// together so is a sheet: of each stage one part of as many as the stages' numbers of blocks have in common. Sheets are
// alike, but for those with a block that does something of its own: what stages send to one another, they send at the
// same places of both. Keys: by block, what repeats in it, what it does of its own, and its place, which is filled in.
void tell_sheets_apart(std::vector<std::array<Hash, 3>>& keys) {
  std::map<Hash, int> members, seen;
  for (const auto& [kind, own, place] : keys)
    if (kind != 0) ++members[kind];
  int sheets = 0;
  for (const auto& [kind, count] : members) sheets = std::gcd(sheets, count);
  std::set<int> special;
  std::vector<std::pair<int, int>> at;  // by block: sheet, place in its part
  for (const auto& [kind, own, place] : keys) {
    int part = kind == 0 ? 1 : members.at(kind) / sheets, nth = kind == 0 ? 0 : seen[kind]++;
    at.emplace_back(nth / part, nth % part);
    if (own != 0 && kind != 0) special.insert(nth / part);
  }
  for (std::size_t b = 0; b < keys.size(); ++b) {
    auto [sheet, place] = at[b];
    if (keys[b][0] != 0)
      keys[b][2] = static_cast<Hash>(place) << 32 | static_cast<Hash>(special.contains(sheet) ? sheet + 1 : 0);
  }
}

}  // namespace

// Whether blocks are built alike, and what moves inside one leaves the links of the others alone: then whose those are.
DeviceBlocks::Owners DeviceBlocks::alike(int block) const {
  {
    std::lock_guard lock(mutex_);
    if (auto it = alike_.find(block); it != alike_.end()) return it->second;
  }
  auto count = static_cast<int>(topology_.device_count());
  auto owners = std::make_shared<std::unordered_map<LinkId, int>>();
  // Measured collectives are by how their groups lie in the levels.
  bool by_level = std::any_of(topology_.specs.begin(), topology_.specs.end(), [](const DeviceSpec& spec) {
    return spec.profile && spec.profile->collectives.has_value();
  });
  auto same = [&] {
    for (int first = 0; first < count; first += block)
      for (int a = 0; a < block; ++a) {
        DeviceId from(first + a);
        const Device &device = topology_.device(from), &model = topology_.device(DeviceId(a));
        if (device.spec != model.spec) return false;
        for (int b = 0; b < block; ++b) {
          if (a == b) continue;
          DeviceId to(first + b);
          for (LinkId l : topology_.route(from, to))
            if (owners->try_emplace(l, first / block).first->second != first / block) return false;
          if (by_level && topology_.distance_level(from, to) != topology_.distance_level(DeviceId(a), DeviceId(b)))
            return false;
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
  return alike_.emplace(block, same ? std::move(owners) : nullptr).first->second;
}

// Whether blocks of one node reach one another, and another node, through links that are not also the way of others,
// and all in the same time; blocks of whole nodes do.
bool DeviceBlocks::leave_by_own_links(int block) const {
  const auto devices = static_cast<int>(topology_.device_count());
  const int node = devices / std::max(1, topology_.nodes);
  if (block % node == 0) return true;
  if (node % block != 0) return false;
  // From each device of a node to the one that lies so much further, or back.
  auto own = [&](int shift, bool back) {
    std::map<LinkId, int> users;
    const int last = shift < node ? node - shift : std::min(node, devices - shift);
    auto way = [&](int d) { return std::pair(DeviceId(back ? d + shift : d), DeviceId(back ? d : d + shift)); };
    for (int d = 0; d < last; ++d) {
      const auto [from, to] = way(d);
      const auto [first, other] = way(d % block);
      if (topology_.latency(from, to) != topology_.latency(first, other) ||
          topology_.bandwidth(from, to).rate != topology_.bandwidth(first, other).rate)
        return false;
      for (LinkId l : topology_.route(from, to))
        if (users.try_emplace(l, d / block).first->second != d / block) return false;
    }
    return true;
  };
  std::lock_guard lock(mutex_);
  auto [known, fresh] = leave_by_own_links_.try_emplace(block, true);
  for (int shift = block; fresh && shift <= node && shift < devices; shift += block)
    known->second = known->second && own(shift, false) && own(shift, true);
  return known->second;
}

double about_tasks(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const LoweredBlocks& blocks) {
  double tasks = 0;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (!pcg[id].is_compute()) continue;
    TaskGrid grid = node_grid(pcg, id);
    double share = 1;
    if (!blocks.all()) {
      int end = mappings[i].start + 1, here = 0;
      for (std::size_t g = 0; g < grid.size(); ++g) end += (grid[g].degree - 1) * mappings[i].strides[g];
      for (int d = mappings[i].start; d < end; ++d) here += blocks.contains(DeviceId(d)) ? 1 : 0;
      share = static_cast<double>(here) / (end - mappings[i].start);
    }
    tasks += 3 * share * task_count(grid) * micro_count(node_sharding(pcg, id));
  }
  return tasks;
}

LoweredBlocks DeviceBlocks::find(const Pcg& pcg, const std::vector<MachineMapping>& mappings) const {
  auto devices = static_cast<int>(topology_.device_count());
  std::vector<Extent> extents(pcg.size());
  std::vector<std::size_t> placed;
  int size = 1;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (pcg[id].is_parallelization() || (pcg[id].is_leaf() && !pcg[id].op->stored())) continue;
    if (!mappings[i].places.empty()) return {};  // a table walks devices in any way
    const Extent& e = extents[i] = extent_of(pcg, id, mappings[i]);
    placed.push_back(i);
    if (e.period > 0 && e.first % e.period == 0 && e.first + e.count <= devices) size = std::lcm(size, e.period);
  }
  // Places, stages among them, exchange what their blocks compute, through links that those of a node may share.
  const bool places = !are_one_stage(extents, placed);
  const bool stages = places && std::any_of(pcg.nodes().begin(), pcg.nodes().end(),
                                            [](const Node& n) { return n.op->name() == "pipeline"; });
  int period = size;
  while (2 * size < devices && (devices % size != 0 || !alike(size) || (places && !leave_by_own_links(size))))
    size += period;
  if (2 * size >= devices) return {};
  // Blocks are alike that the same operators are on; one of each kind is lowered.
  auto count = static_cast<std::size_t>(devices / size);
  std::vector<Hash> kinds(count, 0), own(count, 0);  // by what repeats there, by what does not
  for (std::size_t i : placed) {
    const Extent& e = extents[i];
    if (e.first < 0 || e.first + e.count > devices) return {};
    bool repeats = e.period > 0 && e.first % size == 0 && e.count % size == 0;
    for (int b = e.first / size; b <= (e.first + e.count - 1) / size; ++b) {
      auto at = static_cast<std::size_t>(b);
      if (repeats)
        kinds[at] = combine(combine(kinds[at], i), stages ? 0 : static_cast<Hash>(larger_parts(e, b * size, size)));
      else
        own[at] = combine(combine(own[at], i), at);
    }
  }
  LoweredBlocks blocks{size, std::vector<int>(count), !places, alike(size)};
  std::vector<std::array<Hash, 3>> keys(count);
  for (std::size_t b = 0; b < count; ++b) keys[b] = {kinds[b], own[b], 0};
  if (stages) tell_sheets_apart(keys);
  std::map<std::array<Hash, 3>, int> first;
  for (std::size_t b = 0; b < count; ++b)
    blocks.stands_for[b] = first.try_emplace(keys[b], static_cast<int>(b)).first->second;
  return 2 * first.size() > count ? LoweredBlocks() : blocks;
}

}  // namespace unity
