#include "core/plan/task_pool.h"

#include <algorithm>

namespace unity {

std::vector<PooledTask> take_tasks(const Program& program) {
  std::vector<PooledTask> pool;
  pool.reserve(program.tasks.size());
  for (const Task& t : program.tasks) {
    PooledTask& pooled = pool.emplace_back();
    pooled.task = t;
    auto operands = program.operands_of(t);
    pooled.operands.assign(operands.begin(), operands.end());
    auto after = program.dependencies_of(t);
    pooled.after.reserve(after.size());
    for (TaskId d : after) pooled.after.push_back(d.index());
  }
  return pool;
}

void put_tasks(Program& program, const std::vector<PooledTask>& pool, const std::vector<std::size_t>& order) {
  std::vector<TaskId> placed(pool.size());
  program.tasks.clear(), program.operands.clear(), program.dependencies.clear();
  std::vector<TaskId> after;
  for (std::size_t i : order) {
    Task t = pool[i].task;
    t.operands_begin = static_cast<std::uint32_t>(program.operands.size());
    program.operands.insert(program.operands.end(), pool[i].operands.begin(), pool[i].operands.end());
    t.operands_end = static_cast<std::uint32_t>(program.operands.size());
    after.clear();
    for (std::size_t d : pool[i].after) {
      UNITY_CHECK(placed[d].valid(), "task {} is put before task {}, which it comes after", i, d);
      after.push_back(placed[d]);
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    t.dependencies_begin = static_cast<std::uint32_t>(program.dependencies.size());
    program.dependencies.insert(program.dependencies.end(), after.begin(), after.end());
    t.dependencies_end = static_cast<std::uint32_t>(program.dependencies.size());
    placed[i] = TaskId(static_cast<std::int64_t>(program.tasks.size()));
    program.tasks.push_back(t);
  }
}

}  // namespace unity
