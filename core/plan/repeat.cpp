#include "core/plan/repeat.h"

#include <algorithm>

#include "core/plan/pipeline_order.h"
#include "core/plan/task_pool.h"

namespace unity {
namespace {

class Repeater {
 public:
  Repeater(const Program& step, int iterations) : step_(step), result_(step), tasks_(take_tasks(step)) {
    result_.iterations = iterations;
    std::vector<bool> persistent = persistent_buffers(step);
    for (std::size_t b = 0; b < step.buffers.size(); ++b) {
      BufferCategory c = step.buffers[b].category;
      shared_.push_back(persistent[b] && (c == BufferCategory::weight || c == BufferCategory::optimizer_state));
    }
    find_versions();
    earlier_.resize(step.buffers.size());
  }

  bool delayed() const { return !versions_.empty(); }

  Program run() {
    for (int i = 0; i < result_.iterations; ++i) add_iteration(i);
    put_tasks(result_, pool_);
    return std::move(result_);
  }

 private:
  struct Versions {
    BufferId read, next;
    std::size_t update;  // which changes the next one, in step_
  };
  struct Users {
    std::vector<std::size_t> writers, readers;  // readers: since the writers' iteration began
  };

  // A weight whose next version is copied over the one that was read, before the update.
  void find_versions() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].task.kind != TaskKind::update) continue;
      BufferId changed = tasks_[i].operands[0];
      for (std::size_t d : tasks_[i].after)
        if (tasks_[d].task.kind == TaskKind::copy && tasks_[d].operands[0] == changed && shared_[changed.index()])
          versions_.push_back({tasks_[d].operands[1], changed, i});
    }
  }

  // By buffer of step_: what stands for it in an iteration.
  std::vector<BufferId> buffers_of(int iteration) {
    std::vector<BufferId> at;
    std::vector<std::int32_t> input_tensors(step_.tensors.size(), -1);
    for (std::size_t b = 0; b < step_.buffers.size(); ++b) {
      if (iteration == 0 || shared_[b]) {
        at.emplace_back(static_cast<std::int64_t>(b));
        continue;
      }
      Buffer buffer = step_.buffers[b];
      if (buffer.category == BufferCategory::input) {
        std::int32_t& own = input_tensors[static_cast<std::size_t>(buffer.tensor)];
        if (own < 0) {
          own = static_cast<std::int32_t>(result_.tensors.size());
          ProgramTensor tensor = step_.tensors[static_cast<std::size_t>(buffer.tensor)];
          tensor.name = input_of_iteration(tensor.name, iteration);
          result_.tensors.push_back(std::move(tensor));
        }
        buffer.tensor = own;
      }
      at.emplace_back(static_cast<std::int64_t>(result_.buffers.size()));
      result_.buffers.push_back(std::move(buffer));
    }
    if (iteration % 2 == 1)
      for (const Versions& v : versions_) at[v.read.index()] = v.next, at[v.next.index()] = v.read;
    return at;
  }

  void add_iteration(int iteration) {
    std::vector<BufferId> at = buffers_of(iteration);
    auto replace = [&](BufferId& b) {
      if (b.valid()) b = at[b.index()];
    };
    if (iteration > 0) {
      for (ProgramOutput out : step_.outputs) {
        out.iteration = iteration;
        for (BufferId& b : out.buffers) replace(b);
        result_.outputs.push_back(std::move(out));
      }
      for (Communication c : step_.communications) {
        for (std::size_t part = 0; part < c.part_count(); ++part)
          for (Participant& p : part == 0 ? c.participants : c.joined[part - 1]) replace(p.send), replace(p.receive);
        result_.communications.push_back(std::move(c));
      }
    }
    std::size_t first = pool_.size();
    for (const PooledTask& task : tasks_) {
      PooledTask& own = pool_.emplace_back(task);
      own.task.iteration = static_cast<std::uint8_t>(iteration);
      for (BufferId& b : own.operands) replace(b);
      for (std::size_t& d : own.after) d += first;
      if (own.task.kind == TaskKind::communicate)
        own.task.op += static_cast<std::int32_t>(step_.communications.size()) * iteration;
    }
    // The version that was read becomes the newest. At the end all versions are where one step leaves them.
    bool stay = iteration + 1 == result_.iterations && iteration % 2 == 0;
    for (const Versions& v : versions_)
      if (!stay) pool_[first + v.update].operands[0] = at[v.read.index()];
    wait_for_earlier(first);
  }

  // Tasks from `first` on wait for those before that use the same buffers.
  void wait_for_earlier(std::size_t first) {
    std::vector<std::pair<std::size_t, Users>> now;
    std::vector<std::size_t> place(step_.buffers.size(), SIZE_MAX);  // in `now`
    for (std::size_t i = first; i < pool_.size(); ++i)
      for_each_use(result_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool written) {
        if (b.index() >= step_.buffers.size() || !shared_[b.index()]) return;
        const Users& before = earlier_[b.index()];
        auto wait = [&](const std::vector<std::size_t>& tasks) {
          pool_[i].after.insert(pool_[i].after.end(), tasks.begin(), tasks.end());
        };
        wait(before.writers);
        if (written) wait(before.readers);
        if (place[b.index()] == SIZE_MAX) place[b.index()] = now.size(), now.push_back({b.index(), {}});
        Users& users = now[place[b.index()]].second;
        (written ? users.writers : users.readers).push_back(i);
      });
    for (auto& [buffer, users] : now) {
      Users& before = earlier_[buffer];
      if (!users.writers.empty())
        before = std::move(users);
      else
        before.readers.insert(before.readers.end(), users.readers.begin(), users.readers.end());
    }
  }

  const Program& step_;
  Program result_;
  const std::vector<PooledTask> tasks_;  // of one step
  std::vector<PooledTask> pool_;         // of all iterations so far
  std::vector<bool> shared_;             // by buffer of step_
  std::vector<Versions> versions_;
  std::vector<Users> earlier_;  // by buffer of step_: those of earlier iterations that a later one has to wait for
};

}  // namespace

std::string input_of_iteration(const std::string& name, int iteration) {
  return iteration == 0 ? name : fmt::format("{}.iteration{}", name, iteration);
}

Result<Program> repeat(const Program& step, int iterations, const Schedule& schedule) {
  if (iterations < 1 || iterations > kMostIterations)
    return fail("a program of {} iterations, expected 1 to {}", iterations, kMostIterations);
  if (step.iterations != 1) return fail("found a program of {} iterations, expected one to repeat", step.iterations);
  if (iterations == 1) return step;
  Repeater repeater(step, iterations);
  bool delayed = repeater.delayed();
  Program program = repeater.run();
  UNITY_TRY_VOID(check_program(program));
  if (delayed) UNITY_TRY_VOID(order_micro_batches(program, schedule));
  UNITY_TRY_VOID(check_program(program));
  return program;
}

}  // namespace unity
