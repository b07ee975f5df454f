// Tasks that wait for a unit of compute, where logical devices of one thread each share the cores of a machine, as
// those of the CPU runtime do (runtime/lanes.h): each core runs one task at a time, to its end, then takes a
// communication, else the next of the stream that it has just served, else what has waited longest. Of a
// communication's participants as many help as there are free cores when it starts, and keep them to its end; its
// measured time is that with all that can help. Physical devices that are shared otherwise are the matter of
// shared_compute.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

class UnitQueue {
 public:
  explicit UnitQueue(const Topology& topology);

  // Whether tasks wait for units of this physical device: several logical ones share its cores, not enough for two
  // each.
  bool queues(std::size_t physical) const { return physicals_[physical].units > 0; }

  // A task that is ready, with the device and stream that it runs on; of a communication, one of them.
  struct Waiting {
    std::uint32_t task = 0;
    DeviceId device;
    Stream stream = Stream::compute;
    std::uint32_t helpers = 1;  // how many could run it together
    bool operator==(const Waiting&) const = default;
  };
  void add(std::size_t physical, const Waiting& waiting);
  struct Taken {
    std::uint32_t task = 0;
    double slower = 1;  // than with all units that could help
  };
  // One that is taken now; none where all that could be taken is.
  std::optional<Taken> next();
  // The task has ended: what it had is free.
  void finish(std::size_t physical, std::uint32_t task, DeviceId device, Stream stream);
  bool may_take() const { return !touched_.empty(); }
  std::size_t bytes() const;  // of memory

  struct Lane {  // what a free unit ran last
    DeviceId device;
    Stream stream = Stream::compute;
    bool operator==(const Lane&) const = default;
  };
  struct Held {  // by a task that runs on several units
    std::uint32_t task = 0;
    std::size_t units = 0;
    bool operator==(const Held&) const = default;
  };
  // Where next() has no more.
  struct State {
    std::vector<std::vector<Lane>> free;        // by physical device where tasks wait
    std::vector<std::vector<Waiting>> waiting;  // the same, in order
    std::vector<Held> held;
    bool operator==(const State&) const = default;
  };
  State state() const;
  void resume(const State& state);

 private:
  struct Physical {
    std::size_t units = 0;  // 0: nobody waits here
    std::vector<Lane> free;
    std::vector<Waiting> waiting;
    bool touched = false;
  };
  void touch(std::size_t physical);

  std::vector<Physical> physicals_;
  std::vector<Held> held_;
  std::vector<std::size_t> touched_;  // where a task or a unit has come
};

}  // namespace unity
