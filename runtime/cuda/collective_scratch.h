// Where what NCCL carries lies in scratch memory, and how much of that a communication takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/plan/program.h"
#include "runtime/cuda/alignment.h"

namespace unity::cuda {

inline void* at(void* scratch, std::int64_t bytes) { return static_cast<std::byte*>(scratch) + bytes; }

// Where each piece begins in scratch, in order; the last is the size of all.
inline std::vector<std::int64_t> pieces(const Communication& c, DType held) {
  std::vector<std::int64_t> begin = {0};
  for (const Participant& p : c.participants)
    begin.push_back(begin.back() + aligned_bytes(p.piece.elements() * size_of(held)));
  return begin;
}
// Of the exchanges in which a participant takes part.
inline std::vector<std::int64_t> exchanged(const Communication& c, DType held, std::size_t participant) {
  std::vector<std::int64_t> begin = {0};
  for (const Exchange& e : c.exchanges) {
    const bool takes_part = e.from == static_cast<int>(participant) || e.to == static_cast<int>(participant);
    begin.push_back(begin.back() + (takes_part ? aligned_bytes(e.box.elements() * size_of(held)) : 0));
  }
  return begin;
}

// Where piece i of an all_gather or a reduce_scatter begins in scratch: without gaps where NCCL takes equal ones in a
// row.
inline bool equal_pieces(const Communication& c) {
  return std::all_of(c.participants.begin(), c.participants.end(),
                     [&](const Participant& p) { return p.piece.elements() == c.participants[0].piece.elements(); });
}
inline std::int64_t packed(const Communication& c, std::size_t piece, DType held) {
  return equal_pieces(c) ? static_cast<std::int64_t>(piece) * c.participants[0].piece.elements() * size_of(held)
                         : pieces(c, held)[piece];
}

// Of each participant; on one GPU: in all.
inline std::int64_t scratch_of(const Communication& c, bool one_gpu, DType held) {
  if (one_gpu) {
    std::int64_t copies = c.monoid == Monoid::sum ? 1 : 2;
    switch (c.kind) {
      case CollectiveKind::reduce:
      case CollectiveKind::all_reduce:
        return copies * aligned_bytes(c.participants[0].piece.elements() * size_of(held));
      case CollectiveKind::reduce_scatter:
        return copies * pieces(c, held).back();
      default:
        return 0;
    }
  }
  switch (c.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return pieces(c, held).back();
    case CollectiveKind::all_to_all: {
      std::int64_t most = 0;
      for (std::size_t i = 0; i < c.participants.size(); ++i) most = std::max(most, exchanged(c, held, i).back());
      return most;
    }
    default:
      return aligned_bytes(c.participants[0].piece.elements() * size_of(held));
  }
}

}  // namespace unity::cuda
