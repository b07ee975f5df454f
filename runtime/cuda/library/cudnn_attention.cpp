// Attention by cuDNN's fused kernels, in bf16.
#include <limits>

#include "core/ops/attention.h"
#include "runtime/cuda/library/attention_graph.h"
#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/staging.h"

namespace unity::cuda {
namespace {

// Declines what the graph cannot say.
Result<AttentionShape> attention_shape(const LibraryCall& call) {
  const Operand& q = call.inputs[0];
  for (const Operand& o : call.inputs)
    if (o.elements() == 0) return fail("an operand has no elements");
  AttentionLoops l = attention_loops(q, call.inputs[1], call.inputs[2]);
  std::size_t rank = q.extent.size();
  AttentionShape a;
  a.heads = rank > 3 ? q.extent[rank - 3] : 1;
  a.batch = l.batch / a.heads, a.s = l.s, a.t = l.t, a.e = l.e, a.f = l.f;
  a.causal = int_attribute(call.attributes, 1) != 0;
  // Row i of the block sees the columns 0 to i + shift.
  std::int64_t shift = l.first + l.t - l.rows;
  if (a.causal && shift != 0) return fail("the first row of the block sees {} columns, not 1", shift + 1);
  return a;
}

}  // namespace

Result<LibraryPlan> cudnn_attention(Libraries& libraries, const LibraryCall& call) {
  AttentionShape a = UNITY_TRY(attention_shape(call));
  DType type = UNITY_TRY(Staging::product_type(libraries.options().math, call));
  if (type != DType::bf16) return fail("in {}: cuDNN fuses attention in bf16 alone", to_string(type));
  Staging staging(call, std::array{type, type, type, type});
  auto scale = static_cast<float>(real_attribute(call.attributes, 0));
  std::string key = fmt::format("attention {} {} s{} t{} e{} f{} causal {} scale {}{}", a.batch, a.heads, a.s, a.t, a.e,
                                a.f, a.causal, scale, staging.key());
  return libraries.once(key, [&]() -> Result<LibraryPlan> {
    const LibraryOptions& options = libraries.options();
    GraphPlan plan = UNITY_TRY(GraphPlan::choose({libraries.handles().cudnn, nullptr}, attention_graph(a),
                                                 {.workspace = std::max(options.workspace, options.scratch),
                                                  .deterministic = options.deterministic,
                                                  .exact_floats = false}));
    bool reserves = plan.workspace() > options.workspace;
    if (reserves) staging.reserve(plan.workspace());
    std::string description = fmt::format("{} in {}, workspace {}", plan.name(), to_string(type), plan.workspace());
    auto run = [&libraries, plan, staging, scale, reserves, causal = a.causal](const Call& c) {
      void* workspace = nullptr;
      Pointers data = staging.begin(c, &workspace);
      if (!reserves) workspace = libraries.workspace();
      float factor = scale, hidden = std::numeric_limits<float>::lowest();
      const std::array<std::int64_t, 6> ids = {kQ, kK, kV, kY, kScale, kHidden};
      const std::array<void*, 6> arguments = {data[0], data[1], data[2], data[3], &factor, &hidden};
      std::size_t count = causal ? 6 : 5;
      plan.run(libraries.handles().cudnn_on(c.stream), std::span(ids).first(count), std::span(arguments).first(count),
               workspace);
      staging.end(c, data);
    };
    return LibraryPlan{run, description, staging.scratch()};
  });
}

}  // namespace unity::cuda
