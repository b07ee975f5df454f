// Elements of device memory as the played libraries read and write them: computed with in double.
#pragma once

#include "core/ops/shape.h"
#include "runtime/cuda/elements.h"

struct FakeElements {
  void* data = nullptr;
  unity::DType type = unity::DType::f32;  // or f64, bf16

  double get(std::int64_t at) const {
    if (type == unity::DType::f64) return static_cast<const double*>(data)[at];
    return static_cast<double>(unity::cuda::FloatOrBFloat16{data, type == unity::DType::bf16}.load(at));
  }
  void put(std::int64_t at, double x) const {
    if (type == unity::DType::f64)
      static_cast<double*>(data)[at] = x;
    else
      unity::cuda::FloatOrBFloat16{data, type == unity::DType::bf16}.store(at, static_cast<float>(x));
  }
};
