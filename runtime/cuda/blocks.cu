#include <cstring>

#include "runtime/cuda/blocks.h"
#include "runtime/cuda/elementwise.h"

namespace unity::cuda {
namespace {

template <class A>
void copy(Stream stream, const BoxLoops& where, A to, A from) {
  map(
      stream, where.loops, UNITY_LAMBDA(typename A::Value x) { return x; }, to.from(where.first[0]),
      from.from(where.first[1]));
}

template <class A>
void accumulate(Stream stream, const BoxLoops& where, A to, A from) {
  using T = typename A::Value;
  A target = to.from(where.first[0]);
  std::vector<Loop<3>> loops;
  for (const Loop<2>& loop : where.loops)
    loops.push_back({loop.length, {loop.stride[0], loop.stride[0], loop.stride[1]}});
  map(
      stream, loops, UNITY_LAMBDA(T a, T b) { return static_cast<T>(a + b); }, target, target,
      from.from(where.first[1]));
}

template <class A>
void combine_arrays(Stream stream, std::int64_t n, A to, A from, Monoid monoid) {
  using T = typename A::Value;
  if (monoid == Monoid::sum)
    map_dense(
        stream, n, UNITY_LAMBDA(T a, T b) { return static_cast<T>(a + b); }, to, to, from);
  else
    map_dense(
        stream, n, UNITY_LAMBDA(T a, T b) { return a < b || b != b ? b : a; }, to, to, from);
}

bool is_single(DType type) { return type == DType::f32 || type == DType::bf16; }
FloatOrBFloat16 singles(void* data, DType type) { return {data, type == DType::bf16}; }
template <class T>
Dense<T> dense(void* data) {
  return {static_cast<T*>(data)};
}

void check_types(const char* call, DType to, DType from) {
  UNITY_CHECK(is_single(to) ? is_single(from) : to == from && (to == DType::f64 || to == DType::i32),
              "cuda {}: found {} and {}, expected f32, f64, i32 or bf16, and the same but for f32 and bf16", call,
              to_string(to), to_string(from));
}

}  // namespace

void copy_block(Stream stream, const DeviceBlock& target, const DeviceBlock& source, const Box& box) {
  check_types("copy_block", target.dtype, source.dtype);
  BoxLoops where = box_loops(target.box, source.box, box);
  if (is_single(target.dtype))
    copy(stream, where, singles(target.data, target.dtype), singles(source.data, source.dtype));
  else if (target.dtype == DType::f64)
    copy(stream, where, dense<double>(target.data), dense<double>(source.data));
  else
    copy(stream, where, dense<std::int32_t>(target.data), dense<std::int32_t>(source.data));
}

void accumulate_block(Stream stream, const DeviceBlock& target, const DeviceBlock& source, const Box& box) {
  check_types("accumulate_block", target.dtype, source.dtype);
  BoxLoops where = box_loops(target.box, source.box, box);
  if (is_single(target.dtype))
    accumulate(stream, where, singles(target.data, target.dtype), singles(source.data, source.dtype));
  else if (target.dtype == DType::f64)
    accumulate(stream, where, dense<double>(target.data), dense<double>(source.data));
  else
    accumulate(stream, where, dense<std::int32_t>(target.data), dense<std::int32_t>(source.data));
}

void combine(Stream stream, void* to, const void* from, std::int64_t elements, DType dtype, Monoid monoid) {
  check_types("combine", dtype, dtype);
  void* source = const_cast<void*>(from);  // arrays are both read and written; this one is read
  if (is_single(dtype))
    combine_arrays(stream, elements, singles(to, dtype), singles(source, dtype), monoid);
  else if (dtype == DType::f64)
    combine_arrays(stream, elements, dense<double>(to), dense<double>(source), monoid);
  else
    combine_arrays(stream, elements, dense<std::int32_t>(to), dense<std::int32_t>(source), monoid);
}

void copy_all(Stream stream, const FlatCopy* list, std::int64_t count) {
  constexpr std::int64_t kWords = 256;  // of most copies, which are of a number for each channel
  for_each_group(
      stream, count, kWords, UNITY_LAMBDA(std::int64_t i, const Group& group) {
        const FlatCopy copy = list[i];
        const auto* from = static_cast<const std::uint32_t*>(copy.from);
        auto* to = static_cast<std::uint32_t*>(copy.to);
        for (std::int64_t w = group.rank(); w < copy.bytes / FlatCopy::kWord; w += group.size()) to[w] = from[w];
      });
}

void zero_block(Stream stream, void* target, std::int64_t elements, DType dtype) {
  if (elements == 0) return;
  auto bytes = static_cast<std::size_t>(elements * size_of(dtype));
#ifdef UNITY_CUDA_EMULATED
  emulate(stream, [=] { std::memset(target, 0, bytes); });
#else
  UNITY_CUDA_CHECK(cudaMemsetAsync(target, 0, bytes, stream));
#endif
}

}  // namespace unity::cuda
