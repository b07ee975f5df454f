// Messages between the processes of one run. MPI's comes as a plug-in (comm/mpi), so that Unity starts without MPI,
// too.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/comm/byte_store.h"

namespace unity {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Among the processes on the same node.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  // The lowest rank on this process's node: the same number for all processes of a node, another for each node.
  virtual int node() const = 0;
  // Of the library that carries messages, in words.
  virtual std::string version() const { return {}; }

  struct Receiver {
    // For every message that arrives, on a thread of the transport, one at a time. Messages from the same process
    // arrive in the order in which they were posted.
    std::function<void(int from, Block message)> arrived;
    // When messages can no longer be carried: says why.
    std::function<void(const std::string& why)> failed;
  };
  // Begins to receive. Memory of messages comes from `store` and goes back there; it and what the receiver refers to
  // must outlive finish() or abort().
  virtual void start(ByteStore& store, Receiver receiver) = 0;
  // Hands a message over and returns. Any thread may call it. Throws when messages can no longer be carried.
  virtual void post(int to, Block message) = 0;
  // All messages have been posted and received: takes leave of the others. False when they do not within `patience`;
  // then nothing but abort() may follow.
  virtual bool finish(std::chrono::milliseconds patience) = 0;
  // Ends all processes of the run, this one too.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace unity
