// Where a machine's devices, switches and links stand in a drawing: parts of its hierarchy are boxes in one another.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/machine/topology.h"
#include "core/trace/trace.h"
#include "gui/layout/geometry.h"
#include "gui/session/prediction.h"
#include "gui/widgets/painter.h"

namespace unity::gui {

struct MachinePlaces {
  struct Part {
    std::size_t level = 0;
    std::string title;  // "node3"
    Rect box;
    bool outer = false;  // has parts inside; its title can be read from further away
  };
  struct Wire {
    LinkId forward, back;  // back: invalid where there is only one direction
    std::vector<Point> path;
    std::size_t depth = 0;  // of the innermost part around it; 0: between parts of the outermost level
    Rect around;            // that part's box, or all
  };
  std::vector<Part> parts;  // outer ones first
  // From far away, where devices are too small to be read: larger ones that fill the outermost parts, and the places of
  // these parts' titles.
  std::vector<Rect> far_devices;
  std::vector<std::pair<Rect, std::string>> far_titles;
  std::vector<Rect> devices;
  std::vector<std::string> device_names;  // within their innermost part: "gpu2"
  std::vector<Rect> switches;             // by vertex; empty for devices
  std::vector<std::string> switch_names;  // by vertex
  std::vector<Wire> wires;
  Rect bounds;
};

// Whether the drawing is seen from far away at this scale.
bool is_far(const MachinePlaces& places, float pixels_per_unit);

// `aspect`: width by height that the drawing should have.
MachinePlaces place_machine(const Topology& topology, double aspect = 1.6);

// How busy links and devices are, over an iteration.
struct MachineLoad {
  std::vector<double> link_mean;                                      // by link; fraction of its bandwidth
  std::vector<std::vector<std::pair<std::int64_t, float>>> link_use;  // by link: (picoseconds, fraction) from then on
  std::vector<Bytes> link_bytes;
  std::vector<double> device_busy;    // by device: fraction of the iteration in which it computes
  std::vector<double> device_memory;  // peak, as a fraction of what it has
  double link_at(std::size_t link, std::int64_t time) const;
};
MachineLoad machine_load(const Topology& topology, const PlanPrediction& prediction);

// The tasks of an operator on a machine (paper, Fig. 7): a grid, and the device of each of its cells.
struct GridPlaces {
  struct Dim {
    std::string name;  // "b", "copies", "partial sums"
    int degree = 1, stride = 0;
    std::string level;  // that a step along it walks: "gpu", "node", or empty
  };
  std::vector<Dim> dims;
  std::vector<DeviceId> devices;  // by cell, the first dimension major
  std::vector<Rect> cells;
  std::vector<std::pair<Point, std::string>> labels;  // of rows and columns
  Rect bounds;
};
// Whether it has tasks of its own: inputs have none, each device reads what it needs.
bool has_tasks(const Pcg& pcg, NodeId node, const MachineMapping& mapping);
// Of one that has.
GridPlaces place_grid(const Pcg& pcg, NodeId node, const MachineMapping& mapping, const Topology& topology,
                      double aspect = 2);

// Strides that walk a level of the machine: (level, devices in a part of the next inner one).
std::vector<std::pair<std::string, int>> level_strides(const Topology& topology);

struct MachineLook {
  const Theme& theme;
  const TextMetrics& metrics;
  const Topology* topology = nullptr;
  const MachineLoad* load = nullptr;  // null: not simulated yet
  double time = -1;                   // fraction of the iteration; below 0: the mean over it
  std::vector<std::string> tasks;  // by device: coordinates of the selected operator's task; empty list: none selected
  DeviceId device;                 // selected
  LinkId link;                     // selected
  std::int64_t iteration = 0;      // picoseconds
};
void paint_machine(Painter& painter, const MachinePlaces& places, const MachineLook& look);
void paint_grid(Painter& painter, const GridPlaces& grid, const Topology& topology, const Theme& theme,
                DeviceId selected);

// By device, "0,1" for the task that the mapping sends there; empty strings elsewhere. Of an operator that has tasks.
std::vector<std::string> tasks_by_device(const Pcg& pcg, NodeId node, const MachineMapping& mapping, int devices);

}  // namespace unity::gui
