// Functions of single elements over strided blocks: y = f(x, ..), four neighbours at a time where the blocks allow
// it.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {

constexpr int kWarp = 32;

// What one thread does of a map of less than 2^31 iterations: `turns` iterations, or runs of kWide (2, 4 or 8) that are
// neighbours along the innermost loop. Its neighbour in the warp takes the next at each turn. All that it reads is
// asked for before the first is used.
template <int kWide, class F, class Y, class... X>
struct Elementwise {
  static constexpr std::size_t kBlocks = 1 + sizeof...(X);
  // As many as have 16 bytes or more of each operand under way, within registers for half of the most threads.
  static constexpr int kTurns = kWide == 8 ? (kBlocks <= 2 ? 2 : 1) : kWide == 4 ? (kBlocks <= 2 ? 4 : 2) : 4;
  Walk<kBlocks> walk;
  std::uint32_t iterations, runs, turns;  // runs: iterations / kWide; turns: up to kTurns
  F f;
  Y y;
  std::tuple<X...> x;
  bool repeated[kBlocks];  // x in a run

  Elementwise(const Walk<kBlocks>& w, F f, Y y, X... x)
      : walk(w),
        iterations(static_cast<std::uint32_t>(w.iterations())),
        runs(iterations / kWide),
        // Several turns where there are threads for all multiprocessors of a large GPU still.
        turns(std::clamp<std::uint32_t>(runs / 131072, 1, kTurns)),
        f(f),
        y(y),
        x(x...) {
    for (std::size_t n = 0; n < kBlocks; ++n) repeated[n] = walk.inner_stride(n) == 0;
  }
  std::int64_t threads() const { return (runs + turns * kWarp - 1) / (turns * kWarp) * kWarp; }
  UNITY_DEVICE void operator()(std::int64_t i) const {
    run(static_cast<std::uint32_t>(i), std::index_sequence_for<X...>());
  }

 private:
  template <std::size_t... I>
  UNITY_DEVICE void run(std::uint32_t i, std::index_sequence<I...>) const {
    const std::uint32_t first = i / kWarp * kWarp * turns + i % kWarp;
    std::uint32_t at[kTurns];
    UNITY_UNROLL
    for (int t = 0; t < kTurns; ++t) {
      std::uint32_t run = first + t * kWarp;
      at[t] = (run < runs ? run : runs - 1) * kWide;
    }
    Positions<kBlocks> p[kTurns];
    walk.locate_small(at, p);
    std::tuple<decltype(load(std::declval<X>(), 0, false))...> in[kTurns];
    UNITY_UNROLL
    for (int t = 0; t < kTurns; ++t) in[t] = {load(std::get<I>(x), p[t][I + 1], repeated[I + 1])...};
    UNITY_UNROLL
    for (int t = 0; t < kTurns; ++t) {
      if (static_cast<std::uint32_t>(t) >= turns || first + t * kWarp >= runs) continue;
      std::tuple<Several<typename X::Value, kWide>...> v{std::get<I>(x).template unpack<kWide>(std::get<I>(in[t]))...};
      Several<typename Y::Value, kWide> result;
      UNITY_UNROLL
      for (int k = 0; k < kWide; ++k) result.v[k] = f(std::get<I>(v).v[k]...);
      y.store_several(p[t][0], result);
    }
    // The last run where it is not full, which only a single loop has.
    std::uint32_t rest = runs * kWide + i;
    if (kWide > 1 && rest < iterations) y.store(rest, f(std::get<I>(x).load(repeated[I + 1] ? 0 : rest)...));
  }
  template <class A>
  UNITY_DEVICE static auto load(const A& a, std::int64_t at, bool repeated) {
    if constexpr (kWide == 1)
      return a.template load_packed<1>(at);
    else
      return repeated ? a.template repeat_packed<kWide>(at) : a.template load_packed<kWide>(at);
  }
};

// Whether runs of `wide` neighbours along the innermost loop are so in every block that does not repeat one element.
template <std::size_t N>
bool fits_runs(const Walk<N>& walk, int wide, const std::array<bool, N>& aligned) {
  bool fits = walk.iterations() >= wide && walk.inner_stride(0) == 1 &&
              (walk.rank() == 1 || walk.length(walk.rank() - 1) % wide == 0);
  for (std::size_t n = 0; n < N; ++n) {
    if (walk.inner_stride(n) == 0) continue;
    fits = fits && walk.inner_stride(n) == 1 && aligned[n];
    for (int d = 0; d + 1 < walk.rank(); ++d) fits = fits && walk.stride(d, n) % wide == 0;
  }
  return fits;
}

// Loops in two parts, cut in the longest of them (at a multiple of 8, which keeps runs), and where each block begins in
// the second.
template <std::size_t N>
struct LoopHalves {
  std::vector<Loop<N>> first, second;
  std::array<std::int64_t, N> begin{};

  explicit LoopHalves(const std::vector<Loop<N>>& loops) : first(loops), second(loops) {
    auto longest = std::max_element(loops.begin(), loops.end(), [](auto& a, auto& b) { return a.length < b.length; }) -
                   loops.begin();
    std::int64_t length = loops[longest].length, cut = length >= 16 ? length / 16 * 8 : length / 2;
    first[longest].length = cut, second[longest].length = length - cut;
    for (std::size_t n = 0; n < N; ++n) begin[n] = cut * loops[longest].stride[n];
  }
};

// y = f(x, ..) in every iteration of the loops, in which block 0 is y and block i the i-th x. y overlaps no x, or is
// one of them.
template <class F, class Y, class... X>
void map(Stream stream, const std::vector<Loop<1 + sizeof...(X)>>& loops, F f, Y y, X... x) {
  constexpr std::size_t kBlocks = 1 + sizeof...(X);
  Walk<kBlocks> walk(loops);
  if (!walk.small()) {
    LoopHalves<kBlocks> halves(loops);
    map(stream, halves.first, f, y, x...);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      map(stream, halves.second, f, y.from(halves.begin[0]), x.from(halves.begin[I + 1])...);
    }
    (std::index_sequence_for<X...>());
  }
  auto launch = [&](auto work) { for_each(stream, work.threads(), work); };
  // Of bf16 eight are 16 bytes, and two are still the 4 bytes that each thread of a warp should read at least.
  constexpr bool kHalves = (std::is_same_v<Y, FloatOrBFloat16> || ... || std::is_same_v<X, FloatOrBFloat16>);
  constexpr int kWide = kHalves ? 8 : 4, kNarrow = kHalves ? 2 : 1;
  if (fits_runs<kBlocks>(walk, kWide,
                         {y.template aligned_for_several<kWide>(), x.template aligned_for_several<kWide>()...}))
    launch(Elementwise<kWide, F, Y, X...>(walk, f, y, x...));
  else if (kHalves &&
           fits_runs<kBlocks>(walk, 2, {y.template aligned_for_several<2>(), x.template aligned_for_several<2>()...}))
    launch(Elementwise<kNarrow, F, Y, X...>(walk, f, y, x...));
  else
    launch(Elementwise<1, F, Y, X...>(walk, f, y, x...));
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
