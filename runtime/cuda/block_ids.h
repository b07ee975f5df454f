// Ids that name rows of a block, sorted by row, for kernel sources. Equal ones keep their order.
#pragma once

#include "runtime/cuda/alignment.h"
#include "runtime/cuda/elements.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/sort.h"
#include "runtime/cuda/vector_access.h"

namespace unity::cuda {

struct BlockIds {
  Dense<std::int32_t> ids = {nullptr};
  std::int32_t count = 0;
  std::uint32_t offset = 0, rows = 0;  // the block's, of the table's
  bool four = false;                   // four ids can be read at once

  BlockIds() = default;
  BlockIds(Dense<std::int32_t> i, std::int64_t n, std::int64_t first, std::int64_t height)
      : ids(i),
        count(static_cast<std::int32_t>(n)),
        offset(static_cast<std::uint32_t>(first)),
        rows(static_cast<std::uint32_t>(height)),
        four(i.aligned()) {
    UNITY_CHECK(n < INT32_MAX && first + height < INT32_MAX,
                "cuda: {} look-ups, and rows up to {}, expected less than 2^31 of either", n, first + height);
  }
  // Of the block; `rows` where it has none of that id. A negative id is none, taken as unsigned, too.
  UNITY_DEVICE std::uint32_t row(std::int32_t id) const {
    std::uint32_t r = static_cast<std::uint32_t>(id) - offset;
    return r < rows ? r : rows;
  }
  // Where the i-th id comes when they are sorted.
  UNITY_OF_GROUP std::int32_t rank(const Group& group, std::int32_t i) const {
    const std::uint32_t mine = row(ids.load(i));
    const std::int32_t fours = four ? count / 4 : 0;
    std::int32_t before = 0;
    auto look_at = [&](std::int32_t j, std::int32_t id) { before += row(id) < mine + (j < i ? 1U : 0U) ? 1 : 0; };
    each_item(
        group, fours, [&](std::int64_t j) { return ids.load_four(4 * j); },
        [&](std::int64_t j, const Four<std::int32_t>& x) {
          for (int k = 0; k < 4; ++k) look_at(static_cast<std::int32_t>(4 * j) + k, x.v[k]);
        });
    each_item(
        group, count - 4 * fours, [&](std::int64_t j) { return ids.load(4 * fours + j); },
        [&](std::int64_t j, std::int32_t id) { look_at(4 * fours + static_cast<std::int32_t>(j), id); });
    return group.sum(before);
  }
};

// Up to so many are sorted by one launch: a warp for each counts those before it. More would cost more than passes of a
// radix sort do.
constexpr std::int32_t kRanked = 8192;

inline std::int64_t bytes_of_list(std::int64_t items) { return aligned_bytes(items * 4); }

inline SortedPairs pairs_of(const BlockIds& of, std::uint32_t* rows, std::int32_t* places, void* memory) {
  auto* keys = static_cast<char*>(memory);
  return {reinterpret_cast<std::uint32_t*>(keys),
          rows,
          reinterpret_cast<std::int32_t*>(keys + bytes_of_list(of.count)),
          places,
          of.count,
          of.rows};
}
// Bytes of memory that sort_rows needs besides.
inline std::int64_t sort_rows_bytes(const BlockIds& of) {
  if (of.count <= kRanked) return 0;
  return 2 * bytes_of_list(of.count) + static_cast<std::int64_t>(sort_bytes(pairs_of(of, nullptr, nullptr, nullptr)));
}
// The rows in order, and the place of each among the ids.
inline void sort_rows(Stream stream, const BlockIds& of, std::uint32_t* rows, std::int32_t* places, void* memory) {
  if (of.count <= kRanked)
    return for_each_group(
        stream, of.count, kWarpWork, UNITY_LAMBDA(std::int64_t i, const Group& group) {
          std::int32_t at = of.rank(group, static_cast<std::int32_t>(i));
          if (group.rank() == 0) rows[at] = of.row(of.ids.load(i)), places[at] = static_cast<std::int32_t>(i);
        });
  SortedPairs pairs = pairs_of(of, rows, places, memory);
  for_each(
      stream, of.count, UNITY_LAMBDA(std::int64_t i) {
        pairs.keys[i] = of.row(of.ids.load(i)), pairs.values[i] = static_cast<std::int32_t>(i);
      });
  sort_pairs(stream, static_cast<char*>(memory) + 2 * bytes_of_list(of.count), sort_bytes(pairs), pairs);
}

// Rows of ids in order and their places among the ids, in pieces of a fixed length: so that the sum of a long run of
// equal rows is shared out, each group adds up the run that begins at an entry as far as the piece goes; then one adds
// up what the pieces of a run gave.
template <int kPiece>
struct SortedRows {
  const std::uint32_t* rows;
  const std::int32_t* places;
  std::int32_t count;
  std::uint32_t none;  // the row of ids of other blocks, behind all

  struct Run {
    std::int32_t begin = 0, end = 0;
    bool follows = false, goes_on = false;  // from, and into, another piece
    UNITY_DEVICE bool whole() const { return !follows && !goes_on; }
    // Where the sum of a run that is not whole is kept: a piece has one at its beginning and one at its end.
    UNITY_DEVICE std::int64_t slot() const { return 2 * static_cast<std::int64_t>(begin / kPiece) + (follows ? 0 : 1); }
  };

  UNITY_DEVICE std::int32_t pieces() const { return count / kPiece + (count % kPiece != 0 ? 1 : 0); }
  // Empty where none begins at entry i.
  UNITY_DEVICE Run run(std::int32_t i) const {
    const std::uint32_t row = rows[i];
    const std::int32_t begin = i / kPiece * kPiece, limit = begin + kPiece < count ? begin + kPiece : count;
    Run r;
    r.begin = r.end = i;
    r.follows = i > 0 && rows[i - 1] == row;
    if (row == none || (i > begin && r.follows)) return r;
    for (++r.end; r.end < limit && rows[r.end] == row; ++r.end) {
    }
    r.goes_on = r.end == limit && limit < count && rows[limit] == row;
    return r;
  }
  // Of the run that begins in a piece and goes on, the last piece; 0 where there is none.
  UNITY_DEVICE std::int32_t last_piece(std::int32_t piece) const {
    const std::int32_t next = (piece + 1) * kPiece;
    if (next >= count) return 0;
    const std::uint32_t row = rows[next - 1];
    if (row == none || rows[next] != row) return 0;
    if (piece > 0 && rows[piece * kPiece] == row && rows[piece * kPiece - 1] == row) return 0;
    std::int32_t last = piece + 1, other = pieces();  // that begins with another row
    while (other - last > 1) {
      const std::int32_t middle = last + (other - last) / 2;
      (rows[middle * kPiece] == row ? last : other) = middle;
    }
    return last;
  }
};

// sum += load(begin) + .. + load(end - 1), one after the other, with several reads under way.
template <int kCount, class V, class Load>
UNITY_OF_GROUP void add_in_order(Four<V>& sum, std::int32_t begin, std::int32_t end, Load load) {
  for (std::int32_t first = begin; first < end; first += kBatch) {
    decltype(load(begin)) items[kBatch];
    UNITY_UNROLL
    for (int b = 0; b < kBatch; ++b) items[b] = load(first + b < end ? first + b : end - 1);
    UNITY_UNROLL
    for (int b = 0; b < kBatch; ++b)
      if (first + b < end)
        for (int c = 0; c < kCount; ++c) sum.v[c] += to_real(items[b].v[c]);
  }
}

}  // namespace unity::cuda
