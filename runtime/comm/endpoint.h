// One participant of a collective on CPUs: its buffers, and the messages that it sends and receives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/plan/program.h"
#include "runtime/comm/box_run.h"
#include "runtime/comm/byte_store.h"
#include "runtime/comm/collectives.h"
#include "runtime/cpu/blocks.h"

namespace unity {

// Memory of this thread for data that have no place in a buffer.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { store().give(std::move(block_)); }

  std::span<std::byte> take(std::int64_t bytes) {
    store().give(std::move(block_));
    block_ = store().take(static_cast<std::size_t>(bytes));
    return block_.bytes();
  }

 private:
  static ByteStore& store() {
    thread_local ByteStore own;
    return own;
  }
  Block block_;
};

class Endpoint {
 public:
  // `buffers`: of each part of the communication. Tags of messages begin with `tag`.
  Endpoint(const Communication& c, std::size_t self, std::span<const CollectiveBuffers> buffers, DType dtype,
           Communicator& communicator, std::int64_t tag)
      : c_(c), self_(self), parts_(buffers), dtype_(dtype), communicator_(communicator), tag_(tag) {}

  const Communication& communication() const { return c_; }
  std::size_t self() const { return self_; }
  std::size_t participants() const { return c_.participants.size(); }
  const Participant& me() const { return c_.participants[self_]; }
  std::span<const CollectiveBuffers> parts() const { return parts_; }
  std::int64_t element_bytes() const { return size_of(dtype_); }

  // The box of the send buffer as one run: in its place, or gathered in scratch.
  std::span<const std::byte> outgoing(const CollectiveBuffers& b, const Box& box, Scratch& scratch) const {
    if (auto begin = run_in(b.send_box, box))
      return {static_cast<const std::byte*>(b.send) + *begin * size_of(dtype_), static_cast<std::size_t>(bytes(box))};
    std::span<std::byte> data = scratch.take(bytes(box));
    cpu::copy_block(data.data(), box, b.send, b.send_box, box, dtype_);
    return data;
  }
  // Where the box of the receive buffer is put together: in its place if it is one run, else in scratch. settle() ends
  // that.
  std::span<std::byte> place(const CollectiveBuffers& b, const Box& box, Scratch& scratch) const {
    if (b.receive)
      if (auto begin = run_in(b.receive_box, box))
        return {static_cast<std::byte*>(b.receive) + *begin * size_of(dtype_), static_cast<std::size_t>(bytes(box))};
    return scratch.take(bytes(box));
  }
  void settle(const CollectiveBuffers& b, const Box& box, std::span<const std::byte> data) const {
    if (b.receive && !run_in(b.receive_box, box))
      cpu::copy_block(b.receive, b.receive_box, data.data(), box, box, dtype_);
  }
  void copy_own(const CollectiveBuffers& b, const Box& box) const {
    if (b.receive && b.receive != b.send) cpu::copy_block(b.receive, b.receive_box, b.send, b.send_box, box, dtype_);
  }

  // By the communication's monoid.
  void add(std::span<std::byte> to, std::span<const std::byte> from) const {
    cpu::combine(to.data(), from.data(), static_cast<std::int64_t>(to.size()) / size_of(dtype_), dtype_, c_.monoid);
  }
  // To and from other participants, messages of one `step` after the other.
  void send(std::size_t to, std::span<const std::byte> data, std::int64_t step) {
    for_segments(data.size(), [&](std::size_t begin, std::size_t size) {
      communicator_.send(me().device, c_.participants[to].device, tag_ + step, data.subspan(begin, size));
    });
  }
  void receive(std::size_t from, std::span<std::byte> data, std::int64_t step) {
    for_segments(data.size(), [&](std::size_t begin, std::size_t size) {
      communicator_.receive(c_.participants[from].device, me().device, tag_ + step, data.subspan(begin, size));
    });
  }
  // Calls f(begin, bytes) for the segments of a message, so that a participant passes on the first of a long one while
  // the next is on its way.
  template <class F>
  static void for_segments(std::size_t bytes, F&& f) {
    constexpr std::size_t kSegment = std::size_t{256} << 10;
    for (std::size_t begin = 0; begin < bytes; begin += kSegment) f(begin, std::min(kSegment, bytes - begin));
  }

 protected:
  std::int64_t bytes(const Box& box) const { return box.elements() * size_of(dtype_); }

 private:
  const Communication& c_;
  std::size_t self_;
  std::span<const CollectiveBuffers> parts_;
  DType dtype_;
  Communicator& communicator_;
  std::int64_t tag_;
};

}  // namespace unity
