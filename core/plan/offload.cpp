#include "core/plan/offload.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/plan/row_updates.h"
#include "core/plan/task_pool.h"

namespace unity {
namespace {

// A buffer's uses, as positions in the pool.
struct Uses {
  std::vector<std::size_t> forward, backward;
  bool elsewhere = false;  // written in the backward pass, used by an update or a communication
};

void offload_activations(Program& program) {
  std::vector<PooledTask> pool = take_tasks(program);
  std::vector<Uses> uses(program.buffers.size());
  std::vector<std::vector<std::size_t>> computed(static_cast<std::size_t>(program.devices));  // tasks of a device
  std::vector<std::size_t> rank(pool.size(), 0);                                              // of a task among them
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Task& t = pool[i].task;
    if (t.stream == Stream::compute) {
      rank[i] = computed[t.device.index()].size();
      computed[t.device.index()].push_back(i);
    }
    for_each_use(program, t, pool[i].operands, [&](BufferId b, bool written) {
      Uses& u = uses[b.index()];
      if (t.phase == Phase::update || t.kind == TaskKind::communicate || (t.phase == Phase::backward && written))
        u.elsewhere = u.elsewhere || t.phase != Phase::forward;
      (t.phase == Phase::forward ? u.forward : u.backward).push_back(i);
    });
  }
  for (const ProgramOutput& out : program.outputs)
    for (BufferId b : out.buffers) uses[b.index()].elsewhere = true;

  std::vector<std::vector<std::size_t>> before(pool.size()), after(pool.size());  // copies around a task
  std::size_t tasks = pool.size(), buffers = program.buffers.size();
  for (std::size_t b = 0; b < buffers; ++b) {
    const Uses& u = uses[b];
    const Buffer device = program.buffers[b];
    if (device.category != BufferCategory::activation || u.elsewhere || u.forward.empty() || u.backward.empty())
      continue;
    const std::vector<std::size_t>& own = computed[device.device.index()];
    // Communications have no rank: what they use last in the forward pass is older than their next computation.
    std::size_t last = u.forward.back(), first = u.backward.front();
    std::size_t last_rank = static_cast<std::size_t>(std::upper_bound(own.begin(), own.end(), last) - own.begin());
    if (rank[first] < last_rank + 2 * static_cast<std::size_t>(kOffloadLead)) continue;
    BufferId id(static_cast<std::int64_t>(b)), host(static_cast<std::int64_t>(program.buffers.size())),
        back(static_cast<std::int64_t>(program.buffers.size()) + 1);
    program.buffers.push_back(device);
    program.buffers.back().on_host = true;
    program.buffers.push_back(device);
    program.boxes.push_back(device.box);
    PooledTask out;
    out.task = {.kind = TaskKind::copy, .phase = Phase::forward, .stream = Stream::copy, .device = device.device};
    out.task.op = static_cast<std::int32_t>(program.boxes.size()) - 1;
    out.task.bytes = static_cast<double>(program.bytes_of(id).count);
    out.task.micro = pool[first].task.micro;
    out.operands = {id, host};
    out.after.assign(u.forward.begin(), u.forward.end());
    PooledTask in = out;
    in.task.phase = Phase::backward;
    in.operands = {host, back};
    in.after = {pool.size(), own[rank[first] - static_cast<std::size_t>(kOffloadLead)]};
    // So that what is computed next can take its memory.
    pool[own[last_rank + static_cast<std::size_t>(kOffloadLead)]].after.push_back(pool.size());
    after[last].push_back(pool.size());
    before[first].push_back(pool.size() + 1);
    for (std::size_t reader : u.backward) {
      std::replace(pool[reader].operands.begin(), pool[reader].operands.end(), id, back);
      pool[reader].after.push_back(pool.size() + 1);
    }
    pool.push_back(std::move(out));
    pool.push_back(std::move(in));
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tasks; ++i) {
    order.insert(order.end(), before[i].begin(), before[i].end());
    order.push_back(i);
    order.insert(order.end(), after[i].begin(), after[i].end());
  }
  put_tasks(program, pool, order);
}

void offload_states(Program& program) {
  std::vector<PooledTask> pool = take_tasks(program);
  std::vector<std::vector<std::size_t>> computed(static_cast<std::size_t>(program.devices));  // tasks of a device
  std::vector<std::size_t> before;                           // fetched without waiting for a task
  std::vector<std::vector<std::size_t>> after(pool.size());  // copies behind a task
  for (std::size_t i = 0, tasks = pool.size(); i < tasks; ++i) {
    const Task update = pool[i].task;
    if (update.stream != Stream::compute) continue;
    std::vector<std::size_t>& own = computed[update.device.index()];
    own.push_back(i);
    if (update.kind != TaskKind::update || is_row_update(update)) continue;
    bool waits = own.size() > static_cast<std::size_t>(kStateLead);
    std::vector<std::size_t> written;
    for (std::size_t k = 2; k < pool[i].operands.size(); ++k) {
      BufferId home = pool[i].operands[k], here(static_cast<std::int64_t>(program.buffers.size()));
      program.buffers.push_back(program.buffer(home));
      program.buffers.back().staged = true;
      program.buffers[home.index()].on_host = true;
      program.boxes.push_back(program.buffer(home).box);
      PooledTask in;
      in.task = {.kind = TaskKind::copy, .phase = Phase::update, .stream = Stream::copy, .device = update.device};
      in.task.op = static_cast<std::int32_t>(program.boxes.size()) - 1;
      in.task.bytes = static_cast<double>(program.bytes_of(home).count);
      in.task.micro = update.micro;
      in.operands = {home, here};
      PooledTask out = in;
      out.operands = {here, home};
      out.after = {i};
      if (waits) in.after = {own[own.size() - 1 - static_cast<std::size_t>(kStateLead)]};
      pool[i].operands[k] = here;
      pool[i].after.push_back(pool.size());
      (waits ? after[in.after[0]] : before).push_back(pool.size());
      written.push_back(pool.size() + 1);
      pool.push_back(std::move(in));
      pool.push_back(std::move(out));
    }
    after[i] = std::move(written);
  }
  std::vector<std::size_t> order = std::move(before);
  for (std::size_t i = 0; i < after.size(); ++i) {
    order.push_back(i);
    order.insert(order.end(), after[i].begin(), after[i].end());
  }
  put_tasks(program, pool, order);
}

}  // namespace

void offload(Program& program, Offload what) {
  if (contains(what, Offload::activations)) offload_activations(program);
  if (contains(what, Offload::optimizer)) offload_states(program);
}

}  // namespace unity
