// Several processes in one: each is a thread with a Processes of its own, and messages go through memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/processes.h"

namespace unity::test {

// Thrown where a process would end itself.
struct Aborted {
  int exit_code = 0;
};

// What the endpoints of all processes share.
class FakeNetwork {
 public:
  explicit FakeNetwork(int size) : ends_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(ends_.size()); }
  std::unique_ptr<Transport> endpoint(int rank);
  // What the process's library is, in words.
  void set_version(int rank, const std::string& version) {
    at(rank, [&](End& e) { e.version = version; });
  }
  // On which host it is; all are on one where nothing is said.
  void set_node(int rank, int node) {
    at(rank, [&](End& e) { e.node = node; });
  }
  // From now on nothing that the process posts arrives, as if it had been stopped.
  void silence(int rank) {
    at(rank, [](End& e) { e.silent = true; });
  }
  // From now on its messages cannot be carried.
  void cut(int rank, const std::string& why) {
    at(rank, [&](End& e) { e.failure = why; });
  }

 private:
  class Endpoint;
  struct End {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::pair<int, Block>> queue;
    bool silent = false, leaving = false;
    std::string failure, version;
    int node = 0;
  };
  template <class F>
  void at(int rank, F&& f) {
    End& end = ends_[static_cast<std::size_t>(rank)];
    std::lock_guard lock(end.mutex);
    f(end);
    end.changed.notify_all();
  }

  std::deque<End> ends_;
};

struct Outcome {
  std::string error;   // what was thrown; empty: nothing
  int exit_code = -1;  // of a process that ended itself
};

// Calls body in `size` processes at once; how each ended, by rank.
std::vector<Outcome> on_processes(int size, const std::function<void(Processes&)>& body,
                                  std::chrono::milliseconds patience = std::chrono::seconds(60),
                                  std::size_t part_bytes = 1 << 20);
std::vector<Outcome> on_processes(FakeNetwork& network, const std::function<void(Processes&)>& body,
                                  std::chrono::milliseconds patience = std::chrono::seconds(60),
                                  std::size_t part_bytes = 1 << 20);

// As on_processes; throws when one of them did not end well.
void on_all(int size, const std::function<void(Processes&)>& body);

}  // namespace unity::test
