// Collectives of a Program, written once on point-to-point messages: what runs is what is simulated, and results agree
// bit for bit whatever carries the messages. Among devices of one process shared_collective.h does the same sums in
// memory.
//
//   all_reduce      ring: reduce-scatter over n chunks, then all-gather: 2(n-1) steps; every participant ends with the
//                   same bits, since each chunk is added up once, in ring order
//   reduce_scatter, all_gather   ring over the participants' pieces: n-1 steps
//   broadcast, reduce            along the chain of participants
//   broadcast, reduce, all_reduce along a binomial tree, where the Program says so (core/plan/collective_algorithms.h):
//                   a reduction adds to a participant's own summand those of the next 1, 2, 4, .. participants in turn;
//                   every participant ends with the root's bits
//   all_reduce, all_gather, reduce_scatter where the Program says so hierarchically (the same): by rings inside the
//                   nodes and between them; the sums of the nodes, each in ring order, are added up in ring order
//   all_to_all      every exchange in its own messages; those to oneself as copies
//
// Long messages travel in segments, and each goes on along the ring or chain as soon as it has come.
#pragma once

#include <span>

#include "core/plan/program.h"
#include "runtime/comm/communicator.h"

namespace unity {

// What one participant brings to one part: where its buffers lie. Null where Participant says that there is none.
struct CollectiveBuffers {
  const void* send = nullptr;
  Box send_box;
  void* receive = nullptr;
  Box receive_box;
};

// Runs what participant `self` does, with its buffers of each part (Communication::joined). Several parts travel
// together: a message has its share of each of them, which is added up as it would be alone. `dtype` is that of the
// data in memory (f64 when a program runs in double precision); tags [tag, tag + 4096) belong to this call.
void run_collective(const Communication& communication, std::size_t self, std::span<const CollectiveBuffers> buffers,
                    DType dtype, Communicator& communicator, std::int64_t tag);

}  // namespace unity
