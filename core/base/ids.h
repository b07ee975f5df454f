// Strong integer ids: a device is never mistaken for a task.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

#include <fmt/format.h>

namespace unity {

template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(static_cast<std::int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  constexpr auto operator<=>(const Id&) const = default;
};

using DeviceId = Id<struct DeviceTag>;  // global device number: node-major, then socket, then GPU
using NodeId = Id<struct NodeTag>;      // operator in a PCG: its position in topological order
using OriginId = Id<struct OriginTag>;  // operator of the model a node stems from; stable through rewriting
using TaskId = Id<struct TaskTag>;      // task of a Program, shared by every Trace of it
using BufferId = Id<struct BufferTag>;  // buffer of a Program
using LinkId = Id<struct LinkTag>;      // one direction of a link of a topology
using VertexId = Id<struct VertexTag>;  // device or switch of a topology

}  // namespace unity

template <class Tag>
struct std::hash<unity::Id<Tag>> {
  std::size_t operator()(unity::Id<Tag> id) const { return std::hash<std::int32_t>()(id.value); }
};

template <class Tag>
struct fmt::formatter<unity::Id<Tag>> : fmt::formatter<std::int32_t> {
  auto format(unity::Id<Tag> id, fmt::format_context& context) const {
    return fmt::formatter<std::int32_t>::format(id.value, context);
  }
};
