// Point-to-point messages between logical devices, on which collectives are built (collectives.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "core/base/ids.h"

namespace unity {

// Messages between two devices with the same tag arrive in the order in which they were sent. A send may return before
// the message is received.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void send(DeviceId from, DeviceId to, std::int64_t tag, std::span<const std::byte> data) = 0;
  // Waits for the message; its size must be that of `data`. Throws Cancelled when the run is given up, PeerSilent when
  // nothing came from another process for the time that Processes allows.
  virtual void receive(DeviceId from, DeviceId to, std::int64_t tag, std::span<std::byte> data) = 0;
  // Wakes everyone who waits; all later receives throw Cancelled until reset().
  virtual void cancel() = 0;
  virtual void reset() = 0;
};

// Thrown in tasks that wait while another task has failed.
struct Cancelled {};

struct PeerSilent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Processes;

// Between all devices of a program, those of other processes included; `describe` says what a tag belongs to, for
// messages. Every process makes its communicators in the same order.
std::unique_ptr<Communicator> make_communicator(int devices, Processes& processes,
                                                std::function<std::string(std::int64_t tag)> describe = {});

}  // namespace unity
