// The processes that run one program together. Each has some of the program's devices, in order: with p processes and n
// devices, process r has devices r n / p up to (r + 1) n / p.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/base/ids.h"
#include "runtime/comm/transport.h"

namespace unity {

// What another process ended with, or a process that went silent.
struct ProcessFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Processes {
 public:
  // This process alone.
  Processes();
  // Those of a transport. A wait for another process ends with an error after `patience`.
  Processes(std::unique_ptr<Transport> transport, std::chrono::milliseconds patience);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return transport_ ? transport_->local_rank() : 0; }
  int local_size() const { return transport_ ? transport_->local_size() : 1; }
  std::chrono::milliseconds patience() const { return patience_; }

  int owner(DeviceId device, int devices) const;
  bool has(DeviceId device, int devices) const { return owner(device, devices) == rank_; }
  // Devices of this process.
  int count(int devices) const;
  // InputError when there are more processes than devices.
  void require_devices(int devices) const;

  // Everyone's data, by rank; all processes call it, in the same order.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> data);
  void barrier();
  // InputError that names a process whose value differs from this one's.
  void require_equal(const std::string& what, const std::string& value);

  // Tells the others why this process gives up, and ends them all. Returns when there are none.
  void give_up(const std::string& why, int exit_code);
  // What another process gave up with; empty while all go on.
  std::string failure() const;
  // From now on SIGTERM, by which a launcher ends the others when one process has died, makes this one say what it was
  // waiting for, and exit with code 1. Where other threads run already, they must have that signal blocked.
  void report_termination();

  // For communicators: messages of a channel are handed to `deliver` as they come, from another thread; `interrupt` is
  // called when another process has given up; `waiting` says what is waited for.
  struct Channel {
    std::function<void(int from, std::span<const std::byte> message)> deliver;
    std::function<void()> interrupt;
    std::function<std::vector<std::string>()> waiting;
  };
  int open(Channel channel);
  void close(int channel);
  void send(int to, int channel, std::span<const std::byte> first, std::span<const std::byte> second = {});

 private:
  void arrived(int from, std::vector<std::byte> message);
  std::string waits();

  std::unique_ptr<Transport> transport_;
  int rank_ = 0, size_ = 1;
  std::chrono::milliseconds patience_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Channel> channels_;
  std::map<int, std::vector<std::pair<int, std::vector<std::byte>>>> early_;  // by channel not yet open
  int opened_ = 0;
  std::vector<std::deque<std::vector<std::byte>>> gathered_;  // by rank: what came for all_gather
  bool gathering_ = false;
  std::string failure_;
};

}  // namespace unity
