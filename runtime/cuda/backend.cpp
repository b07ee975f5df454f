// Iterations of the CUDA backend: enqueued task by task, captured, launched; values read and written between them.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/plugin.h"

namespace unity::cuda {
namespace {

constexpr std::chrono::seconds kRunOut{5};      // for what runs on when a backend ends
constexpr std::chrono::milliseconds kLook{10};  // between two looks at the other GPUs

}  // namespace

// Before all that the first device's compute stream does from now on.
void CudaBackend::set_step_values(const StepInfo& info) {
  const LogicalDevice& first = devices_.begin()->second;
  Stream origin = first.stream(unity::Stream::compute);
  std::vector<StepValues> values;
  for (int i = 0; i < program_.iterations; ++i)
    values.push_back({static_cast<std::uint64_t>(info.step + i), info.rate_factor});
  for (auto& [gpu, shared] : gpus_) {
    OnGpu on(gpu);
    std::memcpy(shared.next_values.get(), values.data(), step_values_bytes());
    UNITY_CUDA_CHECK(cudaMemcpyAsync(shared.step_values.data(), shared.next_values.get(), step_values_bytes(),
                                     cudaMemcpyHostToDevice, shared.stream));
    if (gpu == first.gpu) continue;
    UNITY_CUDA_CHECK(cudaEventRecord(shared.sent.get(), shared.stream));
    OnGpu its(first.gpu);
    UNITY_CUDA_CHECK(cudaStreamWaitEvent(origin, shared.sent.get()));
  }
}

// For the host to read, from a captured graph, too.
void CudaBackend::record_time(const EventHandle& event, Stream stream) const {
  UNITY_CUDA_CHECK(
      cudaEventRecordWithFlags(event.get(), stream, capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault));
}

// From the first device's compute stream, which all others wait for, and which waits for all others.
void CudaBackend::enqueue(bool timed) {
  LogicalDevice& first = devices_.begin()->second;
  Stream origin = first.stream(unity::Stream::compute);
  OnGpu::choose(first.gpu);
  UNITY_CUDA_CHECK(cudaEventRecord(begin_.get(), origin));
  for (auto& [d, device] : devices_)
    for (Lane& lane : device.lanes)
      if (lane.stream.get() != origin) {
        OnGpu::choose(device.gpu);
        UNITY_CUDA_CHECK(cudaStreamWaitEvent(lane.stream.get(), begin_.get()));
      }
  // CUDA takes the time between events of one GPU only; all origins are where the first one's stream was at begin_.
  for (auto& [gpu, shared] : gpus_) {
    if (!timed) break;
    OnGpu::choose(gpu);
    record_time(shared.origin, shared.stream);
  }
  // The works of one communication stand in a row: all wait for what they come after, the last one's call is for all.
  // On one GPU it runs on the first one's stream, before which and after which the others' streams wait.
  for (std::size_t w = 0; w < works_.size();) {
    std::size_t end = w + 1;
    while (end < works_.size() && works_[end].task == works_[w].task) ++end;
    try {
      for (std::size_t i = w; i < end; ++i) {
        Work& work = works_[i];
        OnGpu::choose(devices_.at(work.device).gpu);
        Stream stream = lane_of(work).stream.get();
        for (std::size_t before : work.after) UNITY_CUDA_CHECK(cudaStreamWaitEvent(stream, events_[before].get()));
        if (timed) record_time(times_[i][0], stream);
      }
      Stream first_stream = lane_of(works_[w]).stream.get();
      bool together =
          end > w + 1 && collectives_->on_one_gpu(static_cast<std::size_t>(program_.tasks[works_[w].task.index()].op));
      for (std::size_t i = w + 1; i < end && together; ++i) {
        UNITY_CUDA_CHECK(cudaEventRecord(events_[i].get(), lane_of(works_[i]).stream.get()));
        UNITY_CUDA_CHECK(cudaStreamWaitEvent(first_stream, events_[i].get()));
      }
      const Work& last = works_[end - 1];
      if (last.joined && !timed && !ways_.careful)
        last.joined();
      else
        last.enqueue();
      if (together) UNITY_CUDA_CHECK(cudaEventRecord(events_[w].get(), first_stream));
      for (std::size_t i = w + 1; i < end && together; ++i)
        UNITY_CUDA_CHECK(cudaStreamWaitEvent(lane_of(works_[i]).stream.get(), events_[w].get()));
      for (std::size_t i = w; i < end; ++i) {
        Work& work = works_[i];
        OnGpu::choose(devices_.at(work.device).gpu);
        Stream stream = lane_of(work).stream.get();
        if (timed) record_time(times_[i][1], stream);
        if (work.awaited) UNITY_CUDA_CHECK(cudaEventRecord(events_[i].get(), stream));
        if (ways_.careful) UNITY_CUDA_CHECK(wait_for(devices_.at(work.device).gpu, stream));
      }
    } catch (const InputError&) {
      throw;
    } catch (const ProcessFailure&) {  // which tells of its task
      throw;
    } catch (const OutOfDeviceMemory& e) {
      throw OutOfDeviceMemory(fmt::format("{}: {}", describe(works_[w].task), e.what()));
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
      OnGpu::choose(device.gpu);
      UNITY_CUDA_CHECK(cudaEventRecord(done.get(), lane.stream.get()));
      OnGpu::choose(first.gpu);
      UNITY_CUDA_CHECK(cudaStreamWaitEvent(origin, done.get()));
    }
}

GraphHandle CudaBackend::capture(bool timed) {
  LogicalDevice& first = devices_.begin()->second;
  OnGpu on(first.gpu);
  Stream origin = first.stream(unity::Stream::compute);
  UNITY_CUDA_CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  capturing_ = true;
  try {
    enqueue(timed);
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
  return GraphHandle(executable);
}

// Until everything enqueued is done. What went wrong on the GPU shows only here.
void CudaBackend::wait() {
  const LogicalDevice& first = devices_.begin()->second;
  cudaError_t status = wait_for(first.gpu, first.stream(unity::Stream::compute));
  if (status != cudaSuccess)
    throw std::runtime_error(fmt::format("{} on GPU {}{}", cudaGetErrorString(status), first.gpu,
                                         ways_.careful ? "" : "; set UNITY_CUDA_SYNC=1 to see in which task"));
}

// Other than by cudaStreamSynchronize, with an eye on the other processes, and on the other GPUs: where one of these
// failed, what waits for it may wait for ever.
cudaError_t CudaBackend::wait_for(int gpu, Stream stream) {
  OnGpu on(gpu);
  cudaError_t status = cudaSuccess;
  auto next = std::chrono::steady_clock::now() + kLook;
  auto done = [&] {
    if ((status = stream_status(stream)) != cudaErrorNotReady) return true;
    if (gpus_.size() == 1 || std::chrono::steady_clock::now() < next) return false;
    next = std::chrono::steady_clock::now() + kLook;
    for (const auto& [other, shared] : gpus_) {
      OnGpu its(other);
      cudaError_t there = stream_status(shared.stream);
      if (there != cudaSuccess && there != cudaErrorNotReady) return status = there, true;
    }
    return false;
  };
  collectives_->wait(done, fmt::format("step {}", waits_in_.load()));
  return status;
}

// Before memory is freed and taken: CUDA waits then for all that the GPU does, and those that reach its memory, with no
// eye on the processes.
void CudaBackend::wait_for_all() {
  for (const auto& [d, device] : devices_)
    for (const Lane& lane : device.lanes) UNITY_CUDA_CHECK(wait_for(device.gpu, lane.stream.get()));
}

void CudaBackend::open_channel() {
  if (processes_.size() == 1) return;
  channel_ = processes_.open({[](int, Message) {}, [] {},
                              [this] {
                                std::vector<std::string> waits;
                                if (std::int64_t step = waits_in_.load(); step >= 0)
                                  waits.push_back(fmt::format("the GPUs in step {}", step));
                                return waits;
                              }});
}

CudaBackend::~CudaBackend() {
  if (channel_ >= 0) processes_.close(channel_);
  // After a failure something may still run that never ends, and to free memory is to wait for it.
  auto until = std::chrono::steady_clock::now() + kRunOut;
  for (auto& [d, device] : devices_)
    for (Lane& lane : device.lanes) {
      cudaSetDevice(device.gpu);
      while (lane.stream.get() && stream_status(lane.stream.get()) == cudaErrorNotReady) {
        if (std::chrono::steady_clock::now() > until) {
          keep_for_ever();
          return;
        }
        std::this_thread::yield();
      }
    }
}

void CudaBackend::keep_for_ever() {
  collectives_->keep_for_ever();
  new auto(std::move(devices_));
  new auto(std::move(gpus_));
  new auto(std::move(shadows_));
  new auto(std::move(lists_));
  new auto(std::move(products_));
  new auto(std::move(graphs_));
}

std::vector<Span> CudaBackend::step(const StepInfo& info) {
  waits_in_ = info.step;
  collectives_->begin_step();
  auto give_up = [this] {
    waits_in_ = -1;
    graphs_ = {};  // one that still runs ends with what it holds
    collectives_->abort();
  };
  try {
    std::vector<Span> spans = run_step(info);
    waits_in_ = -1;
    return spans;
  } catch (const OutOfDeviceMemory& error) {
    const DoesNotFit reason = too_large(error.what());
    give_up();
    throw reason;
  } catch (...) {
    give_up();
    throw;
  }
}

std::vector<Span> CudaBackend::run_step(const StepInfo& info) {
  OnGpu on(devices_.begin()->second.gpu);
  if (seed_ != info.seed) graphs_ = {}, seed_ = info.seed;
  set_step_values(info);
  if (info.trace && times_.empty()) {
    for (const Work& w : works_) {
      OnGpu its(devices_.at(w.device).gpu);
      times_.push_back({make_event(true), make_event(true)});
    }
  }
  const bool by_graph = steps_ > 0 && ways_.by_graph(collectives_->graphs_may_hang());
  GraphHandle& graph = graphs_[info.trace ? 1 : 0];
  if (by_graph && !graph.get()) graph = capture(info.trace);
  if (by_graph)
    UNITY_CUDA_CHECK(cudaGraphLaunch(graph.get(), devices_.begin()->second.stream(unity::Stream::compute)));
  else
    enqueue(info.trace);
  wait();
  ++steps_;
  std::vector<Span> spans;
  if (!info.trace) return spans;
  auto since = [&](const EventHandle& origin, const EventHandle& event) {
    float milliseconds = 0;
    UNITY_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, origin.get(), event.get()));
    return Picoseconds{static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e9)};
  };
  for (std::size_t w = 0; w < works_.size(); ++w) {
    const Work& work = works_[w];
    int gpu = devices_.at(work.device).gpu;
    OnGpu its(gpu);
    const EventHandle& origin = gpus_.at(gpu).origin;
    spans.push_back({work.task, DeviceId(work.device), static_cast<std::uint8_t>(work.lane),
                     since(origin, times_[w][0]), since(origin, times_[w][1])});
  }
  return spans;
}

// On a stream, and done when it returns: what steps do on theirs is not ordered with the default stream.
void CudaBackend::copy(BufferId buffer, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (program_.buffer(buffer).on_host) {
    std::memcpy(to, from, bytes);
    return;
  }
  const LogicalDevice& device = devices_.at(program_.buffer(buffer).device.value);
  OnGpu on(device.gpu);
  Stream stream = device.stream(unity::Stream::compute);
  UNITY_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream));
  UNITY_CUDA_CHECK(cudaStreamSynchronize(stream));
}

void CudaBackend::read(BufferId buffer, void* to) {
  std::int64_t n = program_.buffer(buffer).box.elements();
  DType type = held(buffer);
  const DType outside = type == DType::bf16 ? DType::f32 : type;
  std::vector<std::byte> turned(channels_last(buffer) ? static_cast<std::size_t>(n * size_of(outside)) : 0);
  void* target = channels_last(buffer) ? turned.data() : to;
  if (type != DType::bf16) {
    copy(buffer, target, data(buffer), static_cast<std::size_t>(n * size_of(type)), cudaMemcpyDeviceToHost);
  } else {
    std::vector<BFloat16> values(static_cast<std::size_t>(n));
    copy(buffer, values.data(), data(buffer), values.size() * sizeof(BFloat16), cudaMemcpyDeviceToHost);
    std::transform(values.begin(), values.end(), static_cast<float*>(target), to_float);
  }
  if (channels_last(buffer))
    from_channels_last(from_channels_last(program_.buffer(buffer).box.extent),
                       static_cast<std::size_t>(size_of(outside)), turned.data(), to);
}

void CudaBackend::write(BufferId buffer, const void* from) {
  const Box& box = program_.buffer(buffer).box;
  if (!channels_last(buffer)) return write_first(buffer, from, box.elements());
  const auto size = static_cast<std::size_t>(size_of(held(buffer) == DType::bf16 ? DType::f32 : held(buffer)));
  std::vector<std::byte> turned(static_cast<std::size_t>(box.elements()) * size);
  to_channels_last(from_channels_last(box.extent), size, from, turned.data());
  write_first(buffer, turned.data(), box.elements());
}

std::vector<std::byte> CudaBackend::held_form(BufferId buffer, std::vector<std::byte> values) const {
  const DType type = held(buffer);
  const std::int64_t n = program_.buffer(buffer).box.elements();
  if (channels_last(buffer)) {
    std::vector<std::byte> turned(values.size());
    to_channels_last(from_channels_last(program_.buffer(buffer).box.extent),
                     static_cast<std::size_t>(size_of(type == DType::bf16 ? DType::f32 : type)), values.data(),
                     turned.data());
    values = std::move(turned);
  }
  if (type != DType::bf16) return values;
  std::vector<std::byte> halves(static_cast<std::size_t>(n * size_of(type)));
  const auto* from = reinterpret_cast<const float*>(values.data());
  auto* to = reinterpret_cast<BFloat16*>(halves.data());
  constexpr std::int64_t kPart = 1 << 16;
  parallel_for(static_cast<std::size_t>((n + kPart - 1) / kPart), 0, [&](std::size_t part) {
    const std::int64_t first = static_cast<std::int64_t>(part) * kPart, end = std::min(n, first + kPart);
    std::transform(from + first, from + end, to + first, to_bfloat16);
  });
  return halves;
}

void CudaBackend::write_held(BufferId buffer, const std::vector<std::byte>& values) {
  copy(buffer, data(buffer), values.data(), values.size(), cudaMemcpyHostToDevice);
}

void CudaBackend::write_first(BufferId buffer, const void* from, std::int64_t n) {
  DType type = held(buffer);
  BFloat16* half = shadow(buffer);
  if (type != DType::bf16)
    copy(buffer, data(buffer), from, static_cast<std::size_t>(n * size_of(type)), cudaMemcpyHostToDevice);
  if (type != DType::bf16 && !half) return;
  std::vector<BFloat16> values(static_cast<std::size_t>(n));
  std::transform(static_cast<const float*>(from), static_cast<const float*>(from) + n, values.begin(), to_bfloat16);
  copy(buffer, half ? half : data(buffer), values.data(), values.size() * sizeof(BFloat16), cudaMemcpyHostToDevice);
}

// What is there is copied behind itself, twice as much each time.
bool CudaBackend::write_repeated(BufferId buffer, const void* from, std::int64_t count) {
  write_first(buffer, from, count);
  const std::int64_t n = program_.buffer(buffer).box.elements();
  auto repeat = [&](void* values, std::int64_t size) {
    auto* bytes = static_cast<std::byte*>(values);
    for (std::int64_t done = count; done < n; done *= 2)
      copy(buffer, bytes + done * size, bytes, static_cast<std::size_t>(std::min(done, n - done) * size),
           cudaMemcpyDeviceToDevice);
  };
  repeat(data(buffer), size_of(held(buffer)));
  if (BFloat16* half = shadow(buffer)) repeat(half, sizeof(BFloat16));
  return true;
}

}  // namespace unity::cuda

extern "C" bool unity_describe_cuda_device(int version, unity::DeviceDescription& device) {
  if (version != unity::kPluginVersion) return false;
  const std::vector<unity::cuda::Gpu> gpus = unity::cuda::find_gpus();
  device = {gpus.front().name, gpus.front().cache, static_cast<int>(gpus.size())};
  return true;
}

extern "C" unity::Backend* unity_make_cuda_backend(int version, const unity::Program& program,
                                                   unity::Processes& processes, const unity::BackendOptions& options) {
  if (version != unity::kPluginVersion) return nullptr;
  return new unity::cuda::CudaBackend(program, processes, options);
}
