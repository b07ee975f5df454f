// Operators that move elements: joining, cutting, repeating and permuting.
#include <array>
#include <numeric>
#include <utility>

#include "core/ops/concat.h"
#include "core/ops/slice.h"
#include "runtime/cuda/elementwise.h"

namespace unity::cuda {

namespace {

// 16 bytes, moved as they are.
struct alignas(16) [[gnu::may_alias]] Unit {
  std::uint32_t v[4];
};

struct Same {
  template <class T>
  UNITY_DEVICE T operator()(T x) const {
    return x;
  }
};

// Copies in units where all that lies together does so in whole units.
bool copy_units(Stream stream, const std::vector<Loop<2>>& loops, void* to, const void* from, std::int64_t bytes) {
  std::vector<Loop<2>> units = collapse(loops);
  const std::int64_t per = static_cast<std::int64_t>(sizeof(Unit)) / bytes;
  Loop<2>& inner = units.back();
  bool fits = aligned_for<Unit, 1>(to) && aligned_for<Unit, 1>(from) && inner.length % per == 0 &&
              inner.stride == std::array<std::int64_t, 2>{1, 1};
  for (Loop<2>& loop : units) {
    if (&loop == &inner) continue;
    fits = fits && loop.stride[0] % per == 0 && loop.stride[1] % per == 0;
    loop.stride[0] /= per, loop.stride[1] /= per;
  }
  inner.length /= per;
  Walk<2> walk(units);
  if (!fits || !walk.small() || walk.iterations() == 0) return false;
  using Units = Dense<Unit>;
  Elementwise<1, Same, Units, Units> work(walk, {}, {static_cast<Unit*>(to)},
                                          {static_cast<Unit*>(const_cast<void*>(from))});
  for_each(stream, work.threads(), work);
  return true;
}

template <class A>
bool one_type(const A& a, const A& b) {
  return a.element_bytes() == b.element_bytes();
}

template <class R>
void copy(const Call& c, const std::vector<Loop<2>>& loops, typename R::Array to, typename R::Array from) {
  if (one_type(to, from) && copy_units(c.stream, loops, to.data, from.data, to.element_bytes())) return;
  map(c.stream, loops, Same(), to, from);
}

// Pieces of a whole, which lie side by side in each of its rows. In elements of type T, as in launches of the pieces.
constexpr std::size_t kMostPieces = 64;
template <class T>
struct Pieces {
  T* whole;
  std::int64_t length;  // of a row of the whole
  T* data[kMostPieces];
  std::uint32_t first[kMostPieces + 1];  // where each begins among the columns of this launch, and their number
  int count;
  bool into_whole;
  Divider columns;

  UNITY_DEVICE void operator()(std::int64_t i) const {
    auto row = columns.narrow_quotient(static_cast<std::uint32_t>(i));
    auto column = static_cast<std::uint32_t>(i) - row * static_cast<std::uint32_t>(columns.divisor);
    int low = 0, high = count - 1;
    while (low < high) {  // for the last piece that begins at the column or before
      int middle = (low + high + 1) / 2;
      if (first[middle] <= column)
        low = middle;
      else
        high = middle - 1;
    }
    T* of_piece = data[low] + std::int64_t{row} * (first[low + 1] - first[low]) + (column - first[low]);
    T* of_whole = whole + row * length + column;
    if (into_whole)
      write_as(of_whole, read_as<T>(of_piece));
    else
      write_as(of_piece, read_as<T>(of_whole));
  }
};

template <class T>
bool move_pieces(Stream stream, std::int64_t rows, const std::vector<std::int64_t>& bytes, void* whole,
                 const std::vector<void*>& data, bool into_whole) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t length = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  bool fits = aligned_for<T, 1>(whole) && rows * length < INT32_MAX;
  for (std::size_t i = 0; i < data.size(); ++i) fits = fits && bytes[i] % kSize == 0 && aligned_for<T, 1>(data[i]);
  if (!fits) return false;
  T* begin = static_cast<T*>(whole);
  for (std::size_t at = 0; at < data.size(); at += kMostPieces) {
    Pieces<T> pieces{begin, length / kSize, {}, {}, 0, into_whole, {}};
    for (std::size_t i = at; i < std::min(data.size(), at + kMostPieces); ++i) {
      pieces.data[pieces.count] = static_cast<T*>(data[i]);
      pieces.first[pieces.count + 1] = pieces.first[pieces.count] + static_cast<std::uint32_t>(bytes[i] / kSize);
      ++pieces.count;
    }
    const std::int64_t columns = pieces.first[pieces.count];
    pieces.columns = Divider(columns);
    for_each(stream, rows * columns, pieces);
    begin += columns;
  }
  return true;
}

// Copies the pieces of a concatenated block out of it or into it: at once where all are of one type.
template <class R>
void copy_pieces(const Call& c, const ConcatLayout& layout, const Operand& whole, std::span<const Operand> pieces,
                 bool into_whole) {
  const std::int64_t length = std::accumulate(layout.lengths.begin(), layout.lengths.end(), std::int64_t{0});
  const std::int64_t size = size_of(whole.dtype);
  bool together = true;
  std::vector<std::int64_t> bytes;
  std::vector<void*> data;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    together = together && pieces[i].dtype == whole.dtype;
    bytes.push_back(layout.lengths[i] * size);
    data.push_back(pieces[i].data);
  }
  auto move = [&](auto of_type) {
    return move_pieces<decltype(of_type)>(c.stream, layout.outer, bytes, whole.data, data, into_whole);
  };
  if (together && (move(Unit()) || (size == 8   ? move(std::uint64_t())
                                    : size == 4 ? move(std::uint32_t())
                                                : move(std::uint16_t()))))
    return;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::int64_t own = layout.lengths[i];
    auto of_whole = reals<R>(whole).from(first), piece = reals<R>(pieces[i]);
    if (into_whole)
      copy<R>(c, {{layout.outer, {length, own}}, {own, {1, 1}}}, of_whole, piece);
    else
      copy<R>(c, {{layout.outer, {own, length}}, {own, {1, 1}}}, piece, of_whole);
    first += own;
  }
}

// A transposition in blocks of four by four, one for each thread, when sizes and alignment allow it: loop i has
// neighbours in y, loop j those in x. A warp reads 8 blocks along j and writes 4 along i, so that it reads and writes
// whole sectors of memory.
template <class R>
bool transpose_in_fours(const Call& c, const std::vector<Loop<2>>& loops, typename R::Array y, typename R::Array x) {
  using T = typename R::Value;
  const Loop<2> i = loops.back();
  auto found = std::find_if(loops.begin(), loops.end(), [](const Loop<2>& loop) { return loop.stride[1] == 1; });
  if (found == loops.end() || i.stride[0] != 1 || i.stride[1] == 1 || !y.aligned() || !x.aligned()) return false;
  const Loop<2> j = *found;
  std::vector<Loop<2>> others;
  for (std::size_t d = 0; d + 1 < loops.size(); ++d)
    if (loops[d].stride[1] != 1) others.push_back(loops[d]);
  for (const Loop<2>& loop : others)
    if (loop.stride[0] % 4 != 0 || loop.stride[1] % 4 != 0) return false;
  if (i.length % 4 != 0 || j.length % 4 != 0 || i.stride[1] % 4 != 0 || j.stride[0] % 4 != 0) return false;
  // A walk over tiles, of y, x, and how far along i and j.
  std::vector<Loop<4>> tiles;
  for (const Loop<2>& loop : others) tiles.push_back({loop.length, {loop.stride[0], loop.stride[1], 0, 0}});
  tiles.push_back({(i.length + 15) / 16, {16, 16 * i.stride[1], 16, 0}});
  tiles.push_back({(j.length + 31) / 32, {32 * j.stride[0], 32, 0, 32}});
  Walk<4> walk(tiles);
  if (!walk.small()) return false;
  std::int64_t length_i = i.length, length_j = j.length, step_x = i.stride[1], step_y = j.stride[0];
  for_each(
      c.stream, walk.iterations() * 32, UNITY_LAMBDA(std::int64_t t) {
        std::uint32_t tile[] = {static_cast<std::uint32_t>(t / 32)};
        int lane = static_cast<int>(t % 32), at_j = lane % 8 * 4, at_i = lane / 8 * 4;
        Positions<4> at[1];
        walk.locate_small(tile, at);
        if (at[0][3] + at_j >= length_j || at[0][2] + at_i >= length_i) return;
        const std::int64_t from = at[0][1] + at_i * step_x + at_j, to = at[0][0] + at_j * step_y + at_i;
        decltype(x.template load_packed<4>(0)) packed[4];
        UNITY_UNROLL
        for (int k = 0; k < 4; ++k) packed[k] = x.template load_packed<4>(from + k * step_x);
        Four<T> in[4];
        UNITY_UNROLL
        for (int k = 0; k < 4; ++k) in[k] = x.template unpack<4>(packed[k]);
        UNITY_UNROLL
        for (int k = 0; k < 4; ++k) y.store_four(to + k * step_y, {{in[0].v[k], in[1].v[k], in[2].v[k], in[3].v[k]}});
      });
  return true;
}

}  // namespace

template <class R>
void broadcast_like_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  copy<R>(c, reduction_loops(y.extent, ints_attribute(c.attributes, 0)), reals<R>(y), reals<R>(x));
}
UNITY_CUDA_KERNEL(broadcast_like)

template <class R>
void concat_of(const Call& c) {
  copy_pieces<R>(c, concat_layout(int_attribute(c.attributes, 0), int_attribute(c.attributes, 1), c.inputs),
                 c.outputs[0], c.inputs, true);
}
UNITY_CUDA_MOVEMENT(concat)

template <class R>
void split_of(const Call& c) {
  copy_pieces<R>(c, concat_layout(int_attribute(c.attributes, 0), int_attribute(c.attributes, 2), c.outputs),
                 c.inputs[0], c.outputs, false);
}
UNITY_CUDA_MOVEMENT(split)

template <class R>
void reshape_of(const Call& c) {
  if (c.channels_last) {
    // Between rows and an image, whichever of the two it is.
    const bool from_image = c.inputs[0].extent.size() == 4;
    const Dims& image = (from_image ? c.inputs[0] : c.outputs[0]).extent;
    const std::int64_t channels = image[1], area = image[2] * image[3];
    std::vector<Loop<2>> loops = {{image[0], {channels * area, channels * area}}};
    for (auto [length, of_rows, of_image] :
         {std::array{channels, area, std::int64_t{1}}, {area, std::int64_t{1}, channels}})
      loops.push_back(from_image ? Loop<2>{length, {of_rows, of_image}} : Loop<2>{length, {of_image, of_rows}});
    return copy<R>(c, loops, reals<R>(c.outputs[0]), reals<R>(c.inputs[0]));
  }
  copy<R>(c, {{c.outputs[0].elements(), {1, 1}}}, reals<R>(c.outputs[0]), reals<R>(c.inputs[0]));
}
UNITY_CUDA_MOVEMENT(reshape)

template <class R>
void slice_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  Box box = sliced_box({c.attributes, c.inputs, c.outputs, c.random});
  BoxLoops where = box_loops(box, whole_box(x.extent), box);
  copy<R>(c, where.loops, reals<R>(y), reals<R>(x).from(where.first[1]));
}
UNITY_CUDA_MOVEMENT(slice)

template <class R>
void pad_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  auto value = static_cast<typename R::Value>(real_attribute(c.attributes, 2));
  map_dense(
      c.stream, y.elements(), UNITY_LAMBDA() { return value; }, reals<R>(y));
  Box box = padded_box({c.attributes, c.inputs, c.outputs, c.random});
  BoxLoops where = box_loops(whole_box(y.extent), box, box);
  copy<R>(c, where.loops, reals<R>(y).from(where.first[0]), reals<R>(x));
}
UNITY_CUDA_KERNEL(pad)

template <class R>
void transpose_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  const auto& perm = ints_attribute(c.attributes, 0);
  Dims sx = strides(x.extent), sy = strides(y.extent);
  std::vector<Loop<2>> loops;
  for (std::size_t d = 0; d < perm.size(); ++d)
    loops.push_back({y.extent[d], {sy[d], sx[static_cast<std::size_t>(perm[d])]}});
  loops = collapse(loops);
  if (!transpose_in_fours<R>(c, loops, reals<R>(y), reals<R>(x))) copy<R>(c, loops, reals<R>(y), reals<R>(x));
}
UNITY_CUDA_MOVEMENT(transpose)

}  // namespace unity::cuda
