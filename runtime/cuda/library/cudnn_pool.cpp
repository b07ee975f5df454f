// Pooling by cuDNN's pooling functions, in f32 and f64. Not the gradient of max pooling: cuDNN does not say which of
// several equal elements gets it, and wants the result of the forward pass.
#include <cudnn_ops.h>

#include "core/ops/pooling.h"
#include "runtime/cuda/library/conv_shapes.h"
#include "runtime/cuda/library/handles.h"

namespace unity::cuda {
namespace {

struct PoolPlan {
  cudnnPoolingDescriptor_t pooling = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;

  PoolPlan() = default;
  PoolPlan(const PoolPlan&) = delete;
  PoolPlan& operator=(const PoolPlan&) = delete;
  ~PoolPlan() {
    if (y) cudnnDestroyTensorDescriptor(y);
    if (x) cudnnDestroyTensorDescriptor(x);
    if (pooling) cudnnDestroyPoolingDescriptor(pooling);
  }
};

std::shared_ptr<PoolPlan> make_plan(const PoolShape& s, cudnnPoolingMode_t mode, DType type) {
  auto plan = std::make_shared<PoolPlan>();
  auto tensor = [&](cudnnTensorDescriptor_t* d, std::int64_t h, std::int64_t w) {
    UNITY_LIBRARY_CHECK(cudnnCreateTensorDescriptor(d));
    UNITY_LIBRARY_CHECK(cudnnSetTensor4dDescriptor(
        *d, CUDNN_TENSOR_NCHW, type == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, static_cast<int>(s.n),
        static_cast<int>(s.c), static_cast<int>(h), static_cast<int>(w)));
  };
  tensor(&plan->x, s.h, s.w), tensor(&plan->y, s.oh, s.ow);
  std::array<int, 2> kernel, pad, stride;
  for (std::size_t i : {0, 1})
    kernel[i] = static_cast<int>(s.kernel[i]), pad[i] = static_cast<int>(s.pad[i]),
    stride[i] = static_cast<int>(s.stride[i]);
  UNITY_LIBRARY_CHECK(cudnnCreatePoolingDescriptor(&plan->pooling));
  UNITY_LIBRARY_CHECK(cudnnSetPoolingNdDescriptor(plan->pooling, mode, CUDNN_PROPAGATE_NAN, 2, kernel.data(),
                                                  pad.data(), stride.data()));
  return plan;
}

}  // namespace

Result<LibraryPlan> cudnn_pool(Libraries& libraries, const LibraryCall& call) {
  const std::string& op = call.op.name();
  bool max = op == "max_pool2d", backward = op == "avg_pool2d_gradient";
  const Operand &x = backward ? call.outputs[0] : call.inputs[0], &y = backward ? call.inputs[0] : call.outputs[0];
  if (x.dtype != y.dtype || (x.dtype != DType::f32 && x.dtype != DType::f64))
    return fail("element types {} and {}", to_string(x.dtype), to_string(y.dtype));
  Windows windows = UNITY_TRY(max ? max_pool2d_windows(op, call.attributes, x.global)
                                  : avg_pool2d_windows(op, call.attributes, x.global));
  PoolShape shape = UNITY_TRY(pool_shape(windows, x, y));
  cudnnPoolingMode_t mode = max                                      ? CUDNN_POOLING_MAX
                            : int_attribute(call.attributes, 3) != 0 ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                                                     : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  DType type = x.dtype;
  std::string key = fmt::format("{} {} {} {}", op, to_string(shape), to_string(type), static_cast<int>(mode));
  return libraries.once(key, [&]() -> Result<LibraryPlan> {
    auto run = [&libraries, plan = make_plan(shape, mode, type), backward, type](const Call& c) {
      cudnnHandle_t handle = libraries.handles().cudnn_on(c.stream);
      const float one = 1, zero = 0;
      const double one64 = 1, zero64 = 0;
      const void *alpha = &one, *beta = &zero;
      if (type == DType::f64) alpha = &one64, beta = &zero64;
      const void* from = c.inputs[0].data;
      void* to = c.outputs[0].data;
      // The gradient of a mean depends on neither x nor y; cuDNN wants memory of their sizes all the same.
      if (backward)
        UNITY_LIBRARY_CHECK(cudnnPoolingBackward(handle, plan->pooling, alpha, plan->y, from, plan->y, from, plan->x,
                                                 to, beta, plan->x, to));
      else
        UNITY_LIBRARY_CHECK(cudnnPoolingForward(handle, plan->pooling, alpha, plan->x, from, beta, plan->y, to));
    };
    return LibraryPlan{run, to_string(shape), 0};
  });
}

}  // namespace unity::cuda
