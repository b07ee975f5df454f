// sgd_rows_step: sort the ids, cut the sorted list in pieces of a fixed length, and let a group of threads add up each
// piece. Where all ids of a row lie within one piece, it updates the row at once; the sums of a row that reaches into
// other pieces are put together afterwards, in the order of the pieces, by the piece in which it begins.
#ifndef UNITY_CUDA_EMULATED
#include <cub/device/device_radix_sort.cuh>
#endif

#include <bit>

#include "runtime/cuda/optimizers.h"

namespace unity::cuda {
namespace {

constexpr std::int64_t kPiece = 32;

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Sorts n keys of so many bits, and places beside them; the order of equal keys stays. Returns the bytes of scratch
// memory that it needs, which is all that it does when that is null.
std::size_t sort(Stream stream, std::int64_t n, int bits, const std::int32_t* keys, std::int32_t* sorted_keys,
                 const std::int32_t* places, std::int32_t* sorted_places, void* scratch, std::size_t bytes) {
#ifndef UNITY_CUDA_EMULATED
  UNITY_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, places, sorted_places,
                                                   static_cast<int>(n), 0, bits, stream));
  return bytes;
#else
  static_cast<void>(bytes), static_cast<void>(bits);
  if (!scratch) return 1;
  emulate(stream, [=] {
    std::copy_n(places, n, sorted_places);
    std::stable_sort(sorted_places, sorted_places + n,
                     [=](std::int32_t a, std::int32_t b) { return keys[a] < keys[b]; });
    for (std::int64_t i = 0; i < n; ++i) sorted_keys[i] = keys[sorted_places[i]];
  });
  return 1;
#endif
}

// Parts of the scratch memory, in bytes from its beginning.
struct Layout {
  std::int64_t rows, places, sorted_rows, sorted_places, sums, sorting, sorting_bytes, all;
  Layout(std::int64_t n, std::int64_t width, DType dtype) {
    std::int64_t pieces = (n + kPiece - 1) / kPiece, list = aligned(n * 4);
    rows = 0, places = list, sorted_rows = 2 * list, sorted_places = 3 * list, sums = 4 * list;
    sorting = sums + aligned(2 * pieces * width * size_of(dtype));
    sorting_bytes = static_cast<std::int64_t>(sort(nullptr, n, 32, nullptr, nullptr, nullptr, nullptr, nullptr, 0));
    all = sorting + aligned(sorting_bytes);
  }
};

template <class R>
void step_rows(Stream stream, const RowsStep& how, const StepValues* step, char* scratch) {
  using T = typename R::Value;
  const std::int64_t n = how.ids.elements(), width = how.table.extent[1], pieces = (n + kPiece - 1) / kPiece;
  const std::int64_t ids_of_row = n * width / how.dy.elements();
  const std::int64_t offset = how.table.offset[0], extent = how.table.extent[0];
  const auto elsewhere = static_cast<std::int32_t>(extent);  // the row of ids that are not in the block

  const Layout layout(n, width, how.table.dtype);
  auto list = [&](std::int64_t at) { return reinterpret_cast<std::int32_t*>(scratch + at); };
  std::int32_t *rows = list(layout.rows), *places = list(layout.places);
  std::int32_t *sorted = list(layout.sorted_rows), *from = list(layout.sorted_places);
  T* sums = reinterpret_cast<T*>(scratch + layout.sums);  // of each piece, those of its first and of its last row

  auto ids = indices(how.ids);
  for_each(
      stream, n, UNITY_LAMBDA(std::int64_t i) {
        std::int64_t row = ids.load(i) - offset;
        rows[i] = row >= 0 && row < extent ? static_cast<std::int32_t>(row) : elsewhere;
        places[i] = static_cast<std::int32_t>(i);
      });
  sort(stream, n, std::bit_width(static_cast<std::uint64_t>(extent)), rows, sorted, places, from,
       scratch + layout.sorting, static_cast<std::size_t>(layout.sorting_bytes));

  auto dy = reals<R>(how.dy);
  T* table = how.table.as<T>();
  BFloat16* rounded = how.rounded;
  double learning_rate = how.rate;
  auto update = UNITY_LAMBDA(std::int64_t row, std::int64_t j, T sum) {
    T w = table[row * width + j] - static_cast<T>(learning_rate * step->rate_factor) * sum;
    table[row * width + j] = w;
    if (rounded) rounded[row * width + j] = to_bfloat16(static_cast<float>(w));
  };
  // Whether a row's ids go on beyond a piece's end, or come from before its beginning.
  auto open_before = UNITY_LAMBDA(std::int64_t piece) {
    return piece > 0 && sorted[piece * kPiece - 1] == sorted[piece * kPiece];
  };
  auto open_after = UNITY_LAMBDA(std::int64_t piece) {
    std::int64_t end = (piece + 1) * kPiece;
    return end < n && sorted[end - 1] == sorted[end];
  };
  for_each_group(
      stream, pieces, width, UNITY_LAMBDA(std::int64_t piece, const Group& group) {
        std::int64_t begin = piece * kPiece, end = begin + kPiece < n ? begin + kPiece : n;
        bool before = open_before(piece), after = open_after(piece);
        for (std::int64_t j = group.rank(); j < width; j += group.size()) {
          T sum = 0;
          for (std::int64_t i = begin, first = begin; i < end; ++i) {
            std::int32_t row = sorted[i];
            if (row == elsewhere) break;
            sum += dy.load(from[i] / ids_of_row * width + j);
            if (i + 1 < end && sorted[i + 1] == row) continue;
            if (before && first == begin)
              sums[2 * piece * width + j] = sum;
            else if (after && i + 1 == end)
              sums[(2 * piece + 1) * width + j] = sum;
            else
              update(row, j, sum);
            sum = 0, first = i + 1;
          }
        }
      });
  // A row that begins in a piece and goes on.
  for_each_group(
      stream, pieces, width, UNITY_LAMBDA(std::int64_t piece, const Group& group) {
        std::int32_t row = sorted[(piece + 1) * kPiece <= n ? (piece + 1) * kPiece - 1 : n - 1];
        if (row == elsewhere || !open_after(piece) || (open_before(piece) && sorted[piece * kPiece] == row)) return;
        std::int64_t last = piece + 1, other = pieces;  // the last piece that begins with the row, by halving
        while (other - last > 1) {
          std::int64_t middle = (last + other) / 2;
          (sorted[middle * kPiece] == row ? last : other) = middle;
        }
        for (std::int64_t j = group.rank(); j < width; j += group.size()) {
          T sum = sums[(2 * piece + 1) * width + j];
          for (std::int64_t p = piece + 1; p <= last; ++p) sum += sums[2 * p * width + j];
          update(row, j, sum);
        }
      });
}

}  // namespace

std::int64_t sgd_rows_scratch(const RowsStep& how) {
  return Layout(how.ids.elements(), how.table.extent[1], how.table.dtype).all;
}

void sgd_rows_step(Stream stream, const RowsStep& how, const StepValues* step, void* scratch) {
  if (how.ids.elements() == 0 || how.dy.elements() == 0) return;
  UNITY_CHECK(how.table.dtype == DType::f32 || how.table.dtype == DType::f64,
              "cuda sgd_rows_step: the table is {}, expected f32 or f64", to_string(how.table.dtype));
  UNITY_CHECK(how.ids.elements() < INT32_MAX && how.table.extent[0] < INT32_MAX,
              "cuda sgd_rows_step: {} ids and {} rows, expected fewer than {}", how.ids.elements(), how.table.extent[0],
              INT32_MAX);
  if (how.table.dtype == DType::f64)
    step_rows<Doubles>(stream, how, step, static_cast<char*>(scratch));
  else
    step_rows<Mixed>(stream, how, step, static_cast<char*>(scratch));
}

}  // namespace unity::cuda
