#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/does_not_fit.h"
#include "core/plan/task_key.h"
#include "runtime/profile/measure.h"
#include "runtime/profile/single_task.h"

namespace unity {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Ascending in amount and at most 1; of several points with one amount the best counts.
std::vector<EfficiencyPoint> fractions(std::vector<std::pair<double, double>> rates, double peak) {
  std::sort(rates.begin(), rates.end());
  std::vector<EfficiencyPoint> curve;
  for (auto [amount, rate] : rates) {
    double fraction = std::clamp(rate / peak, 1e-6, 1.0);
    if (!curve.empty() && curve.back().amount == amount)
      curve.back().fraction = std::max(curve.back().fraction, fraction);
    else
      curve.push_back({amount, fraction});
  }
  return curve;
}

constexpr double kLarge = 2.0 * 2048 * 2048 * 2048;  // FLOPs of a product that no device is too slow for
constexpr double kLong = 0.005;                      // seconds: who takes less for it is asked for larger ones

class Curves {
 public:
  Curves(ProfileSection& section, const ProfileOptions& options, const CurveOptions& curves)
      : section_(section), options_(options), curves_(curves) {
    for (auto [name, measure] : {std::pair("matmul", &Curves::arithmetic), std::pair("memory", &Curves::memory),
                                 std::pair("elementwise", &Curves::elementwise)})
      add(name, [this, measure = measure] { (this->*measure)(); });
    for (TaskKind kind : {TaskKind::copy, TaskKind::accumulate, TaskKind::zero})
      add(1 << 6, 1 << 24, 8, [this, kind](std::int64_t n) { return movement_program(kind, block(n)); });
    for (bool to_host : {true, false})
      add(1 << 6, 1 << 24, 8, [this, to_host](std::int64_t n) { return host_copy_program(to_host, block(n)); });
    for (const char* text : {"sgd 0.01", "sgd 0.01 momentum=0.9", "adam 0.001", "adamw 0.001"})
      add(1 << 8, 1 << 23, 32, [text](std::int64_t n) { return update_program(parse_optimizer(text), n); });
    for (int n = 2; n <= curves.devices; n *= 2)
      for (CollectiveKind kind :
           {CollectiveKind::send, CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_reduce,
            CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
        if (kind != CollectiveKind::send || n == 2)
          add(1 << 8, 1 << 22, 16,
              [kind, n](std::int64_t elements) { return collective_program(kind, first_devices(n), elements); });
  }

  int measure() {
    const bool again =
        curves_.again &&
        (!curves_.late || std::none_of(jobs_.begin(), jobs_.end(), [&](const Job& job) { return is_missing(job); }));
    int left = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!again && !is_missing(jobs_[i])) continue;
      if (late()) {
        ++left;
        continue;
      }
      // The rates, which come first, take about as long as all others.
      constexpr std::size_t kRates = 3;
      const double done = i < kRates ? static_cast<double>(i) / kRates
                                     : 1 + static_cast<double>(i - kRates) / static_cast<double>(jobs_.size() - kRates);
      if (curves_.progress) curves_.progress(done / 2, jobs_[i].name);
      jobs_[i].measure();
    }
    if (curves_.progress) curves_.progress(1, "done");
    return left;
  }

 private:
  struct Job {
    std::string name;  // of the curve, or rates
    std::function<void()> measure;
  };

  void add(const std::string& name, std::function<void()> measure) { jobs_.push_back({name, std::move(measure)}); }

  // A curve of the tasks of so many elements, and `factor` times as many.
  void add(std::int64_t least, std::int64_t most, std::int64_t factor, std::function<Program(std::int64_t)> of) {
    const Program first = of(least);
    const std::string name = task_curve(first, first.tasks[0]).name;
    add(name, [this, name, least, most, factor, of = std::move(of)] {
      std::vector<ProfilePoint> curve;
      for (std::int64_t n = least; n <= std::min(most, curves_.largest); n *= factor) {
        Program p = of(n);
        ProfileEntry e = time(p);
        curve.push_back(point_of(task_curve(p, p.tasks[0]).amount, e));
      }
      section_.curves[name] = curve;
    });
  }

  bool is_missing(const Job& job) const {
    if (job.name == "elementwise") return section_.elementwise_peak == 0;
    if (job.name == "matmul" || job.name == "memory") return !section_.efficiency.contains(job.name);
    return !section_.curves.contains(job.name);
  }
  bool late() const { return curves_.late && curves_.late(); }
  ProfileEntry time(const Program& p) const { return measure_task(p, TaskId(0), options_); }
  // In bf16, tensors of one dimension are held in f32: here it is activations that are moved.
  Dims block(std::int64_t elements) const {
    return options_.executor.precision == Precision::bf16 ? Dims{elements / 8, 8} : Dims{elements};
  }

  using Rates = std::vector<std::pair<double, double>>;  // amounts, and so much of them a second
  double add(Rates& list, const std::string& op, Attributes attributes, const std::vector<Shape>& inputs) {
    Program p = operator_program(op, std::move(attributes), inputs);
    double seconds = std::max(1e-9, time(p).warm), flops = p.tasks[0].flops;
    list.emplace_back(flops, flops / seconds);
    return seconds;
  }
  bool is_wanted(std::int64_t elements) const { return elements <= curves_.largest; }
  static double best(const Rates& list) {
    double rate = 0;
    for (auto [amount, r] : list) rate = std::max(rate, r);
    return rate;
  }
  // Fast devices need larger operands to show what they can do.
  bool is_fast() const {
    auto products = section_.efficiency.find("matmul");
    return products != section_.efficiency.end() && !products->second.empty() &&
           products->second.back().amount > kLarge;
  }

  void arithmetic() {
    Rates matmuls, convolutions;
    double last = 0;
    for (std::int64_t n = 16; n <= 8192 && (n <= 2048 || last < kLong) && is_wanted(n * n); n *= 2)
      last = add(matmuls, "matmul", {}, {{{n, n}}, {{n, n}}});
    const bool fast = !matmuls.empty() && matmuls.back().first > kLarge;
    for (std::int64_t batch = 1; batch <= (fast ? 64 : 1); batch *= 8)
      for (std::int64_t c = 8; c <= (fast ? 256 : 128); c *= 2)
        for (std::int64_t size : {8, 28, 56})
          if (is_wanted(batch * c * size * size))
            add(convolutions, "conv2d", {Dims{1, 1}, Dims{1, 1, 1, 1}}, {{{batch, c, size, size}}, {{c, c, 3, 3}}});
    section_.peak = std::max(best(matmuls), best(convolutions));
    section_.efficiency["matmul"] = fractions(matmuls, section_.peak);
    section_.efficiency["conv2d"] = fractions(convolutions, section_.peak);
  }

  void memory() {
    Rates copies;
    for (std::int64_t n = 1 << 10; n <= (is_fast() ? 1 << 28 : 1 << 25) && is_wanted(n); n *= 4) {
      try {
        ProfileEntry e = time(movement_program(TaskKind::copy, block(n)));
        copies.emplace_back(8.0 * static_cast<double>(n), 8.0 * static_cast<double>(n) / e.cold);
      } catch (const DoesNotFit&) {  // the largest ones take gigabytes
        if (copies.empty()) throw;
        break;
      }
    }
    section_.memory_bandwidth = best(copies);
    section_.efficiency["memory"] = fractions(copies, section_.memory_bandwidth);
  }

  void elementwise() {
    Rates functions;
    for (std::int64_t n = 1 << 10; n <= (is_fast() ? 1 << 26 : 1 << 18) && is_wanted(n); n *= 16)
      add(functions, "gelu", {}, {{{n}}});
    section_.elementwise_peak = best(functions);
  }

  ProfileSection& section_;
  const ProfileOptions& options_;
  const CurveOptions& curves_;
  std::vector<Job> jobs_;
};

// Copies of little in a row.
Program chain_of_copies(int tasks) {
  Program source = movement_program(TaskKind::copy, {16});
  return single_task_program(source, TaskId(0), {.sets = 1, .repeats = tasks, .flush = {}}).program;
}

constexpr int kSteps = 20, kTasks = 200;

ExecutorOptions on_one_device(const ProfileOptions& options) {
  ExecutorOptions how = options.executor;
  how.one_device = true;
  return how;
}

// Seconds of steps that are not traced, of few small tasks and of many.
struct SmallSteps {
  double each;    // one more task
  double beside;  // the tasks
};

// In turn, as clocks change; the medians.
SmallSteps small_steps(Executor& few, int few_tasks, Executor& many, int many_tasks) {
  constexpr int kWarmUp = 3;
  std::vector<double> shorter, longer;
  for (int step = 0; step < kSteps + kWarmUp; ++step)
    for (auto [executor, times] : {std::pair(&few, &shorter), std::pair(&many, &longer)}) {
      const double seconds = executor->step().seconds;
      if (step >= kWarmUp) times->push_back(seconds);
    }
  const double each = (median(longer) - median(shorter)) / (many_tasks - few_tasks);
  return {each, median(shorter) - few_tasks * each};
}

// Seconds between the end of a task and the start of the next on its stream, in the median of many. Where spans hold
// more than the task, as events on GPUs do, it is less than nothing: what a task of many in a row takes, less its span.
double between_tasks(const ProfileOptions& options) {
  Program program = chain_of_copies(kTasks);
  Executor executor(program, on_one_device(options));
  executor.step();
  std::vector<double> gaps, tasks;
  for (int step = 0; step < kSteps; ++step) {
    Trace trace = *executor.step(true).trace;
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
      tasks.push_back((trace.spans[i].end - trace.spans[i].start).seconds());
      if (i > 0) gaps.push_back((trace.spans[i].start - trace.spans[i - 1].end).seconds());
    }
  }
  if (!executor.tracing_costs()) return median(gaps);
  // What passes between traced tasks is not what passes between others: by how much longer a chain of twice as many
  // takes, less the tasks.
  Program longer = chain_of_copies(2 * kTasks);
  Executor twice(longer, on_one_device(options));
  return small_steps(executor, kTasks, twice, 2 * kTasks).each - median(tasks);
}

}  // namespace

double step_overhead(const ProfileOptions& options) {
  constexpr int kFew = 8;  // of which little is to be taken off
  Program few = chain_of_copies(kFew), many = chain_of_copies(kTasks);
  Executor shorter(few, on_one_device(options));
  if (!shorter.tracing_costs()) return 0;
  Executor longer(many, on_one_device(options));
  return std::max(0.0, small_steps(shorter, kFew, longer, kTasks).beside);
}

void measure_overheads(ProfileSection& section, const ProfileOptions& options) {
  section.task_overhead = between_tasks(options);
  std::vector<double> handovers;
  Program chain = handover_program(20, std::int64_t{1} << 20);
  Executor executor(chain, on_one_device(options));
  executor.step();
  for (int step = 0; step < 20; ++step) {
    Trace trace = *executor.step(true).trace;
    // Ends by task, on the device that passes on; starts on the other.
    std::vector<Picoseconds> start(chain.tasks.size()), end(chain.tasks.size());
    for (const Span& s : trace.spans) {
      const Task& task = chain.tasks[s.task.index()];
      if (task.kind == TaskKind::communicate && s.device == task.device) start[s.task.index()] = s.start;
      end[s.task.index()] = std::max(end[s.task.index()], s.end);
      if (task.kind != TaskKind::communicate) start[s.task.index()] = s.start;
    }
    for (std::size_t t = 1; t < chain.tasks.size(); ++t) handovers.push_back((start[t] - end[t - 1]).seconds());
  }
  section.handover = std::max(0.0, median(handovers));
}

int measure_curves(ProfileSection& section, const ProfileOptions& options, const CurveOptions& curves) {
  return Curves(section, options, curves).measure();
}

}  // namespace unity
