#include "runtime/cuda/call.h"

namespace unity::cuda {

template <class R>
void scale_of(const Call& c) {
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  auto factor = static_cast<typename R::Value>(real_attribute(c.attributes, 0));
  for_each(c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t i) { y.store(i, factor * x.load(i)); });
}
UNITY_CUDA_KERNEL(scale)

}  // namespace unity::cuda
