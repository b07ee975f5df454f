// Functions of single elements over strided blocks: y = f(x, ..), four neighbours at a time where the blocks allow it.
#pragma once

#include <tuple>
#include <utility>

#include "runtime/cuda/call.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {

// One iteration of map, or four that are neighbours along the innermost loop.
template <bool kFour, class F, class Y, class... X>
struct Elementwise {
  static constexpr std::size_t kBlocks = 1 + sizeof...(X);
  Walk<kBlocks> walk;
  F f;
  Y y;
  std::tuple<X...> x;

  UNITY_DEVICE void operator()(std::int64_t i) const { run(i, std::index_sequence_for<X...>()); }

 private:
  template <std::size_t... I>
  UNITY_DEVICE void run(std::int64_t i, std::index_sequence<I...> which) const {
    if constexpr (kFour) {
      i *= 4;
      if (i + 4 > walk.iterations()) {
        for (; i < walk.iterations(); ++i) one(i, which);
        return;
      }
      Positions<kBlocks> p = walk.locate(i);
      std::tuple<Four<typename X::Value>...> v{load(std::get<I>(x), p[I + 1], walk.inner_stride(I + 1))...};
      Four<typename Y::Value> result;
      for (int k = 0; k < 4; ++k) result.v[k] = f(std::get<I>(v).v[k]...);
      y.store_four(p[0], result);
    } else {
      one(i, which);
    }
  }
  template <std::size_t... I>
  UNITY_DEVICE void one(std::int64_t i, std::index_sequence<I...>) const {
    Positions<kBlocks> p = walk.locate(i);
    y.store(p[0], f(std::get<I>(x).load(p[I + 1])...));
  }
  template <class A>
  UNITY_DEVICE static Four<typename A::Value> load(const A& a, std::int64_t at, std::int64_t stride) {
    if (stride == 1) return a.load_four(at);
    auto v = a.load(at);
    return {{v, v, v, v}};
  }
};

// y = f(x, ..) in every iteration of the loops, in which block 0 is y and block i the i-th x. y overlaps no x, or is
// one of them.
template <class F, class Y, class... X>
void map(Stream stream, const std::vector<Loop<1 + sizeof...(X)>>& loops, F f, Y y, X... x) {
  constexpr std::size_t kBlocks = 1 + sizeof...(X);
  Walk<kBlocks> walk(loops);
  const bool aligned[] = {y.aligned(), x.aligned()...};
  bool four = walk.inner_stride(0) == 1 && (walk.rank() == 1 || walk.length(walk.rank() - 1) % 4 == 0);
  for (std::size_t n = 0; n < kBlocks; ++n) {
    if (walk.inner_stride(n) == 0) continue;
    four = four && walk.inner_stride(n) == 1 && aligned[n];
    for (int d = 0; d + 1 < walk.rank(); ++d) four = four && walk.stride(d, n) % 4 == 0;
  }
  if (four)
    for_each(stream, (walk.iterations() + 3) / 4, Elementwise<true, F, Y, X...>{walk, f, y, {x...}});
  else
    for_each(stream, walk.iterations(), Elementwise<false, F, Y, X...>{walk, f, y, {x...}});
}

// The same on n neighbouring elements of each block.
template <class F, class Y, class... X>
void map_dense(Stream stream, std::int64_t n, F f, Y y, X... x) {
  Loop<1 + sizeof...(X)> loop{n, {}};
  loop.stride.fill(1);
  map(stream, {loop}, f, y, x...);
}

// The loops of a result and of operands that are broadcast to it.
template <class... O>
std::vector<Loop<1 + sizeof...(O)>> broadcast_loops(const Operand& result, const O&... operands) {
  constexpr std::size_t kBlocks = 1 + sizeof...(O);
  const Dims of[] = {strides(result.extent), broadcast_strides(operands, result.extent)...};
  std::vector<Loop<kBlocks>> loops(result.extent.size());
  for (std::size_t d = 0; d < loops.size(); ++d) {
    loops[d].length = result.extent[d];
    for (std::size_t n = 0; n < kBlocks; ++n) loops[d].stride[n] = of[n][d];
  }
  return loops;
}

// y = f(x).
template <class R, class F>
void unary(const Call& c, F f) {
  map_dense(c.stream, c.outputs[0].elements(), f, reals<R>(c.outputs[0]), reals<R>(c.inputs[0]));
}

// dx = f(r, dy) with r the operand or result of the forward operator.
template <class R, class F>
void unary_gradient(const Call& c, F f) {
  map_dense(c.stream, c.outputs[0].elements(), f, reals<R>(c.outputs[0]), reals<R>(c.inputs[0]), reals<R>(c.inputs[1]));
}

// z = f(x, y) with broadcasting.
template <class R, class F>
void binary(const Call& c, F f) {
  const Operand &x = c.inputs[0], &y = c.inputs[1], &z = c.outputs[0];
  map(c.stream, broadcast_loops(z, x, y), f, reals<R>(z), reals<R>(x), reals<R>(y));
}

}  // namespace unity::cuda
