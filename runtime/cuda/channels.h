// Blocks [outer, channels, inner] that are gone through channel by channel, sixteen bytes at a time: a plane (the inner
// elements of one channel) may begin and end within a vector. Where planes have one element, vectors are of
// neighbouring channels, and a thread goes down the rows of one column of vectors.
#pragma once

#include "core/ops/batch_norm.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vectors.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {

constexpr std::int64_t kShortPlane = 8;  // shorter ones are gone through element by element

// The channels of a call's block x; those that lie side by side have planes of one element.
inline ChannelLoops channels_of(const Call& c, const Operand& x) {
  ChannelLoops l = channel_loops(x.extent);
  return c.channels_last ? ChannelLoops{l.outer * l.inner, l.channels, 1} : l;
}

// Whether a block can be gone through in vectors, which are counted in 32 bits, with some room.
inline bool in_vectors(const ChannelLoops& l) {
  constexpr std::int64_t kWidest = 8;
  return (l.inner >= kShortPlane || (l.inner == 1 && l.channels % kWidest == 0)) &&
         l.outer * l.channels * l.inner <= INT32_MAX - 65536;
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

// Of the elements of a vector each its own channel.
template <class State>
struct EachChannel {
  const State* states;
  UNITY_DEVICE const State& operator()(int j) const { return states[j]; }
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

// Columns of vectors of a block whose planes have one element. A group of threads has `columns` of them side by side,
// as many as leave few threads without one, and a part of the rows.
struct ChannelColumns {
  int vectors, columns, tiles;
  ChannelColumns(std::int64_t channels, int width)
      : vectors(static_cast<int>(channels / width)), columns(0), tiles((vectors + kMostColumns - 1) / kMostColumns) {
    columns = (vectors + tiles - 1) / tiles;
  }

 private:
  static constexpr int kMostColumns = 32;
};

// partial[part * channels + channel], the sums of the parts of each channel.
template <class Op>
std::int64_t sum_columns_of_channels(const Call& c, const ChannelLoops& l, Op op, Two<float>*& partial) {
  constexpr int kWidth = Op::kWidth, kInFlight = 4;
  // What a large GPU runs at once: groups read while others read, and add up once.
  constexpr std::int64_t kMultiprocessors = 132, kGroups = kMultiprocessors * Op::groups_at_once();
  const ChannelColumns of(l.channels, kWidth);
  const int lanes = std::max(kSizeOfColumns / of.columns, 1);
  const std::int64_t parts =
      std::max<std::int64_t>(std::min<std::int64_t>(kGroups / of.tiles, (l.outer + 2 * lanes - 1) / (2 * lanes)), 1);
  const auto share = static_cast<int>((l.outer + parts - 1) / parts);
  partial = static_cast<Two<float>*>(c.scratch(parts * l.channels * static_cast<std::int64_t>(sizeof(Two<float>))));
  Two<float>* sums = partial;
  const auto rows = static_cast<int>(l.outer), channels = static_cast<int>(l.channels);
  constexpr std::int64_t kWork = 4096;  // which asks for groups of kSizeOfColumns
  for_each_group(
      c.stream, parts * of.tiles, kWork, UNITY_LAMBDA(std::int64_t g, const Group& group) {
        const int part = static_cast<int>(g) / of.tiles, tile = static_cast<int>(g) - part * of.tiles;
        const int begin = part * share, end = begin + share < rows ? begin + share : rows;
        // Fewer threads than columns (the plain emulation has one): they take some after others.
        const int side = group.size() < of.columns ? group.size() : of.columns, down = group.size() / side;
        for (int first = 0; first < of.columns; first += side) {
          const int column = tile * of.columns + first + group.rank() % side, down_at = group.rank() / side;
          const bool any = column < of.vectors && first + group.rank() % side < of.columns && down_at < down;
          const int channel = any ? column * kWidth : 0;
          float sum[2 * kWidth] = {};
          if (any) {
            using State = decltype(op.prepare(channel));
            State states[kWidth];
            for (int j = 0; j < kWidth; ++j) states[j] = op.prepare(channel + j);
            for (int row = begin + down_at; row < end; row += kInFlight * down) {
              typename Op::Item items[kInFlight];
              UNITY_UNROLL
              for (int b = 0; b < kInFlight; ++b) {
                const int r = row + b * down;
                items[b] = op.load((r < end ? r : end - 1) * channels + channel);
              }
              UNITY_UNROLL
              for (int b = 0; b < kInFlight; ++b) {
                const int r = row + b * down;
                if (r >= end) break;
                float v[kWidth];
                for (int j = 0; j < kWidth; ++j) {
                  Two<float> x = op.one(states[j], items[b], j, v[j]);
                  sum[2 * j] += x.first, sum[2 * j + 1] += x.second;
                }
                op.put(r * channels + channel, v);
              }
            }
          }
          group.sum_columns(sum, side, [&](int at, int i, float total) {
            const int to = tile * of.columns + first + at;
            if (to >= of.vectors || first + at >= of.columns) return;
            Two<float>& sums_of = sums[static_cast<std::int64_t>(part) * channels + to * kWidth + i / 2];
            (i % 2 == 0 ? sums_of.first : sums_of.second) = total;
          });
        }
      });
  return parts;
}

// For every channel: op.finish(channel, the sums over its elements of op.use(state, at, item, which count)), with state
// = op.prepare(channel), and item = op.load(at) of the vector at `at`. In a fixed order; Op has the constants kWidth,
// kInFlight (items that a thread asks for before it uses the first) and groups_at_once() (of kSizeOfColumns threads,
// for which a multiprocessor of 65,536 registers has room).
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
  } else if (Op::kWidth > 1 && l.inner == 1) {
    if constexpr (Op::kWidth > 1) parts = sum_columns_of_channels(c, l, op, partial);
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

// for_each_of_channels where planes have one element: a thread keeps the states of its column's channels.
template <class Op>
void for_each_in_columns(Stream stream, const ChannelLoops& l, Op op) {
  constexpr int kWidth = Op::kWidth, kInFlight = 4, kMostRows = 16;
  constexpr std::int64_t kThreads = 270336;  // that a large GPU runs at a time
  if (l.outer == 0) return;
  const auto vectors = static_cast<int>(l.channels / kWidth), rows = static_cast<int>(l.outer),
             channels = static_cast<int>(l.channels);
  const std::int64_t each = std::clamp<std::int64_t>(l.outer * vectors / kThreads, kInFlight, kMostRows);
  const auto down = static_cast<int>((l.outer + each - 1) / each);  // threads of a column
  Quotient by_vectors(vectors, static_cast<std::int64_t>(vectors) * down);
  for_each(
      stream, static_cast<std::int64_t>(vectors) * down, UNITY_LAMBDA(std::int64_t i) {
        using State = typename Op::State;
        const auto thread = static_cast<int>(i);
        const int first = by_vectors.of(thread), channel = (thread - first * vectors) * kWidth;
        State states[kWidth];
        for (int j = 0; j < kWidth; ++j) states[j] = op.prepare(channel + j);
        for (int row = first; row < rows; row += kInFlight * down) {
          typename Op::Item items[kInFlight];
          UNITY_UNROLL
          for (int b = 0; b < kInFlight; ++b) {
            const int r = row + b * down;
            items[b] = op.load((r < rows ? r : rows - 1) * channels + channel);
          }
          UNITY_UNROLL
          for (int b = 0; b < kInFlight; ++b) {
            const int r = row + b * down;
            if (r < rows) op.use(r * channels + channel, items[b], EachChannel<State>{states});
          }
        }
      });
}

// op.use(at, op.load(at), channels) for every vector of a block, where channels(j) is op.prepare(the channel of element
// j). A thread takes two vectors, as far apart as neighbouring threads together take.
template <class Op>
void for_each_of_channels(Stream stream, const ChannelLoops& l, Op op) {
  constexpr int kWidth = Op::kWidth, kNeighbours = 256, kEach = kWidth == 1 ? 4 : 2;
  if constexpr (kWidth > 1)
    if (l.inner == 1) return for_each_in_columns(stream, l, op);
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
