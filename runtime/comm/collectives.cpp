#include "runtime/comm/collectives.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

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
    if (c_.algorithm.name == CollectiveAlgorithm::binomial) return along_tree();
    if (c_.algorithm.name == CollectiveAlgorithm::hierarchical) return in_nodes_and_between();
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

  // In n shares, which are added up around the ring and then go around once more.
  void all_reduce() {
    const Shares shares(c_, self_, size_of(dtype_), 1, n_);
    Packing packing(*this, shares);
    packing.pack(0);
    std::vector<std::span<std::byte>> units;
    for (std::size_t i = 0; i < n_; ++i) units.push_back(shares.in(packing.run(), i, 1));
    RingPass pass(*this, {0, 1, n_}, std::move(units), self_, n_ - 1, 2 * (n_ - 1), 0);
    for (pass.start(); !pass.done();) pass.step();
    packing.unpack(0);
    packing.settle();
  }

  // Rings inside the nodes and between them, in stages that work on one chunk after the other
  // (collective_algorithms.h). What is added up ends at the participant of the place, then of the node, that the share
  // belongs to. The stages take turns, a step each, so that all participants send and receive in one order; a stage
  // sends the first of its next chunk as soon as it can.
  void in_nodes_and_between() {
    const auto places = static_cast<std::size_t>(c_.algorithm.devices_per_node), nodes = n_ / places;
    const auto chunks = static_cast<std::size_t>(c_.algorithm.chunks);
    const std::size_t place = self_ % places, node = self_ / places;
    const Shares shares(c_, self_, size_of(dtype_), chunks, places, nodes);
    Packing packing(*this, shares);
    const bool gathers = c_.kind == CollectiveKind::all_gather, scatters = c_.kind == CollectiveKind::reduce_scatter;
    enum class Work { add_inside, between, gather_inside };
    auto pass_of = [&](Work work, std::size_t chunk) {
      const bool inside = work != Work::between;
      const std::size_t members = inside ? places : nodes, self = inside ? place : node;
      const bool adds = inside ? work == Work::add_inside : !gathers;
      const bool passes_on = inside ? work == Work::gather_inside : !scatters;
      std::vector<std::span<std::byte>> units;
      for (std::size_t i = 0; i < members; ++i) {
        const std::size_t first = (chunk * places + (inside ? i : place)) * nodes;
        units.push_back(inside ? shares.in(packing.run(), first, nodes) : shares.in(packing.run(), first + i, 1));
      }
      const std::size_t around = members - 1;
      return RingPass(*this, inside ? Members{node * places, 1, places} : Members{place, places, nodes},
                      std::move(units), adds ? (self + around) % members : self, adds ? around : 0,
                      (adds ? around : 0) + (passes_on ? around : 0), static_cast<std::int64_t>(work));
    };
    struct Stage {
      Work work;
      std::size_t ended = 0;         // chunks
      std::optional<RingPass> pass;  // of the next one, where that was begun
    };
    std::vector<Stage> stages;
    if (!gathers) stages.push_back({Work::add_inside, 0, {}});
    stages.push_back({Work::between, 0, {}});
    if (!scatters) stages.push_back({Work::gather_inside, 0, {}});
    auto begin = [&](std::size_t s) {
      Stage& stage = stages[s];
      if (stage.pass || stage.ended == (s == 0 ? chunks : stages[s - 1].ended)) return;
      if (s == 0) packing.pack(stage.ended);
      stage.pass.emplace(pass_of(stage.work, stage.ended));
      stage.pass->start();
    };
    while (stages.back().ended < chunks)
      for (std::size_t s = 0; s < stages.size(); ++s) {
        Stage& stage = stages[s];
        begin(s);
        if (!stage.pass) continue;
        if (!stage.pass->done()) stage.pass->step();
        if (!stage.pass->done()) continue;
        stage.pass.reset();
        if (s + 1 == stages.size()) packing.unpack(stage.ended);
        ++stage.ended;
        begin(s);
      }
    packing.settle();
  }

  // A collective's data as one run of shares, one after the other: by chunk, then by place in a node, then by node.
  // A share has a part of each of the communication's parts: of an all_reduce equal ones of the box, else a chunk of
  // the piece of the participant that stands at this place of this node.
  class Shares {
   public:
    Shares(const Communication& c, std::size_t self, std::int64_t width, std::size_t chunks, std::size_t places,
           std::size_t nodes = 1)
        : c_(c), self_(self), width_(width), chunks_(chunks), places_(places), nodes_(nodes) {
      begin_.push_back(0);
      for (std::size_t share = 0; share < count(); ++share) {
        begin_.push_back(begin_.back());
        for (std::size_t k = 0; k < c_.part_count(); ++k) begin_.back() += range(k, share).size;
      }
    }

    std::int64_t bytes() const { return begin_.back(); }
    // Shares [first, first + count) of the run.
    std::span<std::byte> in(std::span<std::byte> run, std::size_t first, std::size_t count) const {
      return run.subspan(static_cast<std::size_t>(begin_[first]),
                         static_cast<std::size_t>(begin_[first + count] - begin_[first]));
    }
    // Calls f(begin in the run, begin in the piece, bytes) for what a chunk of the run has of a participant's piece of
    // a part.
    template <class F>
    void for_each(std::size_t chunk, std::size_t part, std::size_t participant, F&& f) const {
      auto one = [&](std::size_t share) {
        std::int64_t at = begin_[share];
        for (std::size_t k = 0; k < part; ++k) at += range(k, share).size;
        const Range r = range(part, share);
        if (r.size > 0) f(at, r.begin, static_cast<std::size_t>(r.size));
      };
      const std::size_t first = chunk * places_ * nodes_;
      if (whole())
        for (std::size_t i = 0; i < places_ * nodes_; ++i) one(first + i);
      else
        one(first + participant % places_ * nodes_ + participant / places_);
    }
    bool whole() const { return c_.kind == CollectiveKind::all_reduce; }

   private:
    struct Range {
      std::int64_t begin = 0, size = 0;  // in bytes of the piece
    };
    std::size_t count() const { return chunks_ * places_ * nodes_; }
    Range range(std::size_t part, std::size_t share) const {
      const std::size_t node = share % nodes_, place = share / nodes_ % places_, chunk = share / nodes_ / places_;
      const std::size_t owner = whole() ? self_ : node * places_ + place;
      const auto index = static_cast<std::int64_t>(whole() ? share : chunk);
      const auto of = static_cast<std::int64_t>(whole() ? count() : chunks_);
      const std::int64_t all = c_.part(part)[owner].piece.elements(), begin = all * index / of;
      return {begin * width_, (all * (index + 1) / of - begin) * width_};
    }

    const Communication& c_;
    std::size_t self_;
    std::int64_t width_;
    std::size_t chunks_, places_, nodes_;
    std::vector<std::int64_t> begin_;  // of each share, and the end
  };

  // `count` participants, `stride` apart.
  struct Members {
    std::size_t first = 0, stride = 1, count = 0;
    std::size_t operator[](std::size_t i) const { return first + i % count * stride; }
  };

  // One walk of units around a ring of participants, a unit for each, step by step. A member first sends unit `first`;
  // in each step it gets the unit before the one that it got or sent last, adds its own to it in the first `adding`
  // steps, and sends it on in all steps but the last.
  class RingPass {
   public:
    RingPass(Ring& ring, Members members, std::vector<std::span<std::byte>> units, std::size_t first,
             std::size_t adding, std::size_t steps, std::int64_t tag)
        : ring_(ring), units_(std::move(units)), unit_(first), adding_(adding), steps_(steps), tag_(tag) {
      const std::size_t self = (ring.self_ - members.first) / members.stride;
      next_ = members[self + 1], previous_ = members[self + members.count - 1];
    }

    void start() {
      if (steps_ > 0) ring_.send(next_, units_[unit_], tag_);
    }
    bool done() const { return step_ == steps_; }
    void step() {
      unit_ = (unit_ + units_.size() - 1) % units_.size();
      const bool adds = step_ < adding_, last = ++step_ == steps_;
      Scratch arriving;
      for_segments(units_[unit_].size(), [&](std::size_t begin, std::size_t size) {
        std::span<std::byte> part = units_[unit_].subspan(begin, size);
        std::span<std::byte> into = adds ? arriving.take(static_cast<std::int64_t>(size)) : part;
        ring_.receive(previous_, into, tag_);
        if (adds) ring_.add(part, into);
        if (!last) ring_.send(next_, part, tag_);
      });
    }

   private:
    Ring& ring_;
    std::vector<std::span<std::byte>> units_;
    std::size_t unit_, adding_, steps_, step_ = 0;
    std::int64_t tag_;
    std::size_t next_ = 0, previous_ = 0;
  };

  // The run of shares, from and to the buffers chunk by chunk.
  class Packing {
   public:
    Packing(Ring& ring, const Shares& shares) : ring_(ring), shares_(shares) {
      const Communication& c = ring.c_;
      // The box of one all_reduce is such a run.
      const bool in_place = c.kind == CollectiveKind::all_reduce && ring.parts_.size() == 1;
      run_ = in_place ? ring.place(ring.me().piece, scratch_.emplace_back())
                      : scratch_.emplace_back().take(shares.bytes());
      for (std::size_t k = 0; k < ring.parts_.size(); ++k)
        for (std::size_t i = 0; i < ring.n_; ++i) {
          // An all_gather's participant sends its own piece alone, and gets all; a reduce_scatter's the other way
          // round.
          const Box& box = c.part(k)[i].piece;
          const CollectiveBuffers& buffers = ring.parts_[k];
          if (i == ring.self_ || c.kind == CollectiveKind::reduce_scatter)
            from_.push_back({k, i, ring.outgoing(buffers, box, scratch_.emplace_back())});
          if (i == ring.self_ || c.kind == CollectiveKind::all_gather)
            to_.push_back({k, i, in_place ? run_ : ring.place(buffers, box, scratch_.emplace_back())});
        }
    }

    std::span<std::byte> run() const { return run_; }
    void pack(std::size_t chunk) const {
      for (const auto& [part, participant, piece] : from_)
        shares_.for_each(chunk, part, participant, [&](std::int64_t at, std::int64_t in_piece, std::size_t size) {
          move(run_.data() + at, piece.data() + in_piece, size);
        });
    }
    void unpack(std::size_t chunk) const {
      for (const auto& [part, participant, piece] : to_)
        shares_.for_each(chunk, part, participant, [&](std::int64_t at, std::int64_t in_piece, std::size_t size) {
          move(piece.data() + in_piece, run_.data() + at, size);
        });
    }
    // What was unpacked beside a buffer, into it.
    void settle() const {
      for (const auto& [part, participant, piece] : to_)
        ring_.settle(ring_.parts_[part], ring_.c_.part(part)[participant].piece, piece);
    }

   private:
    template <class Bytes>
    struct Piece {
      std::size_t part, participant;
      std::span<Bytes> bytes;
    };
    static void move(std::byte* to, const std::byte* from, std::size_t size) {
      if (to != from) std::memcpy(to, from, size);
    }

    Ring& ring_;
    const Shares& shares_;
    std::deque<Scratch> scratch_;
    std::span<std::byte> run_;
    std::vector<Piece<const std::byte>> from_;
    std::vector<Piece<std::byte>> to_;
  };

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
