// NCCL played on the host (fake_cuda.h): each call waits on its stream until all ranks have made theirs. What a group
// of calls enqueues is there once the communicator was asked how far it is, and twice: whoever goes on before finds it
// behind what comes later. Ranks whose calls do not match end the process: on GPUs they hang, or mix up data.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <nccl.h>

#include "runtime/cuda/elements.h"
#include "tests/support/fake_world.h"

using namespace unity;
using namespace unity::fake;

namespace {

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
  bool captured = false;
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
  bool finalizing = false, aborted = false, ready = false;  // for the next call
  bool asked = false;                                       // how far it is with `calls`
  cudaStream_t stream = nullptr;                            // of `calls`
  std::vector<Call> calls;                                  // not enqueued yet
  std::shared_ptr<void> graphs = std::make_shared<int>();   // each that was captured with it has this, too
};

namespace {

// With the world's lock held.
struct Cliques {
  std::map<std::uint64_t, Clique> all;
  std::uint64_t next = 1;
  std::map<int, ncclComm*> at_work;  // by GPU: what came there last
};
Cliques& cliques() {
  static auto* c = new Cliques;  // outlives all
  return *c;
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

void require_match(const Call& a, const Call& b, bool roots) {
  if (a.count == b.count && a.type == b.type && a.captured == b.captured &&
      (!roots || (a.kind == b.kind && a.operation == b.operation && a.root == b.root)))
    return;
  std::fputs("the fake NCCL: two ranks call for different things, or only one in a captured graph\n", stderr);
  std::abort();
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
    for (const Call& other : calls) require_match(calls[0], other, true);
    perform(calls);
    world().hung = world().hung || world().hang;
  }
  for (auto& [pair, sends] : c.sends)
    while (!sends.empty() && !c.receives[pair].empty()) {
      const Call &s = sends.front(), &r = c.receives[pair].front();
      require_match(s, r, false);
      std::memcpy(r.to, s.from, s.count * size_of_type(s.type));
      sends.pop_front(), c.receives[pair].pop_front();
    }
  for (int g = 0; g < world().gpus; ++g) world().arenas[g].open(false);
}
bool open_calls(const Clique& c, int rank) {
  if (!c.calls[static_cast<std::size_t>(rank)].empty()) return true;
  for (const auto& [pair, sends] : c.sends)
    if (pair.first == rank && !sends.empty()) return true;
  for (const auto& [pair, receives] : c.receives)
    if (pair.second == rank && !receives.empty()) return true;
  return false;
}

// What one rank calls between the start and the end of a group, on one stream.
struct Group {
  cudaStream_t stream = nullptr;
  std::vector<Call> calls;
};
thread_local std::vector<std::pair<ncclComm*, Group>> group;
thread_local int depth = 0;
thread_local bool failed = false;  // a call of the group: then none of it is enqueued

// With the lock held.
void give(ncclComm* comm, const std::vector<Call>& calls) {
  if (comm->aborted) throw Aborted();
  Clique& c = *comm->clique;
  ncclComm*& other = cliques().at_work[comm->gpu];
  if (other && other != comm && open_calls(*other->clique, other->rank)) ++world().counts.meetings;
  other = comm;
  for (const Call& call : calls)
    if (call.kind == Call::Kind::send)
      c.sends[{comm->rank, call.root}].push_back(call);
    else if (call.kind == Call::Kind::receive)
      c.receives[{call.root, comm->rank}].push_back(call);
    else
      c.calls[static_cast<std::size_t>(comm->rank)].push_back(call);
  match(c);
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, Call c) {
  if (stream->gpu != comm->gpu || depth == 0) return ncclInvalidUsage;
  if (!comm->ready) return failed = true, ncclInvalidArgument;
  {
    std::lock_guard lock(world().mutex);
    if (fails(world().nccl_calls_to_failure)) return failed = true, ncclSystemError;
  }
  auto found = std::find_if(group.begin(), group.end(), [&](const auto& g) { return g.first == comm; });
  if (found == group.end()) found = group.insert(group.end(), {comm, {stream, {}}});
  if (found->second.stream != stream) return ncclInvalidUsage;
  found->second.calls.push_back(c);
  return ncclSuccess;
}

void enqueue_calls(ncclComm* comm, std::vector<Call> calls) {
  for (Call& call : calls) call.captured = comm->stream->capture != nullptr;
  Op op;
  op.work = [comm, calls = std::move(calls)] { give(comm, calls); };
  op.finished = [comm] {
    if (comm->aborted) throw Aborted();
    return !open_calls(*comm->clique, comm->rank);
  };
  op.holds = comm->graphs;
  enqueue(comm->stream, std::move(op));
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* v) { return *v = nccl_version(), ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake"; }
const char* ncclGetLastError(ncclComm_t) { return "no more is known"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard lock(world().mutex);
  ++world().counts.cliques;
  std::memcpy(id->internal, &cliques().next, sizeof cliques().next);
  return ++cliques().next, ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::lock_guard lock(world().mutex);
  Clique& c = cliques().all[number];
  c.calls.resize(static_cast<std::size_t>(size));
  if (!c.gpus.insert(current()).second) return ncclInvalidUsage;  // duplicate GPU
  ++c.made;
  ++world().counts.communicators;
  *comm = new ncclComm{&c, rank, current()};
  return ncclInProgress;
}
// Graphs that were captured with a communicator hold its end up.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  std::unique_lock lock(world().mutex);
  const Clique& c = *comm->clique;
  bool busy = !world().nccl_starts || c.made < static_cast<int>(c.calls.size()) ||
              (comm->finalizing && (c.finalized.size() < c.calls.size() || comm->graphs.use_count() > 1)) ||
              (!comm->calls.empty() && !std::exchange(comm->asked, true));
  *state = busy ? ncclInProgress : ncclSuccess;
  comm->ready = !busy && !comm->finalizing;
  std::vector<Call> calls;
  if (!busy) calls.swap(comm->calls);
  comm->asked = comm->asked && busy;
  lock.unlock();
  if (!calls.empty()) enqueue_calls(comm, calls);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  if (!comm->ready) return ncclInvalidArgument;
  comm->ready = false;
  comm->finalizing = true;
  comm->clique->finalized.insert(comm->rank);
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  std::erase_if(cliques().at_work, [comm](const auto& of) { return of.second == comm; });
  return delete comm, ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::unique_lock lock(world().mutex);
  comm->aborted = true;  // and stays, for what still waits
  std::erase_if(cliques().at_work, [comm](const auto& of) { return of.second == comm; });
  ++world().aborted;
  world().hung = false;
  while (comm->graphs.use_count() > 1 && std::chrono::steady_clock::now() < until) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  world().held_aborts += comm->graphs.use_count() > 1;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  if (std::exchange(failed, false)) return group.clear(), ncclSystemError;
  if (group.empty()) return ncclSuccess;
  std::lock_guard lock(world().mutex);
  for (auto& [comm, of_rank] : std::exchange(group, {}))
    comm->calls = std::move(of_rank.calls), comm->stream = of_rank.stream, comm->ready = comm->asked = false;
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
