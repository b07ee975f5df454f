// Logical devices that share a physical one of several units of compute (cores). Each may use its fair share of them,
// max(1, units / devices), as the runtime's devices do; k busy tasks run at the rate min(share, units / k) each, where
// 1 is the speed of one unit. Logical devices of cores with a share of one wait for cores instead (unit_queue.h).
//
// Communications between logical devices of one physical device are work of its cores, too: of one thread. Where their
// times are measured, they take part in the sharing: with T threads busy in all, each runs at the rate
// min(1, units / T).
//
// Communication interferes with compute on devices that say so (DeviceSpec::interference): the kernels of collectives
// take units and memory bandwidth. While a device communicates, its tasks run at 1 - interference of their rate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

class SharedCompute {
 public:
  // Users: the devices by their number, then `communications` further ones.
  SharedCompute(const Topology& topology, std::size_t communications);

  // Whether tasks of this device run at another speed than that of one unit; if not, they need not be started here.
  bool shared(DeviceId device) const { return shared_[physical_[device.index()]]; }
  // Whether it is the only logical device of its physical one.
  bool exclusive(DeviceId device) const { return physicals_[physical_[device.index()]].logical == 1; }
  // The units that a device may use.
  double share(DeviceId device) const { return physicals_[physical_[device.index()]].share; }

  // One task at a time on a logical device: `work` is its time alone on one unit.
  std::uint32_t start(DeviceId device, Picoseconds work, Picoseconds now);
  // `alone`: the communication's time when nothing else runs.
  std::uint32_t start_communication(std::size_t communication, std::size_t physical, Picoseconds alone,
                                    Picoseconds now);
  void finish(std::uint32_t user);
  // A communication over the network, whose own time is not this class's matter, begins or ends.
  void communicates(const Communication& communication, bool begins);

  // The users whose work now ends at another time; valid until the next call.
  std::span<const std::uint32_t> settle(Picoseconds now);
  Picoseconds end(std::uint32_t user) const { return users_[user].end; }
  std::uint32_t version(std::uint32_t user) const { return users_[user].version; }
  std::size_t bytes() const;  // of memory

  // What users do at a moment after settle(), to compare two moments and to go on from one. Users count by their place
  // in a list of the caller's. Which devices communicate is not part of it.
  struct State {
    struct User {
      double remaining, rate, threads, most;  // the first when it got its rate
      Picoseconds age, left;                  // since then; until its end
      std::size_t physical;
      bool operator==(const User&) const = default;
    };
    std::vector<User> users;
    std::vector<std::uint32_t> busy;  // by physical device, in the order in which they count there
    bool operator==(const State&) const = default;
  };
  // `users`: all that are busy.
  State state(std::span<const std::uint32_t> users, Picoseconds now) const;
  // Where nobody has been busy yet. `users`: by place.
  void resume(const State& state, std::span<const std::uint32_t> users, Picoseconds now);
  std::uint32_t user(DeviceId device) const { return static_cast<std::uint32_t>(device.index()); }
  std::uint32_t user_of_communication(std::size_t communication) const {
    return static_cast<std::uint32_t>(devices_ + communication);
  }

 private:
  struct User {
    double remaining = 0;  // picoseconds at rate 1, at `since`
    double rate = 0;
    double threads = 1, most = 1;  // wanted; the rate when each has a unit
    std::size_t physical = 0;
    Picoseconds since, end;
    std::uint32_t version = 0;
  };
  struct Physical {
    double units = 1, share = 1;
    int logical = 0;
    std::vector<std::uint32_t> busy;
    bool touched = false;
  };
  void begin(std::uint32_t user, std::size_t physical, double threads, double most, double work, Picoseconds now);
  void touch(std::size_t physical);

  std::size_t devices_;
  std::vector<std::size_t> physical_;  // by device
  std::vector<bool> shared_;           // by physical device
  std::vector<double> interference_;   // by device; empty where there is none
  std::vector<int> communicating_;     // by device: communications
  std::vector<Physical> physicals_;
  std::vector<User> users_;
  std::vector<std::size_t> touched_;
  std::vector<std::uint32_t> changed_;
};

}  // namespace unity
