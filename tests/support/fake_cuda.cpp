#include "tests/support/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/cuda/check.h"
#include "runtime/cuda/code.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/ways.h"
#include "tests/support/fake_world.h"

using namespace unity;
using namespace unity::fake;

struct CUevent_st {
  int gpu = 0;
  bool timed = false;
  std::shared_ptr<Op> recorded;
  std::shared_ptr<Capture> capture;  // in which it was recorded
  std::shared_ptr<std::chrono::steady_clock::time_point> when;
};
struct CUgraph_st {
  std::shared_ptr<Capture> capture;  // which events know for longer
  std::shared_ptr<void> held = std::shared_ptr<void>(nullptr, [of = capture](void*) {
    for (auto& [stream, op] : of->ops) op->holds = nullptr;
  });
};
struct CUgraphExec_st : CUgraph_st {};

namespace {

thread_local std::uint32_t visible = 0;
thread_local std::map<std::string, std::string> environment;
thread_local std::shared_ptr<Capture> capturing;
thread_local cudaError_t last_error = cudaSuccess;
thread_local auto process = std::make_shared<Process>();

std::vector<int> visible_gpus() {
  std::vector<int> list;
  for (int g = 0; g < world().gpus; ++g)
    if (visible == 0 || (visible >> g & 1)) list.push_back(g);
  return list;
}
int ordinal_of(int gpu) {
  std::vector<int> list = visible_gpus();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] == gpu) return static_cast<int>(i);
  return 0;
}
int gpu_of_memory(const void* p) {
  for (int g = 0; g < world().gpus; ++g)
    if (world().arenas[g].has(p)) return g;
  return -1;
}

// With the lock held.
void run_on(int gpu, const std::function<void()>& work) {
  if (gpu >= 0) world().arenas[gpu].open(true);
  work();
  if (gpu >= 0) world().arenas[gpu].open(false);
}
void run(const Op& op, Process& process) {
  struct Closed {
    explicit Closed(Arena* of) : arena(of) {
      if (arena) arena->open(false);
    }
    ~Closed() {
      if (arena) arena->open(true);
    }
    Arena* arena;
  } closed(op.gpu >= 0 && !op.copies ? process.pinned.get() : nullptr);
  run_on(op.gpu, op.work);
}

// As far as it can, but no more than so many; whether it went on at all.
bool go_on(Queue& queue, Process& process, std::size_t most) {
  bool any = false;
  for (std::size_t i = 0; i < most && !queue.empty() && !world().hung; ++i) {
    std::shared_ptr<Op> op = queue.front();
    if (std::any_of(op->after.begin(), op->after.end(), [](const auto& before) { return !before->done; })) break;
    std::lock_guard lock(world().mutex);
    if (!std::exchange(op->started, true)) {
      any = true;
      if (op->work) run(*op, process);
    }
    if (op->finished && !op->finished()) break;
    *op = {};
    op->done = any = true;
    queue.pop_front();
  }
  return any;
}

// Whether all that was captured comes before the last on the stream where the capture began.
bool joined(const Capture& capture, cudaStream_t origin) {
  std::map<const Op*, std::vector<const Op*>> before;
  std::map<cudaStream_t, const Op*> last;
  for (const auto& [stream, op] : capture.ops) {
    if (last[stream]) before[op.get()].push_back(last[stream]);
    for (const auto& other : op->after) before[op.get()].push_back(other.get());
    last[stream] = op.get();
  }
  std::set<const Op*> reached;
  std::vector<const Op*> left = {last[origin]};
  while (!left.empty()) {
    const Op* op = left.back();
    left.pop_back();
    if (op && reached.insert(op).second) left.insert(left.end(), before[op].begin(), before[op].end());
  }
  return reached.size() == capture.ops.size();
}

}  // namespace

namespace unity::fake {

World::World()
    : gpus(std::getenv("UNITY_FAKE_GPUS") ? std::atoi(std::getenv("UNITY_FAKE_GPUS")) : 4),
      order(std::getenv("UNITY_FAKE_ORDER") ? std::getenv("UNITY_FAKE_ORDER") : "backward") {}
World& world() {
  static auto* w = new World;  // outlives all
  return *w;
}
int& current() {
  thread_local int gpu = 0;
  return gpu;
}
int& nccl_version() {
  thread_local int version = 22809;
  return version;
}

std::shared_ptr<Op> enqueue(cudaStream_t stream, Op op) {
  auto added = std::make_shared<Op>(std::move(op));
  std::lock_guard lock(stream->process->mutex);
  if (stream->capture)
    stream->capture->ops.emplace_back(stream, added);
  else
    added->holds = nullptr, stream->queue->push_back(added), stream->last = added;
  return added;
}

bool progress(Process& process) {
  std::lock_guard lock(process.mutex);
  auto& queues = process.queues;
  try {
    for (bool any = true; any;) {
      any = false;
      std::vector<std::size_t> order(queues.size());
      std::iota(order.begin(), order.end(), 0);
      const bool mixed = world().order == "mixed";
      if (mixed) std::shuffle(order.begin(), order.end(), process.chance);
      if (world().order == "backward") std::reverse(order.begin(), order.end());
      for (std::size_t i : order) any = go_on(*queues[i], process, mixed ? 1 + process.chance() % 4 : SIZE_MAX) || any;
    }
  } catch (const Aborted&) {
    for (auto& queue : queues) queue->clear();  // nothing goes on behind it
  }
  std::erase_if(queues, [](const auto& queue) { return queue->empty() && queue.use_count() == 1; });
  return !world().hung && std::all_of(queues.begin(), queues.end(), [](const auto& queue) { return queue->empty(); });
}
void finish(Process& process) {
  while (!progress(process) && !world().hung) std::this_thread::yield();
}

}  // namespace unity::fake

void unity::cuda::run_emulated(Stream stream, const std::function<void()>& work) {
  if (stream->gpu != current())
    throw std::runtime_error("a launch on a stream of GPU " + std::to_string(stream->gpu) + " while GPU " +
                             std::to_string(current()) + " is current");
  if (cudaGetLastError() != cudaSuccess) throw std::runtime_error("a launch finds an error that an earlier call left");
  {
    std::lock_guard lock(world().mutex);
    ++world().counts.launches;
    if (fails(world().launches_to_failure)) check(static_cast<cudaError_t>(world().launch_error), "cudaGetLastError()");
  }
  enqueue(stream, {stream->gpu, work, {}, {}});
}

const char* unity::cuda::emulated_variable(const char* name) {
  const auto own = environment.find(name);
  return own != environment.end() ? own->second.c_str() : std::getenv(name);
}
cudaError_t unity::cuda::code_status() { return static_cast<cudaError_t>(world().code_error); }

extern "C" {

void fake_cuda_hang(bool hang) { world().hang = hang; }
void fake_cuda_nccl_starts(bool ends) {
  std::lock_guard lock(world().mutex);
  world().nccl_starts = ends;
}
void fake_cuda_nccl_version(int v) { nccl_version() = v; }
void fake_cuda_visible(std::uint32_t gpus) {
  visible = gpus;
  if (std::vector<int> list = visible_gpus(); !list.empty()) current() = list[0];
}
int fake_cuda_aborted() { return world().aborted; }
int fake_cuda_held_aborts() { return world().held_aborts; }
std::int64_t fake_cuda_bytes(int gpu) {
  std::lock_guard lock(world().mutex);
  return world().arenas[gpu].bytes();
}
std::int64_t fake_cuda_pinned() { return process->pinned ? process->pinned->bytes() : 0; }
void fake_cuda_memory(std::int64_t bytes) {
  std::lock_guard lock(world().mutex);
  world().memory = bytes;
}
void fake_cuda_most_pinned(std::int64_t bytes) { process->most_pinned = bytes; }

void fake_cuda_libraries(bool on) { world().libraries = on; }
std::int64_t fake_cuda_score_bytes() { return world().score_bytes; }
void fake_cuda_set_score_bytes(std::int64_t bytes) { world().score_bytes = bytes; }
bool fake_cuda_libraries_on() { return world().libraries; }
FakeLibraryCalls fake_cuda_library_calls() {
  std::lock_guard lock(world().mutex);
  return world().calls;
}
void fake_cuda_count(int FakeLibraryCalls::*which) {
  std::lock_guard lock(world().mutex);
  ++(world().calls.*which);
}

FakeCounts fake_cuda_counts() {
  std::lock_guard lock(world().mutex);
  return world().counts;
}
void fake_cuda_driver(int version) { world().driver = version; }
void fake_cuda_capability(int capability) { world().capability = capability; }
void fake_cuda_fail_launch(int after) { world().launches_to_failure = after; }
void fake_cuda_environment(const char* name, const char* value) {
  if (value)
    environment[name] = value;
  else
    environment.erase(name);
}
void fake_cuda_launch_error(int error) { world().launch_error = error; }
void fake_cuda_code(int error) { world().code_error = error; }
void fake_cuda_fail_nccl(int after) { world().nccl_calls_to_failure = after; }

constexpr int kRuntime = 13000;
cudaError_t cudaDriverGetVersion(int* v) { return *v = world().driver, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = kRuntime, cudaSuccess; }
// Like CUDA's, it leaves its argument as it is where the driver is missing or too old.
cudaError_t cudaGetDeviceCount(int* count) {
  if (world().driver < kRuntime) return cudaErrorInsufficientDriver;
  *count = static_cast<int>(visible_gpus().size());
  return *count ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {};
  int gpu = visible_gpus().at(static_cast<std::size_t>(device));
  std::strcpy(p->name, "NVIDIA Fake");
  p->major = world().capability / 10, p->minor = world().capability % 10;
  p->l2CacheSize = 50 << 20;
  std::memset(p->uuid.bytes, 'a' + gpu, sizeof p->uuid.bytes);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = ordinal_of(current()), cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  std::vector<int> gpus = visible_gpus();
  if (device < 0 || device >= static_cast<int>(gpus.size())) return cudaErrorInvalidDevice;
  return current() = gpus[static_cast<std::size_t>(device)], cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "an error of the fake"; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorInvalidResourceHandle ? "invalid resource handle" : "some error";
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  std::lock_guard lock(world().mutex);
  Arena& arena = world().arenas[current()];
  *p = arena.bytes() + static_cast<std::int64_t>(bytes) <= world().memory ? arena.take(bytes) : nullptr;
  if (!*p) return last_error = cudaErrorMemoryAllocation;
  run_on(current(), [&] { std::memset(*p, 0xff, std::min<std::size_t>(bytes, 1 << 20)); });  // NaN
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  finish(*process);
  std::lock_guard lock(world().mutex);
  for (Arena& arena : world().arenas)
    if (arena.has(p)) arena.open(true), arena.give_back(p), arena.open(false);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  if (!process->pinned) process->pinned = std::make_unique<Arena>(), process->pinned->open(true);
  Arena& arena = *process->pinned;
  *p = arena.bytes() + static_cast<std::int64_t>(bytes) <= process->most_pinned ? arena.take(bytes) : nullptr;
  if (!*p) return last_error = cudaErrorMemoryAllocation;
  std::memset(*p, 0xff, std::min<std::size_t>(bytes, 1 << 20));  // NaN
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  if (!process->pinned || !process->pinned->has(p)) return cudaErrorInvalidValue;
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  return process->pinned->give_back(p), cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  std::int64_t taken = fake_cuda_bytes(current());
  std::lock_guard lock(world().mutex);
  *total = static_cast<std::size_t>(world().memory);
  *free = static_cast<std::size_t>(std::max<std::int64_t>(0, world().memory - taken));
  return cudaSuccess;
}
// What is copied from pageable memory is read at once, as CUDA does.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!stream) return cudaErrorInvalidValue;
  const void* host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : nullptr;
  const Arena* pinned =
      stream->process->pinned && stream->process->pinned->has(host) ? stream->process->pinned.get() : nullptr;
  {
    std::lock_guard lock(world().mutex);
    auto lies_there = [&](const void* p) {
      if (p != host) return world().arenas[stream->gpu].holds(p, bytes);
      return pinned ? pinned->holds(p, bytes) : gpu_of_memory(p) < 0;
    };
    if (!lies_there(to) || !lies_there(from)) return cudaErrorInvalidValue;
  }
  bool pageable = host && !pinned;
  if (pageable && stream->capture) return cudaErrorStreamCaptureUnsupported;
  Op op{stream->gpu, [=] { std::memcpy(to, from, bytes); }, {}, {}};
  op.copies = true;
  if (pageable && kind == cudaMemcpyHostToDevice) {
    const auto* begin = static_cast<const std::byte*>(from);
    op.work = [to, held = std::vector(begin, begin + bytes)] { std::memcpy(to, held.data(), held.size()); };
  }
  enqueue(stream, std::move(op));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  int gpu = gpu_of_memory(to);
  auto work = [=] { std::memset(to, value, bytes); };
  if (stream) return enqueue(stream, {gpu, work, {}, {}}), cudaSuccess;
  std::lock_guard lock(world().mutex);  // the default stream is not ordered with others
  return run_on(gpu, work), cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st{current(), process, std::make_shared<Queue>(), nullptr, nullptr};
  std::lock_guard lock(process->mutex);
  process->queues.push_back((*stream)->queue);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  progress(*stream->process);
  std::lock_guard lock(stream->process->mutex);
  if (stream->queue->empty() && !world().hung) return cudaSuccess;
  return last_error = cudaErrorNotReady;  // which some runtimes keep
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  if (stream) finish(*stream->process);  // the default stream is never behind
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!event->recorded) return cudaErrorInvalidValue;
  if (event->capture && event->capture->open) {
    if (stream->capture && stream->capture != event->capture) return cudaErrorStreamCaptureMerge;
    stream->capture = event->capture;
  } else if (event->capture) {
    return cudaErrorCapturedEvent;
  } else if (stream->capture) {
    return cudaErrorStreamCaptureIsolation;
  }
  Op op;
  op.after = {event->recorded};
  return enqueue(stream, std::move(op)), cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{current(), flags == cudaEventDefault, {}, {}, {}};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->gpu != stream->gpu) return cudaErrorInvalidResourceHandle;
  auto when = event->when = std::make_shared<std::chrono::steady_clock::time_point>();
  event->capture = stream->capture;
  event->recorded = enqueue(stream, {-1, [when] { *when = std::chrono::steady_clock::now(); }, {}, {}});
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags != cudaEventRecordExternal) return cudaEventRecord(event, stream);
  // A node of the graph that records the event anew with each launch.
  if (!stream->capture) return cudaErrorIllegalState;
  if (event->gpu != stream->gpu) return cudaErrorInvalidResourceHandle;
  auto when = event->when = std::make_shared<std::chrono::steady_clock::time_point>();
  auto mark = event->recorded = std::make_shared<Op>();
  event->capture = nullptr;
  enqueue(stream, {-1, [when, mark] { *when = std::chrono::steady_clock::now(), mark->done = true; }, {}, {}});
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timed || !end->timed || !start->recorded || !end->recorded || start->gpu != end->gpu)
    return cudaErrorInvalidResourceHandle;
  if (!start->recorded->done || !end->recorded->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*end->when - *start->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return stream->capture = capturing = std::make_shared<Capture>(), cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  bool all = joined(*capturing, stream);
  {
    std::lock_guard lock(world().mutex);
    ++world().counts.captures;
  }
  capturing->open = false;
  for (const auto& [of_op, op] : capturing->ops) of_op->capture = nullptr;
  stream->capture = nullptr;
  auto* made = new CUgraph_st{capturing};
  *graph = all ? made : nullptr;
  if (!all) delete made;
  capturing = nullptr;
  return all ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return *executable = new CUgraphExec_st{*graph}, cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }
// Streams of its own, which begin behind what is on this one, and behind which it goes on.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  {
    std::lock_guard of_world(world().mutex);
    ++world().counts.graphs;
  }
  std::unique_lock lock(stream->process->mutex);
  std::map<const Op*, std::shared_ptr<Op>> copies;
  std::map<cudaStream_t, std::shared_ptr<Queue>> of_streams;
  Op end;
  for (const auto& [of_op, op] : graph->capture->ops) {
    auto copy = std::make_shared<Op>(*op);
    copy->holds = nullptr;
    for (auto& before : copy->after) before = copies.at(before.get());
    auto [queue, first] = of_streams.try_emplace(of_op, nullptr);
    if (first) stream->process->queues.push_back(queue->second = std::make_shared<Queue>());
    if (first && stream->last) copy->after.push_back(stream->last);
    copies[op.get()] = copy;
    queue->second->push_back(copy);
    end.after.push_back(copy);
  }
  lock.unlock();
  return enqueue(stream, std::move(end)), cudaSuccess;
}
}
