// Rings of collectives (collectives.h): data in shares, one for each participant of a ring, that walk around it.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "runtime/comm/endpoint.h"

namespace unity {

// A collective's data as one run of shares, one after the other: by chunk, then by place in a node, then by node.
// A share has a part of each of the communication's parts: of an all_reduce equal ones of the box, else a chunk of
// the piece of the participant that stands at this place of this node.
class Shares {
 public:
  Shares(const Endpoint& own, std::size_t chunks, std::size_t places, std::size_t nodes = 1);

  std::int64_t bytes() const { return begin_.back(); }
  // Shares [first, first + count) of the run.
  std::span<std::byte> in(std::span<std::byte> run, std::size_t first, std::size_t count) const;

  struct Range {
    std::int64_t in_run = 0, in_piece = 0;  // in bytes
    std::size_t bytes = 0;
  };
  // What a chunk of the run has of a participant's piece of a part.
  std::vector<Range> of_piece(std::size_t chunk, std::size_t part, std::size_t participant) const;

 private:
  bool whole() const { return own_.communication().kind == CollectiveKind::all_reduce; }
  std::size_t count() const { return chunks_ * places_ * nodes_; }
  Range range(std::size_t part, std::size_t share) const;  // without where it is in the run

  const Endpoint& own_;
  std::size_t chunks_, places_, nodes_;
  std::vector<std::int64_t> begin_;  // of each share, and the end
};

// The run of shares, from and to the buffers chunk by chunk.
class Packing {
 public:
  Packing(const Endpoint& own, const Shares& shares);

  std::span<std::byte> run() const { return run_; }
  void pack(std::size_t chunk) const;
  void unpack(std::size_t chunk) const;
  void settle() const;  // what was unpacked beside a buffer, into it

 private:
  template <class Bytes>
  struct Piece {
    std::size_t part, participant;
    std::span<Bytes> bytes;
  };

  const Endpoint& own_;
  const Shares& shares_;
  std::deque<Scratch> scratch_;
  std::span<std::byte> run_;
  std::vector<Piece<const std::byte>> from_;
  std::vector<Piece<std::byte>> to_;
};

// `count` participants, `stride` apart.
struct RingMembers {
  std::size_t first = 0, stride = 1, count = 0;
  std::size_t operator[](std::size_t i) const { return first + i % count * stride; }
};

// One walk of units around a ring of participants, a unit for each, step by step. A member first sends unit `first`;
// in each step it gets the unit before the one that it got or sent last, adds its own to it in the first `adding`
// steps, and sends it on in all steps but the last.
class RingPass {
 public:
  RingPass(Endpoint& own, RingMembers members, std::vector<std::span<std::byte>> units, std::size_t first,
           std::size_t adding, std::size_t steps, std::int64_t tag);

  void start();
  bool done() const { return step_ == steps_; }
  void step();

 private:
  Endpoint& own_;
  std::vector<std::span<std::byte>> units_;
  std::size_t unit_, adding_, steps_, step_ = 0;
  std::int64_t tag_;
  std::size_t next_ = 0, previous_ = 0;
};

}  // namespace unity
