// Convolution by cuDNN; conv_shapes.h has the mapping of blocks, conv_graph.h the graphs.
#include "core/ops/conv2d.h"
#include "runtime/cuda/library/conv_graph.h"
#include "runtime/cuda/library/convert.h"
#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/staging.h"
#include "runtime/cuda/library/tuning.h"

namespace unity::cuda {

namespace {

// From the first element to behind the last.
std::int64_t bytes_of(const std::array<std::int64_t, 4>& sizes, const std::array<std::int64_t, 4>& strides,
                      DType type) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 4; ++i) last += (sizes[i] - 1) * strides[i];
  return (last + 1) * size_of(type);
}

// The x of `s` inside of that of `padded`.
PaddedPlanes planes_of(const ConvShape& s, const ConvShape& padded) {
  if (s.channels_last)
    return {.planes = s.x[0],
            .rows = s.x[2],
            .columns = s.x[3] * s.x[1],
            .plane_stride = s.x_strides[0],
            .row_stride = s.x_strides[2],
            .to_rows = padded.x[2],
            .to_columns = padded.x[3] * s.x[1],
            .above = s.pre[0],
            .left = s.pre[1] * s.x[1]};
  return {.planes = s.x[0] * s.x[1],
          .rows = s.x[2],
          .columns = s.x[3],
          .plane_stride = s.x_strides[1],
          .row_stride = s.x_strides[2],
          .to_rows = padded.x[2],
          .to_columns = padded.x[3],
          .above = s.pre[0],
          .left = s.pre[1]};
}

// What adds to a sum is said to cuDNN as beta = 1 unless `apart`; where the result is of another type than cuDNN's, it
// is added behind the convolution in any case, so that the sum is not rounded.
Result<LibraryPlan> plan_of(Libraries& libraries, const LibraryCall& call, bool apart) {
  const bool adds = call.op.accumulates() != nullptr;
  const std::string& op = adds ? call.op.accumulates()->name() : call.op.name();
  ConvOperands at = conv_operands(call.op.name());
  auto take = [&](std::size_t i) -> const Operand& { return operand(call.inputs, call.outputs, i); };
  ConvShape shape = UNITY_TRY(conv_shape(call.attributes, take(at.x), take(at.w), take(at.y), call.channels_last));
  DType type = UNITY_TRY(Staging::product_type(libraries.options().math, call));
  // Some of cuDNN 9.19's engines for gradients of filters give wrong sums where x has other pads behind than before:
  // such pads are written out.
  const bool pads = op == "conv2d_weight_gradient" && shape.post != shape.pre;
  const ConvShape given = pads ? with_pads_in_x(shape) : shape;
  std::vector<DType> wanted;
  for (std::size_t i = 0; i < call.inputs.size() + call.outputs.size(); ++i)
    wanted.push_back(i == at.x || i == at.w || i == at.y ? type : take(i).dtype);
  Staging staging(call, wanted);
  const bool in_place = adds && !apart && call.outputs[0].dtype == type;
  if (apart && call.outputs[0].dtype != type) return fail("has no other way than the first");
  if (apart && type == DType::f64) return fail("nothing is added apart in f64");
  bool relu = op == "conv2d" && conv2d_relu(call.attributes);
  std::string key = fmt::format("{} {}{}{}", call.op.name(), to_string(shape),
                                relu    ? " relu"
                                : apart ? " apart"
                                        : "",
                                staging.key());
  return libraries.once(key, [&]() -> Result<LibraryPlan> {
    const LibraryOptions& options = libraries.options();
    const std::int64_t bytes[] = {bytes_of(given.x, given.x_strides, type), bytes_of(given.w, given.w_strides, type),
                                  bytes_of(given.y, given.y_strides, type)};
    // One for all operators of the same graph.
    const std::string graph =
        fmt::format("{}{} {} {}", op, in_place ? " added" : "", to_string(given), to_string(type));
    GraphPlan plan = UNITY_TRY(fastest_plan(libraries, graph, conv_graph(op, given, type, in_place),
                                            {.workspace = std::max(options.workspace, options.scratch),
                                             .deterministic = options.deterministic,
                                             .exact = type == DType::f32 && options.math == Math::f32},
                                            kConvIds, bytes));
    const bool reserves = plan.workspace() > options.workspace;
    // What is reserved: x with its pads, the result before it is added, what cuDNN works in.
    const std::int64_t padded_bytes = pads ? aligned_bytes(bytes[0]) : 0;
    const std::int64_t result_bytes = apart ? aligned_bytes(call.outputs[0].elements() * size_of(type)) : 0;
    staging.reserve(padded_bytes + result_bytes + (reserves ? plan.workspace() : 0));
    // Where windows do not read the whole block of x, cuDNN leaves the rest of its gradient alone.
    bool clears = op == "conv2d_input_gradient" && shape.crops && !in_place;
    std::string description = fmt::format("{} in {}, workspace {}{}", plan.name(), to_string(type), plan.workspace(),
                                          relu                ? ", then relu"
                                          : adds && !in_place ? ", then added"
                                                              : "");
    std::int64_t begin = shape.x_first * size_of(type);
    auto run = [=, &libraries](const Call& c) {
      void* reserved = nullptr;
      Pointers data = staging.begin(c, &reserved);
      auto* room = static_cast<std::byte*>(reserved);
      void* workspace = reserves ? room + padded_bytes + result_bytes : libraries.workspace();
      const Operand& result = c.outputs[0];
      const std::size_t last = c.inputs.size();
      if (apart) data[last] = room + padded_bytes;
      if (in_place && c.inputs.back().data != result.data)
        UNITY_CUDA_CHECK(cudaMemcpyAsync(result.data, c.inputs.back().data,
                                         static_cast<std::size_t>(result.elements() * size_of(type)),
                                         cudaMemcpyDeviceToDevice, c.stream));
      if (clears)
        UNITY_CUDA_CHECK(cudaMemsetAsync(data[at.x], 0,
                                         static_cast<std::size_t>(c.outputs[0].elements() * size_of(type)), c.stream));
      void* operands[] = {static_cast<std::byte*>(data[at.x]) + begin, data[at.w], data[at.y]};
      if (pads) copy_padded(c.stream, std::exchange(operands[0], reserved), reserved, type, planes_of(shape, given));
      plan.run(libraries.handles().cudnn_on(c.stream), kConvIds, operands, workspace);
      if (relu) relu_in_place(c.stream, data[at.y], type, c.outputs[0].elements());
      if (adds && !in_place)
        add(c.stream, c.inputs.back().data, data[last], type, result.data, result.dtype, result.elements());
      else
        staging.end(c, data);
    };
    return LibraryPlan{run, description, staging.scratch()};
  });
}

}  // namespace

Result<LibraryPlan> cudnn_conv(Libraries& libraries, const LibraryCall& call) {
  return plan_of(libraries, call, false);
}

// cuDNN's engines that add are few and slow, for bf16 above all: for an H100 up to three times as slow as others.
Result<LibraryPlan> cudnn_conv_then_add(Libraries& libraries, const LibraryCall& call) {
  return plan_of(libraries, call, true);
}

}  // namespace unity::cuda
