// Pooling by cuDNN; conv_shapes.h has the mapping of blocks, pool_graph.h the graphs. Not the gradient of max pooling:
// cuDNN does not say which of several equal elements gets it, and wants the result of the forward pass.
#include "core/ops/pooling.h"
#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/pool_graph.h"

namespace unity::cuda {

Result<LibraryPlan> cudnn_pool(Libraries& libraries, const LibraryCall& call) {
  const std::string& op = call.op.name();
  // On an H100, blocks of bf16 that lie so came out wrong where cuDNN 9.19's pooling was among what could be taken.
  if (call.channels_last) return fail("channels last");
  bool max = op == "max_pool2d", backward = op == "avg_pool2d_gradient";
  const Operand &x = backward ? call.outputs[0] : call.inputs[0], &y = backward ? call.inputs[0] : call.outputs[0];
  if (x.dtype != y.dtype) return fail("element types {} and {}", to_string(x.dtype), to_string(y.dtype));
  Windows windows = UNITY_TRY(max ? max_pool2d_windows(op, call.attributes, x.global)
                                  : avg_pool2d_windows(op, call.attributes, x.global));
  PoolShape shape = UNITY_TRY(pool_shape(windows, x, y));
  Pooling pooling = max ? Pooling::max : int_attribute(call.attributes, 3) != 0 ? Pooling::mean : Pooling::mean_inside;
  DType type = x.dtype;
  std::string key = fmt::format("{} {} {} {}", op, to_string(shape), to_string(type), static_cast<int>(pooling));
  return libraries.once(key, [&]() -> Result<LibraryPlan> {
    const LibraryOptions& options = libraries.options();
    GraphPlan plan =
        UNITY_TRY(GraphPlan::choose({libraries.handles().cudnn(), nullptr}, pool_graph(shape, pooling, backward, type),
                                    {.workspace = options.workspace, .deterministic = options.deterministic}));
    auto run = [&libraries, plan, backward](const Call& c) {
      void *from = c.inputs[0].data, *to = c.outputs[0].data;
      void* data[] = {backward ? to : from, backward ? from : to, to, from};  // the last two are not read
      const std::size_t count = backward ? 4 : 2;
      plan.run(libraries.handles().cudnn_on(c.stream), std::span(kPoolIds).first(count), std::span(data).first(count),
               libraries.workspace());
    };
    return LibraryPlan{run, fmt::format("{}, {}", plan.name(), to_string(shape)), 0};
  });
}

}  // namespace unity::cuda
