// Which of several kernels for the same shapes is the fastest on this GPU, by running them: the heuristics of cuDNN
// rank its engines by models of the hardware, and the first is often not the fastest one.
//
// What was found is kept for the process, so that devices that share a GPU, and programs that follow one another, ask
// once. Runs may choose differently where times are close, and then differ in rounding; UNITY_CUDA_TUNE=0 takes the
// first each time (Choice).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/library/cudnn_graph.h"
#include "runtime/cuda/library/library.h"

namespace unity::cuda {

constexpr int kMostCandidates = 4;  // plans of one graph that are tried; each takes up to a second to be made

// The place of the fastest of `kernels`, each run several times on a stream of the current device; `key` says what they
// compute. 0 where there is one only.
std::size_t fastest(const std::string& key, std::span<const std::function<void(Stream)>> kernels);

// A plan for a graph whose tensor of id ids[i] has so many bytes: of those that cuDNN proposes the one that
// options().choice says, where the fastest is that on memory of their own, and the first where the GPU has no room to
// try them. Declines as GraphPlan::choose.
Result<GraphPlan> fastest_plan(Libraries& libraries, const std::string& key, const std::vector<Descriptor>& graph,
                               const PlanLimits& limits, std::span<const std::int64_t> ids,
                               std::span<const std::int64_t> bytes);

// The same of `kernels`, which compute one call: the place of the one to take. `shapes`: of the call's operands.
std::size_t choose_kernel(Libraries& libraries, const LibraryCall& call, const std::string& shapes,
                          std::span<const LibraryKernel> kernels);

}  // namespace unity::cuda
