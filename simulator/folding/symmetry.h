// Which devices, communications and links of a Program on a machine do the same at the same times.
//
// The coarsest equitable partition (colour refinement: Weisfeiler, Leman 1968; Cardon, Crochemore 1982) of the graph of
// devices, communications, patterns of links and links, joined by: who takes part where in a communication, which
// patterns it uses, how often a pattern crosses a link. Devices of one class have the same tasks with the same times,
// local dependencies and buffers, and at equal places communications of one class; a pattern crosses as many links of
// each class as any other pattern of its class; a link is crossed by as many patterns of each class as any other link
// of its class. Then what happens next is the same for all members of a class, if all that happened before was: start
// times are maxima over classes, and max-min fair rates are unique. An automorphism is not needed, and a route,
// straggler or link that breaks the symmetry splits the classes. A copy between a device and its host that crosses
// links is a communication with one participant.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/prepared.h"

namespace unity {

struct Classes {
  std::vector<std::uint32_t> of;     // by member; numbered from 0 in the order of first members
  std::vector<std::uint32_t> first;  // by class: its first member

  std::size_t count() const { return first.size(); }
};

struct Symmetry {
  Classes devices, links;
  // By place in PreparedProgram::choices: communications, then copies between devices and hosts, never in one class.
  Classes communications;
  // What crosses a link: patterns of links, of which a communication has one for each phase.
  std::vector<const Pattern*> patterns;
  Classes pattern_classes;
  std::vector<std::vector<std::uint32_t>> phases;  // by communication and copy: its patterns

  // The tasks of each device, communications that it takes part in included, in order.
  std::vector<std::size_t> tasks_begin;  // by device, and the end
  std::vector<std::uint32_t> tasks;
  std::vector<std::uint32_t> place;  // by task that is no communication: where it stands among its device's
};

// Every device, communication and link in a class of its own where logical devices share a physical one, or where a
// task waits for one of a device that has no part in it.
Symmetry find_symmetry(const PreparedProgram& prepared, const Topology& topology);

}  // namespace unity
