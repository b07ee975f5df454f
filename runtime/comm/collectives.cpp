#include "runtime/comm/collectives.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/box_run.h"
#include "runtime/comm/byte_store.h"
#include "runtime/cpu/blocks.h"

namespace unity {
namespace {

// Messages travel in segments, so that a participant passes on the first of a long one while the next is on its way.
constexpr std::size_t kSegment = std::size_t{256} << 10;

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

class Ring {
 public:
  Ring(const Communication& c, std::size_t self, std::span<const CollectiveBuffers> buffers, DType dtype,
       Communicator& communicator, std::int64_t tag)
      : c_(c),
        self_(self),
        n_(c.participants.size()),
        parts_(buffers),
        buffers_(buffers[0]),
        dtype_(dtype),
        communicator_(communicator),
        tag_(tag) {}

  void run() {
    UNITY_CHECK(parts_.size() == c_.part_count(), "{} of {}: buffers of {} parts, expected {}", to_string(c_.kind),
                c_.name, parts_.size(), c_.part_count());
    auto differs = [&](const CollectiveBuffers& b) { return (b.send == nullptr) != (buffers_.send == nullptr); };
    UNITY_CHECK(c_.kind == CollectiveKind::all_to_all || std::none_of(parts_.begin(), parts_.end(), differs),
                "{} of {}: participant {} has some parts only", to_string(c_.kind), c_.name, self_);
    bool sends = std::all_of(parts_.begin(), parts_.end(), [](const CollectiveBuffers& b) { return b.send; });
    UNITY_CHECK(!must_send() || sends, "{} of {}: participant {} of {} has nothing to send", to_string(c_.kind),
                c_.name, self_, n_);
    if (c_.binomial) return along_tree();
    switch (c_.kind) {
      case CollectiveKind::send:
      case CollectiveKind::broadcast:
        return broadcast();
      case CollectiveKind::reduce:
        return reduce();
      case CollectiveKind::all_reduce:
        return all_reduce();
      case CollectiveKind::all_gather:
        return all_gather();
      case CollectiveKind::reduce_scatter:
        return reduce_scatter();
      case CollectiveKind::all_to_all:
        return all_to_all();
    }
  }

 private:
  std::int64_t bytes(const Box& box) const { return box.elements() * size_of(dtype_); }
  const Participant& me() const { return c_.participants[self_]; }

  // The box of the send buffer as one run: in its place, or gathered in scratch.
  std::span<const std::byte> outgoing(const CollectiveBuffers& b, const Box& box, Scratch& scratch) const {
    if (auto begin = run_in(b.send_box, box))
      return {static_cast<const std::byte*>(b.send) + *begin * size_of(dtype_), static_cast<std::size_t>(bytes(box))};
    std::span<std::byte> data = scratch.take(bytes(box));
    cpu::copy_block(data.data(), box, b.send, b.send_box, box, dtype_);
    return data;
  }
  std::span<const std::byte> outgoing(const Box& box, Scratch& scratch) const {
    return outgoing(buffers_, box, scratch);
  }
  // Where the box of the receive buffer is put together: in its place if it is one run, else in scratch. settle() ends
  // that.
  std::span<std::byte> place(const CollectiveBuffers& b, const Box& box, Scratch& scratch) const {
    if (b.receive)
      if (auto begin = run_in(b.receive_box, box))
        return {static_cast<std::byte*>(b.receive) + *begin * size_of(dtype_), static_cast<std::size_t>(bytes(box))};
    return scratch.take(bytes(box));
  }
  std::span<std::byte> place(const Box& box, Scratch& scratch) const { return place(buffers_, box, scratch); }
  void settle(const CollectiveBuffers& b, const Box& box, std::span<const std::byte> data) const {
    if (b.receive && !run_in(b.receive_box, box))
      cpu::copy_block(b.receive, b.receive_box, data.data(), box, box, dtype_);
  }
  void settle(const Box& box, std::span<const std::byte> data) const { settle(buffers_, box, data); }
  void copy_own(const CollectiveBuffers& b, const Box& box) const {
    if (b.receive && b.receive != b.send) cpu::copy_block(b.receive, b.receive_box, b.send, b.send_box, box, dtype_);
  }
  void copy_own(const Box& box) const { copy_own(buffers_, box); }
  void copy_own_pieces() const {
    for (std::size_t k = 0; k < parts_.size(); ++k) copy_own(parts_[k], c_.part(k)[self_].piece);
  }
  void add(std::span<std::byte> to, std::span<const std::byte> from) const {
    cpu::combine(to.data(), from.data(), static_cast<std::int64_t>(to.size()) / size_of(dtype_), dtype_, c_.monoid);
  }
  // Calls f(begin, bytes) for the segments of a message.
  template <class F>
  static void for_segments(std::size_t bytes, F&& f) {
    for (std::size_t begin = 0; begin < bytes; begin += kSegment) f(begin, std::min(kSegment, bytes - begin));
  }
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
  std::size_t next() const { return (self_ + 1) % n_; }
  std::size_t previous() const { return (self_ + n_ - 1) % n_; }

  // Whether the others, or this participant's own result, read its send buffer.
  bool must_send() const {
    switch (c_.kind) {
      case CollectiveKind::send:
      case CollectiveKind::broadcast:
        return self_ == 0;
      case CollectiveKind::reduce:
        return self_ != 0;
      case CollectiveKind::all_to_all:
        return false;
      default:
        return true;
    }
  }

  void broadcast() {
    Scratch scratch;
    if (self_ == 0) {
      if (n_ > 1) send(1, outgoing_piece(0, scratch), 0);
      return copy_own_pieces();
    }
    std::span<std::byte> data = place_piece(scratch);
    for_segments(data.size(), [&](std::size_t begin, std::size_t size) {
      receive(self_ - 1, data.subspan(begin, size), 0);
      if (self_ + 1 < n_) send(self_ + 1, data.subspan(begin, size), 0);
    });
    settle_own_piece(data);
  }

  void reduce() {
    Scratch own, sum;
    if (self_ + 1 == n_) {
      if (self_ > 0) return send(self_ - 1, outgoing_piece(self_, own), 0);
      return copy_own_pieces();
    }
    const bool adds = buffers_.send;
    std::span<std::byte> data = self_ == 0 ? place_piece(sum) : sum.take(piece_bytes(self_));
    std::span<const std::byte> mine;
    if (adds) mine = outgoing_piece(self_, own);
    for_segments(data.size(), [&](std::size_t begin, std::size_t size) {
      std::span<std::byte> part = data.subspan(begin, size);
      receive(self_ + 1, part, 0);
      if (adds) add(part, mine.subspan(begin, size));
      if (self_ > 0) send(self_ - 1, part, 0);
    });
    if (self_ == 0) settle_own_piece(data);
  }

  // A binomial tree: participant i, of which 2^k is the lowest bit, hangs on i - 2^k, and i + 1, i + 2, .. i + 2^(k-1)
  // hang on it.
  void along_tree() {
    Scratch own, data, arriving;
    const bool up = c_.kind != CollectiveKind::broadcast, down = c_.kind != CollectiveKind::reduce;
    const bool whole = self_ == 0 || down;  // ends with the result
    std::size_t first = 1;                  // the distance to what it hangs on; of the root, beyond all
    while (first < n_ && (self_ & first) == 0) first *= 2;
    std::span<std::byte> sum = whole ? place_piece(data) : data.take(piece_bytes(self_));
    bool filled = buffers_.send && (up || self_ == 0);
    if (filled) {
      std::span<const std::byte> mine = outgoing_piece(self_, own);
      if (mine.data() != sum.data()) std::copy(mine.begin(), mine.end(), sum.begin());
    }
    if (up) {
      for (std::size_t d = 1; d < first && self_ + d < n_; d *= 2) {
        std::span<std::byte> theirs = filled ? arriving.take(static_cast<std::int64_t>(sum.size())) : sum;
        receive(self_ + d, theirs, 0);
        if (filled) add(sum, theirs);
        filled = true;
      }
      if (self_ > 0) send(self_ - first, sum, 0);
    }
    if (down) {
      if (self_ > 0) receive(self_ - first, sum, 1);
      for (std::size_t d = first / 2; d > 0; d /= 2)
        if (self_ + d < n_) send(self_ + d, sum, 1);
    }
    if (whole) settle_own_piece(sum);
  }

  // In n chunks. Of several parts, a chunk has the chunks of all, one after the other.
  void all_reduce() {
    const Box& box = me().piece;
    Scratch scratch, arriving;
    std::int64_t total = elements_moved(c_), width = size_of(dtype_), n = static_cast<std::int64_t>(n_);
    bool alone = parts_.size() == 1;
    std::span<std::byte> data = alone ? place(box, scratch) : scratch.take(total * width);
    if (!alone)
      pack(data);
    else if (data.data() != buffers_.send)
      cpu::copy_block(data.data(), box, buffers_.send, buffers_.send_box, box, dtype_);
    auto begin_of = [&](std::int64_t chunk) {
      std::int64_t begin = 0;
      for (std::size_t k = 0; k < parts_.size(); ++k) begin += c_.part(k)[self_].piece.elements() * chunk / n;
      return begin;
    };
    auto chunk_of = [&](std::int64_t c) {
      c = ((c % n) + n) % n;
      return data.subspan(static_cast<std::size_t>(begin_of(c) * width),
                          static_cast<std::size_t>((begin_of(c + 1) - begin_of(c)) * width));
    };
    auto self = static_cast<std::int64_t>(self_);
    if (n > 1) send(next(), chunk_of(self), 0);
    std::span<std::byte> incoming = arriving.take(
        std::min(static_cast<std::int64_t>(kSegment), (total / n + static_cast<std::int64_t>(parts_.size())) * width));
    // What arrives in a step goes on in the next: first with this participant's summand, then as it is.
    for (std::int64_t step = 0, steps = 2 * (n - 1); step < steps; ++step) {
      std::span<std::byte> chunk = chunk_of(self - 1 - step);
      bool adds = step < n - 1;
      for_segments(chunk.size(), [&](std::size_t begin, std::size_t size) {
        std::span<std::byte> part = chunk.subspan(begin, size);
        receive(previous(), adds ? incoming.first(size) : part, step);
        if (adds) add(part, incoming.first(size));
        if (step + 1 < steps) send(next(), part, step + 1);
      });
    }
    if (alone)
      settle(box, data);
    else
      unpack(data);
  }

  // Calls f(begin among the joined, begin in the part, bytes) for the chunks of a part.
  template <class F>
  void for_chunks(std::size_t part, F&& f) const {
    std::int64_t n = static_cast<std::int64_t>(n_), width = size_of(dtype_), joined = 0;
    for (std::int64_t chunk = 0; chunk < n; ++chunk)
      for (std::size_t k = 0; k < parts_.size(); ++k) {
        std::int64_t all = c_.part(k)[self_].piece.elements(), begin = all * chunk / n, end = all * (chunk + 1) / n;
        if (k == part) f(joined * width, begin * width, static_cast<std::size_t>((end - begin) * width));
        joined += end - begin;
      }
  }
  void pack(std::span<std::byte> joined) const {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      Scratch scratch;
      std::span<const std::byte> mine = outgoing(parts_[k], c_.part(k)[self_].piece, scratch);
      for_chunks(k, [&](std::int64_t to, std::int64_t from, std::size_t size) {
        if (size) std::memcpy(joined.data() + to, mine.data() + from, size);
      });
    }
  }
  void unpack(std::span<const std::byte> joined) const {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      Scratch scratch;
      const Box& box = c_.part(k)[self_].piece;
      std::span<std::byte> mine = place(parts_[k], box, scratch);
      for_chunks(k, [&](std::int64_t from, std::int64_t to, std::size_t size) {
        if (size) std::memcpy(mine.data() + to, joined.data() + from, size);
      });
      settle(parts_[k], box, mine);
    }
  }

  // The piece of participant i, of all parts one after the other.
  std::int64_t piece_bytes(std::size_t i) const {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) sum += bytes(c_.part(k)[i].piece);
    return sum;
  }
  std::span<const std::byte> outgoing_piece(std::size_t i, Scratch& scratch) const {
    if (parts_.size() == 1) return outgoing(c_.participants[i].piece, scratch);
    std::span<std::byte> joined = scratch.take(piece_bytes(i));
    std::size_t begin = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      Scratch own;
      std::span<const std::byte> mine = outgoing(parts_[k], c_.part(k)[i].piece, own);
      std::copy(mine.begin(), mine.end(), joined.begin() + static_cast<std::ptrdiff_t>(begin));
      begin += mine.size();
    }
    return joined;
  }
  // Where this participant's own piece is put together; settle_own_piece() ends that.
  std::span<std::byte> place_piece(Scratch& scratch) const {
    return parts_.size() == 1 ? place(me().piece, scratch) : scratch.take(piece_bytes(self_));
  }
  void settle_own_piece(std::span<const std::byte> joined) const {
    if (parts_.size() == 1) return settle(me().piece, joined);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      Scratch scratch;
      const Box& box = c_.part(k)[self_].piece;
      std::span<std::byte> mine = place(parts_[k], box, scratch);
      std::copy_n(joined.begin(), mine.size(), mine.begin());
      settle(parts_[k], box, mine);
      joined = joined.subspan(mine.size());
    }
  }

  // Piece p starts at participant p + 1 and collects summands around the ring until it reaches p.
  void reduce_scatter() {
    if (n_ == 1) return copy_own(me().piece);
    Scratch own, travelling;
    send(next(), outgoing_piece(previous(), own), 0);
    std::span<std::byte> sum;
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      std::size_t in = (self_ + 2 * n_ - 2 - step) % n_;
      bool last = step + 2 == n_;
      std::span<const std::byte> mine = outgoing_piece(in, own);
      sum = last ? place_piece(travelling) : travelling.take(piece_bytes(in));
      for_segments(sum.size(), [&](std::size_t begin, std::size_t size) {
        std::span<std::byte> part = sum.subspan(begin, size);
        receive(previous(), part, static_cast<std::int64_t>(step));
        add(part, mine.subspan(begin, size));
        if (!last) send(next(), part, static_cast<std::int64_t>(step) + 1);
      });
    }
    settle_own_piece(sum);
  }

  void all_gather() {
    Scratch scratch;
    if (n_ > 1) send(next(), outgoing(me().piece, scratch), 0);
    copy_own(me().piece);
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      const Box& in = c_.participants[(self_ + 2 * n_ - 1 - step) % n_].piece;
      std::span<std::byte> arriving = place(in, scratch);
      for_segments(arriving.size(), [&](std::size_t begin, std::size_t size) {
        std::span<std::byte> part = arriving.subspan(begin, size);
        receive(previous(), part, static_cast<std::int64_t>(step));
        if (step + 2 < n_) send(next(), part, static_cast<std::int64_t>(step) + 1);
      });
      settle(in, arriving);
    }
  }

  void all_to_all() {
    Scratch scratch;
    for (const Exchange& e : c_.exchanges) {
      if (static_cast<std::size_t>(e.from) != self_) continue;
      const CollectiveBuffers& own = parts_[static_cast<std::size_t>(e.part)];
      UNITY_CHECK(own.send, "all_to_all of {}: participant {} of {} has nothing to send", c_.name, self_, n_);
      if (e.from == e.to)
        copy_own(own, e.box);
      else
        send(static_cast<std::size_t>(e.to), outgoing(own, e.box, scratch), 0);
    }
    for (const Exchange& e : c_.exchanges) {
      if (static_cast<std::size_t>(e.to) != self_ || e.from == e.to) continue;
      const CollectiveBuffers& own = parts_[static_cast<std::size_t>(e.part)];
      std::span<std::byte> data = place(own, e.box, scratch);
      receive(static_cast<std::size_t>(e.from), data, 0);
      settle(own, e.box, data);
    }
  }

  const Communication& c_;
  std::size_t self_, n_;
  std::span<const CollectiveBuffers> parts_;
  const CollectiveBuffers& buffers_;  // of the first part; an all_gather has no others
  DType dtype_;
  Communicator& communicator_;
  std::int64_t tag_;
};

}  // namespace

void run_collective(const Communication& communication, std::size_t self, std::span<const CollectiveBuffers> buffers,
                    DType dtype, Communicator& communicator, std::int64_t tag) {
  Ring(communication, self, buffers, dtype, communicator, tag).run();
}

}  // namespace unity
