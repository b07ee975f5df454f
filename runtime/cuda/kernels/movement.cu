// Operators that move elements: joining, cutting, repeating and permuting.
#include <numeric>

#include "core/ops/concat.h"
#include "core/ops/slice.h"
#include "runtime/cuda/elementwise.h"

namespace unity::cuda {

namespace {

template <class R>
void copy(const Call& c, const std::vector<Loop<2>>& loops, typename R::Array to, typename R::Array from) {
  map(
      c.stream, loops, UNITY_LAMBDA(typename R::Value x) { return x; }, to, from);
}

// Copies the pieces of a concatenated block out of it or into it.
template <class R>
void copy_pieces(const Call& c, const ConcatLayout& layout, const Operand& whole, std::span<const Operand> pieces,
                 bool into_whole) {
  std::int64_t length = std::accumulate(layout.lengths.begin(), layout.lengths.end(), std::int64_t{0}), first = 0;
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
  Walk<2> outer(others);
  std::int64_t tiles_i = (i.length + 15) / 16, tiles_j = (j.length + 31) / 32;
  std::int64_t length_i = i.length, length_j = j.length, step_x = i.stride[1], step_y = j.stride[0];
  for_each(
      c.stream, outer.iterations() * tiles_i * tiles_j * 32, UNITY_LAMBDA(std::int64_t t) {
        std::int64_t lane = t % 32, tile = t / 32;
        std::int64_t at_j = tile % tiles_j * 32 + lane % 8 * 4, at_i = tile / tiles_j % tiles_i * 16 + lane / 8 * 4;
        if (at_j >= length_j || at_i >= length_i) return;
        auto at = outer.locate(tile / tiles_j / tiles_i);
        Four<T> in[4];
        for (int k = 0; k < 4; ++k) in[k] = x.load_four(at[1] + (at_i + k) * step_x + at_j);
        for (int k = 0; k < 4; ++k)
          y.store_four(at[0] + (at_j + k) * step_y + at_i, {{in[0].v[k], in[1].v[k], in[2].v[k], in[3].v[k]}});
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
