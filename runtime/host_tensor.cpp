#include "runtime/host_tensor.h"

namespace unity {

HostTensor real_tensor(Dims dims) {
  HostTensor t{std::move(dims), DType::f64, {}, {}};
  t.reals.assign(static_cast<std::size_t>(t.elements()), 0.0);
  return t;
}

HostTensor index_tensor(Dims dims) {
  HostTensor t{std::move(dims), DType::i32, {}, {}};
  t.indices.assign(static_cast<std::size_t>(t.elements()), 0);
  return t;
}

}  // namespace unity
