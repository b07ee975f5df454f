// Measuring a device: the times of tasks, alone on it, and the curves of a profile (core/machine/profile.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/machine/profile.h"
#include "runtime/executor.h"

namespace unity {

struct ProfileOptions {
  ExecutorOptions executor;   // threads: of the section; at least 1
  double task_seconds = 0.1;  // at most so long on a task, but for its least number of runs
  Bytes cache;                // of the device (describe_device)
  double task_overhead = 0;   // of the section (ProfileSection)
  double step_overhead = 0;   // of the section, likewise
};

// The median over many runs of one task of the program, alone in a Program of its own. `held`: as of SingleTaskOptions.
// Where tracing takes time, short tasks, and updates, which such a backend joins unless they are traced, are measured
// in steps that are not: many in a row, by their number; less options.task_overhead, which the simulator adds to all
// tasks but communications. All logical devices are on one of the machine.
ProfileEntry measure_task(const Program& program, TaskId task, const ProfileOptions& options,
                          const std::vector<DType>* held = nullptr);

// The same of a communication among its devices where they lie, in one process or several, which all call it and get
// the same. Several runs in a row count as one: from the end of the first to that of the last, by their number. Between
// processes and GPUs what an answer takes (SingleTaskOptions) is measured apart, and taken off; the caches are then
// what they are.
ProfileEntry measure_collective(const Program& program, TaskId task, const ProfileOptions& options,
                                const std::vector<DType>* held = nullptr);

// What each of `all` tasks takes that share launches, where one takes `alone`, and each of `some` >= 2 of them `each`:
// n take what is shared and n times their own.
double each_of_more(double alone, double each, int some, int all);

// What rank 0 decided, in all processes.
std::int64_t agreed(Processes& processes, std::int64_t value);

// What a step takes beside its tasks when it is not traced, in seconds, as StepResult has it; 0 where tracing takes no
// time.
double step_overhead(const ProfileOptions& options);

// What passes between two tasks of a stream, and from one stream to another.
void measure_overheads(ProfileSection& section, const ProfileOptions& options);

struct CurveOptions {
  int devices = 4;                   // the largest group of collectives
  bool again = true;                 // also what the section has; with `late`, only where it has all
  std::int64_t largest = 1ll << 62;  // elements of an operand
  std::function<bool()> late;        // whether the time is over: what was not begun is not measured
  std::function<void(double, const std::string&)> progress;  // the fraction done, and what comes next
};

// Peak rates, efficiencies and the curves of all kinds of tasks. Returns how many curves, the rates being one, it was
// too late for.
int measure_curves(ProfileSection& section, const ProfileOptions& options, const CurveOptions& curves);

}  // namespace unity
