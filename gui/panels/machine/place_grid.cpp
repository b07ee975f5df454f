#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "gui/panels/machine/places.h"

namespace unity::gui {
namespace {

constexpr float kCellW = 22, kCellH = 15, kBlockGap = 14, kLabelW = 22;

std::string dim_name(const Pcg& pcg, NodeId node, const GridDim& dim) {
  switch (dim.kind) {
    case GridDim::Kind::copies:
      return "copies";
    case GridDim::Kind::passing:
      return "partial sums";
    case GridDim::Kind::axis:
      break;
  }
  const Node& n = pcg[node];
  if (n.is_leaf()) return fmt::format("dim {}", dim.axis);
  const Axis& axis = n.table->axes[static_cast<std::size_t>(dim.axis)];
  std::string role = axis.role == AxisRole::reduction ? " (summed)" : "";
  return axis.name + role;
}

// Cells in a row, so that the grid, whose longer rows go on below, is as large as it can be in an area of this width by
// height; rather all rows of one length.
int row_length(int across, int down, int blocks, double aspect) {
  int best = across;
  double largest = 0;
  for (int row = std::min(across, 2); row <= across; ++row) {
    int strips = (across + row - 1) / row;
    double strip = static_cast<double>(down) * kCellH + (strips > 1 ? kBlockGap / 2 : 0);
    double height = blocks * (strips * strip + kBlockGap), width = row * static_cast<double>(kCellW) + kLabelW;
    double scale = std::min(aspect / width, 1 / height) * (across % row == 0 ? 1 : 0.75);
    if (scale > largest) largest = scale, best = row;
  }
  return best;
}

}  // namespace

std::vector<std::pair<std::string, int>> level_strides(const Topology& topology) {
  std::vector<std::pair<std::string, int>> strides;
  int stride = 1;
  for (std::size_t l = topology.levels.size(); l-- > 0;) {
    // Where parts differ in size, no stride walks the level.
    if (l + 1 < topology.levels.size() && !topology.levels[l].begins.empty()) break;
    strides.emplace_back(topology.levels[l].name, stride);
    stride *= topology.levels[l].count;
  }
  return strides;
}

bool has_tasks(const Pcg& pcg, NodeId node, const MachineMapping& mapping) {
  return !pcg[node].is_parallelization() && mapping.strides.size() == node_grid(pcg, node).size();
}

GridPlaces place_grid(const Pcg& pcg, NodeId node, const MachineMapping& mapping, const Topology& topology,
                      double aspect) {
  GridPlaces places;
  TaskGrid grid = node_grid(pcg, node);
  std::vector<std::pair<std::string, int>> levels = level_strides(topology);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    int stride = i < mapping.strides.size() ? mapping.strides[i] : 0;
    std::string level;
    for (const auto& [name, walks] : levels)
      if (walks == stride) level = name;
    places.dims.push_back({dim_name(pcg, node, grid[i]), grid[i].degree, stride, level});
  }
  places.devices = mapping.devices(grid);
  // The longest dimension goes across, the next longest down, blocks of the others stand below one another.
  std::vector<std::size_t> order(grid.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return grid[a].degree > grid[b].degree; });
  int across = order.empty() ? 1 : grid[order[0]].degree, down = order.size() > 1 ? grid[order[1]].degree : 1;
  int blocks = static_cast<int>(places.devices.size()) / std::max(across * down, 1);
  int row = row_length(across, down, blocks, aspect), strips = (across + row - 1) / row;
  float strip = static_cast<float>(down) * kCellH + (strips > 1 ? kBlockGap / 2 : 0);
  float block = strip * static_cast<float>(strips) + kBlockGap;
  for (std::size_t task = 0; task < places.devices.size(); ++task) {
    std::vector<int> at = grid_coordinates(grid, static_cast<int>(task));
    int x = order.empty() ? 0 : at[order[0]], y = order.size() > 1 ? at[order[1]] : 0, number = 0;
    for (std::size_t i = 2; i < order.size(); ++i) number = number * grid[order[i]].degree + at[order[i]];
    Rect cell{
        kLabelW + static_cast<float>(x % row) * kCellW,
        static_cast<float>(number) * block + static_cast<float>(x / row) * strip + static_cast<float>(y) * kCellH + 14,
        kCellW - 1.5f, kCellH - 1.5f};
    places.cells.push_back(cell);
    places.bounds = unite(places.bounds, cell);
    if (x % row == 0 && (down > 1 || strips > 1))
      places.labels.emplace_back(Point{kLabelW - 5, cell.center().y}, down > 1 ? std::to_string(y) : std::to_string(x));
    if (x < row && y == 0 && (x % 4 == 0 || row <= 12) && number == 0)
      places.labels.emplace_back(Point{cell.center().x, 6}, std::to_string(x));
  }
  places.bounds = unite(places.bounds, {0, 0, 10, 10});
  return places;
}

std::vector<std::string> tasks_by_device(const Pcg& pcg, NodeId node, const MachineMapping& mapping, int devices) {
  std::vector<std::string> tasks(static_cast<std::size_t>(devices));
  TaskGrid grid = node_grid(pcg, node);
  std::vector<DeviceId> of = mapping.devices(grid);
  for (std::size_t t = 0; t < of.size(); ++t) {
    std::vector<std::string> at;
    for (int c : grid_coordinates(grid, static_cast<int>(t))) at.push_back(std::to_string(c));
    std::string& text = tasks[of[t].index()];
    text = text.empty() ? (at.empty() ? "all" : join(at, ",")) : text + "..";
  }
  return tasks;
}

}  // namespace unity::gui
