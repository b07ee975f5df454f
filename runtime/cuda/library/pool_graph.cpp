#include "runtime/cuda/library/pool_graph.h"

namespace unity::cuda {

std::vector<Descriptor> pool_graph(const PoolShape& s, Pooling pooling, bool backward, DType type) {
  UNITY_CHECK(!backward || pooling != Pooling::max, "no gradient of max pooling");
  auto image = [&](std::int64_t id, std::int64_t h, std::int64_t w) {
    return describe({id, {s.n, s.c, h, w}, {s.c * h * w, h * w, w, 1}, cudnn_type(type)});
  };
  Descriptor x = image(kPoolIds[0], s.h, s.w), y = image(kPoolIds[1], s.oh, s.ow);
  constexpr cudnnResampleMode_t kModes[] = {CUDNN_RESAMPLE_MAXPOOL, CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING,
                                            CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING};
  Descriptor how(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  how.set(CUDNN_ATTR_RESAMPLE_MODE, kModes[static_cast<std::size_t>(pooling)])
      .set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, type == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, s.kernel)
      .set(CUDNN_ATTR_RESAMPLE_STRIDES, s.stride)
      .set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, s.pad)
      .set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, s.pad)
      .set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, pooling == Pooling::max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD)
      .set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN)
      .finalize();
  if (!backward) {
    Descriptor op(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, how)
        .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y);
    return {op.finalize()};
  }
  Descriptor op(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, how)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, x)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, y)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC, image(kPoolIds[2], s.h, s.w))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, image(kPoolIds[3], s.oh, s.ow));
  return {op.finalize()};
}

}  // namespace unity::cuda
