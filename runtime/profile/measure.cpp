#include "runtime/profile/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <unistd.h>

#include "core/ops/chain.h"
#include "core/plan/row_updates.h"
#include "runtime/profile/single_task.h"

namespace unity {

DeviceDescription describe_cpu();

namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// The quartiles are near one another.
bool steady(const std::vector<double>& values) {
  return values.size() >= 8 && quantile(values, 0.75) < 1.05 * quantile(values, 0.25);
}

// The median; the lower quartile where the times lie far apart, since what else a machine does only adds to them.
double typical(const std::vector<double>& values) {
  double low = quantile(values, 0.25);
  return quantile(values, 0.75) > 1.2 * low ? low : quantile(values, 0.5);
}

// Whether an operator takes its operands to be positive; others see both signs when training, which matters to some
// (the power of a negative number).
bool wants_positive(const Operator& op, const Attributes& attributes) {
  if (op.name() != "power") return op.name() == "log" || op.name() == "sqrt";
  double exponent = real_attribute(attributes, 0);
  return exponent != std::floor(exponent) || exponent < 0;
}
bool wants_positive(const Program& p) {
  if (p.ops.empty()) return false;
  const ProgramOp& op = p.ops[0];
  if (!op.chain) return wants_positive(*op.op, op.attributes);
  return std::any_of(op.chain->steps().begin(), op.chain->steps().end(),
                     [](const ChainStep& step) { return wants_positive(*step.op, step.attributes); });
}

// Numbers from -1 to 1, or from 0.05 to 1.05; or whole ones below the bound. So many, over and over: to draw all those
// of a large tensor takes longer than to measure what reads them.
HostTensor drawn(DType type, std::optional<std::int64_t> bound, bool positive) {
  const std::int64_t n = std::int64_t{1} << (bound ? 20 : 16);
  HostTensor t = type == DType::i32 ? index_tensor({n}) : real_tensor({n});
  auto below = static_cast<std::uint64_t>(bound.value_or(2));
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    Hash random = mix(i);
    if (type == DType::i32)
      t.indices[i] = static_cast<std::int32_t>(random % below);
    else
      t.reals[i] = bound      ? static_cast<double>(random % below)
                   : positive ? 0.05 + static_cast<double>(random >> 11) * 0x1p-53
                              : static_cast<double>(random >> 11) * 0x1p-52 - 1;
  }
  return t;
}

// The times of a step's runs of the task. Of a communication: from the end of the run before, on the participant that
// ends last, which leaves out what the threads take to start.
class RunTimes {
 public:
  explicit RunTimes(const SingleTaskProgram& single) : single_(single) {}

  void add(const Trace& trace) {
    std::vector<Picoseconds> first(single_.program.tasks.size()), last(single_.program.tasks.size());
    for (const Span& s : trace.spans) {
      Picoseconds& start = first[s.task.index()];
      start = start.count == 0 ? s.start : std::min(start, s.start);
      last[s.task.index()] = std::max(last[s.task.index()], s.end);
    }
    std::optional<TaskId> before;
    for (const std::vector<TaskId>& set : single_.runs)
      for (std::size_t r = 0; r < set.size(); ++r) {
        TaskId id = set[r];
        bool communicates = single_.program.tasks[id.index()].kind == TaskKind::communicate;
        Picoseconds start = communicates && before ? last[before->index()] : first[id.index()];
        if (!communicates || before)
          (r == 0 ? cold : warm).push_back(std::max(1e-9, (last[id.index()] - start).seconds()));
        before = id;
      }
  }

  std::vector<double> cold, warm;

 private:
  const SingleTaskProgram& single_;
};

// Of several runs in a row, the time of one: from the end of the first to that of the last, each where it comes last.
// Where processes count time from moments that differ, it is the same one that does.
class RowTimes {
 public:
  explicit RowTimes(const SingleTaskProgram& single) : single_(single) {}

  void add(const Trace& trace) {
    std::vector<Picoseconds> last(single_.program.tasks.size());
    for (const Span& s : trace.spans) last[s.task.index()] = std::max(last[s.task.index()], s.end);
    std::optional<TaskId> before;
    for (const std::vector<TaskId>& set : single_.runs) {
      auto between = [&](TaskId a, TaskId b) { return (last[b.index()] - last[a.index()]).seconds(); };
      if (before) cold.push_back(std::max(1e-9, between(*before, set.front())));
      warm.push_back(std::max(1e-9, between(set.front(), set.back()) / static_cast<double>(set.size() - 1)));
      before = set.back();
    }
  }

  std::vector<double> cold, warm;

 private:
  const SingleTaskProgram& single_;
};

// Steps until their times are steady, or took so long; as rank 0 sees it.
template <class Times>
void take_times(Executor& executor, double seconds, Times& times) {
  constexpr int kLeastSteps = 3;
  auto begin = std::chrono::steady_clock::now();
  auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (int step = 0;; ++step) {
    bool enough = passed() > seconds ||
                  (step > 2 * kLeastSteps && steady(times.warm) && (times.cold.empty() || steady(times.cold)));
    if (step >= kLeastSteps && agreed(executor.processes(), enough) != 0) break;
    times.add(*executor.step(true).trace);
  }
}

ProfileEntry entry_of(const std::vector<double>& warm, const std::vector<double>& cold) {
  ProfileEntry entry;
  entry.low = quantile(warm, 0.25);
  entry.high = quantile(warm, 0.75);
  entry.warm = typical(warm);
  // Slower with warm caches than with cold ones is noise.
  entry.cold = std::max(entry.warm, typical(cold));
  entry.samples = static_cast<std::int64_t>(warm.size());
  return entry;
}

// As the system says; 32 MB where it does not.
Bytes largest_cache() {
  Bytes largest;
  for (int i = 0; i < 8; ++i) {
    std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", i));
    std::int64_t size = 0;
    char unit = 'K';
    if (in >> size >> unit) largest = std::max(largest, Bytes{size << (unit == 'M' ? 20 : 10)});
  }
  return largest.count > 0 ? largest : Bytes{std::int64_t{32} << 20};
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string name = "processor";
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {} cores", name, sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::int64_t agreed(Processes& processes, std::int64_t value) {
  if (processes.size() == 1) return value;
  BytesByRank all =
      processes.all_gather(std::as_bytes(std::span(&value, 1)), "what to measure", Processes::Wait::while_heard);
  UNITY_CHECK(all[0].size() == sizeof value, "rank 0 sent {} bytes", all[0].size());
  std::memcpy(&value, all[0].data(), sizeof value);
  return value;
}

DeviceDescription describe_cpu() { return {processor(), largest_cache(), 1}; }

namespace {

constexpr double kShort = 30e-6;  // seconds of a task to which tracing adds much

// That the sets of buffers of a task take together: more than twice what the caches hold, so that one set drives out
// the others; not much more, as values for all of them are made on the host.
std::int64_t most_bytes(const ProfileOptions& options) {
  return std::clamp(3 * options.cache.count, std::int64_t{1} << 26, std::int64_t{1} << 28);
}

// What to run a program of one task with: its weights and inputs are drawn.
ExecutorOptions of_single_task(const ProfileOptions& options) {
  ExecutorOptions how = options.executor;
  how.share_memory = how.initialize = false;
  how.one_device = true;
  return how;
}

// Leaves of one kind have the same values.
void draw_values(Executor& executor, const SingleTaskProgram& single) {
  std::map<std::pair<DType, std::int64_t>, HostTensor> values;
  auto draw = [&](const std::string& name, DType type) {
    auto found = single.index_bounds.find(name);
    std::optional<std::int64_t> bound;
    if (found != single.index_bounds.end()) bound = found->second;
    auto [at, fresh] = values.try_emplace({type, bound.value_or(-1)});
    if (fresh) at->second = drawn(type, bound, wants_positive(single.program));
    executor.repeat_values(name, at->second);
  };
  for (const ProgramLeaf& leaf : single.program.leaves)
    draw(leaf.name, text_attribute(leaf.attributes, 1) == "i32" ? DType::i32 : DType::f32);
}

// Seconds of a task among others in steps that are not traced, several of them, each the mean of a step's runs: on
// each of `sets` sets of buffers as often.
std::vector<double> times_in_row(const Program& source, TaskId task, const ProfileOptions& options,
                                 const std::vector<DType>* held, int sets, int repeats) {
  constexpr int kLeastSteps = 5;
  SingleTaskOptions shape;
  shape.held = held;
  shape.sets = sets;
  shape.repeats = repeats;
  SingleTaskProgram single = single_task_program(source, task, shape);
  Executor executor(single.program, of_single_task(options));
  draw_values(executor, single);
  executor.step();
  executor.step();
  std::vector<double> all;
  double sum = 0;
  while (static_cast<int>(all.size()) < kLeastSteps || (sum < options.task_seconds && !steady(all))) {
    const double seconds = executor.step().seconds;
    sum += seconds;
    all.push_back(std::max(1e-9, (seconds - options.step_overhead) / (sets * repeats)));
  }
  return all;
}

constexpr int kRunsInRow = 64;

// Of a task that only computes: on few sets, again and again.
std::vector<double> times_in_row(const Program& source, TaskId task, const ProfileOptions& options,
                                 const std::vector<DType>* held) {
  constexpr std::int64_t kMostSets = 4;
  const std::int64_t touched = std::max<std::int64_t>(1, bytes_touched(source, task).count);
  const auto sets = static_cast<int>(std::clamp<std::int64_t>(most_bytes(options) / touched, 1, kMostSets));
  return times_in_row(source, task, options, held, sets, kRunsInRow / sets);
}

// Of an update: on buffers of its own each, as updates have in a step. Those by rows share what a launch costs: as many
// as there are in the source's step, told by fewer where there is no room for that many of the table.
std::vector<double> times_of_updates(const Program& source, TaskId task, const ProfileOptions& options,
                                     const std::vector<DType>* held) {
  constexpr std::int64_t kMostOfTables = std::int64_t{1} << 32;
  const Task& t = source.tasks[task.index()];
  const std::int64_t touched = std::max<std::int64_t>(1, bytes_touched(source, task).count);
  if (!is_row_update(t))
    return times_in_row(source, task, options, held,
                        static_cast<int>(std::clamp<std::int64_t>(most_bytes(options) / touched, 2, kRunsInRow)), 1);
  const auto in_step = static_cast<int>(std::count_if(source.tasks.begin(), source.tasks.end(), [&](const Task& other) {
    return is_row_update(other) && other.device == t.device && other.iteration == t.iteration;
  }));
  const int sets =
      static_cast<int>(std::max<std::int64_t>(std::min<std::int64_t>(in_step, kMostOfTables / touched), 1));
  std::vector<double> times = times_in_row(source, task, options, held, sets, 1);
  if (sets == in_step || sets < 2) return times;
  const double alone = typical(times_in_row(source, task, options, held, 1, 1)), each = typical(times);
  const double of_all = each_of_more(alone, each, sets, in_step);
  for (double& time : times) time = std::max(1e-9, time - each + of_all);
  return times;
}

bool tracing_costs(const ProfileOptions& options) {
  Program smallest = movement_program(TaskKind::zero, {1});
  return Executor(smallest, of_single_task(options)).tracing_costs();
}

}  // namespace

double each_of_more(double alone, double each, int some, int all) {
  const double own = std::max(0.0, (some * each - alone) / (some - 1)), shared = std::max(0.0, alone - own);
  return own + shared / all;
}

ProfileEntry measure_task(const Program& source, TaskId task, const ProfileOptions& options,
                          const std::vector<DType>* held) {
  constexpr std::int64_t kSmall = 1 << 18;
  std::int64_t touched = std::max<std::int64_t>(1, bytes_touched(source, task).count);
  SingleTaskOptions shape;
  shape.held = held;
  shape.sets = static_cast<int>(std::clamp<std::int64_t>(most_bytes(options) / touched, 2, touched < kSmall ? 8 : 4));
  shape.repeats = touched < kSmall ? 4 : 3;
  if (shape.sets * touched < 2 * options.cache.count) shape.flush = options.cache;
  SingleTaskProgram single = single_task_program(source, task, shape);
  if (source.tasks[task.index()].kind == TaskKind::update && tracing_costs(options)) {
    ProfileEntry entry = entry_of(times_of_updates(source, task, options, held), {});
    for (double* time : {&entry.warm, &entry.low, &entry.high, &entry.cold})
      *time = std::max(1e-9, *time - options.task_overhead);
    return entry;
  }
  std::optional<Executor> executor(std::in_place, single.program, of_single_task(options));
  draw_values(*executor, single);
  executor->step();
  RunTimes times(single);
  take_times(*executor, options.task_seconds, times);
  ProfileEntry entry = entry_of(times.warm, times.cold);
  if (entry.warm > kShort || !executor->tracing_costs()) return entry;
  executor.reset();  // its buffers, which may be as large as the device
  // The simulator adds what passes between tasks, but to communications.
  const double between = source.tasks[task.index()].kind == TaskKind::communicate ? 0 : options.task_overhead;
  const double other = typical(times_in_row(source, task, options, held)) - between - entry.warm;
  for (double* time : {&entry.warm, &entry.low, &entry.high, &entry.cold}) *time = std::max(1e-9, *time + other);
  return entry;
}

ProfileEntry measure_collective(const Program& source, TaskId task, const ProfileOptions& options,
                                const std::vector<DType>* held) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 24;
  Processes alone;
  ExecutorOptions how = options.executor;
  if (!how.processes) how.processes = &alone;
  how.share_memory = false;
  const bool apart = how.processes->size() > 1 || how.backend != "cpu";
  std::int64_t touched = std::max<std::int64_t>(1, bytes_touched(source, task).count);
  SingleTaskOptions shape;
  shape.held = held;
  shape.in_place = true;
  shape.answer = apart;
  shape.sets = touched < kLarge ? 4 : 1;
  shape.repeats = touched < kLarge ? 8 : 4;
  if (!apart && shape.sets * touched < 2 * options.cache.count) shape.flush = options.cache;
  auto measured = [&](const Program& program, TaskId id) {
    SingleTaskProgram row = single_task_program(program, id, shape);
    Executor executor(row.program, how);
    executor.step();
    RowTimes times(row);
    take_times(executor, options.task_seconds, times);
    if (apart) times.cold.clear();
    return entry_of(times.warm, times.cold);
  };
  ProfileEntry entry = measured(source, task);
  const Communication& c = source.communications[static_cast<std::size_t>(source.tasks[task.index()].op)];
  if (!apart || !one_way(c.kind)) return entry;
  // There and back: twice an answer. None takes less than that, so it is half of what was measured, or more.
  std::vector<DeviceId> ends = {c.participants.front().device, c.participants.back().device};
  Program answer = collective_program(CollectiveKind::send, ends, 1);
  answer.devices = source.devices;
  double seconds = measured(answer, TaskId(0)).warm / 2;
  for (double* time : {&entry.warm, &entry.cold, &entry.low, &entry.high})
    *time = std::max({1e-9, *time / 2, *time - seconds});
  return entry;
}

}  // namespace unity
