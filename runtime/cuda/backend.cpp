// Iterations of the CUDA backend: enqueued task by task, captured, launched; values read and written between them.
#include <algorithm>

#include "core/base/text.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/plugin.h"

namespace unity::cuda {

void CudaBackend::set_step_values(const StepInfo& info) {
  StepValues values{static_cast<std::uint64_t>(info.step), info.rate_factor};
  for (auto& [gpu, memory] : step_values_) {
    OnGpu on(gpu);
    UNITY_CUDA_CHECK(cudaMemcpy(memory.data(), &values, sizeof values, cudaMemcpyHostToDevice));
  }
}

// From the first device's compute stream, which all others wait for, and which waits for all others.
void CudaBackend::enqueue(bool timed) {
  LogicalDevice& first = devices_.begin()->second;
  Stream origin = first.lanes[0].stream.get();
  UNITY_CUDA_CHECK(cudaSetDevice(first.gpu));
  if (timed) UNITY_CUDA_CHECK(cudaEventRecord(origin_.get(), origin));
  UNITY_CUDA_CHECK(cudaEventRecord(begin_.get(), origin));
  for (auto& [d, device] : devices_)
    for (Lane& lane : device.lanes)
      if (lane.stream.get() != origin) {
        UNITY_CUDA_CHECK(cudaSetDevice(device.gpu));
        UNITY_CUDA_CHECK(cudaStreamWaitEvent(lane.stream.get(), begin_.get()));
      }
  // The works of one communication stand in a row: all wait for what they come after, the last one's call is for all.
  // On one GPU it runs on the first one's stream, before which and after which the others' streams wait.
  for (std::size_t w = 0; w < works_.size();) {
    std::size_t end = w + 1;
    while (end < works_.size() && works_[end].task == works_[w].task) ++end;
    try {
      for (std::size_t i = w; i < end; ++i) {
        Work& work = works_[i];
        UNITY_CUDA_CHECK(cudaSetDevice(devices_.at(work.device).gpu));
        Stream stream = lane_of(work).stream.get();
        for (std::size_t before : work.after) UNITY_CUDA_CHECK(cudaStreamWaitEvent(stream, events_[before].get()));
        if (timed) UNITY_CUDA_CHECK(cudaEventRecord(times_[i][0].get(), stream));
      }
      Stream first_stream = lane_of(works_[w]).stream.get();
      bool together =
          end > w + 1 && collectives_->on_one_gpu(static_cast<std::size_t>(program_.tasks[works_[w].task.index()].op));
      for (std::size_t i = w + 1; i < end && together; ++i) {
        UNITY_CUDA_CHECK(cudaEventRecord(events_[i].get(), lane_of(works_[i]).stream.get()));
        UNITY_CUDA_CHECK(cudaStreamWaitEvent(first_stream, events_[i].get()));
      }
      const Work& last = works_[end - 1];
      if (last.joined && !timed && !careful_)
        last.joined();
      else
        last.enqueue();
      if (together) UNITY_CUDA_CHECK(cudaEventRecord(events_[w].get(), first_stream));
      for (std::size_t i = w + 1; i < end && together; ++i)
        UNITY_CUDA_CHECK(cudaStreamWaitEvent(lane_of(works_[i]).stream.get(), events_[w].get()));
      for (std::size_t i = w; i < end; ++i) {
        Work& work = works_[i];
        UNITY_CUDA_CHECK(cudaSetDevice(devices_.at(work.device).gpu));
        Stream stream = lane_of(work).stream.get();
        if (timed) UNITY_CUDA_CHECK(cudaEventRecord(times_[i][1].get(), stream));
        if (work.awaited) UNITY_CUDA_CHECK(cudaEventRecord(events_[i].get(), stream));
        if (careful_) UNITY_CUDA_CHECK(cudaStreamSynchronize(stream));
      }
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      throw std::runtime_error(fmt::format("{}: {}", describe(works_[w].task), e.what()));
    }
    w = end;
  }
  std::size_t e = 0;
  for (auto& [d, device] : devices_)
    for (Lane& lane : device.lanes) {
      EventHandle& done = ends_[e++];
      if (lane.stream.get() == origin) continue;
      UNITY_CUDA_CHECK(cudaSetDevice(device.gpu));
      UNITY_CUDA_CHECK(cudaEventRecord(done.get(), lane.stream.get()));
      UNITY_CUDA_CHECK(cudaSetDevice(first.gpu));
      UNITY_CUDA_CHECK(cudaStreamWaitEvent(origin, done.get()));
    }
}

void CudaBackend::capture() {
  LogicalDevice& first = devices_.begin()->second;
  OnGpu on(first.gpu);
  Stream origin = first.lanes[0].stream.get();
  UNITY_CUDA_CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  capturing_ = true;
  try {
    enqueue(false);
    capturing_ = false;
  } catch (...) {
    capturing_ = false;
    cudaStreamEndCapture(origin, &graph);
    if (graph) cudaGraphDestroy(graph);
    throw;
  }
  UNITY_CUDA_CHECK(cudaStreamEndCapture(origin, &graph));
  cudaGraphExec_t executable = nullptr;
  cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  UNITY_CUDA_CHECK(status);
  graph_ = GraphHandle(executable);
}

// Until everything enqueued is done. What went wrong on the GPU shows only here.
void CudaBackend::wait() {
  LogicalDevice& first = devices_.begin()->second;
  OnGpu on(first.gpu);
  cudaError_t status = cudaStreamSynchronize(first.lanes[0].stream.get());
  if (status != cudaSuccess)
    throw std::runtime_error(fmt::format("{} on GPU {}{}", cudaGetErrorString(status), first.gpu,
                                         careful_ ? "" : "; set UNITY_CUDA_SYNC=1 to see in which task"));
  collectives_->check();
}

std::vector<Span> CudaBackend::step(const StepInfo& info) {
  OnGpu on(devices_.begin()->second.gpu);
  if (seed_ != info.seed) graph_ = {}, seed_ = info.seed;
  set_step_values(info);
  if (info.trace && times_.empty()) {
    origin_ = make_event(true);
    for (const Work& w : works_) {
      OnGpu its(devices_.at(w.device).gpu);
      times_.push_back({make_event(true), make_event(true)});
    }
  }
  bool by_graph = !info.trace && !eager_ && !careful_ && steps_ > 0;
  if (by_graph && !graph_.get()) capture();
  if (by_graph)
    UNITY_CUDA_CHECK(cudaGraphLaunch(graph_.get(), devices_.begin()->second.lanes[0].stream.get()));
  else
    enqueue(info.trace);
  wait();
  ++steps_;
  std::vector<Span> spans;
  if (!info.trace) return spans;
  auto since = [&](const EventHandle& event) {
    float milliseconds = 0;
    UNITY_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, origin_.get(), event.get()));
    return Picoseconds{static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e9)};
  };
  for (std::size_t w = 0; w < works_.size(); ++w) {
    const Work& work = works_[w];
    auto stream = static_cast<std::uint8_t>(work.lane == 0 ? unity::Stream::compute : unity::Stream::communication);
    spans.push_back({work.task, DeviceId(work.device), stream, since(times_[w][0]), since(times_[w][1])});
  }
  return spans;
}

void CudaBackend::read(BufferId buffer, void* to) {
  OnGpu on(devices_.at(program_.buffer(buffer).device.value).gpu);
  std::int64_t n = program_.buffer(buffer).box.elements();
  DType type = held(buffer);
  if (type != DType::bf16) {
    UNITY_CUDA_CHECK(cudaMemcpy(to, data(buffer), static_cast<std::size_t>(n * size_of(type)), cudaMemcpyDeviceToHost));
    return;
  }
  std::vector<BFloat16> values(static_cast<std::size_t>(n));
  UNITY_CUDA_CHECK(cudaMemcpy(values.data(), data(buffer), values.size() * sizeof(BFloat16), cudaMemcpyDeviceToHost));
  std::transform(values.begin(), values.end(), static_cast<float*>(to), to_float);
}

void CudaBackend::write(BufferId buffer, const void* from) {
  OnGpu on(devices_.at(program_.buffer(buffer).device.value).gpu);
  std::int64_t n = program_.buffer(buffer).box.elements();
  DType type = held(buffer);
  BFloat16* half = shadow(buffer);
  if (type != DType::bf16)
    UNITY_CUDA_CHECK(
        cudaMemcpy(data(buffer), from, static_cast<std::size_t>(n * size_of(type)), cudaMemcpyHostToDevice));
  if (type != DType::bf16 && !half) return;
  std::vector<BFloat16> values(static_cast<std::size_t>(n));
  std::transform(static_cast<const float*>(from), static_cast<const float*>(from) + n, values.begin(), to_bfloat16);
  UNITY_CUDA_CHECK(
      cudaMemcpy(half ? half : data(buffer), values.data(), values.size() * sizeof(BFloat16), cudaMemcpyHostToDevice));
}

}  // namespace unity::cuda

extern "C" unity::Backend* unity_make_cuda_backend(int version, const unity::Program& program,
                                                   unity::Processes& processes, const unity::BackendOptions& options) {
  if (version != unity::kPluginVersion) return nullptr;
  return new unity::cuda::CudaBackend(program, processes, options);
}
