#include "runtime/comm/collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/cpu/blocks.h"

namespace unity {
namespace {

template <class T>
void combine_into(T* to, const T* from, std::int64_t n, Monoid monoid) {
  if (monoid == Monoid::sum)
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = std::max(to[i], from[i]);
}

class Ring {
 public:
  Ring(const Communication& c, std::size_t self, const CollectiveBuffers& buffers, DType dtype,
       Communicator& communicator, std::int64_t tag)
      : c_(c),
        self_(self),
        n_(c.participants.size()),
        buffers_(buffers),
        dtype_(dtype),
        communicator_(communicator),
        tag_(tag) {}

  void run() {
    UNITY_CHECK(!must_send() || buffers_.send, "{} of {}: participant {} of {} has nothing to send", to_string(c_.kind),
                c_.name, self_, n_);
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
  using Data = std::vector<std::byte>;

  std::int64_t bytes(const Box& box) const { return box.elements() * size_of(dtype_); }
  const Participant& me() const { return c_.participants[self_]; }

  Data pack(const Box& box) const {
    Data data(static_cast<std::size_t>(bytes(box)));
    cpu::copy_block(data.data(), box, buffers_.send, buffers_.send_box, box, dtype_);
    return data;
  }
  void unpack(const Data& data, const Box& box) const {
    if (buffers_.receive) cpu::copy_block(buffers_.receive, buffers_.receive_box, data.data(), box, box, dtype_);
  }
  void add(std::byte* to, const std::byte* from, std::int64_t elements) const {
    switch (dtype_) {
      case DType::f32:
        return combine_into(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), elements, c_.monoid);
      case DType::f64:
        return combine_into(reinterpret_cast<double*>(to), reinterpret_cast<const double*>(from), elements, c_.monoid);
      case DType::i32:
        return combine_into(reinterpret_cast<std::int32_t*>(to), reinterpret_cast<const std::int32_t*>(from), elements,
                            c_.monoid);
      default:
        UNITY_CHECK(false, "collectives move f32, f64 and i32, found {}", to_string(dtype_));
    }
  }
  void send(std::size_t to, std::span<const std::byte> data, std::int64_t step) {
    communicator_.send(me().device, c_.participants[to].device, tag_ + step, data);
  }
  void receive(std::size_t from, std::span<std::byte> data, std::int64_t step) {
    communicator_.receive(c_.participants[from].device, me().device, tag_ + step, data);
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
    const Box& box = me().piece;
    Data data;
    if (self_ == 0) {
      data = pack(box);
    } else {
      data.resize(static_cast<std::size_t>(bytes(box)));
      receive(self_ - 1, data, 0);
    }
    if (self_ + 1 < n_) send(self_ + 1, data, 0);
    unpack(data, box);
  }

  void reduce() {
    const Box& box = me().piece;
    Data data;
    if (buffers_.send) data = pack(box);
    if (self_ + 1 < n_) {
      Data other(static_cast<std::size_t>(bytes(box)));
      receive(self_ + 1, other, 0);
      if (data.empty())
        data = std::move(other);
      else
        add(data.data(), other.data(), box.elements());
    }
    if (self_ > 0)
      send(self_ - 1, data, 0);
    else
      unpack(data, box);
  }

  void all_reduce() {
    const Box& box = me().piece;
    Data data = pack(box);
    std::int64_t total = box.elements(), width = size_of(dtype_), n = static_cast<std::int64_t>(n_);
    auto begin = [&](std::int64_t chunk) { return total * chunk / n; };
    auto chunk_of = [&](std::int64_t c) {
      c = ((c % n) + n) % n;
      return std::span<std::byte>(data.data() + begin(c) * width,
                                  static_cast<std::size_t>((begin(c + 1) - begin(c)) * width));
    };
    auto self = static_cast<std::int64_t>(self_);
    Data incoming;
    for (std::int64_t step = 0; step < n - 1; ++step) {
      send(next(), chunk_of(self - step), step);
      std::span<std::byte> mine = chunk_of(self - step - 1);
      incoming.resize(mine.size());
      receive(previous(), incoming, step);
      add(mine.data(), incoming.data(), static_cast<std::int64_t>(mine.size()) / width);
    }
    for (std::int64_t step = 0; step < n - 1; ++step) {
      send(next(), chunk_of(self + 1 - step), n + step);
      receive(previous(), chunk_of(self - step), n + step);
    }
    unpack(data, box);
  }

  // Piece p starts at participant p + 1 and collects summands around the ring until it reaches p.
  void reduce_scatter() {
    Data incoming;
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      const Box& out = c_.participants[(self_ + n_ - 1 - step) % n_].piece;
      Data outgoing = pack(out);
      if (step > 0) add(outgoing.data(), incoming.data(), out.elements());
      send(next(), outgoing, static_cast<std::int64_t>(step));
      const Box& in = c_.participants[(self_ + 2 * n_ - 2 - step) % n_].piece;
      incoming.resize(static_cast<std::size_t>(bytes(in)));
      receive(previous(), incoming, static_cast<std::int64_t>(step));
    }
    Data mine = pack(me().piece);
    if (n_ > 1) add(mine.data(), incoming.data(), me().piece.elements());
    unpack(mine, me().piece);
  }

  void all_gather() {
    Data data = pack(me().piece);
    unpack(data, me().piece);
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      send(next(), data, static_cast<std::int64_t>(step));
      const Box& in = c_.participants[(self_ + 2 * n_ - 1 - step) % n_].piece;
      data.resize(static_cast<std::size_t>(bytes(in)));
      receive(previous(), data, static_cast<std::int64_t>(step));
      unpack(data, in);
    }
  }

  void all_to_all() {
    for (const Exchange& e : c_.exchanges) {
      if (static_cast<std::size_t>(e.from) != self_) continue;
      Data data = pack(e.box);
      if (e.from == e.to)
        unpack(data, e.box);
      else
        send(static_cast<std::size_t>(e.to), data, 0);
    }
    Data data;
    for (const Exchange& e : c_.exchanges) {
      if (static_cast<std::size_t>(e.to) != self_ || e.from == e.to) continue;
      data.resize(static_cast<std::size_t>(bytes(e.box)));
      receive(static_cast<std::size_t>(e.from), data, 0);
      unpack(data, e.box);
    }
  }

  const Communication& c_;
  std::size_t self_, n_;
  const CollectiveBuffers& buffers_;
  DType dtype_;
  Communicator& communicator_;
  std::int64_t tag_;
};

}  // namespace

void run_collective(const Communication& communication, std::size_t self, const CollectiveBuffers& buffers, DType dtype,
                    Communicator& communicator, std::int64_t tag) {
  Ring(communication, self, buffers, dtype, communicator, tag).run();
}

}  // namespace unity
