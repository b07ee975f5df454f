// Convolution by cuDNN; conv_shapes.h has the mapping of blocks, conv_graph.h the graphs.
#include "core/ops/conv2d.h"
#include "runtime/cuda/library/conv_graph.h"
#include "runtime/cuda/library/convert.h"
#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/staging.h"

namespace unity::cuda {

Result<LibraryPlan> cudnn_conv(Libraries& libraries, const LibraryCall& call) {
  // What adds to a sum is said to cuDNN as beta = 1; where the result is of another type than cuDNN's, it is added
  // behind the convolution, so that the sum is not rounded.
  const bool adds = call.op.accumulates() != nullptr;
  const std::string& op = adds ? call.op.accumulates()->name() : call.op.name();
  ConvOperands at = conv_operands(call.op.name());
  auto take = [&](std::size_t i) -> const Operand& { return operand(call.inputs, call.outputs, i); };
  ConvShape shape = UNITY_TRY(conv_shape(call.attributes, take(at.x), take(at.w), take(at.y)));
  DType type = UNITY_TRY(Staging::product_type(libraries.options().math, call));
  std::vector<DType> wanted;
  for (std::size_t i = 0; i < call.inputs.size() + call.outputs.size(); ++i)
    wanted.push_back(i == at.x || i == at.w || i == at.y ? type : take(i).dtype);
  Staging staging(call, wanted);
  const bool in_place = adds && call.outputs[0].dtype == type;
  bool relu = op == "conv2d" && conv2d_relu(call.attributes);
  std::string key = fmt::format("{} {}{}{}", call.op.name(), to_string(shape), relu ? " relu" : "", staging.key());
  return libraries.once(key, [&]() -> Result<LibraryPlan> {
    const LibraryOptions& options = libraries.options();
    GraphPlan plan =
        UNITY_TRY(GraphPlan::choose({libraries.handles().cudnn, nullptr}, conv_graph(op, shape, type, in_place),
                                    {.workspace = std::max(options.workspace, options.scratch),
                                     .deterministic = options.deterministic,
                                     .exact = type == DType::f32 && options.math == Math::f32}));
    bool reserves = plan.workspace() > options.workspace;
    if (reserves) staging.reserve(plan.workspace());
    // Where windows do not read the whole block of x, cuDNN leaves the rest of its gradient alone.
    bool clears = op == "conv2d_input_gradient" && shape.crops && !in_place;
    std::string description = fmt::format("{} in {}, workspace {}{}", plan.name(), to_string(type), plan.workspace(),
                                          relu                ? ", then relu"
                                          : adds && !in_place ? ", then added"
                                                              : "");
    std::int64_t begin = shape.x_first * size_of(type);
    auto run = [&libraries, plan, staging, at, type, relu, adds, in_place, clears, reserves, begin](const Call& c) {
      void* workspace = nullptr;
      Pointers data = staging.begin(c, &workspace);
      if (!reserves) workspace = libraries.workspace();
      const Operand& result = c.outputs[0];
      if (in_place && c.inputs.back().data != result.data)
        UNITY_CUDA_CHECK(cudaMemcpyAsync(result.data, c.inputs.back().data,
                                         static_cast<std::size_t>(result.elements() * size_of(type)),
                                         cudaMemcpyDeviceToDevice, c.stream));
      if (clears)
        UNITY_CUDA_CHECK(cudaMemsetAsync(data[at.x], 0,
                                         static_cast<std::size_t>(c.outputs[0].elements() * size_of(type)), c.stream));
      void* operands[] = {static_cast<std::byte*>(data[at.x]) + begin, data[at.w], data[at.y]};
      plan.run(libraries.handles().cudnn_on(c.stream), kConvIds, operands, workspace);
      if (relu) relu_in_place(c.stream, data[at.y], type, c.outputs[0].elements());
      const std::size_t last = c.inputs.size();
      if (adds && !in_place)
        add(c.stream, c.inputs.back().data, data[last], type, result.data, result.dtype, result.elements());
      else
        staging.end(c, data);
    };
    return LibraryPlan{run, description, staging.scratch()};
  });
}

}  // namespace unity::cuda
