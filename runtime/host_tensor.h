// A whole logical tensor in host memory: what goes in and comes out of an executor.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ops/shape.h"

namespace unity {

// Real tensors are held in double (exact for f32), index tensors in i32.
struct HostTensor {
  Dims dims;
  DType dtype = DType::f64;           // f64 or i32
  std::vector<double> reals;          // of a real tensor
  std::vector<std::int32_t> indices;  // of an index tensor
  bool operator==(const HostTensor&) const = default;
  std::int64_t elements() const { return element_count(dims); }
};

HostTensor real_tensor(Dims dims);
HostTensor index_tensor(Dims dims);

}  // namespace unity
