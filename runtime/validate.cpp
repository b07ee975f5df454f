#include "runtime/validate.h"

#include <algorithm>

namespace unity {

Trace measure(const Program& program, const MeasureOptions& options) {
  Executor executor(program, options.executor);
  for (const auto& [name, value] : synthetic_batch(executor.inputs(), options.index_bounds, options.executor.seed, 0))
    executor.set_input(name, value);
  for (int i = 0; i < options.warm_up; ++i) executor.step();
  std::vector<Trace> traces;
  for (int i = 0; i < std::max(1, options.steps); ++i) traces.push_back(std::move(*executor.step(true).trace));
  auto middle = traces.begin() + static_cast<std::ptrdiff_t>(traces.size() / 2);
  std::nth_element(traces.begin(), middle, traces.end(),
                   [](const Trace& a, const Trace& b) { return a.iteration < b.iteration; });
  return std::move(*middle);
}

std::vector<std::string> task_names(const Program& program) {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    names.push_back(program.task_name(TaskId(static_cast<std::int64_t>(t))));
  return names;
}

std::vector<std::string> task_groups(const Program& program) {
  std::vector<std::string> groups;
  for (const Task& t : program.tasks) {
    std::string what(to_string(t.kind));
    if (t.kind == TaskKind::compute) what = program.ops[static_cast<std::size_t>(t.op)].op->name();
    if (t.kind == TaskKind::communicate) what = to_string(program.communications[static_cast<std::size_t>(t.op)].kind);
    if (t.kind == TaskKind::update) what = program.optimizer.name;
    groups.push_back(fmt::format("{} {}", to_string(t.phase), what));
  }
  return groups;
}

}  // namespace unity
