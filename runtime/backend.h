// A backend runs the tasks of a Program on one kind of device. The embedded default is the CPU; others are plug-ins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/plan/program.h"
#include "runtime/host_tensor.h"

namespace unity {

enum class Precision : std::uint8_t { f32, f64 };

// The element type in which a tensor of the program is held.
inline DType held_type(DType dtype, Precision precision) {
  return dtype == DType::f32 && precision == Precision::f64 ? DType::f64 : dtype;
}

// Buffers of all logical devices of this process, and the tasks on them. Tasks of different devices may run
// concurrently.
class Backend {
 public:
  virtual ~Backend() = default;
  // compute, copy, accumulate, zero, update. `step` counts from 0; `seed` and `step` key random operators.
  virtual void run(TaskId task, std::uint64_t seed, std::int64_t step) = 0;
  // Host memory of a buffer, for collectives and for reading and writing values.
  virtual void* data(BufferId buffer) = 0;
  // Bytes that the buffers of each device take together.
  virtual std::vector<Bytes> memory() const = 0;

  // What updates multiply the optimizer's learning rate with; set between steps.
  void set_learning_rate_factor(double factor) { learning_rate_factor_ = factor; }
  double learning_rate_factor() const { return learning_rate_factor_; }

 private:
  double learning_rate_factor_ = 1;
};

struct BackendOptions {
  Precision precision = Precision::f32;
  int threads = 0;  // per logical device; 0 shares the cores of the process out fairly to the program's devices
  bool share_memory = true;  // buffers that are never in use at the same time (core/plan/memory_plan.h)
};

// `program` must outlive the backend. InputError when the backend is unknown or not in this build (says how to get it).
std::unique_ptr<Backend> make_backend(const std::string& name, const Program& program,
                                      const BackendOptions& options = {});

}  // namespace unity
