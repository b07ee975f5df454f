// Attention and its gradient by cuDNN's fused kernels, in bf16.
#include <algorithm>
#include <limits>

#include "core/ops/attention.h"
#include "runtime/cuda/library/attention_graph.h"
#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/staging.h"

namespace unity::cuda {
namespace {

// Declines what the graphs cannot say.
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

// What a graph is run on: tensors in device memory, and the numbers it takes from the host.
class Arguments {
 public:
  Arguments(double scale, bool causal) : scale_(static_cast<float>(scale)) {
    add(kScale, &scale_);
    if (causal) add(kHidden, &hidden_);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  void add(AttentionId id, void* data) { ids_[count_] = id, data_[count_++] = data; }
  void add_one() { add(kOne, &one_); }
  void run(Libraries& libraries, const GraphPlan& plan, void* workspace, Stream stream) const {
    plan.run(libraries.handles().cudnn_on(stream), std::span(ids_).first(count_), std::span(data_).first(count_),
             workspace);
  }

 private:
  float scale_, hidden_ = std::numeric_limits<float>::lowest(), one_ = 1;
  std::array<std::int64_t, 16> ids_{};
  std::array<void*, 16> data_{};
  std::size_t count_ = 0;
};

Result<GraphPlan> choose(Libraries& libraries, const std::vector<Descriptor>& graph, std::int64_t workspace) {
  return GraphPlan::choose({libraries.handles().cudnn(), nullptr}, graph,
                           {.workspace = workspace, .deterministic = libraries.options().deterministic});
}
Result<GraphPlan> choose(Libraries& libraries, const std::vector<Descriptor>& graph) {
  return choose(libraries, graph, std::max(libraries.options().workspace, libraries.options().scratch));
}

// So much of all sequences that cuDNN's gradient of it has room to work in, by batch, then by heads; of all, where it
// has none for any part, or takes none of them whatever the room.
AttentionShape part_with_room(Libraries& libraries, const AttentionShape& all) {
  auto fits = [&](const AttentionShape& a) { return choose(libraries, attention_gradient_graph(a)).ok(); };
  if (fits(all) || !choose(libraries, attention_gradient_graph(all), std::numeric_limits<std::int64_t>::max()).ok())
    return all;
  AttentionShape part = all;
  for (std::int64_t* size : {&part.batch, &part.heads})
    for (std::int64_t whole = *size, parts = 2; parts <= whole; ++parts) {
      if (whole % parts != 0) continue;
      *size = whole / parts;
      if (fits(part)) return part;
    }
  return all;
}

Result<LibraryPlan> forward(Libraries& libraries, const AttentionShape& a, double scale, Staging staging) {
  GraphPlan plan = UNITY_TRY(choose(libraries, attention_graph(a, false)));
  bool reserves = plan.workspace() > libraries.options().workspace;
  if (reserves) staging.reserve(plan.workspace());
  auto run = [&libraries, plan, staging, scale, reserves, causal = a.causal](const Call& c) {
    void* workspace = nullptr;
    Pointers data = staging.begin(c, &workspace);
    if (!reserves) workspace = libraries.workspace();
    Arguments arguments(scale, causal);
    for (std::size_t i = 0; i < 4; ++i) arguments.add(std::array{kQ, kK, kV, kY}[i], data[i]);
    arguments.run(libraries, plan, workspace, c.stream);
    staging.end(c, data);
  };
  return LibraryPlan{run, fmt::format("{}, workspace {}", plan.name(), plan.workspace()), staging.scratch()};
}

// Computes the result again, with what cuDNN's gradient wants to know of it; part by part, where all of it at once
// would take too much room.
Result<LibraryPlan> gradient(Libraries& libraries, const AttentionShape& all, double scale, Staging staging) {
  const AttentionShape a = part_with_room(libraries, all);
  GraphPlan again = UNITY_TRY(choose(libraries, attention_graph(a, true)));
  GraphPlan plan = UNITY_TRY(choose(libraries, attention_gradient_graph(a)));
  std::int64_t workspace_bytes = std::max(again.workspace(), plan.workspace());
  bool reserves = workspace_bytes > libraries.options().workspace;
  const std::int64_t parts = all.batch * all.heads / (a.batch * a.heads), rows = a.batch * a.heads * a.s;
  // Of a part: of q, k, v, dy, and of the gradients of the first three.
  const std::int64_t of_q = rows * a.e * 2, of_k = a.batch * a.heads * a.t * a.e * 2,
                     of_v = a.batch * a.heads * a.t * a.f * 2, of_y = rows * a.f * 2;
  for (std::int64_t bytes : {of_q, of_k, of_v, of_y})
    if (parts > 1 && bytes % GraphTensor{}.alignment != 0)
      return fail("a part of {} sequences has {} bytes, which is not aligned", a.batch * a.heads, bytes);
  std::int64_t log_sums = aligned_bytes(of_y), inner = log_sums + aligned_bytes(rows * 4);
  std::int64_t end = inner + aligned_bytes(rows * 4);
  staging.reserve(end + (reserves ? workspace_bytes : 0));
  auto run = [=, &libraries, causal = a.causal](const Call& c) {
    void* reserved = nullptr;
    Pointers data = staging.begin(c, &reserved);
    auto* held = static_cast<std::byte*>(reserved);
    void* workspace = reserves ? held + end : libraries.workspace();
    for (std::int64_t part = 0; part < parts; ++part) {
      auto of_part = [&](std::size_t i) {
        const std::int64_t bytes = std::array{of_q, of_k, of_v, of_y, of_q, of_k, of_v}[i];
        return static_cast<std::byte*>(data[i]) + part * bytes;
      };
      Arguments forward(scale, causal), backward(scale, causal);
      for (std::size_t i = 0; i < 3; ++i) forward.add(std::array{kQ, kK, kV}[i], of_part(i));
      forward.add(kY, held), forward.add(kLogSums, held + log_sums);
      forward.run(libraries, again, workspace, c.stream);
      for (std::size_t i = 0; i < 7; ++i) backward.add(std::array{kQ, kK, kV, kDy, kDq, kDk, kDv}[i], of_part(i));
      backward.add(kY, held), backward.add(kLogSums, held + log_sums), backward.add(kInner, held + inner);
      backward.add_one();
      backward.run(libraries, plan, workspace, c.stream);
    }
    staging.end(c, data);
  };
  return LibraryPlan{run,
                     fmt::format("{} and {}, workspace {}{}", again.name(), plan.name(), workspace_bytes,
                                 parts > 1 ? fmt::format(", in {} parts", parts) : ""),
                     staging.scratch()};
}

}  // namespace

Result<LibraryPlan> cudnn_attention(Libraries& libraries, const LibraryCall& call) {
  AttentionShape a = UNITY_TRY(attention_shape(call));
  DType type = UNITY_TRY(Staging::product_type(libraries.options().math, call));
  if (type != DType::bf16) return fail("in {}: cuDNN fuses attention in bf16 alone", to_string(type));
  bool backward = call.op.name() == "attention_gradient";
  Staging staging(call, std::vector(call.inputs.size() + call.outputs.size(), type));
  double scale = real_attribute(call.attributes, 0);
  std::string key = fmt::format("{} {} {} s{} t{} e{} f{} causal {} scale {}{}", call.op.name(), a.batch, a.heads, a.s,
                                a.t, a.e, a.f, a.causal, scale, staging.key());
  return libraries.once(
      key, [&] { return backward ? gradient(libraries, a, scale, staging) : forward(libraries, a, scale, staging); });
}

}  // namespace unity::cuda
