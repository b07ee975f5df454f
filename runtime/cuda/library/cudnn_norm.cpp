// Layer norm, RMS norm and their gradients by cuDNN; norm_graph.h has the graphs. Its gradients want to know the mean
// and the deviation of each row, which no operator keeps: they are computed again.
#include <algorithm>

#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/norm_graph.h"
#include "runtime/cuda/library/staging.h"
#include "runtime/cuda/row_statistics.h"

namespace unity::cuda {
namespace {

// The tensors of the call's operands: its inputs, then its results.
std::vector<NormId> operand_ids(const NormShape& s) {
  if (!s.backward) {
    if (s.centred) return {NormId::x, NormId::gamma, NormId::beta, NormId::y};
    return {NormId::x, NormId::gamma, NormId::y};
  }
  std::vector<NormId> ids = {NormId::x, NormId::gamma, NormId::dy, NormId::dx, NormId::dgamma};
  if (s.centred) ids.push_back(NormId::dbeta);
  return ids;
}

Result<LibraryPlan> make_plan(Libraries& libraries, const NormShape& s, double epsilon, Staging staging) {
  const LibraryOptions& options = libraries.options();
  GraphPlan plan = UNITY_TRY(GraphPlan::choose({libraries.handles().cudnn(), nullptr}, norm_graph(s),
                                               {.workspace = std::max(options.workspace, options.scratch),
                                                .deterministic = options.deterministic,
                                                .exact = s.type == DType::f32}));
  // In scratch memory behind what is staged: means, deviations, and what cuDNN works in where that is much.
  std::int64_t of_rows = s.backward ? aligned_bytes(s.rows * 4) : 0, end = 2 * of_rows;
  bool reserves = plan.workspace() > options.workspace;
  staging.reserve(end + (reserves ? plan.workspace() : 0));
  std::vector<std::int64_t> ids;
  for (NormId id : operand_ids(s)) ids.push_back(static_cast<std::int64_t>(id));
  if (!s.backward)
    ids.push_back(static_cast<std::int64_t>(NormId::epsilon));
  else
    ids.push_back(static_cast<std::int64_t>(NormId::inverse));
  if (s.backward && s.centred) ids.push_back(static_cast<std::int64_t>(NormId::mean));
  auto run = [=, &libraries](const Call& c) {
    void* reserved = nullptr;
    Pointers operands = staging.begin(c, &reserved);
    std::vector<void*> data(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(operand_ids(s).size()));
    auto little = static_cast<float>(epsilon);
    if (s.backward) {
      auto* inverse = static_cast<float*>(reserved);
      auto* mean = s.centred ? reinterpret_cast<float*>(static_cast<std::byte*>(reserved) + of_rows) : nullptr;
      row_statistics(c.stream, operands[0], s.type, s.rows, s.columns, epsilon, mean, inverse);
      data.push_back(inverse);
      if (mean) data.push_back(mean);
    } else {
      data.push_back(&little);
    }
    void* workspace = reserves ? static_cast<std::byte*>(reserved) + end : libraries.workspace();
    plan.run(libraries.handles().cudnn_on(c.stream), ids, data, workspace);
    staging.end(c, operands);
  };
  return LibraryPlan{run, fmt::format("{}, workspace {}", plan.name(), plan.workspace()), staging.scratch()};
}

}  // namespace

Result<LibraryPlan> cudnn_norm(Libraries& libraries, const LibraryCall& call) {
  NormShape s = UNITY_TRY(norm_shape(call.op.name(), call.inputs, call.outputs));
  double epsilon = real_attribute(call.attributes, 0);
  Staging staging(call, norm_types(s));
  return libraries.once(fmt::format("{} epsilon {}{}", to_string(s), epsilon, staging.key()),
                        [&] { return make_plan(libraries, s, epsilon, staging); });
}

}  // namespace unity::cuda
