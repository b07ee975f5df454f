#include "core/trace/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace unity {
namespace {

struct Mean {
  std::int64_t sum = 0, count = 0;
  Picoseconds value() const { return {(sum + count / 2) / count}; }
};

std::map<TaskId, Mean> task_times(const Trace& trace) {
  std::map<TaskId, Mean> times;
  for (const Span& s : trace.spans) {
    Mean& mean = times[s.task];
    mean.sum += (s.end - s.start).count;
    ++mean.count;
  }
  return times;
}

std::string at(std::span<const std::string> list, TaskId task) {
  return task.index() < list.size() ? list[task.index()] : std::string();
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t i = 0, end = 0; i < order.size(); i = end) {
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k)
      result[order[k]] = (static_cast<double>(i) + static_cast<double>(end) - 1) / 2;
  }
  return result;
}

// The length of the union of intervals sorted by start.
class Cover {
 public:
  void add(Picoseconds start, Picoseconds end) {
    if (start > end_) end_ = start;
    if (end > end_) length_ += end - end_, end_ = end;
  }
  Picoseconds length() const { return length_; }

 private:
  Picoseconds length_, end_{std::numeric_limits<std::int64_t>::min()};
};

}  // namespace

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  UNITY_CHECK(a.size() == b.size(), "{} and {} values", a.size(), b.size());
  std::vector<double> x = ranks(a), y = ranks(b);
  double mean = (static_cast<double>(a.size()) - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

std::vector<DeviceUse> device_use(const Trace& trace, std::size_t devices) {
  struct Covers {
    Cover all, compute, communication, either;
  };
  std::vector<Span> spans = trace.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  std::map<DeviceId, Covers> covers;
  for (std::size_t d = 0; d < devices; ++d) covers[DeviceId(static_cast<std::int64_t>(d))];
  for (const Span& s : spans) {
    Covers& c = covers[s.device];
    c.all.add(s.start, s.end);
    if (s.stream == 0) c.compute.add(s.start, s.end);
    if (s.stream == 1) c.communication.add(s.start, s.end);
    if (s.stream <= 1) c.either.add(s.start, s.end);
  }
  std::vector<DeviceUse> use;
  for (const auto& [device, c] : covers)
    use.push_back({device, c.compute.length(), c.communication.length(), trace.iteration - c.all.length(),
                   c.compute.length() + c.communication.length() - c.either.length(),
                   c.all.length() - c.either.length()});
  return use;
}

Result<Comparison> compare(const Trace& predicted, const Trace& measured, std::span<const std::string> names,
                           std::span<const std::string> groups) {
  if (predicted.program != measured.program)
    return fail("traces of different programs: {:016x} is {}, {:016x} is {}", predicted.program, predicted.source,
                measured.program, measured.source);
  Comparison result;
  result.predicted = predicted.iteration;
  result.measured = measured.iteration;
  result.predicted_use = device_use(predicted);
  result.measured_use = device_use(measured);
  std::map<TaskId, Mean> left = task_times(predicted), right = task_times(measured);
  std::map<std::string, GroupComparison> by_group;
  std::vector<double> p, m;
  double error = 0;
  std::int64_t counted = 0;
  for (const auto& [task, time] : left) {
    auto other = right.find(task);
    if (other == right.end()) continue;
    TaskComparison row{task, at(names, task), at(groups, task), time.value(), other->second.value()};
    GroupComparison& group = by_group[row.group];
    group.group = row.group;
    ++group.tasks;
    group.predicted += row.predicted;
    group.measured += row.measured;
    p.push_back(static_cast<double>(row.predicted.count));
    m.push_back(static_cast<double>(row.measured.count));
    if (row.measured.count > 0) error += std::abs(p.back() - m.back()) / m.back(), ++counted;
    result.tasks.push_back(std::move(row));
  }
  for (auto& [name, group] : by_group) result.groups.push_back(std::move(group));
  std::stable_sort(result.groups.begin(), result.groups.end(),
                   [](const GroupComparison& a, const GroupComparison& b) { return a.measured > b.measured; });
  if (counted) result.mape = error / static_cast<double>(counted);
  result.spearman = spearman(p, m);
  return result;
}

}  // namespace unity
