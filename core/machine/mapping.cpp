#include "core/machine/mapping.h"

#include <algorithm>

namespace unity {
namespace {

// Places the grid dimensions from the innermost outwards. Each starts right after the block placed so far, or at the
// next larger unit of the hierarchy (socket, node), so that blocks do not straddle it.
class Placement {
 public:
  Placement(const TaskGrid& grid, const Topology& topology, const Resources& resources)
      : grid_(grid), resources_(resources) {
    int unit = 1;
    for (std::size_t i = topology.levels.size(); i-- > 1;) {
      unit *= topology.levels[i].count;
      // A range that starts inside a unit has no boundaries of it to align with.
      if (unit > 1 && unit < resources.count && resources.first % unit == 0 &&
          (units_.empty() || units_.back() != unit))
        units_.push_back(unit);
    }
    current_.start = resources.first;
    current_.strides.resize(grid.size());
  }

  // `block`: the smallest stride that overlaps nothing; `extent`: devices from the first to the last one used.
  void place(const std::vector<std::size_t>& inner_to_outer, std::size_t depth, int block, int extent,
             std::vector<MachineMapping>& found) {
    if (depth == inner_to_outer.size()) {
      if (std::find(found.begin(), found.end(), current_) == found.end()) found.push_back(current_);
      return;
    }
    std::size_t dim = inner_to_outer[depth];
    auto with_stride = [&](int stride) {
      int reach = extent + stride * (grid_[dim].degree - 1);
      if (reach > resources_.count) return;
      current_.strides[dim] = stride;
      place(inner_to_outer, depth + 1, stride * grid_[dim].degree, reach, found);
    };
    with_stride(block);
    for (int unit : units_)
      if (unit > block) with_stride(unit);
  }

 private:
  const TaskGrid& grid_;
  const Resources& resources_;
  std::vector<int> units_;
  MachineMapping current_;
};

}  // namespace

int MachineMapping::place(const std::vector<int>& coordinates) const {
  UNITY_CHECK(coordinates.size() == strides.size(), "{} coordinates, {} strides", coordinates.size(), strides.size());
  int place = start;
  for (std::size_t i = 0; i < strides.size(); ++i) place += coordinates[i] * strides[i];
  return place;
}

DeviceId MachineMapping::device(const std::vector<int>& coordinates) const {
  int at = place(coordinates);
  if (places.empty()) return DeviceId(at);
  UNITY_CHECK(at >= 0 && at < static_cast<int>(places.size()), "place {} of {}", at, places.size());
  return DeviceId(places[static_cast<std::size_t>(at)]);
}

namespace {

// MachineMapping::place of all tasks, in order.
std::vector<int> places_of(const MachineMapping& mapping, const TaskGrid& grid) {
  UNITY_CHECK(mapping.strides.size() == grid.size(), "{} strides, {} grid dimensions", mapping.strides.size(),
              grid.size());
  std::vector<int> result = {mapping.start};
  result.reserve(static_cast<std::size_t>(task_count(grid)));
  for (std::size_t g = grid.size(); g-- > 0;) {
    std::size_t inner = result.size();
    for (int x = 1; x < grid[g].degree; ++x)
      for (std::size_t i = 0; i < inner; ++i) result.push_back(result[i] + x * mapping.strides[g]);
  }
  return result;
}

}  // namespace

std::vector<DeviceId> MachineMapping::devices(const TaskGrid& grid) const {
  std::vector<DeviceId> result;
  for (int at : places_of(*this, grid)) {
    UNITY_CHECK(places.empty() || (at >= 0 && at < static_cast<int>(places.size())), "place {} of {}", at,
                places.size());
    result.emplace_back(places.empty() ? at : places[static_cast<std::size_t>(at)]);
  }
  return result;
}

std::string to_string(const MachineMapping& mapping) {
  std::string text = fmt::format("start {}, strides [{}]", mapping.start, fmt::join(mapping.strides, ", "));
  if (!mapping.places.empty()) text += fmt::format(" through devices [{}]", fmt::join(mapping.places, ", "));
  return text;
}

Result<void> check_mapping(const MachineMapping& mapping, const TaskGrid& grid, int devices) {
  if (mapping.strides.size() != grid.size())
    return fail("mapping: {} strides for a task grid of {} dimensions", mapping.strides.size(), grid.size());
  auto table = static_cast<int>(mapping.places.size());
  std::vector<int> used = places_of(mapping, grid);
  for (int place : used) {
    if (table > 0 && (place < 0 || place >= table))
      return fail("mapping ({}): a task at place {}, expected 0 to {}", to_string(mapping), place, table - 1);
    int device = table > 0 ? mapping.places[static_cast<std::size_t>(place)] : place;
    if (device < 0 || device >= devices)
      return fail("mapping ({}): a task on device {}, expected 0 to {}", to_string(mapping), device, devices - 1);
  }
  std::sort(used.begin(), used.end());
  if (auto twice = std::adjacent_find(used.begin(), used.end()); twice != used.end())
    return fail("mapping ({}): two tasks {} {}", to_string(mapping), table > 0 ? "at place" : "on device", *twice);
  if (table == 0) return {};
  std::vector<DeviceId> of_blocks;
  for (const TaskBlock& block : blocks(mapping, grid)) of_blocks.push_back(block.device);
  std::sort(of_blocks.begin(), of_blocks.end());
  if (auto twice = std::adjacent_find(of_blocks.begin(), of_blocks.end()); twice != of_blocks.end())
    return fail("mapping ({}): tasks on device {} that are not neighbours in the grid, expected one block of them",
                to_string(mapping), *twice);
  return {};
}

std::vector<TaskBlock> blocks(const MachineMapping& mapping, const TaskGrid& grid) {
  std::vector<TaskBlock> result;
  if (mapping.places.empty()) {  // a task for each device
    for (int task = 0; task < task_count(grid); ++task) {
      std::vector<int> at = grid_coordinates(grid, task);
      result.push_back({mapping.device(at), at, at});
    }
    return result;
  }
  std::vector<DeviceId> devices = mapping.devices(grid);
  // joined[g][k]: slices k and k + 1 of dimension g are one.
  std::vector<std::vector<bool>> joined;
  std::size_t step = devices.size();
  for (const GridDim& dim : grid) {
    auto degree = static_cast<std::size_t>(dim.degree);
    step /= degree;
    joined.emplace_back(degree, dim.kind != GridDim::Kind::passing);
    joined.back().back() = false;
    for (std::size_t task = 0; task + step < devices.size(); ++task)
      if (std::size_t k = task / step % degree; k + 1 < degree && devices[task] != devices[task + step])
        joined.back()[k] = false;
  }
  for (std::size_t task = 0; task < devices.size(); ++task) {
    TaskBlock block{devices[task], grid_coordinates(grid, static_cast<int>(task)), {}};
    block.last = block.first;
    bool first = true;
    for (std::size_t g = 0; g < grid.size(); ++g) {
      auto k = static_cast<std::size_t>(block.first[g]);
      first = first && (k == 0 || !joined[g][k - 1]);
      while (joined[g][k]) ++k;
      block.last[g] = static_cast<int>(k);
    }
    if (first) result.push_back(std::move(block));
  }
  return result;
}

std::vector<MachineMapping> mappings(const TaskGrid& grid, const Topology& topology, const Resources& resources) {
  std::vector<MachineMapping> found;
  std::vector<std::size_t> order(grid.size());  // order[i]: how far from the end of the grid the i-th innermost one is
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Placement placement(grid, topology, resources);
  std::vector<std::size_t> inner_to_outer(order.size());
  do {
    for (std::size_t i = 0; i < order.size(); ++i) inner_to_outer[i] = grid.size() - 1 - order[i];
    placement.place(inner_to_outer, 0, 1, 1, found);
  } while (std::next_permutation(order.begin(), order.end()));
  return found;
}

}  // namespace unity
