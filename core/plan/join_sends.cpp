#include "core/plan/join_sends.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/base/hash.h"
#include "core/base/union_find.h"
#include "core/plan/join_communications.h"

namespace unity {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

// A tensor's share of an all-to-all: every device sends from one buffer and receives into one.
struct Part {
  std::vector<Participant> participants;
  std::vector<bool> sends, receives;  // by participant

  explicit Part(const std::vector<DeviceId>& devices) : sends(devices.size(), false), receives(devices.size(), false) {
    participants.reserve(devices.size());
    for (DeviceId d : devices) participants.push_back({d, {}, {}, {}});
  }
  bool takes(std::size_t from, BufferId sent, std::size_t to, BufferId received) const {
    return (!sends[from] || participants[from].send == sent) && (!receives[to] || participants[to].receive == received);
  }
};

// Sends of one key travel together: the task before or behind, or the buffer in which tasks behind put together what
// comes; the level. In bf16, tensors of one dimension are held in f32 (runtime/held_types.h), and what travels together
// in one type.
enum class What : std::uint8_t { before, behind, together };
struct Key {
  std::size_t number = 0;
  std::uint32_t level = 0;
  What what = What::before;
  Phase phase = Phase::forward;
  DType dtype = DType::f32;
  bool wide = false;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    Hash h = static_cast<Hash>(key.level) << 32 | static_cast<Hash>(key.what) << 24 |
             static_cast<Hash>(key.phase) << 16 | static_cast<Hash>(key.dtype) << 8 | static_cast<Hash>(key.wide);
    return mix(mix(h) ^ key.number);
  }
};

class Joiner {
 public:
  Joiner(Program& program, std::vector<PooledTask>& pool)
      : program_(program), pool_(pool), of_send_(pool.size(), kNone) {}

  bool run() {
    find_sends();
    if (sends_.size() < 2) return false;
    std::map<std::size_t, std::vector<std::size_t>> together;
    UnionFind sets = find_sets();
    for (std::size_t s = 0; s < sends_.size(); ++s) together[sets.find(s)].push_back(sends_[s]);
    std::vector<std::size_t> becomes(pool_.size());
    for (std::size_t i = 0; i < becomes.size(); ++i) becomes[i] = i;
    bool any = false;
    for (const auto& [set, tasks] : together) {
      if (tasks.size() < 2) continue;
      any = true;
      become_one(tasks);
      for (std::size_t t : tasks) becomes[t] = tasks.back();
    }
    if (any) keep_one_of_joined(program_, pool_, becomes);
    return any;
  }

 private:
  Communication& communication_of(std::size_t task) {
    return program_.communications[static_cast<std::size_t>(pool_[task].task.op)];
  }

  // Of a send; one of its two buffers is lowered.
  std::int32_t tensor_of(const Communication& send) const {
    const BufferId source = send.participants[0].send;
    return program_.buffer(source.valid() ? source : send.participants[1].receive).tensor;
  }

  void find_sends() {
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      const Task& t = pool_[i].task;
      if (t.kind != TaskKind::communicate || t.phase == Phase::update) continue;
      const Communication& c = communication_of(i);
      if (c.kind != CollectiveKind::send || c.part_count() > 1) continue;
      if (elements_moved(c) * size_of(c.dtype) > kSmallSend.count) continue;
      of_send_[i] = sends_.size();
      sends_.push_back(i);
    }
  }

  UnionFind find_sets() {
    std::vector<std::uint32_t> level(pool_.size(), 0);
    UnionFind sets(sends_.size());
    std::unordered_map<Key, std::size_t, KeyHash> first;
    auto join = [&](What what, std::size_t number, std::size_t send) {
      const Task& t = pool_[sends_[send]].task;
      const Communication& c = communication_of(sends_[send]);
      const bool wide = program_.tensors[static_cast<std::size_t>(tensor_of(c))].dims.size() > 1;
      auto [known, fresh] = first.try_emplace({number, level[sends_[send]], what, t.phase, c.dtype, wide}, send);
      if (!fresh) sets.join(known->second, send);
    };
    for (std::size_t i = 0; i < pool_.size(); ++i)
      for (std::size_t d : pool_[i].after) {
        level[i] = std::max(level[i], level[d] + (pool_[d].task.kind == TaskKind::communicate));
        if (of_send_[d] == kNone) continue;
        const TaskKind kind = pool_[i].task.kind;
        if (kind == TaskKind::accumulate || kind == TaskKind::copy)
          join(What::together, pool_[i].operands.back().index(), of_send_[d]);
        else
          join(What::behind, i, of_send_[d]);
      }
    for (std::size_t s = 0; s < sends_.size(); ++s)
      for (std::size_t d : pool_[sends_[s]].after) join(What::before, d, s);
    return sets;
  }

  // The last of the tasks becomes the all-to-all.
  void become_one(const std::vector<std::size_t>& tasks) {
    std::vector<DeviceId> devices;
    for (std::size_t t : tasks)
      for (const Participant& p : communication_of(t).participants) devices.push_back(p.device);
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    auto number = [&](DeviceId d) {
      return static_cast<std::size_t>(std::lower_bound(devices.begin(), devices.end(), d) - devices.begin());
    };
    Communication all{.kind = CollectiveKind::all_to_all, .dtype = communication_of(tasks[0]).dtype};
    all.name = fmt::format("{} and {} more", communication_of(tasks[0]).name, tasks.size() - 1);
    all.exchanges.reserve(tasks.size());
    std::vector<Part> parts;
    std::map<std::int32_t, std::vector<std::size_t>> parts_of;  // by tensor
    for (std::size_t t : tasks) {
      Communication& c = communication_of(t);
      const Participant &source = c.participants[0], &target = c.participants[1];
      const std::size_t from = number(source.device), to = number(target.device);
      const std::int32_t tensor = tensor_of(c);
      std::vector<std::size_t>& same = parts_of[tensor];
      auto known = std::ranges::find_if(
          same, [&](std::size_t k) { return parts[k].takes(from, source.send, to, target.receive); });
      const std::size_t number_of_part = known == same.end() ? parts.size() : *known;
      if (known == same.end()) {
        same.push_back(parts.size());
        parts.emplace_back(devices);
      }
      Part& part = parts[number_of_part];
      part.participants[from].send = source.send;
      part.participants[to].receive = target.receive;
      part.sends[from] = part.receives[to] = true;
      all.exchanges.push_back({static_cast<std::int32_t>(from), static_cast<std::int32_t>(to),
                               std::move(c.participants[0].piece), static_cast<std::int32_t>(number_of_part)});
    }
    all.participants = std::move(parts[0].participants);
    for (std::size_t k = 1; k < parts.size(); ++k) all.joined.push_back(std::move(parts[k].participants));
    PooledTask& one = pool_[tasks.back()];
    for (std::size_t t : tasks)
      if (t != tasks.back()) one.after.insert(one.after.end(), pool_[t].after.begin(), pool_[t].after.end());
    one.task.bytes = static_cast<double>(communication_bytes(all).count);
    one.task.device = devices[0];
    communication_of(tasks.back()) = std::move(all);
  }

  Program& program_;
  std::vector<PooledTask>& pool_;
  std::vector<std::size_t> of_send_;  // by task: its number among the sends
  std::vector<std::size_t> sends_;    // tasks
};

}  // namespace

bool join_sends(Program& program, std::vector<PooledTask>& pool) { return Joiner(program, pool).run(); }

}  // namespace unity
