// What collectives take on a machine, measured by `unity profile --comm` among the devices of a topology: by kind, by
// how the group lies in the machine, and by size. A part of a device profile (profile.h); the simulator uses it in
// place of its model of links.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/measured_times.h"
#include "core/machine/topology.h"

namespace unity {

struct MeasuredCollectives {
  std::string comm;                 // what carried them: threads, mpi, nccl
  int processes = 1;                // among which the devices were shared out
  std::string topology;             // its name
  std::vector<std::string> levels;  // names of its levels, outermost first
  // By collective_name() (core/plan/collective_key.h): by bytes, as curves of tasks count them (core/plan/task_key.h).
  std::map<std::string, std::vector<ProfilePoint>> times;
  std::string place;  // where a file says so: "FILE:LINE:COLUMN"; else empty

  // Null where that collective was not measured.
  const std::vector<ProfilePoint>* find(const std::string& name) const;
  // Whether there is a point within a factor of 2 of the size.
  bool has(const std::string& name, double bytes) const;
  // In place of the point at this size, if there is one.
  void put(const std::string& name, const ProfilePoint& point);
  bool of(const Topology& machine) const;
  bool operator==(const MeasuredCollectives&) const = default;
};
MeasuredCollectives collectives_of(const Topology& topology, std::string comm, int processes);  // without times

// What carries the collectives of a backend: "nccl" those of cuda (devices that share a GPU: kernels on it); of others
// "threads", or "mpi" among several processes.
std::string carrier(std::string_view backend, int processes);

// How a group lies in the machine, as the topology's levels tell: groups of one shape count as alike.
//   8 gpu                      inside one part of each level further out
//   2 node                     a device in each of two nodes
//   2 node x 4 gpu             four in each
//   3 node (1: 1, 2: 4 gpu)    one node with one of them, two with four
std::string group_shape(const Topology& topology, std::span<const DeviceId> group);

}  // namespace unity
