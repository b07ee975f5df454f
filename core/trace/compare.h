// A prediction laid over a measurement of the same Program, task by task.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/trace.h"

namespace unity {

// A task's time is the mean duration of its spans: a communication has one on each participant.
struct TaskComparison {
  TaskId task;
  std::string name;
  std::string group;
  Picoseconds predicted, measured;
};

struct GroupComparison {
  std::string group;  // for example "forward matmul"
  std::int64_t tasks = 0;
  Picoseconds predicted, measured;  // sums over the tasks
};

// Where a device's iteration goes. compute and communication are the times in which any span of that kind runs (they
// may overlap); idle is when none of any stream does: idle = iteration - |union of all spans|. Hidden is the part of
// the communication during which the device computes, hidden = |compute and communication|; the rest is exposed.
struct DeviceUse {
  DeviceId device;
  Picoseconds compute, communication, idle, hidden;
  Picoseconds copies;  // to and from the host, while it neither computes nor communicates
};
// By device number; of devices below `devices` also those that do nothing.
std::vector<DeviceUse> device_use(const Trace& trace, std::size_t devices = 0);

struct Comparison {
  Picoseconds predicted, measured;      // the iteration
  std::vector<TaskComparison> tasks;    // by task id; those with a span in both traces
  std::vector<GroupComparison> groups;  // by measured time, largest first
  std::vector<DeviceUse> predicted_use, measured_use;
  double mape = 0;      // mean of |predicted - measured| / measured over the tasks, as a fraction; measured 0 left out
  double spearman = 0;  // rank correlation of the tasks' times; 0 when either is constant
};

// `names` and `groups` by task id; too short lists leave names empty. Error when the traces are not of the same
// Program.
Result<Comparison> compare(const Trace& predicted, const Trace& measured, std::span<const std::string> names,
                           std::span<const std::string> groups);

// Spearman's rank correlation: Pearson's on ranks, ties get the mean rank.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace unity
