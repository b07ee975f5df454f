#include "runtime/cuda/collective.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <set>
#include <thread>

#include <nccl.h>

#include "core/base/text.h"
#include "runtime/comm/box_run.h"
#include "runtime/cuda/blocks.h"
#include "runtime/cuda/collective_on_one_gpu.h"
#include "runtime/cuda/collective_scratch.h"
#include "runtime/cuda/end_nccl.h"
#include "runtime/cuda/milestones.h"
#include "runtime/cuda/nccl_check.h"
#include "runtime/cuda/nccl_types.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/ways.h"

namespace unity::cuda {
namespace {

constexpr std::chrono::milliseconds kLook{10};  // between two looks at the other processes
constexpr std::chrono::seconds kLeave{10};      // for all to take leave
constexpr int kPatiences = 10;                  // as of Processes: for GPUs of which nothing is known meanwhile

std::size_t elements_of(const Box& box) { return static_cast<std::size_t>(box.elements()); }

}  // namespace

std::string nccl_version() {
  int version = 0;
  UNITY_NCCL_CHECK(ncclGetVersion(&version));
  return fmt::format("NCCL {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

struct Collectives::Implementation {
  struct Group {
    std::vector<DeviceId> devices;             // by rank in NCCL
    std::map<int, LocalCommunicator> members;  // by rank, of this process

    int rank_of(DeviceId device) const {
      return static_cast<int>(std::find(devices.begin(), devices.end(), device) - devices.begin());
    }
  };

  const Program& program;
  Processes& processes;
  std::vector<bool> on_one_gpu;
  std::vector<Group*> group_of;  // by communication; null on one GPU
  std::map<std::vector<DeviceId>, std::unique_ptr<Group>> groups;

  // By communication: its parts, as communications of their own.
  std::vector<std::vector<Communication>> parts;
  std::vector<std::size_t> mine;  // communications among several GPUs that this process takes part in, as they run
  std::set<int> others;           // ranks that it meets there
  bool several_gpus = false;      // of one process, whichever, take part in them
  bool aborted = false;

  Milestones milestones;        // communications among several GPUs
  bool tells = false;           // how far they are
  std::vector<TaskId> task_of;  // by communication

  template <class F>
  void for_each_communicator(F&& f) {
    for (auto& [devices, group] : groups)
      for (auto& [index, member] : group->members)
        if (member.communicator) f(*group, member.communicator);
  }
  bool in_progress(const Group& group, ncclComm_t communicator) const;
  void settle(const std::string& what, bool limited);
  void wait(const std::function<bool()>& done, const std::function<std::string()>& what);
  void start(const std::vector<Placement>& placements);
  void abort();
  void end();
  std::string describe(std::size_t communication) const;

  // Where NCCL takes a box from, and where it puts it: in its buffer where it is one run there, else in `scratch`.
  static const void* source(const LocalParticipant& p, const Box& box, void* scratch, DType held) {
    const auto run = p.send ? run_in(p.send_box, box) : std::nullopt;
    return run ? static_cast<const std::byte*>(p.send) + *run * size_of(held) : scratch;
  }
  static void* target(const LocalParticipant& p, const Box& box, void* scratch, DType held) {
    const auto run = p.receive ? run_in(p.receive_box, box) : std::nullopt;
    return run ? static_cast<std::byte*>(p.receive) + *run * size_of(held) : scratch;
  }
  static void copy_out(const LocalParticipant& p, const Box& box, void* to, DType held) {
    copy_block(p.stream, {to, box, held}, {p.send, p.send_box, held}, box);
  }
  static void copy_in(const LocalParticipant& p, const Box& box, void* from, DType held) {
    if (p.receive) copy_block(p.stream, {p.receive, p.receive_box, held}, {from, box, held}, box);
  }
  // The same, but for what NCCL takes from its buffer, or puts there.
  static void pack_box(const LocalParticipant& p, const Box& box, void* scratch, DType held) {
    if (source(p, box, scratch, held) == scratch) copy_out(p, box, scratch, held);
  }
  static void unpack_box(const LocalParticipant& p, const Box& box, void* scratch, DType held) {
    if (target(p, box, scratch, held) == scratch) copy_in(p, box, scratch, held);
  }

  void pack(const Communication& c, DType held, const std::vector<LocalParticipant>& mine);
  void call_nccl(const Communication& c, Group& group, DType held, const std::vector<LocalParticipant>& mine);
  void unpack(const Communication& c, DType held, const std::vector<LocalParticipant>& mine);
};

// Everything that does not lie in one run goes through scratch, and so do all pieces of gathers and scatters, which lie
// side by side there.
void Collectives::Implementation::pack(const Communication& c, DType held, const std::vector<LocalParticipant>& mine) {
  for (const LocalParticipant& p : mine) {
    OnGpu on(p.gpu);
    const std::vector<std::int64_t> exchange = exchanged(c, held, p.index);
    const Box& box = c.participants[p.index].piece;
    switch (c.kind) {
      case CollectiveKind::send:
      case CollectiveKind::broadcast:
        if (p.index == 0) pack_box(p, box, p.scratch, held);
        break;
      case CollectiveKind::reduce:
      case CollectiveKind::all_reduce:
        if (p.send) {
          pack_box(p, box, p.scratch, held);
        } else {  // a root without a summand of its own
          UNITY_CHECK(c.monoid == Monoid::sum, "{} of {}: no summand of the root", to_string(c.kind), c.name);
          UNITY_CUDA_CHECK(
              cudaMemsetAsync(p.scratch, 0, elements_of(box) * static_cast<std::size_t>(size_of(held)), p.stream));
        }
        break;
      case CollectiveKind::all_gather:
        copy_out(p, box, at(p.scratch, packed(c, p.index, held)), held);
        break;
      case CollectiveKind::reduce_scatter:
        for (std::size_t i = 0; i < c.participants.size(); ++i)
          copy_out(p, c.participants[i].piece, at(p.scratch, packed(c, i, held)), held);
        break;
      case CollectiveKind::all_to_all:
        for (std::size_t e = 0; e < c.exchanges.size(); ++e)
          if (const Exchange& x = c.exchanges[e]; static_cast<std::size_t>(x.from) == p.index) {
            if (x.from == x.to)
              copy_out(p, x.box, at(p.scratch, exchange[e]), held);
            else
              pack_box(p, x.box, at(p.scratch, exchange[e]), held);
          }
        break;
    }
  }
}

void Collectives::Implementation::call_nccl(const Communication& c, Group& group, DType held,
                                            const std::vector<LocalParticipant>& mine) {
  ncclDataType_t type = nccl_type(held);
  std::vector<std::int64_t> begin = pieces(c, held);
  bool equal = equal_pieces(c);
  auto rank_of = [&](std::size_t i) { return group.rank_of(c.participants[i].device); };
  for (const LocalParticipant& p : mine) {
    const std::vector<std::int64_t> exchange = exchanged(c, held, p.index);
    const Box& box = c.participants[p.index].piece;
    ncclComm_t comm = group.members.at(rank_of(p.index)).communicator;
    const bool whole = c.kind == CollectiveKind::send || c.kind == CollectiveKind::broadcast ||
                       c.kind == CollectiveKind::reduce || c.kind == CollectiveKind::all_reduce;  // one box for all
    const void* from = whole ? source(p, box, p.scratch, held) : nullptr;
    void* to = whole ? target(p, box, p.scratch, held) : nullptr;
    switch (c.kind) {
      case CollectiveKind::send:
      case CollectiveKind::broadcast:
        if (p.index != 0)
          from = to;
        else if (!p.receive)  // in place, rather than to scratch as well
          to = const_cast<void*>(from);
        UNITY_NCCL_CHECK(ncclBroadcast(from, to, elements_of(box), type, rank_of(0), comm, p.stream));
        break;
      case CollectiveKind::reduce:
        UNITY_NCCL_CHECK(
            ncclReduce(from, to, elements_of(box), type, nccl_operation(c.monoid), rank_of(0), comm, p.stream));
        break;
      case CollectiveKind::all_reduce:
        UNITY_NCCL_CHECK(ncclAllReduce(from, to, elements_of(box), type, nccl_operation(c.monoid), comm, p.stream));
        break;
      case CollectiveKind::all_gather:
        if (equal)
          UNITY_NCCL_CHECK(ncclAllGather(at(p.scratch, packed(c, p.index, held)), p.scratch, elements_of(box), type,
                                         comm, p.stream));
        else
          for (std::size_t i = 0; i < c.participants.size(); ++i) {
            void* place = at(p.scratch, begin[i]);
            UNITY_NCCL_CHECK(
                ncclBroadcast(place, place, elements_of(c.participants[i].piece), type, rank_of(i), comm, p.stream));
          }
        break;
      case CollectiveKind::reduce_scatter:
        if (equal)
          UNITY_NCCL_CHECK(ncclReduceScatter(p.scratch, at(p.scratch, packed(c, p.index, held)), elements_of(box), type,
                                             nccl_operation(c.monoid), comm, p.stream));
        else
          for (std::size_t i = 0; i < c.participants.size(); ++i) {
            void* place = at(p.scratch, begin[i]);
            UNITY_NCCL_CHECK(ncclReduce(place, place, elements_of(c.participants[i].piece), type,
                                        nccl_operation(c.monoid), rank_of(i), comm, p.stream));
          }
        break;
      case CollectiveKind::all_to_all:
        for (std::size_t e = 0; e < c.exchanges.size(); ++e) {
          const Exchange& x = c.exchanges[e];
          void* place = at(p.scratch, exchange[e]);
          bool sends = static_cast<std::size_t>(x.from) == p.index,
               receives = static_cast<std::size_t>(x.to) == p.index;
          auto other = [&](int participant) { return rank_of(static_cast<std::size_t>(participant)); };
          if (sends && !receives)
            UNITY_NCCL_CHECK(
                ncclSend(source(p, x.box, place, held), elements_of(x.box), type, other(x.to), comm, p.stream));
          if (receives && !sends)
            UNITY_NCCL_CHECK(
                ncclRecv(target(p, x.box, place, held), elements_of(x.box), type, other(x.from), comm, p.stream));
        }
        break;
    }
  }
}

void Collectives::Implementation::unpack(const Communication& c, DType held,
                                         const std::vector<LocalParticipant>& mine) {
  for (const LocalParticipant& p : mine) {
    OnGpu on(p.gpu);
    const std::vector<std::int64_t> exchange = exchanged(c, held, p.index);
    const Box& box = c.participants[p.index].piece;
    switch (c.kind) {
      case CollectiveKind::reduce:
        if (p.index == 0) unpack_box(p, box, p.scratch, held);
        break;
      case CollectiveKind::send:
      case CollectiveKind::broadcast:
      case CollectiveKind::all_reduce:
        unpack_box(p, box, p.scratch, held);
        break;
      case CollectiveKind::all_gather:
        for (std::size_t i = 0; i < c.participants.size(); ++i)
          copy_in(p, c.participants[i].piece, at(p.scratch, packed(c, i, held)), held);
        break;
      case CollectiveKind::reduce_scatter:
        copy_in(p, box, at(p.scratch, packed(c, p.index, held)), held);
        break;
      case CollectiveKind::all_to_all:
        for (std::size_t e = 0; e < c.exchanges.size(); ++e)
          if (const Exchange& x = c.exchanges[e]; static_cast<std::size_t>(x.to) == p.index) {
            if (x.from == x.to)
              copy_in(p, x.box, at(p.scratch, exchange[e]), held);
            else
              unpack_box(p, x.box, at(p.scratch, exchange[e]), held);
          }
        break;
    }
  }
}

Collectives::Collectives(const Program& program, const std::vector<Placement>& placements, Processes& processes)
    : implementation_(std::make_unique<Implementation>(
          Implementation{program, processes, {}, {}, {}, {}, {}, {}, false, false, {}, false, {}})) {
  Implementation& m = *implementation_;
  std::map<int, std::set<Hash>> gpus_of;  // among which NCCL is, by rank
  for (const Communication& c : program.communications) {
    std::vector<Communication>& parts = m.parts.emplace_back();
    for (std::size_t k = 0; k < c.part_count(); ++k) {
      parts.push_back(c);
      parts.back().joined.clear();
      parts.back().participants = c.part(k);
      std::erase_if(parts.back().exchanges, [k](const Exchange& e) { return static_cast<std::size_t>(e.part) != k; });
    }
    std::vector<DeviceId> devices;
    for (const Participant& p : c.participants) devices.push_back(p.device);
    std::vector<Placement> where;
    for (DeviceId d : devices) where.push_back(placements[d.index()]);
    bool one = std::all_of(where.begin(), where.end(), [&](const Placement& p) {
      return p.rank == where[0].rank && p.identity == where[0].identity;
    });
    m.on_one_gpu.push_back(one);
    m.group_of.push_back(nullptr);
    if (one) continue;
    for (std::size_t i = 0; i < where.size(); ++i)
      for (std::size_t j = i + 1; j < where.size(); ++j)
        if (where[i].identity == where[j].identity)
          throw_input_error(
              "{} of {}: devices {} and {} share a GPU{}; give every device of the group a GPU of its own, or all of "
              "them one in one process (CUDA_VISIBLE_DEVICES=0)",
              to_string(c.kind), c.name, devices[i], devices[j],
              where[i].rank == where[j].rank ? ", others have another"
                                             : fmt::format(" from ranks {} and {}", where[i].rank, where[j].rank));
    // One for all orders of its devices, where what NCCL does has none.
    if (c.kind != CollectiveKind::all_gather && c.kind != CollectiveKind::reduce_scatter)
      std::sort(devices.begin(), devices.end());
    auto [found, inserted] = m.groups.try_emplace(devices);
    if (inserted) found->second = std::make_unique<Implementation::Group>(Implementation::Group{devices, {}});
    m.group_of.back() = found->second.get();
    bool here = std::any_of(where.begin(), where.end(), [&](const Placement& p) { return p.rank == processes.rank(); });
    if (here) m.mine.push_back(m.on_one_gpu.size() - 1);
    for (const Placement& p : where) {
      if (here && p.rank != processes.rank()) m.others.insert(p.rank);
      gpus_of[p.rank].insert(p.identity);
      m.several_gpus = m.several_gpus || gpus_of[p.rank].size() > 1;
    }
  }
  if (gpus_of[processes.rank()].size() > 1) refuse_blocking_launches();
  m.task_of.resize(program.communications.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    if (const Task& task = program.tasks[t]; task.kind == TaskKind::communicate)
      m.task_of[static_cast<std::size_t>(task.op)] = TaskId(static_cast<std::int64_t>(t));
  std::map<DeviceId, int> gpus;
  for (std::size_t d = 0; d < placements.size(); ++d)
    if (placements[d].rank == processes.rank()) gpus[DeviceId(static_cast<std::int64_t>(d))] = placements[d].gpu;
  const bool copies = std::any_of(program.tasks.begin(), program.tasks.end(), [&](const Task& t) {
    return program.copies_to_host(t);  // behind which a milestone would wait, and the communication with it
  });
  m.tells = !m.mine.empty() && !copies;
  if (m.tells) m.milestones = Milestones(gpus, program.tasks.size());
  try {
    m.start(placements);
  } catch (...) {
    m.abort();
    throw;
  }
}

// The group's first process makes the identifier; all processes go through the groups in the same order.
void Collectives::Implementation::start(const std::vector<Placement>& placements) {
  // Connected, and its memory taken, now: what is left is the plan's. Whoever has set it otherwise, means it.
  if (!groups.empty()) ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  for (auto& [devices, group] : groups) {
    int first = placements[devices[0].index()].rank;
    ncclUniqueId id{};
    if (first == processes.rank()) UNITY_NCCL_CHECK(ncclGetUniqueId(&id));
    auto all = processes.all_gather(std::as_bytes(std::span(&id, 1)));
    std::memcpy(&id, all[static_cast<std::size_t>(first)].data(), sizeof id);
    in_group([&, &devices = devices, &group = group] {
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const Placement& p = placements[devices[i].index()];
        if (p.rank != processes.rank()) continue;
        OnGpu on(p.gpu);
        LocalCommunicator& member = group->members[static_cast<int>(i)];
        member.gpu = p.gpu;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        UNITY_NCCL_CHECK(ncclCommInitRankConfig(&member.communicator, static_cast<int>(devices.size()), id,
                                                static_cast<int>(i), &config));
      }
    });
    settle(fmt::format("its part of NCCL's start among devices {}", fmt::join(devices, ", ")), true);
  }
}

Collectives::~Collectives() {
  // Whoever ends for a failure of its own is not to wait for those that wait for it.
  if (std::uncaught_exceptions() > 0)
    abort();
  else
    implementation_->end();
}

std::string Collectives::Implementation::describe(std::size_t communication) const {
  const Communication& c = program.communications[communication];
  std::vector<DeviceId> devices;
  for (const Participant& p : c.participants) devices.push_back(p.device);
  return fmt::format("task {}, {} of {} among devices {}", task_of[communication], to_string(c.kind), c.name,
                     fmt::join(devices, ", "));
}

// Whether a communicator is still at what it was last asked for; throws when it failed.
bool Collectives::Implementation::in_progress(const Group& group, ncclComm_t communicator) const {
  ncclResult_t state = ncclSuccess;
  ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return state == ncclInProgress;
  // The process that made it fail may yet say why.
  for (int i = 0; i < 100 && processes.size() > 1 && processes.failure().empty(); ++i)
    std::this_thread::sleep_for(kLook);
  if (std::string why = processes.failure(); !why.empty()) throw ProcessFailure(why);
  throw_nccl(state, fmt::format("NCCL among devices {}", fmt::join(group.devices, ", ")), communicator);
}

void Collectives::Implementation::wait(const std::function<bool()>& done, const std::function<std::string()>& what) {
  using Clock = Processes::Clock;
  auto since = Clock::now(), next = since + kLook;
  std::vector<int> ranks(others.begin(), others.end());
  auto last = since;  // news of the GPUs
  std::vector<TaskId> reached;
  while (!done()) {
    std::this_thread::yield();
    if (Clock::now() < next) continue;
    next = Clock::now() + kLook;
    if (others.empty() && !mine.empty()) {  // nobody else tells that NCCL hangs
      if (tells && milestones.reached() != reached) reached = milestones.reached(), last = Clock::now();
      const auto most = (tells ? 1 : kPatiences) * processes.patience();
      if (Clock::now() >= last + most)
        throw std::runtime_error(fmt::format("the GPUs did nothing new for {:g} s; expected {}",
                                             std::chrono::duration<double>(most).count(), what()));
    }
    for_each_communicator([&](const Group& group, ncclComm_t communicator) { in_progress(group, communicator); });
    processes.require_there(ranks, since, what());
  }
}

// Until NCCL has taken what it was given. `limited`: there is nothing but NCCL to wait for.
void Collectives::Implementation::settle(const std::string& what, bool limited) {
  const std::chrono::duration<double> most = processes.patience();
  const auto since = Processes::Clock::now();
  auto settled = [&] {
    if (limited && Processes::Clock::now() > since + most + kLook * 100)  // who is silent is told first
      throw std::runtime_error(fmt::format(
          "{} did not end within {:g} s; NCCL_DEBUG=INFO makes NCCL say what it waits for, "
          "NCCL_SOCKET_IFNAME names the network that it is to use, and NCCL_P2P_DISABLE=1 leaves out copies "
          "from GPU to GPU",
          what, most.count()));
    bool all = true;
    for_each_communicator(
        [&](const Group& group, ncclComm_t communicator) { all = all && !in_progress(group, communicator); });
    return all;
  };
  wait(settled, [&] { return what; });
}

void Collectives::Implementation::abort() {
  aborted = true;
  std::vector<LocalCommunicator> left;
  for (auto& [devices, group] : groups)
    for (auto& [index, member] : group->members)
      if (ncclComm_t communicator = std::exchange(member.communicator, nullptr))
        left.push_back({communicator, member.gpu});
  end_nccl(left);
}

// Takes leave of the others, where they do so, too.
void Collectives::Implementation::end() {
  try {
    for_each_communicator(
        [](const Group&, ncclComm_t communicator) { UNITY_NCCL_CHECK(ncclCommFinalize(communicator)); });
    auto until = Processes::Clock::now() + kLeave;
    bool all = false;
    auto left = [&] {
      all = true;
      for_each_communicator(
          [&](const Group& group, ncclComm_t communicator) { all = all && !in_progress(group, communicator); });
      return all || Processes::Clock::now() > until;
    };
    wait(left, [] { return "its leave of NCCL"; });
    if (!all) return abort();
    for_each_communicator([](const Group&, ncclComm_t communicator) { ncclCommDestroy(communicator); });
  } catch (const std::exception&) {
    abort();
  }
}

bool Collectives::on_one_gpu(std::size_t communication) const { return implementation_->on_one_gpu[communication]; }

bool Collectives::graphs_may_hang() const { return implementation_->several_gpus; }

std::int64_t Collectives::scratch_bytes(std::size_t communication, DType held) const {
  std::int64_t sum = 0;
  for (const Communication& part : implementation_->parts[communication])
    sum += scratch_of(part, on_one_gpu(communication), held);
  return sum;
}

void Collectives::run(std::size_t communication, DType held, std::vector<std::vector<LocalParticipant>> parts) {
  Implementation& m = *implementation_;
  const std::vector<Communication>& all = m.parts[communication];
  std::int64_t begin = 0;
  UNITY_CHECK(on_one_gpu(communication) || !m.aborted, "NCCL was ended before {}", m.describe(communication));
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (LocalParticipant& p : parts[k]) p.scratch = at(p.scratch, begin);
    begin += scratch_of(all[k], on_one_gpu(communication), held);
  }
  if (on_one_gpu(communication)) {
    for (std::size_t k = 0; k < parts.size(); ++k) run_on_one_gpu(all[k], held, parts[k]);
    return;
  }
  for (const LocalParticipant& p : parts[0])
    if (m.tells)
      m.milestones.pass(m.task_of[communication], m.program.communications[communication].participants[p.index].device,
                        p.gpu, p.stream);
  for (std::size_t k = 0; k < parts.size(); ++k) m.pack(all[k], held, parts[k]);
  in_group([&] {
    for (std::size_t k = 0; k < parts.size(); ++k) m.call_nccl(all[k], *m.group_of[communication], held, parts[k]);
  });
  m.settle("its part of " + m.describe(communication), m.others.empty());
  for (std::size_t k = 0; k < parts.size(); ++k) m.unpack(all[k], held, parts[k]);
}

void Collectives::wait(const std::function<bool()>& done, const std::string& step) {
  Implementation& m = *implementation_;
  m.wait(done, [&] {
    if (!m.tells) return "its part of " + step;
    std::vector<std::string> last;
    for (TaskId task : m.milestones.reached())
      last.push_back(m.describe(static_cast<std::size_t>(m.program.tasks[task.index()].op)));
    if (last.empty())
      return fmt::format("its part of {}, in which the GPUs of this process have not come to {}", step,
                         m.describe(m.mine[0]));
    return fmt::format("its part of {}, in which the GPUs of this process have come to {}", step,
                       fmt::join(last, "; "));
  });
}

void Collectives::begin_step() { implementation_->milestones.reset(); }

void Collectives::abort() { implementation_->abort(); }

void Collectives::keep_for_ever() { new auto(std::move(implementation_->milestones)); }

}  // namespace unity::cuda
