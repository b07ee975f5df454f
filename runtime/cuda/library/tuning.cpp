#include "runtime/cuda/library/tuning.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/resources.h"

namespace unity::cuda {
namespace {

constexpr int kRuns = 5;  // of which the fastest counts: others use the GPU, too, but make nothing faster

// Numbers that are small in every element type, none of them zero: zeros can be multiplied faster.
Memory filled(std::int64_t bytes) {
  Memory memory(bytes, Memory::Contents::any);
  constexpr int kPattern = 0x3c;
  UNITY_CUDA_CHECK(cudaMemsetAsync(memory.data(), kPattern, static_cast<std::size_t>(bytes), nullptr));
  UNITY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return memory;
}

struct Found {
  std::mutex mutex;
  std::unordered_map<std::string, std::size_t> fastest;
};
Found& found() {
  static Found f;
  return f;
}

// What was found before.
std::optional<std::size_t> known(const std::string& name) {
  std::lock_guard lock(found().mutex);
  auto at = found().fastest.find(name);
  return at == found().fastest.end() ? std::nullopt : std::optional(at->second);
}

std::string on_this_gpu(const std::string& key) {
  int ordinal = 0;
  UNITY_CUDA_CHECK(cudaGetDevice(&ordinal));
  return fmt::format("gpu {} {}", ordinal, key);
}

}  // namespace

std::size_t fastest(const std::string& key, std::span<const std::function<void(Stream)>> kernels) {
  if (kernels.size() < 2) return 0;
  const std::string name = on_this_gpu(key);
  if (std::optional<std::size_t> before = known(name)) return *before;
  StreamHandle stream = make_stream();
  EventHandle begin = make_event(true), end = make_event(true);
  std::size_t best = 0;
  float least = std::numeric_limits<float>::max();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    kernels[k](stream.get());  // loads its code
    for (int run = 0; run < kRuns; ++run) {
      UNITY_CUDA_CHECK(cudaEventRecord(begin.get(), stream.get()));
      kernels[k](stream.get());
      UNITY_CUDA_CHECK(cudaEventRecord(end.get(), stream.get()));
      UNITY_CUDA_CHECK(cudaStreamSynchronize(stream.get()));
      float milliseconds = 0;
      UNITY_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
      if (milliseconds < least) least = milliseconds, best = k;
    }
  }
  std::lock_guard lock(found().mutex);
  return found().fastest.emplace(name, best).first->second;
}

Result<GraphPlan> fastest_plan(Libraries& libraries, const std::string& key, const std::vector<Descriptor>& graph,
                               const PlanLimits& limits, std::span<const std::int64_t> ids,
                               std::span<const std::int64_t> bytes) {
  const PlanTarget target{libraries.handles().cudnn(), nullptr};
  if (libraries.options().choice == Choice::first) return GraphPlan::choose(target, graph, limits);
  if (libraries.options().choice == Choice::last)
    return UNITY_TRY(GraphPlan::candidates(target, graph, limits, kMostCandidates)).back();
  // Other limits leave other candidates.
  const std::string name = fmt::format("{} in {}{}{}", key, limits.workspace, limits.deterministic ? " fixed" : "",
                                       limits.exact ? " exact" : "");
  if (std::optional<std::size_t> before = known(on_this_gpu(name)))
    return UNITY_TRY(GraphPlan::candidates(target, graph, limits, *before + 1)).at(*before);
  std::vector<GraphPlan> plans = UNITY_TRY(GraphPlan::candidates(target, graph, limits, kMostCandidates));
  if (plans.size() == 1) return plans[0];
  try {
    std::vector<Memory> memory;
    std::vector<void*> data;
    for (std::int64_t size : bytes) data.push_back(memory.emplace_back(filled(size)).data());
    std::int64_t most = 0;
    for (const GraphPlan& plan : plans) most = std::max(most, plan.workspace());
    Memory workspace(most, Memory::Contents::any);
    std::vector<std::function<void(Stream)>> kernels;
    for (const GraphPlan& plan : plans)
      kernels.emplace_back(
          [&](Stream stream) { plan.run(libraries.handles().cudnn_on(stream), ids, data, workspace.data()); });
    return plans[fastest(name, kernels)];
  } catch (const OutOfDeviceMemory&) {
    cudaGetLastError();  // or the next call would report it
    return plans[0];
  }
}

std::size_t choose_kernel(Libraries& libraries, const LibraryCall& call, const std::string& shapes,
                          std::span<const LibraryKernel> kernels) {
  const LibraryOptions& options = libraries.options();
  if (options.choice == Choice::first || kernels.size() == 1) return 0;
  if (options.choice == Choice::last) return kernels.size() - 1;
  std::string key =
      fmt::format("{} by {}{}", shapes, static_cast<int>(options.math), options.deterministic ? " fixed" : "");
  for (const AttributeValue& a : call.attributes) key += " " + to_string(a);
  if (std::optional<std::size_t> before = known(on_this_gpu(key))) return *before;
  try {
    std::vector<Memory> memory;
    std::vector<Operand> inputs(call.inputs.begin(), call.inputs.end()),
        outputs(call.outputs.begin(), call.outputs.end());
    for (std::vector<Operand>* operands : {&inputs, &outputs})
      for (Operand& o : *operands) o.data = memory.emplace_back(filled(o.elements() * size_of(o.dtype))).data();
    // What is added may be where the result is: the common case.
    if (call.op.accumulates()) inputs.back().data = outputs[0].data;
    Memory scratch;
    std::int64_t scratch_bytes = 0;
    Stream current = nullptr;
    std::function<void*(std::int64_t)> give = [&](std::int64_t bytes) {
      if (bytes > scratch_bytes) {
        UNITY_CUDA_CHECK(cudaStreamSynchronize(current));
        scratch = {};
        scratch = Memory(bytes, Memory::Contents::any), scratch_bytes = bytes;
      }
      return scratch.data();
    };
    std::vector<std::function<void(Stream)>> runs;
    for (const LibraryKernel& kernel : kernels)
      runs.emplace_back([&](Stream stream) {
        current = stream;
        kernel({call.attributes, inputs, outputs, RandomKey(0), nullptr, stream, give, call.channels_last});
      });
    return fastest(key, runs);
  } catch (const OutOfDeviceMemory&) {
    cudaGetLastError();  // or the next call would report it
    return 0;
  }
}

}  // namespace unity::cuda
