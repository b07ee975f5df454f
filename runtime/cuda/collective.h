// A Program's communications on GPUs: among devices that share one GPU by kernels of our own on its memory, among
// devices on GPUs of their own by NCCL. No call waits for another process without looking whether it is still there, so
// communicators do not block (ncclConfig_t::blocking).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/program.h"
#include "runtime/comm/processes.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// Where a device of the program is: in which process, and on which GPU, by its number there and by a hash that no two
// GPUs of the cluster share.
struct Placement {
  int rank = 0, gpu = 0;
  Hash identity = 0;
};

// One participant of this process in one part of a communication: where its buffers lie.
struct LocalParticipant {
  std::size_t index = 0;
  void *send = nullptr, *receive = nullptr;
  Box send_box, receive_box;
  int gpu = 0;              // its device's
  Stream stream = nullptr;  // on that GPU
  void* scratch = nullptr;  // scratch_bytes() of the communication, for all parts
};

std::string nccl_version();  // "NCCL 2.28.9"

class Collectives {
 public:
  // All processes make theirs together; `processes` must outlive it. InputError for a communication among devices of
  // which some share a GPU and others do not, or that share it from several processes: neither way carries it.
  Collectives(const Program& program, const std::vector<Placement>& placements, Processes& processes);
  ~Collectives();

  // Whether all participants are on one GPU of one process: everything then runs on the first one's stream, which must
  // wait for the others'. Else each process has the part of its participants run on their streams.
  bool on_one_gpu(std::size_t communication) const;
  // Whether some process, this one or another, has NCCL on several GPUs. NVIDIA does not promise that a graph of these
  // ends: to launch it may wait for one GPU, whose NCCL waits for another one that has nothing yet.
  bool graphs_may_hang() const;
  // What each participant needs, and what a communication on one GPU needs in all.
  std::int64_t scratch_bytes(std::size_t communication, DType held) const;
  // Enqueues; waits for nothing. By part of the communication (Communication::joined), by participant of this process.
  void run(std::size_t communication, DType held, std::vector<std::vector<LocalParticipant>> parts);
  void begin_step();  // while nothing runs
  // Until `done`. Looks meanwhile whether NCCL met an error (then an exception says which), and whether another process
  // gave up or went silent (ProcessFailure): then abort() ends NCCL's work on the GPUs. `step`: for messages, which
  // also say which task's communication the GPUs came to last.
  void wait(const std::function<bool()>& done, const std::string& step);
  // Ends what waits for others on the GPUs, within some seconds; nothing among several GPUs can run any more. No
  // captured graph may hold such work any longer: NCCL waits for the end of these.
  void abort();
  void keep_for_ever();  // what streams write to that may never end: to free it is to wait for them

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace unity::cuda
