// The processes that run one program together. Each has some of the program's devices, in order: with p processes and n
// devices, process r has devices r n / p up to (r + 1) n / p.
//
// Every process tells the others at short intervals that it is there. A wait for a process ends with an error when
// nothing was heard from it for the `patience`, so a process that computes for long is not taken for lost, and one that
// waits for a lost one is not blamed in its place; after 10 times the patience it ends in any case.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/ids.h"
#include "runtime/comm/byte_store.h"
#include "runtime/comm/transport.h"

namespace unity {

// What another process ended with, or a process that went silent.
struct ProcessFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes for each process, or from each, by rank.
using BytesByRank = std::vector<std::vector<std::byte>>;

// A message as it came: what the sender gave, behind what the way added.
struct Message {
  Block block;
  std::size_t begin = 0;

  std::span<const std::byte> body() const { return {block.data.get() + begin, block.size - begin}; }
};

class Processes {
 public:
  // Whether a wait has an end even while the other process is heard of.
  enum class Wait : std::uint8_t { limited, while_heard };
  using Clock = std::chrono::steady_clock;

  // This process alone; `patience` is with its GPUs.
  explicit Processes(std::chrono::milliseconds patience = std::chrono::seconds(300));
  // Those of a transport. Larger messages travel in parts of `part_bytes`.
  Processes(std::unique_ptr<Transport> transport, std::chrono::milliseconds patience,
            std::size_t part_bytes = std::size_t{4} << 20);
  // Takes leave of the others, and ends all where they do not take leave in time.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return transport_ ? transport_->local_rank() : 0; }
  int local_size() const { return transport_ ? transport_->local_size() : 1; }
  int node() const { return transport_ ? transport_->node() : 0; }
  std::chrono::milliseconds patience() const { return patience_; }
  std::string transport_version() const { return transport_ ? transport_->version() : std::string(); }

  int owner(DeviceId device, int devices) const;
  bool has(DeviceId device, int devices) const { return owner(device, devices) == rank_; }
  // Devices of this process.
  int count(int devices) const;
  // InputError when there are more processes than devices.
  void require_devices(int devices) const;

  // Sends each process its bytes, if any, and waits for those of the processes `from`. All processes call these, in the
  // same order; what one expects another must send. `what` is for messages.
  BytesByRank exchange(const BytesByRank& to, const std::vector<bool>& from, const std::string& what,
                       Wait wait = Wait::limited);
  // Everyone's data, by rank.
  BytesByRank all_gather(std::span<const std::byte> data, const std::string& what = "a result",
                         Wait wait = Wait::limited);
  void barrier(const std::string& what = "this point of the program", Wait wait = Wait::limited);
  // InputError that names the processes whose value differs from rank 0's; the same in all of them.
  void require_equal(const std::string& what, const std::string& value);

  // Tells the others why this process gives up, and ends them all; those that are told so end with the same exit code.
  // Returns when there are none.
  void give_up(const std::string& why, int exit_code);
  // What another process gave up with, or why messages are no longer carried; empty while all go on.
  std::string failure() const;
  // With which exit code that process ended.
  int failure_code() const;
  // From now on SIGTERM, by which a launcher ends the others when one process has died, makes this one say what it was
  // waiting for, and exit with code 1; after give_up() it says nothing more.
  void report_termination();

  // A wait for a message of `from` that began at `since` ends at the deadline, which moves while it is heard of.
  Clock::time_point deadline(int from, Clock::time_point since, Wait wait = Wait::limited) const;
  // "was silent for 5 s"
  std::string overdue(int from) const;
  // For waits that no message ends, looked at from time to time: ProcessFailure when another process has given up, or
  // when one of `others` is past its deadline; `what` then says what it was expected to do.
  void require_there(std::span<const int> others, Clock::time_point since, const std::string& what) const;

  // For communicators: messages of a channel are handed to `deliver` as they come, from another thread; `interrupt` is
  // called when another process has given up; `waiting` says what is waited for. Every process opens its channels in
  // the same order.
  struct Channel {
    std::function<void(int from, Message message)> deliver;
    std::function<void()> interrupt;
    std::function<std::vector<std::string>()> waiting;
  };
  int open(Channel channel);
  // Nothing is delivered after it.
  void close(int channel);
  void send(int to, int channel, std::span<const std::byte> first, std::span<const std::byte> second = {});
  // Memory of messages.
  ByteStore& store() { return store_; }

 private:
  struct Header;

  void arrived(int from, Block message);
  void take_in(int from, int channel, Message message);
  void fail(const std::string& why, int exit_code);
  void pulse();
  std::string waits();
  Clock::time_point heard(int from) const;
  static double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

  std::unique_ptr<Transport> transport_;
  int rank_ = 0, size_ = 1;
  std::chrono::milliseconds patience_{0};
  std::size_t part_bytes_ = 0;
  ByteStore store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Channel> channels_;
  std::map<int, std::vector<std::pair<int, Message>>> early_;  // by channel not yet open
  int opened_ = 0;
  std::vector<std::deque<Message>> gathered_;  // by rank: what came for exchange
  std::string gathering_;                      // what exchange waits for
  std::string failure_;
  int failure_code_ = 1;
  std::atomic<bool> given_up_{false};
  std::vector<std::atomic<Clock::rep>> heard_;  // by rank: when last
  struct Assembly {
    Block whole;
    std::size_t filled = 0;
  };
  std::map<std::pair<int, std::uint32_t>, Assembly> assemblies_;  // by rank and number: of the transport's thread
  std::atomic<std::uint32_t> sent_{0};                            // messages in parts
  bool leaving_ = false;
  std::condition_variable left_;
  std::thread pulse_;
};

}  // namespace unity
