#include <algorithm>
#include <map>

#include "core/plan/zero_stages.h"

namespace unity {
namespace {

// The summands of one micro-batch of a gradient that is added up on a device before it is scattered.
struct Summands {
  std::int32_t micro = 0;
  BufferId first;                      // what the others are added to
  std::size_t made = 0;                // by this task
  std::vector<std::size_t> additions;  // tasks, in order
};

class Scattering {
 public:
  Scattering(Program& program, std::vector<PooledTask>& pool) : program_(program), pool_(pool) {}

  bool run() {
    find_uses();
    std::vector<std::vector<std::size_t>> behind(pool_.size());
    std::vector<bool> dropped(pool_.size(), false);
    bool any = false;
    for (std::size_t i = 0, tasks = behind.size(); i < tasks; ++i)
      if (is_scatter(i)) any = scatter_each(i, behind, dropped) || any;
    if (!any) return false;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < behind.size(); ++i) {
      if (!dropped[i]) order.push_back(i);
      order.insert(order.end(), behind[i].begin(), behind[i].end());
    }
    reorder(pool_, order);
    return true;
  }

 private:
  struct Uses {
    std::vector<std::size_t> writers, readers;
  };

  bool is_scatter(std::size_t i) const {
    const Task& t = pool_[i].task;
    if (t.kind != TaskKind::communicate || t.phase != Phase::backward) return false;
    const Communication& c = program_.communications[static_cast<std::size_t>(t.op)];
    return c.kind == CollectiveKind::reduce_scatter && c.monoid == Monoid::sum && c.part_count() == 1;
  }

  void find_uses() {
    uses_.resize(program_.buffers.size());
    for (std::size_t i = 0; i < pool_.size(); ++i)
      for_each_use(program_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool written) {
        std::vector<std::size_t>& list = written ? uses_[b.index()].writers : uses_[b.index()].readers;
        if (list.empty() || list.back() != i) list.push_back(i);
      });
  }

  // By micro-batch, of what is scattered, where these are several, and nothing else reads the summands. What adds the
  // first of a further micro-batch to the others is dropped, if `dropped` is there.
  std::vector<Summands> summands_of(BufferId buffer, std::vector<bool>* dropped) const {
    const Uses& uses = uses_[buffer.index()];
    if (uses.writers.size() < 2 || uses.readers.size() != 1) return {};
    const Task& maker = pool_[uses.writers[0]].task;
    if (maker.kind != TaskKind::compute) return {};
    std::vector<Summands> all = {{maker.micro, buffer, uses.writers[0], {}}};
    for (std::size_t w = 1; w < uses.writers.size(); ++w) {
      const std::size_t task = uses.writers[w];
      const PooledTask& t = pool_[task];
      if (t.task.kind != TaskKind::accumulate || t.operands[1] != buffer ||
          program_.boxes[static_cast<std::size_t>(t.task.op)] != program_.buffer(buffer).box)
        return {};
      const Uses& source = uses_[t.operands[0].index()];
      if (source.writers.size() != 1 || source.readers.size() != 1) return {};
      const Task& made = pool_[source.writers[0]].task;
      if (made.kind != TaskKind::compute) return {};
      auto alike = std::find_if(all.begin(), all.end(), [&](const Summands& s) { return s.micro == made.micro; });
      if (alike != all.end()) {
        alike->additions.push_back(task);
        continue;
      }
      all.push_back({made.micro, t.operands[0], source.writers[0], {}});
      if (dropped) (*dropped)[task] = true;
    }
    if (all.size() < 2) return {};
    return all;
  }

  // The collective becomes one for each micro-batch, whose results are added up.
  bool scatter_each(std::size_t scatter, std::vector<std::vector<std::size_t>>& behind, std::vector<bool>& dropped) {
    const Communication whole = program_.communications[static_cast<std::size_t>(pool_[scatter].task.op)];
    auto alike = [](const std::vector<Summands>& a, const std::vector<Summands>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](const Summands& x, const Summands& y) { return x.micro == y.micro; });
    };
    std::vector<std::vector<Summands>> sums;
    const Participant* example = nullptr;
    for (const Participant& p : whole.participants) {
      sums.push_back(p.send.valid() ? summands_of(p.send, nullptr) : std::vector<Summands>());
      if (!p.send.valid()) continue;
      if (sums.back().empty() || (example && !alike(summands_of(example->send, nullptr), sums.back()))) return false;
      example = &p;
    }
    if (!example) return false;
    for (const Participant& p : whole.participants)
      if (p.send.valid()) summands_of(p.send, &dropped);
    std::vector<std::int32_t> micros;
    for (const Summands& s : summands_of(example->send, nullptr)) micros.push_back(s.micro);

    std::vector<std::size_t> additions;  // of parts, one after the other on each device
    std::size_t last = 0;                // of what they come behind
    for (std::size_t k = 0; k < micros.size(); ++k) {
      std::size_t collective = scatter;
      Communication c = whole;
      if (k > 0) {
        collective = pool_.size();
        pool_.push_back(pool_[scatter]);
        for (Participant& p : c.participants)
          if (p.receive.valid()) p.receive = buffer_like(p.receive);
      }
      pool_[collective].task.micro = micros[k];
      pool_[collective].after.clear();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (sums[i].empty()) continue;
        c.participants[i].send = sums[i][k].first;
        const std::size_t ready = add_up(sums[i][k]);
        pool_[collective].after.push_back(ready);
        last = std::max(last, ready);
      }
      if (k > 0) {
        pool_[collective].task.op = static_cast<std::int32_t>(program_.communications.size());
        program_.communications.push_back(c);
      } else {
        dropped[scatter] = true;  // from where it stands
      }
      behind[last].push_back(collective);
      if (k == 0) continue;
      std::vector<std::size_t> added;
      for (std::size_t i = 0; i < whole.participants.size(); ++i) {
        const Participant &sum = whole.participants[i], &part = c.participants[i];
        if (!sum.receive.valid()) continue;
        PooledTask add;
        add.task = {.kind = TaskKind::accumulate, .phase = Phase::backward, .device = sum.device};
        add.task.op = static_cast<std::int32_t>(program_.boxes.size());
        add.task.micro = micros[k];
        program_.boxes.push_back(program_.buffer(sum.receive).box);
        add.task.bytes = 3 * static_cast<double>(program_.bytes_of(sum.receive).count);
        add.operands = {part.receive, sum.receive};
        add.after = {scatter, collective};
        for (std::size_t before : additions)
          if (pool_[before].task.device == sum.device) add.after.push_back(before);
        added.push_back(pool_.size());
        behind[last].push_back(pool_.size());
        pool_.push_back(std::move(add));
      }
      additions = std::move(added);
    }
    for (std::size_t i = 0; i < behind.size(); ++i)
      if (auto& after = pool_[i].after; i != scatter && std::find(after.begin(), after.end(), scatter) != after.end())
        after.insert(after.end(), additions.begin(), additions.end());
    return true;
  }

  // On their own. Gives the task that completes them.
  std::size_t add_up(const Summands& summands) {
    std::size_t ready = summands.made;
    for (std::size_t task : summands.additions) {
      pool_[task].operands[1] = summands.first;
      pool_[task].after = {ready, uses_[pool_[task].operands[0].index()].writers[0]};
      ready = task;
    }
    return ready;
  }

  BufferId buffer_like(BufferId buffer) {
    program_.buffers.push_back(Buffer(program_.buffer(buffer)));
    return BufferId(static_cast<std::int64_t>(program_.buffers.size()) - 1);
  }

  Program& program_;
  std::vector<PooledTask>& pool_;
  std::vector<Uses> uses_;  // by buffer
};

}  // namespace

bool scatter_each_gradient(Program& program, std::vector<PooledTask>& pool) { return Scattering(program, pool).run(); }

bool limit_whole_gradients(const Program& program, std::vector<PooledTask>& pool) {
  struct Whole {
    std::size_t scatter = 0;
    std::int64_t bytes = 0;
  };
  std::vector<std::size_t> first_writer(program.buffers.size(), SIZE_MAX);
  std::map<DeviceId, std::map<std::size_t, Whole>> by_device;  // by the task that begins to write it
  for (std::size_t i = 0; i < pool.size(); ++i) {
    for_each_use(program, pool[i].task, pool[i].operands, [&](BufferId b, bool written) {
      if (written) first_writer[b.index()] = std::min(first_writer[b.index()], i);
    });
    const Task& t = pool[i].task;
    if (t.kind != TaskKind::communicate || t.phase != Phase::backward) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    if (c.kind != CollectiveKind::reduce_scatter) continue;
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& p : c.part(part))
        if (p.send.valid() && first_writer[p.send.index()] != SIZE_MAX)
          by_device[p.device][first_writer[p.send.index()]] = {i, program.bytes_of(p.send).count};
  }
  bool any = false;
  for (const auto& [device, gradients] : by_device) {
    std::int64_t largest = 0, second = 0, taken = 0;
    for (const auto& [writer, whole] : gradients)
      second = std::max(second, std::min(largest, whole.bytes)), largest = std::max(largest, whole.bytes);
    std::vector<Whole> waiting;
    for (const auto& [writer, whole] : gradients) {
      while (!waiting.empty() && taken + whole.bytes > largest + second && waiting[0].scatter < writer) {
        pool[writer].after.push_back(waiting[0].scatter);
        taken -= waiting[0].bytes, any = true;
        waiting.erase(waiting.begin());
      }
      taken += whole.bytes;
      waiting.push_back(whole);
    }
  }
  return any;
}

}  // namespace unity
