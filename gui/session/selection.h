// What the user points at. One value of the session, so that every panel highlights the same thing.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/graph/pcg.h"

namespace unity::gui {

struct Selection {
  enum class Kind : std::uint8_t { none, nodes, value, device, link, task, step };
  Kind kind = Kind::none;
  std::vector<NodeId> nodes = {};  // of `nodes`: ascending; several when a collapsed group is selected
  ValueRef value = {};
  DeviceId device = {};
  LinkId link = {};
  TaskId task = {};
  int step = -1;  // of the derivation

  bool operator==(const Selection&) const = default;
  bool holds(NodeId id) const;
  // The operator, where there is exactly one.
  NodeId node() const { return kind == Kind::nodes && nodes.size() == 1 ? nodes[0] : NodeId(); }

  static Selection of(NodeId id) { return {.kind = Kind::nodes, .nodes = {id}}; }
  static Selection of(std::vector<NodeId> ids);
  static Selection of(ValueRef v) { return {.kind = Kind::value, .value = v}; }
  static Selection of(DeviceId id) { return {.kind = Kind::device, .device = id}; }
  static Selection of(LinkId id) { return {.kind = Kind::link, .link = id}; }
};

}  // namespace unity::gui
