#include "runtime/comm/collectives.h"

#include <algorithm>
#include <optional>

#include "runtime/comm/endpoint.h"
#include "runtime/comm/shares.h"

namespace unity {
namespace {

class Collective : private Endpoint {
 public:
  Collective(const Communication& c, std::size_t self, std::span<const CollectiveBuffers> buffers, DType dtype,
             Communicator& communicator, std::int64_t tag)
      : Endpoint(c, self, buffers, dtype, communicator, tag),
        c_(c),
        self_(self),
        n_(participants()),
        parts_(parts()),
        buffers_(parts_[0]) {}

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
  std::size_t next() const { return (self_ + 1) % n_; }
  std::size_t previous() const { return (self_ + n_ - 1) % n_; }
  void copy_own_pieces() const {
    for (std::size_t k = 0; k < parts_.size(); ++k) copy_own(parts_[k], c_.part(k)[self_].piece);
  }

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
    const Shares shares(*this, 1, n_);
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
    const Shares shares(*this, chunks, places, nodes);
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
      return RingPass(*this, inside ? RingMembers{node * places, 1, places} : RingMembers{place, places, nodes},
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

  // The piece of participant i, of all parts one after the other.
  std::int64_t piece_bytes(std::size_t i) const {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) sum += bytes(c_.part(k)[i].piece);
    return sum;
  }
  std::span<const std::byte> outgoing_piece(std::size_t i, Scratch& scratch) const {
    if (parts_.size() == 1) return outgoing(buffers_, c_.participants[i].piece, scratch);
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
    return parts_.size() == 1 ? place(buffers_, me().piece, scratch) : scratch.take(piece_bytes(self_));
  }
  void settle_own_piece(std::span<const std::byte> joined) const {
    if (parts_.size() == 1) return settle(buffers_, me().piece, joined);
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
    if (n_ == 1) return copy_own(buffers_, me().piece);
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
    if (n_ > 1) send(next(), outgoing(buffers_, me().piece, scratch), 0);
    copy_own(buffers_, me().piece);
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      const Box& in = c_.participants[(self_ + 2 * n_ - 1 - step) % n_].piece;
      std::span<std::byte> arriving = place(buffers_, in, scratch);
      for_segments(arriving.size(), [&](std::size_t begin, std::size_t size) {
        std::span<std::byte> part = arriving.subspan(begin, size);
        receive(previous(), part, static_cast<std::int64_t>(step));
        if (step + 2 < n_) send(next(), part, static_cast<std::int64_t>(step) + 1);
      });
      settle(buffers_, in, arriving);
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
};

}  // namespace

void run_collective(const Communication& communication, std::size_t self, std::span<const CollectiveBuffers> buffers,
                    DType dtype, Communicator& communicator, std::int64_t tag) {
  Collective(communication, self, buffers, dtype, communicator, tag).run();
}

}  // namespace unity
