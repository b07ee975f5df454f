#include "runtime/cuda/library/norm_graph.h"

namespace unity::cuda {
namespace {

// cuDNN norms the channels of an image, here of one pixel: [n, c, 1, 1].
Descriptor tensor(NormId id, std::int64_t n, std::int64_t c, DType type) {
  return describe({static_cast<std::int64_t>(id), {n, c, 1, 1}, {c, 1, c, c}, cudnn_type(type)});
}

}  // namespace

std::vector<Descriptor> norm_graph(const NormShape& s) {
  auto rows = [&](NormId id) { return tensor(id, s.rows, s.columns, s.type); };
  auto of_columns = [&](NormId id) { return tensor(id, 1, s.columns, DType::f32); };
  auto of_rows = [&](NormId id) { return tensor(id, s.rows, 1, DType::f32); };
  cudnnBackendNormMode_t mode = s.centred ? CUDNN_LAYER_NORM : CUDNN_RMS_NORM;
  if (!s.backward) {
    GraphTensor epsilon{static_cast<std::int64_t>(NormId::epsilon), {1, 1, 1, 1}, {1, 1, 1, 1}};
    epsilon.by_value = true;
    Descriptor op(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, mode)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE)  // what is known of rows is not kept
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, rows(NormId::x))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, of_columns(NormId::gamma))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, describe(epsilon))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, rows(NormId::y));
    if (s.centred) op.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, of_columns(NormId::beta));
    return {op.finalize()};
  }
  Descriptor op(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, mode)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, rows(NormId::x))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, rows(NormId::dy))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, of_columns(NormId::gamma))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, of_rows(NormId::inverse))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, rows(NormId::dx))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, of_columns(NormId::dgamma));
  if (s.centred)
    op.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, of_rows(NormId::mean))
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, of_columns(NormId::dbeta));
  return {op.finalize()};
}

}  // namespace unity::cuda
