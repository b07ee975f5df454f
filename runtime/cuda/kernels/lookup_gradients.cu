// Gradients of look-ups: every looked-up row of dy is added to its row of the table. Entries (row, position) are sorted
// by row, and the runs of equal rows summed, so that the order of each sum is always the same and nothing is written by
// two threads. Groups take chunks of the sorted entries; the sums of runs that reach over the end of a chunk are put
// together in a second step.
#include "core/ops/embedding_bag.h"
#include "core/ops/gather.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/sort.h"

namespace unity::cuda {
namespace {

constexpr std::int64_t kChunk = 64;     // entries
constexpr std::int64_t kColumns = 512;  // of a group

// dy is [outer, positions, inner], of which `per_row` neighbouring entries share a position; dx is [outer, n, inner].
struct Scatter {
  std::int64_t entries, per_row, outer, n, inner, offset;
  double factor;
};

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// What both steps read.
template <class R>
struct Runs {
  const std::uint32_t* rows;  // sorted; n: of another block
  const std::int32_t* positions;
  typename R::Array dy, dx;
  typename R::Value factor;
  // Of each chunk and column, the sums of the run it begins in the middle of, and of the one that goes on behind it.
  typename R::Value *heads, *tails;
  Scatter s;
  std::int64_t columns, chunks;

  UNITY_DEVICE std::int64_t end(std::int64_t chunk) const {
    return (chunk + 1) * kChunk < s.entries ? (chunk + 1) * kChunk : s.entries;
  }
  // Whether the run of entry i - 1 goes on at i.
  UNITY_DEVICE bool continues(std::int64_t i) const { return i > 0 && i < s.entries && rows[i] == rows[i - 1]; }
  UNITY_DEVICE typename R::Value load(std::int64_t i, std::int64_t column) const {
    std::int64_t position = positions[i] / s.per_row;
    return dy.load((column / s.inner * (s.entries / s.per_row) + position) * s.inner + column % s.inner);
  }
  UNITY_DEVICE void store(std::uint32_t row, std::int64_t column, typename R::Value sum) const {
    if (row < s.n) dx.store((column / s.inner * s.n + row) * s.inner + column % s.inner, sum * factor);
  }
};

// The runs of one chunk in one column.
template <class R>
UNITY_OF_GROUP void sum_runs(const Runs<R>& runs, std::int64_t chunk, std::int64_t column) {
  using V = typename R::Value;
  std::int64_t begin = chunk * kChunk, end = runs.end(chunk);
  bool head = runs.continues(begin);
  V sum = 0;
  for (std::int64_t first = begin; first < end; first += kBatch) {
    V items[kBatch];
    UNITY_UNROLL
    for (int b = 0; b < kBatch; ++b) items[b] = runs.load(first + b < end ? first + b : end - 1, column);
    UNITY_UNROLL
    for (int b = 0; b < kBatch; ++b) {
      std::int64_t i = first + b;
      if (i >= end) continue;
      sum += items[b];
      if (i + 1 < end && runs.continues(i + 1)) continue;
      bool tail = i + 1 == end && runs.continues(end);
      if (head)
        runs.heads[chunk * runs.columns + column] = sum;
      else if (tail)
        runs.tails[chunk * runs.columns + column] = sum;
      else
        runs.store(runs.rows[i], column, sum);
      sum = 0, head = false;
    }
  }
}

// The chunk in which the run of the last entry of `chunk` ends.
template <class R>
UNITY_OF_GROUP std::int64_t last_chunk(const Runs<R>& runs, std::int64_t chunk) {
  std::int64_t low = runs.end(chunk), high = runs.s.entries;  // the first entry of a larger row lies in [low, high]
  std::uint32_t row = runs.rows[low - 1];
  while (low < high) {
    std::int64_t middle = (low + high) / 2;
    if (runs.rows[middle] <= row)
      low = middle + 1;
    else
      high = middle;
  }
  return (low - 1) / kChunk;
}

template <class R>
void scatter_rows(const Call& c, const Operand& index, const Operand& slopes, const Scatter& s) {
  using V = typename R::Value;
  UNITY_CHECK(s.entries < (std::int64_t{1} << 31), "cuda: {} look-ups in one call, expected fewer than 2^31",
              s.entries);
  std::int64_t columns = s.outer * s.inner, chunks = (s.entries + kChunk - 1) / kChunk;
  SortedPairs pairs{nullptr, nullptr, nullptr, nullptr, s.entries, s.n};
  std::size_t sorting = sort_bytes(pairs);
  std::int64_t list = aligned(s.entries * 4), parts = aligned(chunks * columns * static_cast<std::int64_t>(sizeof(V)));
  auto* memory = static_cast<char*>(c.scratch(4 * list + 2 * parts + static_cast<std::int64_t>(sorting)));
  pairs.keys = reinterpret_cast<std::uint32_t*>(memory);
  pairs.sorted_keys = reinterpret_cast<std::uint32_t*>(memory + list);
  pairs.values = reinterpret_cast<std::int32_t*>(memory + 2 * list);
  pairs.sorted_values = reinterpret_cast<std::int32_t*>(memory + 3 * list);
  Runs<R> runs{pairs.sorted_keys,
               pairs.sorted_values,
               reals<R>(slopes),
               reals<R>(c.outputs[0]),
               static_cast<V>(s.factor),
               reinterpret_cast<V*>(memory + 4 * list),
               reinterpret_cast<V*>(memory + 4 * list + parts),
               s,
               columns,
               chunks};

  auto ids = indices(index);
  for_each(
      c.stream, s.entries, UNITY_LAMBDA(std::int64_t i) {
        std::int64_t row = ids.load(i) - s.offset;
        pairs.keys[i] = static_cast<std::uint32_t>(row >= 0 && row < s.n ? row : s.n);
        pairs.values[i] = static_cast<std::int32_t>(i);
      });
  sort_pairs(c.stream, memory + 4 * list + 2 * parts, sorting, pairs);
  set_zero(c.stream, c.outputs[0]);

  std::int64_t tiles = (columns + kColumns - 1) / kColumns, width = std::min(columns, kColumns);
  for_each_group(
      c.stream, chunks * tiles, width, UNITY_LAMBDA(std::int64_t g, const Group& group) {
        std::int64_t chunk = g / tiles, begin = g % tiles * kColumns;
        if (runs.rows[chunk * kChunk] >= runs.s.n) return;  // nothing here but rows of other blocks
        for (std::int64_t j = begin + group.rank(); j < begin + kColumns && j < runs.columns; j += group.size())
          sum_runs(runs, chunk, j);
      });
  for_each_group(
      c.stream, chunks * tiles, width, UNITY_LAMBDA(std::int64_t g, const Group& group) {
        std::int64_t chunk = g / tiles, begin = g % tiles * kColumns, end = runs.end(chunk);
        std::uint32_t row = runs.rows[end - 1];
        // Runs that begin in this chunk and go on behind it.
        bool begins = !runs.continues(chunk * kChunk) || runs.rows[chunk * kChunk] != row;
        if (row >= runs.s.n || !begins || !runs.continues(end)) return;
        std::int64_t last = last_chunk(runs, chunk);
        for (std::int64_t j = begin + group.rank(); j < begin + kColumns && j < runs.columns; j += group.size()) {
          V sum = runs.tails[chunk * runs.columns + j];
          for (std::int64_t q = chunk + 1; q <= last; ++q) sum += runs.heads[q * runs.columns + j];
          runs.store(row, j, sum);
        }
      });
}

}  // namespace

template <class R>
void embedding_gradient_of(const Call& c) {
  const Operand &ids = c.inputs[0], &dx = c.outputs[0];
  scatter_rows<R>(c, ids, c.inputs[1], {ids.elements(), 1, 1, dx.extent[0], dx.extent[1], dx.offset[0], 1});
}
UNITY_CUDA_KERNEL(embedding_gradient)

template <class R>
void embedding_bag_gradient_of(const Call& c) {
  const Operand &ids = c.inputs[0], &dx = c.outputs[0];
  scatter_rows<R>(c, ids, c.inputs[1],
                  {ids.elements(), ids.extent[1], 1, dx.extent[0], dx.extent[1], dx.offset[0],
                   embedding_bag_factor(c.attributes, ids)});
}
UNITY_CUDA_KERNEL(embedding_bag_gradient)

template <class R>
void gather_gradient_of(const Call& c) {
  const Operand &ids = c.inputs[0], &dx = c.outputs[0];
  GatherLoops l = gather_loops(int_attribute(c.attributes, 0), dx);
  scatter_rows<R>(c, ids, c.inputs[1], {ids.elements(), 1, l.outer, l.n, l.inner, l.offset, 1});
}
UNITY_CUDA_KERNEL(gather_gradient)

}  // namespace unity::cuda
