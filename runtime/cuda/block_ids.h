// Ids that name rows of a block, sorted by row, for kernel sources. Equal ones keep their order.
#pragma once

#include "runtime/cuda/elements.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/sort.h"

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

inline std::int64_t bytes_of_list(std::int64_t items) { return (items * 4 + 255) / 256 * 256; }

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

}  // namespace unity::cuda
