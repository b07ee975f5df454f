#include "runtime/cuda/library/conv_graph.h"

namespace unity::cuda {
namespace {

// The attributes that differ between the three operations.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};
constexpr Names kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Names kInputGradient = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Names kWeightGradient = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

// The largest power of two up to 16 that divides the address of an element `first` after one aligned to 16.
std::int64_t alignment(std::int64_t first, DType type) {
  std::int64_t bytes = 16;
  while (first * size_of(type) % bytes != 0) bytes /= 2;
  return bytes;
}

}  // namespace

std::vector<Descriptor> conv_graph(std::string_view op, const ConvShape& s, DType type, bool add) {
  const Names& names = op == "conv2d" ? kForward : op == "conv2d_input_gradient" ? kInputGradient : kWeightGradient;
  auto tensor = [&](std::int64_t id, const auto& sizes, const auto& strides, std::int64_t first) {
    return describe(
        {id, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, cudnn_type(type), alignment(first, type)});
  };
  Descriptor x = tensor(kConvIds[0], s.x, s.x_strides, s.x_first), w = tensor(kConvIds[1], s.w, s.w_strides, 0);
  Descriptor y = tensor(kConvIds[2], s.y, s.y_strides, 0);

  bool doubles = type == DType::f64;
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, doubles ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.pre)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.post)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, s.dilation)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.stride)
      .finalize();
  Descriptor operation(names.operation);
  operation.set(names.convolution, convolution).set(names.x, x).set(names.w, w).set(names.y, y);
  if (doubles)
    operation.set(names.alpha, 1.0).set(names.beta, add ? 1.0 : 0.0);
  else
    operation.set(names.alpha, 1.0F).set(names.beta, add ? 1.0F : 0.0F);
  return {operation.finalize()};
}

}  // namespace unity::cuda
