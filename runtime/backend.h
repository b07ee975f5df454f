// A backend holds the buffers of this process's devices and runs the tasks on them. The embedded default is the CPU;
// others are plug-ins.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/machine/precision.h"
#include "core/plan/program.h"
#include "core/trace/trace.h"
#include "runtime/comm/processes.h"
#include "runtime/host_tensor.h"

namespace unity {

// The element type in which the values of a tensor are read and written.
inline DType held_type(DType dtype, Precision precision) {
  return dtype == DType::f32 && precision == Precision::f64 ? DType::f64 : dtype;
}

struct StepInfo {
  std::uint64_t seed = 1;  // with `step`, keys random operators
  // Counts from 0. Of a Program of several iterations: of the first; those of a task are Task::iteration later.
  std::int64_t step = 0;
  double rate_factor = 1;  // of the optimizer's learning rate
  bool trace = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // One iteration: every task of this process's devices, after those that it depends on. The spans of the tasks when
  // traced, counted from the call, in any order. What a task throws comes with the task's name; ProcessFailure when
  // another process gave up.
  virtual std::vector<Span> step(const StepInfo& info) = 0;
  // Between steps: the values of a buffer of one of this process's devices, dense, in held_type().
  virtual void read(BufferId buffer, void* to) = 0;
  virtual void write(BufferId buffer, const void* from) = 0;
  // write() of the first `count` values over and over, `count` below what the buffer holds. False, and nothing is done,
  // where there is no faster way than write().
  virtual bool write_repeated(BufferId /*buffer*/, const void* /*from*/, std::int64_t /*count*/) { return false; }
  // write() in two parts: what a thread may do while another one runs a step, the values as the backend holds them;
  // and, between steps, these written.
  virtual std::vector<std::byte> held_form(BufferId /*buffer*/, std::vector<std::byte> values) const { return values; }
  virtual void write_held(BufferId buffer, const std::vector<std::byte>& values) { write(buffer, values.data()); }
  // Whether the host's processors have nothing of their own to do during a step.
  virtual bool leaves_host_free() const { return false; }
  // Whether a traced step takes longer than others.
  virtual bool tracing_costs() const { return false; }
  // Where the values lie, if host code can reach them; else null.
  virtual void* host_memory(BufferId /*buffer*/) { return nullptr; }
  // Bytes that the buffers of each device of the program take together.
  virtual std::vector<Bytes> memory() const = 0;
};

// One device of this machine.
struct DeviceDescription {
  std::string name;  // in words
  Bytes cache;       // the largest, which its parts share
  int count = 1;     // of such devices, each for itself, that this process has
};

struct BackendOptions {
  Precision precision = Precision::f32;
  int threads = 0;           // per logical device; 0 shares the cores of the process out fairly to its devices
  bool share_memory = true;  // buffers that are never in use at the same time (core/plan/memory_plan.h)
  bool one_device = false;   // of the machine for all logical devices of the process, however many there are
};

// "cpu", or a plug-in: libunity_NAME.so (runtime/plugin.h) with an entry point unity_make_NAME_backend. `program` and
// `processes` must outlive the backend. InputError when the backend is unknown or not in this build (says how to get
// it).
std::unique_ptr<Backend> make_backend(const std::string& name, const Program& program, Processes& processes,
                                      const BackendOptions& options = {});

// The device that a backend runs on here. InputError as of make_backend.
DeviceDescription describe_device(const std::string& backend);

}  // namespace unity
