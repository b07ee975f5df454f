// A Program's values and its steps, on this process's logical devices and those of the processes beside it. Where there
// are several processes, each makes the same calls in the same order; what comes out is the same in all.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plan/program.h"
#include "core/trace/trace.h"
#include "runtime/backend.h"
#include "runtime/host_tensor.h"

namespace unity {

struct ExecutorOptions {
  std::string backend = "cpu";
  Precision precision = Precision::f32;
  std::uint64_t seed = 1;
  int threads = 0;                 // per logical device; 0: a fair share of the cores
  bool share_memory = true;        // of buffers that are never in use at the same time
  Processes* processes = nullptr;  // none: this one alone
  bool initialize = true;          // else weights hold nothing in particular until they are set
  bool one_device = false;         // as of BackendOptions
};

struct StepResult {
  double loss = 0;
  double seconds = 0;  // that the tasks of this process took together, as it saw it
  std::optional<Trace> trace;
};

// Every process is a reader.
constexpr int kEveryone = -1;

// A logical tensor that training changes.
struct StateTensor {
  std::string name;
  Dims dims;
  bool operator==(const StateTensor&) const = default;
};

// Copies of a weight that must have the same bits have not: memory or messages were damaged, or two devices computed
// differently.
struct ReplicasDiffer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A batch as the devices of this process hold it.
struct HeldBatch {
  std::vector<std::pair<BufferId, std::vector<std::byte>>> blocks;
};

class Executor {
 public:
  // `program` must outlive the executor. Weights get their initial values (by seed and origin: the same under every
  // plan), optimizer states zero.
  explicit Executor(const Program& program, const ExecutorOptions& options = {});
  ~Executor();

  // The next batch: a whole logical tensor by the name of the input. InputError on an unknown name or another shape. A
  // Program of several iterations takes one for each.
  void set_input(const std::string& name, const HostTensor& value, int iteration = 0);
  // The same of several inputs in two parts: what a thread may do while another one runs a step; and, between steps,
  // the rest, which is a copy.
  HeldBatch prepare(const std::map<std::string, HostTensor>& batch) const;
  void set_inputs(const HeldBatch& batch);
  // Whether the host's processors have nothing of their own to do during a step: then there is time for prepare().
  bool leaves_host_free() const;
  // As set_input(), of an input or a weight where only the kind of its values matters: each block holds `values` (of
  // one dimension, at least one) over and over, in the order of its memory. InputError on an unknown name or another
  // element type.
  void repeat_values(const std::string& name, const HostTensor& values);
  std::vector<ProgramLeaf> inputs() const;

  // What the next steps multiply the optimizer's learning rate with.
  void set_learning_rate_factor(double factor);

  // One run of the Program: a step for each of its iterations; the loss is of the last. A task that throws stops all;
  // what it says is rethrown with the task's name, InputError as such. ProcessFailure when another process gave up.
  StepResult step(bool trace = false);
  std::int64_t steps_done() const;
  // Steps done in an earlier run: the next one draws its random numbers, and corrects Adam's bias, as the one after
  // them.
  void set_steps_done(std::int64_t steps);

  // An output of the graph (0: the loss; those of the second iteration follow the first's), summed over its summands
  // and put together from its shards.
  HostTensor output(std::size_t index) const;
  // Only `reader`, a rank, gets the values of this and the next two; the others hand out their parts and get nothing.
  HostTensor weight(const std::string& name, int reader = kEveryone) const;
  // As the optimizer read it in the last step.
  HostTensor gradient(const std::string& name, int reader = kEveryone) const;
  // In all its versions, where there are several (delayed_weights.h); weight() is what the next step's passes read.
  void set_weight(const std::string& name, const HostTensor& value);
  std::vector<std::string> weight_names() const;
  // Whether traced steps take longer than others.
  bool tracing_costs() const;
  // Bytes of all buffers of each device.
  std::vector<Bytes> memory() const;

  // All that a later run needs to go on: the weights, then the optimizer's states ("NAME.state0"), each by name. Values
  // are read and written exactly as they are held (a double holds both precisions).
  std::vector<StateTensor> state() const;
  HostTensor state(const std::string& name, int reader = kEveryone) const;
  void set_state(const std::string& name, const HostTensor& value);
  // Whether this process has a part of it; set_state of others does nothing.
  bool holds(const std::string& name) const;
  // Compares all copies of each block of the weights and the optimizer's states, bit for bit, on whatever devices they
  // are. Throws ReplicasDiffer in every process, with the first that differs, its devices and ranks.
  void check_replicas() const;
  Processes& processes() const;
  const ExecutorOptions& options() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace unity
