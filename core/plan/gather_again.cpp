#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "core/plan/zero_stages.h"

namespace unity {
namespace {

// A weight's parts, brought together on a group of devices.
struct Gather {
  std::size_t task = 0;
  std::int64_t bytes = 0;  // on the device where they are the most
  bool again = true;       // nothing but what reads it waits for it, so that it may stand elsewhere
};

// Between being gathered and making room.
struct Stay {
  std::size_t gather = 0;
  std::size_t before = 0;            // the task that the collective is put before
  std::vector<std::size_t> readers;  // in order
  std::vector<std::size_t> after;    // the last readers of those that make room for it
};

class Regathering {
 public:
  Regathering(Program& program, std::vector<PooledTask>& pool) : program_(program), pool_(pool) {}

  bool run() {
    find_gathers();
    if (gathers_.empty()) return false;
    for (const auto& [devices, members] : groups_) plan_stays(members);
    std::vector<std::vector<std::size_t>> before(pool_.size());
    std::vector<bool> moved(pool_.size(), false), gathered(gathers_.size(), false);
    bool any = false;
    for (Stay& stay : stays_) {
      const Gather& g = gathers_[stay.gather];
      const bool first = !gathered[stay.gather];
      gathered[stay.gather] = true;
      if (first && !g.again) continue;
      any = any || !first || !stay.after.empty();
      std::size_t task = first ? g.task : again(g, stay);
      if (first) moved[g.task] = true;
      pool_[task].after.insert(pool_[task].after.end(), stay.after.begin(), stay.after.end());
      before[stay.before].push_back(task);
    }
    if (!any) return false;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < before.size(); ++i) {
      order.insert(order.end(), before[i].begin(), before[i].end());
      if (!moved[i]) order.push_back(i);
    }
    reorder(pool_, order);
    return true;
  }

 private:
  const Communication& communication(std::size_t task) const {
    return program_.communications[static_cast<std::size_t>(pool_[task].task.op)];
  }

  // Of weights, in the forward pass; what they bring nothing else writes, nor does the graph give it out.
  void find_gathers() {
    std::vector<int> writers(program_.buffers.size(), 0);
    for (const PooledTask& t : pool_)
      for_each_use(program_, t.task, t.operands,
                   [&](BufferId b, bool written) { writers[b.index()] += written ? 1 : 0; });
    for (const ProgramOutput& out : program_.outputs)
      for (BufferId b : out.buffers) ++writers[b.index()];
    gather_of_.resize(program_.buffers.size());
    std::map<std::size_t, std::size_t> by_task;
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      const Task& t = pool_[i].task;
      if (t.kind != TaskKind::communicate || t.phase != Phase::forward) continue;
      const Communication& c = communication(i);
      if (c.kind != CollectiveKind::all_gather || c.part_count() > 1) continue;
      Gather g{i};
      std::vector<DeviceId> devices;
      bool of_weight = true;
      for (const Participant& p : c.participants) {
        devices.push_back(p.device);
        if (p.send.valid()) of_weight = of_weight && program_.buffer(p.send).category == BufferCategory::weight;
        if (!p.receive.valid()) continue;
        of_weight = of_weight && writers[p.receive.index()] == 1;
        g.bytes = std::max(g.bytes, program_.bytes_of(p.receive).count);
      }
      if (!of_weight || g.bytes == 0) continue;
      for (const Participant& p : c.participants)
        if (p.receive.valid()) gather_of_[p.receive.index()] = gathers_.size();
      std::sort(devices.begin(), devices.end());
      groups_[devices].push_back(gathers_.size());
      by_task[i] = gathers_.size();
      gathers_.push_back(g);
    }
    readers_.resize(gathers_.size());
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      for_each_use(program_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool written) {
        if (written || !gather_of_[b.index()]) return;
        std::vector<std::size_t>& readers = readers_[*gather_of_[b.index()]];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
      });
      for (std::size_t d : pool_[i].after)
        if (auto g = by_task.find(d); g != by_task.end())
          gathers_[g->second].again =
              gathers_[g->second].again && !readers_[g->second].empty() && readers_[g->second].back() == i;
    }
  }

  // Those of one group of devices.
  void plan_stays(std::span<const std::size_t> members) {
    std::vector<std::int64_t> sizes;
    std::vector<std::pair<std::size_t, std::size_t>> reads;  // task, gather
    for (std::size_t g : members) {
      sizes.push_back(gathers_[g].bytes);
      for (std::size_t reader : readers_[g]) reads.emplace_back(reader, g);
    }
    std::sort(sizes.rbegin(), sizes.rend());
    const std::int64_t room = sizes[0] + (sizes.size() > 1 ? sizes[1] : 0);
    std::sort(reads.begin(), reads.end());
    std::vector<std::size_t> held;  // stays; the one that was read least recently first
    std::int64_t taken = 0;
    std::size_t ahead = reads.empty() ? 0 : reads[0].first;  // where the last one was read first
    for (auto [task, g] : reads) {
      auto at =
          std::find_if(held.begin(), held.end(), [&, gather = g](std::size_t s) { return stays_[s].gather == gather; });
      if (at != held.end()) {
        std::rotate(at, at + 1, held.end());
        stays_[held.back()].readers.push_back(task);
        continue;
      }
      Stay stay{g, ahead, {task}, {}};
      for (std::size_t d : pool_[gathers_[g].task].after) stay.before = std::max(stay.before, d + 1);
      while (!held.empty() && taken + gathers_[g].bytes > room && stays_[held[0]].readers.back() < stay.before) {
        wait_for_readers(stays_[held[0]], stay.after);
        taken -= gathers_[stays_[held[0]].gather].bytes;
        held.erase(held.begin());
      }
      taken += gathers_[g].bytes;
      ahead = task;
      held.push_back(stays_.size());
      stays_.push_back(std::move(stay));
    }
  }

  // The last one on each device.
  void wait_for_readers(const Stay& stay, std::vector<std::size_t>& after) const {
    std::map<DeviceId, std::size_t> last;
    for (std::size_t reader : stay.readers) {
      const Task& t = pool_[reader].task;
      if (t.kind == TaskKind::communicate)
        after.push_back(reader);
      else
        last[t.device] = reader;
    }
    for (auto [device, reader] : last) after.push_back(reader);
  }

  // The same collective once more, into buffers of its own, for these readers.
  std::size_t again(const Gather& g, const Stay& stay) {
    PooledTask copy = pool_[g.task];
    const Task& reader = pool_[stay.readers[0]].task;
    copy.task.phase = reader.phase, copy.task.micro = reader.micro;
    Communication c = communication(g.task);
    std::map<BufferId, BufferId> fresh;
    for (Participant& p : c.participants) {
      if (!p.receive.valid()) continue;
      program_.buffers.push_back(Buffer(program_.buffer(p.receive)));
      p.receive = fresh[p.receive] = BufferId(static_cast<std::int64_t>(program_.buffers.size()) - 1);
    }
    copy.task.op = static_cast<std::int32_t>(program_.communications.size());
    program_.communications.push_back(std::move(c));
    for (std::size_t reader : stay.readers) redirect(pool_[reader], fresh);
    pool_.push_back(std::move(copy));
    for (std::size_t reader : stay.readers) {
      auto& after = pool_[reader].after;
      std::replace(after.begin(), after.end(), g.task, pool_.size() - 1);
    }
    return pool_.size() - 1;
  }

  void redirect(PooledTask& t, const std::map<BufferId, BufferId>& fresh) {
    auto change = [&](BufferId& b) {
      if (auto found = b.valid() ? fresh.find(b) : fresh.end(); found != fresh.end()) b = found->second;
    };
    if (t.task.kind == TaskKind::communicate) {
      for (Participant& p : program_.communications[static_cast<std::size_t>(t.task.op)].participants) change(p.send);
      return;
    }
    for (BufferId& b : t.operands) change(b);
  }

  Program& program_;
  std::vector<PooledTask>& pool_;
  std::vector<Gather> gathers_;
  std::map<std::vector<DeviceId>, std::vector<std::size_t>> groups_;
  std::vector<std::optional<std::size_t>> gather_of_;  // by buffer
  std::vector<std::vector<std::size_t>> readers_;      // by gather, in order
  std::vector<Stay> stays_;
};

}  // namespace

bool gather_again(Program& program, std::vector<PooledTask>& pool) { return Regathering(program, pool).run(); }

}  // namespace unity
