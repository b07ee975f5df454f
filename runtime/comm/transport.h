// Messages between the processes of one run. MPI's comes as a plug-in (comm/mpi), so that Unity starts without MPI,
// too.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace unity {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Among the processes on the same node.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;

  // Begins to call `receive` for every message that arrives, on a thread of its own, one at a time. Messages from the
  // same process arrive in the order in which they were posted.
  virtual void start(std::function<void(int from, std::vector<std::byte> message)> receive) = 0;
  // Hands a message over and returns. Any thread may call it.
  virtual void post(int to, std::vector<std::byte> message) = 0;
  // All messages have been posted and received: takes leave of the others.
  virtual void finish() = 0;
  // Ends all processes of the run, this one too.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace unity
