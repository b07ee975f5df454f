// Blocks [outer, channels, inner] that are gone through channel by channel, sixteen bytes at a time: a plane (the inner
// elements of one channel) may begin and end within a vector.
#pragma once

#include "core/ops/batch_norm.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vectors.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {

constexpr std::int64_t kShortPlane = 8;  // shorter ones are gone through element by element

// Whether a block can be gone through in vectors, which are counted in 32 bits, with some room.
inline bool in_vectors(const ChannelLoops& l) {
  return l.inner >= kShortPlane && l.outer * l.channels * l.inner <= INT32_MAX - 65536;
}
template <int kWidth>
using Index = std::conditional_t<kWidth == 1, std::int64_t, int>;

template <class V>
struct Two {
  V first, second;
};

// Which elements of a vector count.
struct All {
  static constexpr bool kAll = true;
  UNITY_DEVICE bool operator()(int) const { return true; }
};
struct Some {
  static constexpr bool kAll = false;
  int begin, end;
  UNITY_DEVICE bool operator()(int j) const { return j >= begin && j < end; }
};

// Of which of two neighbouring channels the elements of a vector are.
template <class State>
struct OneChannel {
  const State& state;
  UNITY_DEVICE const State& operator()(int) const { return state; }
};
template <class State>
struct TwoChannels {
  const State &first, &second;
  int begin;  // of the second
  UNITY_DEVICE const State& operator()(int j) const { return j < begin ? first : second; }
};

// Items 0 .. items - 1 of one channel: vectors of kWidth elements, as many of each plane as one may touch. kWhole:
// planes consist of whole vectors.
template <int kWidth, bool kWhole>
struct ChannelVectors {
  using I = Index<kWidth>;
  I channels, inner, elements, in_plane, items;
  Quotient plane;

  explicit ChannelVectors(const ChannelLoops& l)
      : channels(static_cast<I>(l.channels)),
        inner(static_cast<I>(l.inner)),
        elements(static_cast<I>(l.outer * l.channels * l.inner)),
        in_plane(kWhole ? inner / kWidth : (inner + 2 * (kWidth - 1)) / kWidth),
        items(static_cast<I>(l.outer) * in_plane),
        plane(in_plane, items) {}

  struct Place {
    I at;                                          // where the vector begins
    std::conditional_t<kWhole, All, Some> counts;  // those in this channel
    UNITY_DEVICE bool all() const {
      if constexpr (kWhole)
        return true;
      else
        return counts.begin == 0 && counts.end == kWidth;
    }
  };
  UNITY_DEVICE Place place(I channel, I item) const {
    I o = plane.of(item), v = item - o * in_plane, first = (o * channels + channel) * inner;
    if constexpr (kWhole) {
      return {first + v * kWidth, {}};
    } else {
      I skip = first % kWidth, begin = skip - v * kWidth, end = begin + inner, at = first - begin;
      if (end < 0) end = 0;
      // Past the last plane lies nothing that could be read.
      return {at < elements ? at : elements - kWidth, {begin > 0 ? begin : 0, end < kWidth ? end : kWidth}};
    }
  }
};

// Groups that share out each channel: as many threads as a large GPU runs at a time, but several items for each.
struct ChannelGroups {
  std::int64_t parts, work;  // groups for a channel; what asks for_each_group for groups of the size wanted
  ChannelGroups(std::int64_t channels, std::int64_t items) {
    constexpr std::int64_t kThreads = 270336, kLargest = 512, kItems = 4;
    std::int64_t threads = std::min(kThreads / std::max<std::int64_t>(channels, 1), items / kItems);
    parts = std::max<std::int64_t>(threads / kLargest, 1);
    work = threads <= 64 ? 256 : threads <= 192 ? 1024 : threads <= 384 ? 4096 : 8192;
  }
};

// partial[p * channels + channel], or op.finish(channel, .) where there is one part: the sums of the parts of each
// channel, `parts` of them.
template <bool kWhole, class Op, class V>
void sum_parts(Stream stream, const ChannelLoops& l, const ChannelGroups& groups, Two<V>* partial, Op op) {
  constexpr int kInFlight = Op::kInFlight;
  using Vectors = ChannelVectors<Op::kWidth, kWhole>;
  Vectors vectors(l);
  const std::int64_t parts = groups.parts, share = (vectors.items + parts - 1) / parts;
  for_each_group(
      stream, parts * l.channels, groups.work, UNITY_LAMBDA(std::int64_t g, const Group& group) {
        using I = Index<Op::kWidth>;
        auto channel = static_cast<I>(g % l.channels);
        auto begin = static_cast<I>(g / l.channels * share), end = static_cast<I>(begin + share);
        if (end > vectors.items) end = vectors.items;
        auto state = op.prepare(channel);
        Two<V> sum{0, 0};
        I step = group.size();
        for (I first = begin + group.rank(); first < end; first += kInFlight * step) {
          typename Vectors::Place places[kInFlight];
          typename Op::Item items[kInFlight];
          UNITY_UNROLL
          for (int b = 0; b < kInFlight; ++b) {
            I item = first + b * step;
            places[b] = vectors.place(channel, item < end ? item : end - 1);
            items[b] = op.load(places[b].at);
          }
          UNITY_UNROLL
          for (int b = 0; b < kInFlight; ++b) {
            if (first + b * step >= end) break;
            Two<V> x = places[b].all() ? op.use(state, places[b].at, items[b], All())
                                       : op.use(state, places[b].at, items[b], places[b].counts);
            sum.first += x.first, sum.second += x.second;
          }
        }
        sum = {group.sum(sum.first), group.sum(sum.second)};
        if (group.rank() != 0) return;
        if (parts == 1)
          op.finish(channel, sum);
        else
          partial[g] = sum;
      });
}

// For every channel: op.finish(channel, the sums over its elements of op.use(state, at, item, which count)), with state
// = op.prepare(channel), and item = op.load(at) of the vector at `at`. In a fixed order; Op has the constants kWidth
// and kInFlight (items that a thread asks for before it uses the first).
template <class Op>
void sum_channels(const Call& c, const ChannelLoops& l, Op op) {
  using V = typename Op::Value;
  auto scratch = [&](std::int64_t parts) {
    return static_cast<Two<V>*>(c.scratch(parts * l.channels * static_cast<std::int64_t>(sizeof(Two<V>))));
  };
  Two<V>* partial = nullptr;
  std::int64_t parts = 1;
  if (Op::kWidth == 1 && l.inner < kShortPlane) {
    // One thread to a part of a channel, 64 planes or more; neighbouring channels side by side.
    parts = std::clamp<std::int64_t>(std::min(l.outer / 64, row_workers(l.outer * l.channels, l.inner)), 1,
                                     std::max<std::int64_t>(l.outer, 1));
    std::int64_t share = (l.outer + parts - 1) / parts;
    partial = scratch(parts);
    if constexpr (Op::kWidth == 1)
      for_each(
          c.stream, parts * l.channels, UNITY_LAMBDA(std::int64_t g) {
            std::int64_t channel = g % l.channels, begin = g / l.channels * share, end = begin + share;
            auto state = op.prepare(channel);
            Two<V> sum{0, 0};
            for (std::int64_t o = begin; o < end && o < l.outer; ++o)
              for (std::int64_t k = 0; k < l.inner; ++k) {
                std::int64_t i = (o * l.channels + channel) * l.inner + k;
                Two<V> x = op.use(state, i, op.load(i), All());
                sum.first += x.first, sum.second += x.second;
              }
            partial[g] = sum;
          });
  } else {
    const bool whole = l.inner % Op::kWidth == 0;
    const std::int64_t vectors = (whole ? l.inner : l.inner + 2 * (Op::kWidth - 1)) / Op::kWidth;
    ChannelGroups groups(l.channels, l.outer * vectors);
    parts = groups.parts;
    if (parts > 1) partial = scratch(parts);
    if (whole)
      sum_parts<true>(c.stream, l, groups, partial, op);
    else if constexpr (Op::kWidth > 1)
      sum_parts<false>(c.stream, l, groups, partial, op);
    if (parts == 1) return;
  }
  for_each_group(
      c.stream, l.channels, parts, UNITY_LAMBDA(std::int64_t channel, const Group& group) {
        Two<V> sum{0, 0};
        for (std::int64_t p = group.rank(); p < parts; p += group.size()) {
          Two<V> x = partial[p * l.channels + channel];
          sum.first += x.first, sum.second += x.second;
        }
        sum = {group.sum(sum.first), group.sum(sum.second)};
        if (group.rank() == 0) op.finish(channel, sum);
      });
}

// op.use(at, op.load(at), channels) for every vector of a block, where channels(j) is op.prepare(the channel of element
// j). A thread takes two vectors, as far apart as neighbouring threads together take.
template <class Op>
void for_each_of_channels(Stream stream, const ChannelLoops& l, Op op) {
  constexpr int kWidth = Op::kWidth, kNeighbours = 256, kEach = kWidth == 1 ? 4 : 2;
  using I = Index<kWidth>;
  std::int64_t vectors = l.outer * l.channels * l.inner / kWidth;
  std::int64_t blocks = (vectors + kEach * kNeighbours - 1) / (kEach * kNeighbours);
  Quotient by_inner(l.inner, vectors * kWidth), by_channels(l.channels, l.outer * l.channels);
  auto channels = static_cast<I>(l.channels), inner = static_cast<I>(l.inner), end = static_cast<I>(vectors);
  for_each(
      stream, blocks * kNeighbours, UNITY_LAMBDA(std::int64_t i) {
        using State = typename Op::State;
        auto from = static_cast<I>(i / kNeighbours * (kEach * kNeighbours) + i % kNeighbours);
        typename Op::Item items[kEach];
        UNITY_UNROLL
        for (int b = 0; b < kEach; ++b) {
          I v = from + b * kNeighbours;
          items[b] = op.load((v < end ? v : end - 1) * kWidth);
        }
        UNITY_UNROLL
        for (int b = 0; b < kEach; ++b) {
          I v = from + b * kNeighbours, at = v * kWidth;
          if (v >= end) break;
          I plane = by_inner.of(at), channel = plane - by_channels.of(plane) * channels;
          I rest = (plane + 1) * inner - at;  // of the plane
          State state = op.prepare(channel);
          if (kWidth == 1 || rest >= kWidth) {
            op.use(at, items[b], OneChannel<State>{state});
          } else {
            State next = op.prepare(channel + 1 < channels ? channel + 1 : 0);
            op.use(at, items[b], TwoChannels<State>{state, next, static_cast<int>(rest)});
          }
        }
      });
}

}  // namespace unity::cuda
