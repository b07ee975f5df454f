#include "runtime/cuda/milestones.h"

#include <numeric>
#include <set>

namespace unity::cuda {

Milestones::Milestones(const std::map<DeviceId, int>& gpus, std::size_t tasks) {
  std::vector<std::int32_t> numbers(tasks);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::size_t bytes = numbers.size() * sizeof numbers[0];
  for (auto [device, gpu] : gpus) {
    OnGpu on(gpu);
    place_[device] = make_pinned(sizeof numbers[0]);
    auto [at, inserted] = numbers_.try_emplace(gpu);
    if (!inserted) continue;
    at->second = Memory(static_cast<std::int64_t>(bytes), Memory::Contents::any);
    const StreamHandle stream = make_stream();
    UNITY_CUDA_CHECK(cudaMemcpyAsync(at->second.data(), numbers.data(), bytes, cudaMemcpyHostToDevice, stream.get()));
    UNITY_CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  }
  reset();
}

void Milestones::pass(TaskId task, DeviceId device, int gpu, cudaStream_t stream) const {
  OnGpu on(gpu);
  constexpr std::int64_t kBytes = sizeof(std::int32_t);
  UNITY_CUDA_CHECK(cudaMemcpyAsync(place_.at(device).get(), numbers_.at(gpu).at(task.value * kBytes), kBytes,
                                   cudaMemcpyDeviceToHost, stream));
}

std::vector<TaskId> Milestones::reached() const {
  std::set<std::int32_t> tasks;
  for (const auto& [device, place] : place_)
    if (std::int32_t task = *static_cast<const volatile std::int32_t*>(place.get()); task >= 0) tasks.insert(task);
  std::vector<TaskId> ids;
  for (std::int32_t task : tasks) ids.emplace_back(std::int64_t{task});
  return ids;
}

void Milestones::reset() {
  for (auto& [device, place] : place_) *static_cast<volatile std::int32_t*>(place.get()) = -1;
}

}  // namespace unity::cuda
