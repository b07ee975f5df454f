// Point-to-point messages between logical devices, on which collectives are built (collectives.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/base/ids.h"

namespace unity {

// Messages between two devices with the same tag arrive in the order in which they were sent. A send may return before
// the message is received.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void send(DeviceId from, DeviceId to, std::int64_t tag, std::span<const std::byte> data) = 0;
  // Waits for the message; its size must be that of `data`. Throws Cancelled when the run is given up.
  virtual void receive(DeviceId from, DeviceId to, std::int64_t tag, std::span<std::byte> data) = 0;
  // Wakes everyone who waits; all later receives throw Cancelled until reset().
  virtual void cancel() = 0;
  virtual void reset() = 0;
};

// Thrown in tasks that wait while another task has failed.
struct Cancelled {};

// Threads of one process; a message is copied once, into the mailbox of its receiver.
std::unique_ptr<Communicator> make_thread_communicator(int devices);

}  // namespace unity
