#include "core/plan/delayed_weights.h"

#include <map>

#include "core/plan/stages.h"
#include "core/plan/task_pool.h"

namespace unity {

Result<void> delay_weights(Program& program, WeightVersions weights) {
  if (weights == WeightVersions::newest) return {};
  std::size_t stages = find_stages(program).groups.size();
  if (stages < 2) return fail("weight versions 2bw: found a plan of {} pipeline stages, expected at least 2", stages);
  std::vector<PooledTask> pool = take_tasks(program);
  std::vector<std::vector<std::size_t>> users(program.buffers.size());
  for (std::size_t i = 0; i < pool.size(); ++i)
    for_each_use(program, pool[i].task, pool[i].operands, [&](BufferId b, bool) {
      if (program.buffer(b).category == BufferCategory::weight) users[b.index()].push_back(i);
    });
  std::map<std::int32_t, std::int32_t> next;  // by tensor of a weight
  std::vector<std::size_t> order;
  for (std::size_t i = 0, tasks = pool.size(); i < tasks; ++i) {
    if (pool[i].task.kind == TaskKind::update) {
      BufferId read = pool[i].operands[0], changed(static_cast<std::int64_t>(program.buffers.size()));
      Buffer version = program.buffer(read);
      auto [tensor, fresh] = next.try_emplace(version.tensor, static_cast<std::int32_t>(program.tensors.size()));
      if (fresh) {
        ProgramTensor tensor_of_next = program.tensor_of(read);
        tensor_of_next.name = next_version(tensor_of_next.name);
        program.tensors.push_back(std::move(tensor_of_next));
      }
      version.tensor = tensor->second;
      program.buffers.push_back(version);
      program.boxes.push_back(version.box);
      PooledTask copy;
      copy.task = {.kind = TaskKind::copy, .phase = Phase::update, .device = version.device};
      copy.task.op = static_cast<std::int32_t>(program.boxes.size()) - 1;
      copy.task.bytes = 2.0 * static_cast<double>(program.bytes_of(changed).count);
      copy.operands = {changed, read};
      copy.after = pool[i].after;
      for (std::size_t user : users[read.index()]) {
        UNITY_CHECK(user <= i, "task {} uses a weight after its update, task {}", user, i);
        if (user < i) copy.after.push_back(user);
      }
      pool[i].operands[0] = changed;
      pool[i].after.push_back(pool.size());
      order.push_back(pool.size());
      pool.push_back(std::move(copy));
    }
    order.push_back(i);
  }
  put_tasks(program, pool, order);
  return {};
}

}  // namespace unity
