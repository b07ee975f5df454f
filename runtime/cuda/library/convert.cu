#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/library/convert.h"
#include "runtime/cuda/vectors.h"

namespace unity::cuda {

namespace {

template <class T>
void copy_padded_of(Stream stream, const void* from, void* to, const PaddedPlanes& how) {
  Dense<T> x{static_cast<T*>(const_cast<void*>(from))}, y{static_cast<T*>(to)};
  std::int64_t plane = how.to_rows * how.to_columns;
  map_dense(
      stream, how.planes * plane, UNITY_LAMBDA() { return T{}; }, y);
  map(
      stream,
      std::vector<Loop<2>>{
          {how.planes, {plane, how.plane_stride}}, {how.rows, {how.to_columns, how.row_stride}}, {how.columns, {1, 1}}},
      UNITY_LAMBDA(T v) { return v; }, y.from(how.above * how.to_columns + how.left), x);
}

}  // namespace

void convert(Stream stream, const void* from, DType from_type, void* to, DType to_type, std::int64_t n) {
  FloatOrBFloat16 x{const_cast<void*>(from), from_type == DType::bf16}, y{to, to_type == DType::bf16};
  for_each(
      stream, n, UNITY_LAMBDA(std::int64_t i) { y.store(i, x.load(i)); });
}

void add(Stream stream, const void* sum, const void* x, DType x_type, void* to, DType type, std::int64_t n) {
  using Halves = Vectors<BFloat16>;
  auto whole = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  if (type == DType::bf16 && x_type == DType::bf16 && whole(sum) && whole(x) && whole(to) && n % Halves::kWidth == 0) {
    Halves a{static_cast<BFloat16*>(const_cast<void*>(sum))}, b{static_cast<BFloat16*>(const_cast<void*>(x))};
    Halves y{static_cast<BFloat16*>(to)};
    return for_each(
        stream, n / Halves::kWidth, UNITY_LAMBDA(std::int64_t i) {
          i *= Halves::kWidth;
          Halves::Held first = a.read(i), second = b.read(i);
          float v[Halves::kWidth];
          for (int j = 0; j < Halves::kWidth; ++j) v[j] = Halves::value(first, j) + Halves::value(second, j);
          y.write(i, v);
        });
  }
  FloatOrBFloat16 before{const_cast<void*>(sum), type == DType::bf16},
      added{const_cast<void*>(x), x_type == DType::bf16}, after{to, type == DType::bf16};
  for_each(
      stream, n, UNITY_LAMBDA(std::int64_t i) { after.store(i, before.load(i) + added.load(i)); });
}

void copy_padded(Stream stream, const void* from, void* to, DType type, const PaddedPlanes& how) {
  if (type == DType::f64)
    copy_padded_of<double>(stream, from, to, how);
  else if (type == DType::f32)
    copy_padded_of<float>(stream, from, to, how);
  else
    copy_padded_of<BFloat16>(stream, from, to, how);
}

void relu_in_place(Stream stream, void* x, DType type, std::int64_t n) {
  if (type == DType::f64) {
    auto* y = static_cast<double*>(x);
    for_each(
        stream, n, UNITY_LAMBDA(std::int64_t i) { y[i] = y[i] <= 0 ? 0 : y[i]; });
    return;
  }
  FloatOrBFloat16 y{x, type == DType::bf16};
  for_each(
      stream, n, UNITY_LAMBDA(std::int64_t i) {
        float v = y.load(i);
        y.store(i, v <= 0 ? 0 : v);
      });
}

}  // namespace unity::cuda
