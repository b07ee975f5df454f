// What the tasks of a Program take, each alone: measured, where the device's profile (core/machine/profile.h) has an
// entry or a curve for it; else the roofline, with the profile's rates and efficiencies where it has those.
//
// Communications among devices of one physical device are work of its cores, with times of their own: those of the
// measured collectives (core/machine/measured_collectives.h), before that, where nothing but threads carried these, an
// entry with the very shapes, and behind it a curve of the section. Others are flows (collectives/measured.h).
//
// A profile knows two times of a task, with warm caches and with cold ones. Which share of its operands a task finds in
// the caches is read off the Program: an operand is cold when its physical device touched more bytes than the
// caches hold since it was last used (in the iteration before, for the first user), or when another stream, whose core
// has caches of its own, used it last. Both times are mixed by bytes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/machine/profile.h"
#include "core/plan/program.h"
#include "core/plan/task_key.h"

namespace unity {

// Whether these are logical devices of one physical device.
bool on_one_physical(const Topology& topology, std::span<const DeviceId> devices);

// The device's rates, of its profile where it has one: those for operators that have no curve of their own are
// matmul's.
DeviceSpec measured_rates(const Topology& topology, DeviceId device, const std::string& op = "matmul");
// A collective of `bytes` of the whole piece by its devices' profile: by the measured collectives of this topology,
// else, of devices of one physical one, by the curve of those; none where neither says. With warm caches.
std::optional<Picoseconds> measured_collective(const Topology& topology, CollectiveKind kind,
                                               std::span<const DeviceId> group, Bytes bytes);

// Not thread-safe. Program and topology must outlive it.
class TaskTimes {
 public:
  TaskTimes(const Program& program, const Topology& topology);

  struct Time {
    Picoseconds alone;      // on the device with all its threads, what the device takes between two tasks included
    bool measured = false;  // else the roofline: of one thread
  };
  // Not of a communication. Of a copy to or from the host: at the device's host bandwidth, where its file says that.
  Time time(TaskId task);
  // Measured; none where the profile of its devices does not say, or they are not of one physical device.
  std::optional<Picoseconds> communication(TaskId task);
  // Until a task notices the end of one on another stream.
  Picoseconds handover(DeviceId device) const { return handovers_[device.index()]; }
  Picoseconds step_overhead() const { return step_overhead_; }  // of the devices the longest

 private:
  // The tasks of one operator stand together and are often equal: the last estimate serves the next task.
  Picoseconds estimate(const DeviceSpec& spec, const Task& task);

  std::optional<TaskSeconds> measured(TaskId id, const ProfileSection& section);
  std::optional<TaskSeconds> measured_communication(TaskId id);

  const Program& program_;
  const Topology& topology_;
  TaskKeys keys_;
  std::vector<const ProfileSection*> sections_;  // by device
  std::map<std::pair<const ProfileSection*, std::string>, DeviceSpec>
      specs_;                           // with the rates of a profile, by operator
  std::vector<Picoseconds> handovers_;  // by device
  Picoseconds step_overhead_;
  struct Estimate {
    const DeviceSpec* spec = nullptr;
    double flops = 0, bytes = 0, added = 0;
    DType dtype = DType::f32;
    Picoseconds time;
  };
  Estimate last_;
  std::vector<float> cold_;  // by task: the share of its bytes that is cold; empty without a profile
};

}  // namespace unity
