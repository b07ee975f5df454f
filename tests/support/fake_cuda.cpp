#include "tests/support/fake_cuda.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/mman.h>

#include "runtime/cuda/elements.h"
#include "runtime/cuda/library/library.h"

using namespace unity;

struct CUstream_st {
  int gpu = 0;
};
struct CUevent_st {
  int gpu = 0;
  bool timed = false, recorded = false;
  std::chrono::steady_clock::time_point when;
};
struct CUgraph_st {
  std::vector<std::pair<int, std::function<void()>>> works;  // with their GPUs
};
struct CUgraphExec_st : CUgraph_st {};

namespace {

constexpr std::size_t kMemory = std::size_t{4} << 30;  // of a GPU; pages that nothing touches take none
constexpr int kMostGpus = 8;

// Room on a GPU that only its work may touch.
struct Arena {
  std::byte* begin = nullptr;
  std::map<std::size_t, std::size_t> taken;  // by offset: bytes

  Arena() {
    void* room = mmap(nullptr, kMemory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) throw std::bad_alloc();
    begin = static_cast<std::byte*>(room);
  }
  bool has(const void* p) const { return p >= begin && p < begin + kMemory; }
  void open(bool yes) { mprotect(begin, kMemory, yes ? PROT_READ | PROT_WRITE : PROT_NONE); }
  void* take(std::size_t bytes) {
    bytes = (bytes + 8191) / 4096 * 4096;  // and a gap
    std::size_t at = 0;
    for (auto [offset, size] : taken) {
      if (offset - at >= bytes) break;
      at = offset + size;
    }
    if (at + bytes > kMemory) return nullptr;
    taken[at] = bytes;
    return begin + at;
  }
};

// One call of NCCL by one rank.
struct Call {
  enum class Kind : std::uint8_t { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };
  Kind kind = Kind::send;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t operation = ncclSum;
  int root = 0;  // or the other one
};
struct Clique {
  std::vector<std::deque<Call>> calls;  // collectives, by rank
  std::map<std::pair<int, int>, std::deque<Call>> sends, receives;
  std::set<int> gpus, finalized;
  int made = 0;
};

}  // namespace

struct ncclComm {
  Clique* clique = nullptr;
  int rank = 0, gpu = 0;
  bool finalizing = false, aborted = false;
};

namespace {

struct World {
  World() : gpus(std::getenv("UNITY_FAKE_GPUS") ? std::atoi(std::getenv("UNITY_FAKE_GPUS")) : 4) {}
  int gpus;
  std::mutex mutex;
  std::condition_variable changed;
  Arena arenas[kMostGpus];
  std::set<void*> pinned;
  std::map<std::uint64_t, Clique> cliques;
  std::uint64_t next_clique = 1;
  bool hang = false, hung = false;
  int aborted = 0;
};
World& world() {
  static auto* w = new World;  // outlives all
  return *w;
}

thread_local int current = 0;  // of all GPUs
thread_local std::uint32_t visible = 0;
thread_local CUgraph_st* capturing = nullptr;
thread_local int version = 22809;

// A graph that a thread has launched. Its work runs on a thread of its own, so that what never ends holds up no one.
struct Running {
  explicit Running(std::vector<std::pair<int, std::function<void()>>> works);
  ~Running() { thread.join(); }
  std::atomic<bool> done{false};
  std::thread thread;
};
thread_local std::unique_ptr<Running> running;

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

// With the lock held.
void run_on(int gpu, const std::function<void()>& work) {
  world().arenas[gpu].open(true);
  work();
  world().arenas[gpu].open(false);
}
struct Aborted {};
Running::Running(std::vector<std::pair<int, std::function<void()>>> works)
    : thread([this, works = std::move(works)] {
        try {
          for (const auto& [gpu, work] : works) {
            if (gpu < 0) {
              work();
              continue;
            }
            std::lock_guard lock(world().mutex);
            run_on(gpu, work);
          }
        } catch (const Aborted&) {
        }
        done = true;
      }) {}

void enqueue(int gpu, const std::function<void()>& work) {
  running.reset();
  if (capturing) return capturing->works.push_back({gpu, work}), void();
  std::lock_guard lock(world().mutex);
  run_on(gpu, work);
}
int gpu_of_memory(const void* p) {
  for (int g = 0; g < world().gpus; ++g)
    if (world().arenas[g].has(p)) return g;
  return -1;
}

template <class T>
void combine(T* to, const T* from, std::size_t n, ncclRedOp_t operation) {
  for (std::size_t i = 0; i < n; ++i) to[i] = operation == ncclSum ? to[i] + from[i] : std::max(to[i], from[i]);
}
void combine(void* to, const void* from, std::size_t n, ncclDataType_t type, ncclRedOp_t operation) {
  switch (type) {
    case ncclFloat64:
      return combine(static_cast<double*>(to), static_cast<const double*>(from), n, operation);
    case ncclInt32:
      return combine(static_cast<std::int32_t*>(to), static_cast<const std::int32_t*>(from), n, operation);
    case ncclBfloat16: {
      auto* a = static_cast<cuda::BFloat16*>(to);
      const auto* b = static_cast<const cuda::BFloat16*>(from);
      for (std::size_t i = 0; i < n; ++i) {
        float x = cuda::to_float(a[i]), y = cuda::to_float(b[i]);
        a[i] = cuda::to_bfloat16(operation == ncclSum ? x + y : std::max(x, y));
      }
      return;
    }
    default:
      return combine(static_cast<float*>(to), static_cast<const float*>(from), n, operation);
  }
}
std::size_t size_of_type(ncclDataType_t type) { return type == ncclFloat64 ? 8 : type == ncclBfloat16 ? 2 : 4; }

// One collective, of every rank's call.
void perform(const std::vector<Call>& all) {
  const Call& first = all[0];
  std::size_t n = all.size(), piece = first.count, bytes = piece * size_of_type(first.type);
  auto at = [&](const void* p, std::size_t i) { return static_cast<const std::byte*>(p) + i * bytes; };
  // What every rank gives, before any gets.
  std::size_t given = first.kind == Call::Kind::reduce_scatter ? n * bytes : bytes;
  std::vector<std::vector<std::byte>> in(n, std::vector<std::byte>(given));
  for (std::size_t r = 0; r < n; ++r) std::memcpy(in[r].data(), all[r].from, given);
  auto sum = [&](std::size_t offset) {
    std::vector<std::byte> total(in[0].begin() + static_cast<std::ptrdiff_t>(offset),
                                 in[0].begin() + static_cast<std::ptrdiff_t>(offset + bytes));
    for (std::size_t r = 1; r < n; ++r)
      combine(total.data(), in[r].data() + offset, piece, first.type, first.operation);
    return total;
  };
  for (std::size_t r = 0; r < n; ++r) {
    auto root = static_cast<std::size_t>(first.root);
    switch (first.kind) {
      case Call::Kind::all_reduce:
        std::memcpy(all[r].to, sum(0).data(), bytes);
        break;
      case Call::Kind::reduce:
        if (r == root) std::memcpy(all[r].to, sum(0).data(), bytes);
        break;
      case Call::Kind::broadcast:
        std::memcpy(all[r].to, in[root].data(), bytes);
        break;
      case Call::Kind::all_gather:
        for (std::size_t i = 0; i < n; ++i) std::memcpy(const_cast<std::byte*>(at(all[r].to, i)), in[i].data(), bytes);
        break;
      case Call::Kind::reduce_scatter:
        std::memcpy(all[r].to, sum(r * bytes).data(), bytes);
        break;
      default:
        break;
    }
  }
}

// All that every rank concerned has called. With the lock held.
void match(Clique& c) {
  for (int g = 0; g < world().gpus; ++g) world().arenas[g].open(true);
  bool all = true;
  while (all) {
    for (auto& queue : c.calls) all = all && !queue.empty();
    if (!all) break;
    std::vector<Call> calls;
    for (auto& queue : c.calls) calls.push_back(queue.front()), queue.pop_front();
    perform(calls);
    world().hung = world().hung || world().hang;
  }
  for (auto& [pair, sends] : c.sends)
    while (!sends.empty() && !c.receives[pair].empty()) {
      const Call &s = sends.front(), &r = c.receives[pair].front();
      std::memcpy(r.to, s.from, s.count * size_of_type(s.type));
      sends.pop_front(), c.receives[pair].pop_front();
    }
  for (int g = 0; g < world().gpus; ++g) world().arenas[g].open(false);
  world().changed.notify_all();
}
bool open_calls(const Clique& c, int rank) {
  if (!c.calls[static_cast<std::size_t>(rank)].empty()) return true;
  for (const auto& [pair, sends] : c.sends)
    if (pair.first == rank && !sends.empty()) return true;
  for (const auto& [pair, receives] : c.receives)
    if (pair.second == rank && !receives.empty()) return true;
  return false;
}

thread_local std::vector<std::pair<ncclComm*, Call>> group;
thread_local int depth = 0;

void give(const std::vector<std::pair<ncclComm*, Call>>& calls) {
  std::set<Clique*> cliques;
  for (const auto& [comm, call] : calls) {
    Clique& c = *comm->clique;
    cliques.insert(&c);
    if (call.kind == Call::Kind::send)
      c.sends[{comm->rank, call.root}].push_back(call);
    else if (call.kind == Call::Kind::receive)
      c.receives[{call.root, comm->rank}].push_back(call);
    else
      c.calls[static_cast<std::size_t>(comm->rank)].push_back(call);
  }
  for (Clique* c : cliques) match(*c);
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, Call c) {
  if (stream->gpu != comm->gpu || depth == 0) return ncclInvalidUsage;
  group.emplace_back(comm, c);
  return ncclSuccess;
}

}  // namespace

void unity::cuda::run_emulated(Stream stream, const std::function<void()>& work) {
  if (stream->gpu != current)
    throw std::runtime_error("a launch on a stream of GPU " + std::to_string(stream->gpu) + " while GPU " +
                             std::to_string(current) + " is current");
  enqueue(stream->gpu, work);
}

namespace unity::cuda {
struct Libraries::Handles {};
Libraries::Libraries(const LibraryOptions& options, void* workspace) : options_(options), workspace_(workspace) {}
Libraries::~Libraries() = default;
Prepared Libraries::prepare(const Operator&, const Attributes&, std::span<const Operand>, std::span<const Operand>,
                            const Epilogue&) {
  return {};
}
std::string library_versions() { return "no libraries"; }
}  // namespace unity::cuda

extern "C" {

void fake_cuda_hang(bool hang) { world().hang = hang; }
void fake_cuda_nccl_version(int v) { version = v; }
void fake_cuda_visible(std::uint32_t gpus) {
  visible = gpus;
  current = visible_gpus().at(0);
}
int fake_cuda_aborted() { return world().aborted; }
std::int64_t fake_cuda_bytes(int gpu) {
  std::lock_guard lock(world().mutex);
  std::int64_t sum = 0;
  for (auto [offset, bytes] : world().arenas[gpu].taken) sum += static_cast<std::int64_t>(bytes);
  return sum;
}

cudaError_t cudaDriverGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(visible_gpus().size());
  return *count ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {};
  int gpu = visible_gpus().at(static_cast<std::size_t>(device));
  std::strcpy(p->name, "NVIDIA Fake");
  p->major = 9;
  p->l2CacheSize = 50 << 20;
  std::memset(p->uuid.bytes, 'a' + gpu, sizeof p->uuid.bytes);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = ordinal_of(current), cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  std::vector<int> gpus = visible_gpus();
  if (device < 0 || device >= static_cast<int>(gpus.size())) return cudaErrorInvalidDevice;
  return current = gpus[static_cast<std::size_t>(device)], cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "an error of the fake"; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorInvalidResourceHandle ? "invalid resource handle" : "some error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  std::lock_guard lock(world().mutex);
  Arena& arena = world().arenas[current];
  *p = arena.take(bytes);
  if (!*p) return cudaErrorMemoryAllocation;
  run_on(current, [&] { std::memset(*p, 0xff, std::min<std::size_t>(bytes, 1 << 20)); });  // NaN
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  std::lock_guard lock(world().mutex);
  for (Arena& arena : world().arenas)
    if (arena.has(p)) {
      auto found = arena.taken.find(static_cast<std::size_t>(static_cast<std::byte*>(p) - arena.begin));
      madvise(p, found->second / 4096 * 4096, MADV_DONTNEED);
      arena.taken.erase(found);
    }
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  *p = std::malloc(bytes);
  std::lock_guard lock(world().mutex);
  world().pinned.insert(*p);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  std::lock_guard lock(world().mutex);
  world().pinned.erase(p);
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  std::size_t taken = static_cast<std::size_t>(fake_cuda_bytes(current));
  *total = kMemory, *free = kMemory - taken;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  int gpu = gpu_of_memory(kind == cudaMemcpyHostToDevice ? to : from);
  if (gpu < 0 || !stream || stream->gpu != gpu) return cudaErrorInvalidValue;
  enqueue(gpu, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  enqueue(gpu_of_memory(to), [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = new CUstream_st{current}, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) {
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  return world().hung || (running && !running->done) ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  running.reset();
  return capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  return event->recorded ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return *event = new CUevent_st{current, flags == cudaEventDefault, false, {}}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->gpu != stream->gpu) return cudaErrorInvalidResourceHandle;
  event->recorded = true, event->when = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timed || !end->timed || !start->recorded || !end->recorded || start->gpu != end->gpu)
    return cudaErrorInvalidResourceHandle;
  *milliseconds = std::chrono::duration<float, std::milli>(end->when - start->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return capturing = new CUgraph_st, cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(capturing, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return *executable = new CUgraphExec_st{*graph}, cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  running = std::make_unique<Running>(graph->works);
  return cudaSuccess;
}

ncclResult_t ncclGetVersion(int* v) { return *v = version, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake"; }
const char* ncclGetLastError(ncclComm_t) { return "no more is known"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard lock(world().mutex);
  std::memcpy(id->internal, &world().next_clique, sizeof world().next_clique);
  return ++world().next_clique, ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::lock_guard lock(world().mutex);
  Clique& c = world().cliques[number];
  c.calls.resize(static_cast<std::size_t>(size));
  if (!c.gpus.insert(current).second) return ncclInvalidUsage;  // duplicate GPU
  ++c.made;
  *comm = new ncclComm{&c, rank, current};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  std::lock_guard lock(world().mutex);
  const Clique& c = *comm->clique;
  bool busy = c.made < static_cast<int>(c.calls.size()) || open_calls(c, comm->rank) ||
              (comm->finalizing && c.finalized.size() < c.calls.size());
  return *state = busy ? ncclInProgress : ncclSuccess, ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  comm->finalizing = true;
  comm->clique->finalized.insert(comm->rank);
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  return delete comm, ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  comm->aborted = true;  // and stays, for what still waits
  ++world().aborted;
  world().hung = false;
  world().changed.notify_all();
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (--depth > 0 || group.empty()) return ncclSuccess;
  auto work = [calls = std::exchange(group, {})](bool wait) {
    std::unique_lock lock(world().mutex);
    give(calls);
    auto done = [&] {
      for (const auto& [comm, c] : calls)
        if (comm->aborted) throw Aborted();
      for (const auto& [comm, c] : calls)
        if (open_calls(*comm->clique, comm->rank)) return false;
      return true;
    };
    if (wait) world().changed.wait(lock, done);
  };
  if (capturing) return capturing->works.push_back({-1, [work] { work(true); }}), ncclSuccess;
  work(false);
  return ncclInProgress;
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t n, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::all_reduce, from, to, n, type, operation, 0});
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t n, ncclDataType_t type, ncclRedOp_t operation, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::reduce, from, to, n, type, operation, root});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::broadcast, from, to, n, type, ncclSum, root});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::all_gather, from, to, n, type, ncclSum, 0});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t n, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::reduce_scatter, from, to, n, type, operation, 0});
}
ncclResult_t ncclSend(const void* from, std::size_t n, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::send, from, nullptr, n, type, ncclSum, to});
}
ncclResult_t ncclRecv(void* to, std::size_t n, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Call::Kind::receive, nullptr, to, n, type, ncclSum, from});
}
}
