#include "runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/ops/leaves.h"
#include "core/plan/row_updates.h"
#include "runtime/comm/collectives.h"
#include "runtime/comm/wait.h"
#include "runtime/cpu/blocks.h"

namespace unity {

HostTensor real_tensor(Dims dims) {
  HostTensor t{std::move(dims), DType::f64, {}, {}};
  t.reals.assign(static_cast<std::size_t>(t.elements()), 0.0);
  return t;
}

HostTensor index_tensor(Dims dims) {
  HostTensor t{std::move(dims), DType::i32, {}, {}};
  t.indices.assign(static_cast<std::size_t>(t.elements()), 0);
  return t;
}

struct Executor::Implementation {
  // The tasks of one stream of one device, run by one thread.
  struct Lane {
    DeviceId device;
    Stream stream = Stream::compute;
    std::vector<TaskId> tasks;
    std::vector<std::size_t> participant;  // of communications: which one this device is
    std::vector<Span> spans;
  };

  Implementation(const Program& p, const ExecutorOptions& o)
      : program(p),
        options(o),
        backend(make_backend(o.backend, p, {o.precision, o.threads, o.share_memory})),
        communicator(make_thread_communicator(p.devices)),
        done(p.tasks.size()) {
    build_lanes();
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      BufferId id(static_cast<std::int64_t>(b));
      const ProgramTensor& tensor = p.tensor_of(id);
      if (p.buffers[b].category == BufferCategory::weight && tensor.leaf >= 0)
        weight_buffers[tensor.name].push_back(id);
      if (p.buffers[b].category == BufferCategory::optimizer_state) optimizer_buffers[tensor.name].push_back(id);
      if (p.buffers[b].category == BufferCategory::input) input_buffers[tensor.name].push_back(id);
    }
    std::vector<BufferId> weights;
    for (auto& [name, buffers] : weight_buffers) weights.insert(weights.end(), buffers.begin(), buffers.end());
    parallel_for(weights.size(), 0, [&](std::size_t i) { initialize(weights[i]); });
    for (const Task& t : p.tasks)
      if (is_row_update(t))
        row_updates[p.tensor_of(p.operands_of(t)[0]).name].push_back(t);
      else if (t.kind == TaskKind::update)
        gradient_buffers[p.tensor_of(p.operands_of(t)[0]).name].push_back(p.operands_of(t)[1]);
    threads.reserve(lanes.size());
    for (Lane& lane : lanes) threads.emplace_back([this, &lane] { serve(lane); });
  }

  ~Implementation() {
    {
      std::lock_guard lock(mutex);
      quit = true;
    }
    changed.notify_all();
    for (std::thread& t : threads) t.join();
  }

  void build_lanes() {
    std::map<std::pair<int, bool>, std::size_t> index;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      TaskId id(static_cast<std::int64_t>(t));
      bool communicates = program.tasks[t].kind == TaskKind::communicate;
      std::vector<DeviceId> devices = program.devices_of(id);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        auto [it, inserted] = index.try_emplace({devices[i].value, communicates}, lanes.size());
        if (inserted) lanes.push_back({devices[i], communicates ? Stream::communication : Stream::compute, {}, {}, {}});
        lanes[it->second].tasks.push_back(id);
        lanes[it->second].participant.push_back(i);
      }
    }
    waits.resize(program.tasks.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t)
      waits[t] = static_cast<int>(program.devices_of(TaskId(static_cast<std::int64_t>(t))).size());
  }

  DType type_of(BufferId id) const { return held_type(program.tensor_of(id).dtype, options.precision); }

  void initialize(BufferId id) const {
    const ProgramLeaf& leaf = program.leaves[static_cast<std::size_t>(program.tensor_of(id).leaf)];
    RandomKey key = RandomKey(options.seed).with(static_cast<std::uint64_t>(leaf.origin.value));
    fill_reals(id, [&](std::int64_t logical) { return initial_weight(leaf.attributes, key, logical); });
  }

  // Calls f(row-major position in the logical tensor, position in the buffer) for every element.
  template <class F>
  void visit(BufferId id, F&& f) const {
    const Box& box = program.buffer(id).box;
    const Dims& dims = program.tensor_of(id).dims;
    std::int64_t n = box.elements(), row = box.rank() ? box.extent.back() : 1;
    Dims index(box.rank(), 0);
    for (std::int64_t begin = 0; begin < n; begin += row) {
      std::int64_t logical = 0;
      for (std::size_t d = 0; d < box.rank(); ++d)
        logical = logical * dims[d] + box.offset[d] + (d + 1 == box.rank() ? 0 : index[d]);
      for (std::int64_t i = 0; i < row; ++i) f(logical + i, begin + i);
      for (std::size_t d = box.rank() < 2 ? 0 : box.rank() - 1; d-- > 0;) {
        if (++index[d] < box.extent[d]) break;
        index[d] = 0;
      }
    }
  }

  // Sets every element of a buffer of reals to value(row-major position in the logical tensor).
  template <class F>
  void fill_reals(BufferId id, F&& value) const {
    auto write = [&]<class T>(T* data) {
      visit(id, [&](std::int64_t logical, std::int64_t local) { data[local] = static_cast<T>(value(logical)); });
    };
    if (type_of(id) == DType::f64)
      write(static_cast<double*>(backend->data(id)));
    else
      write(static_cast<float*>(backend->data(id)));
  }
  double read(BufferId id, std::int64_t i) const {
    const void* data = backend->data(id);
    switch (type_of(id)) {
      case DType::f64:
        return static_cast<const double*>(data)[i];
      case DType::i32:
        return static_cast<const std::int32_t*>(data)[i];
      default:
        return static_cast<double>(static_cast<const float*>(data)[i]);
    }
  }

  // The gradient that updates by rows of one weight do not form.
  HostTensor row_gradient(const std::vector<Task>& updates) const {
    HostTensor t = real_tensor(program.tensor_of(program.operands_of(updates[0])[0]).dims);
    for (const Task& update : updates) {
      auto operands = program.operands_of(update);
      const Box& box = program.buffer(operands[0]).box;
      double factor = row_update_factor(program, update);
      for_each_updated(
          program, update, [&](std::int64_t i) { return static_cast<std::int64_t>(read(operands[1], i)); },
          [&](std::int64_t to, std::int64_t from) {
            std::int64_t row = box.offset[0] + to / box.extent[1], column = box.offset[1] + to % box.extent[1];
            t.reals[static_cast<std::size_t>(row * t.dims[1] + column)] += factor * read(operands[2], from);
          });
    }
    return t;
  }

  // Puts a logical tensor together; buffers of the same box are copies (take) or summands (add).
  HostTensor assemble(const Dims& dims, const std::vector<BufferId>& buffers, bool add) const {
    HostTensor t = real_tensor(dims);
    for (BufferId id : buffers)
      visit(id, [&](std::int64_t logical, std::int64_t local) {
        double x = read(id, local);
        double& to = t.reals[static_cast<std::size_t>(logical)];
        to = add ? to + x : x;
      });
    return t;
  }

  void fill(const std::vector<BufferId>& buffers, const HostTensor& value) const {
    for (BufferId id : buffers) {
      if (type_of(id) == DType::i32) {
        auto* data = static_cast<std::int32_t*>(backend->data(id));
        visit(id, [&](std::int64_t logical, std::int64_t local) {
          data[local] = value.indices[static_cast<std::size_t>(logical)];
        });
      } else {
        fill_reals(id, [&](std::int64_t logical) { return value.reals[static_cast<std::size_t>(logical)]; });
      }
    }
  }

  void assign(const std::vector<BufferId>& buffers, const char* what, const HostTensor& value) const {
    const ProgramTensor& tensor = program.tensor_of(buffers[0]);
    if (value.dims != tensor.dims)
      throw_input_error("{} '{}': found [{}], expected [{}]", what, tensor.name, fmt::join(value.dims, ", "),
                        fmt::join(tensor.dims, ", "));
    fill(buffers, value);
  }

  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - epoch).count() *
           1000;
  }

  // A lane's thread: waits for a step, runs its tasks, reports.
  void serve(Lane& lane) {
    std::int64_t served = 0;
    while (true) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return quit || started > served; });
        if (quit) return;
        served = started;
      }
      lane.spans.clear();
      for (std::size_t i = 0; i < lane.tasks.size() && !failed.load(); ++i)
        if (!run(lane, i)) break;
      {
        std::lock_guard lock(mutex);
        if (++finished == lanes.size()) changed.notify_all();
      }
    }
  }

  bool run(Lane& lane, std::size_t i) {
    TaskId id = lane.tasks[i];
    const Task& task = program.tasks[id.index()];
    try {
      for (TaskId d : program.dependencies_of(task)) wait_for(d);
      std::int64_t start = tracing ? now() : 0;
      if (task.kind == TaskKind::communicate) {
        const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
        const Participant& p = c.participants[lane.participant[i]];
        CollectiveBuffers buffers;
        if (p.send.valid()) buffers.send = backend->data(p.send), buffers.send_box = program.buffer(p.send).box;
        if (p.receive.valid())
          buffers.receive = backend->data(p.receive), buffers.receive_box = program.buffer(p.receive).box;
        run_collective(c, lane.participant[i], buffers, held_type(c.dtype, options.precision), *communicator,
                       static_cast<std::int64_t>(id.value) << 12);
      } else {
        backend->run(id, options.seed, step);
      }
      if (tracing) lane.spans.push_back({id, lane.device, static_cast<std::uint8_t>(lane.stream), {start}, {now()}});
      if (done[id.index()].fetch_sub(1) == 1) announce();
      return true;
    } catch (const Cancelled&) {
    } catch (const std::exception& e) {
      std::lock_guard lock(mutex);
      if (!failed.exchange(true))
        failure = fmt::format("task {} ({}) on device {}: {}", id, program.task_name(id), lane.device, e.what());
      communicator->cancel();
      announce();
    }
    return false;
  }

  void wait_for(TaskId id) {
    if (wait_briefly([&] { return done[id.index()].load() == 0; })) return;
    std::unique_lock lock(done_mutex);
    waiting.fetch_add(1);
    done_changed.wait(lock, [&] { return done[id.index()].load() == 0 || failed.load(); });
    waiting.fetch_sub(1);
    if (done[id.index()].load() != 0) throw Cancelled();
  }

  void announce() {
    if (waiting.load() == 0) return;
    { std::lock_guard lock(done_mutex); }
    done_changed.notify_all();
  }

  StepResult run_step(bool trace) {
    tracing = trace;
    failed = false;
    epoch = std::chrono::steady_clock::now();
    for (std::size_t t = 0; t < done.size(); ++t) done[t].store(waits[t]);
    {
      std::lock_guard lock(mutex);
      finished = 0;
      ++started;
    }
    changed.notify_all();
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return finished == lanes.size(); });
    }
    if (failed.load()) {
      communicator->reset();
      throw std::runtime_error(failure);
    }
    ++step;
    StepResult result;
    if (!program.outputs.empty() && program.outputs[0].dims.empty())
      result.loss = assemble({}, program.outputs[0].buffers, true).reals[0];
    if (trace) {
      Trace t;
      t.source = "measured";
      t.program = program_hash(program);
      for (const Lane& lane : lanes) t.spans.insert(t.spans.end(), lane.spans.begin(), lane.spans.end());
      std::sort(t.spans.begin(), t.spans.end(), [](const Span& a, const Span& b) {
        return std::tie(a.start, a.task, a.device) < std::tie(b.start, b.task, b.device);
      });
      if (!t.spans.empty()) {
        Picoseconds first = t.spans[0].start;
        for (Span& s : t.spans) {
          s.start = s.start - first, s.end = s.end - first;
          t.iteration = std::max(t.iteration, s.end);
        }
      }
      result.trace = std::move(t);
    }
    return result;
  }

  const std::vector<BufferId>& find(const std::map<std::string, std::vector<BufferId>>& buffers,
                                    const std::string& name, const char* what) const {
    auto it = buffers.find(name);
    if (it != buffers.end()) return it->second;
    std::vector<std::string> names;
    for (const auto& [key, value] : buffers) names.push_back(key);
    throw_input_error("program {} has no {} '{}'{}", program.name, what, name, suggestion(name, names));
  }

  const Program& program;
  ExecutorOptions options;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> communicator;
  std::vector<Lane> lanes;
  std::vector<int> waits;              // by task: how many lanes run it
  std::vector<std::atomic<int>> done;  // by task: lanes that have not run it yet in this step
  std::map<std::string, std::vector<BufferId>> weight_buffers, optimizer_buffers, input_buffers, gradient_buffers;
  std::map<std::string, std::vector<Task>> row_updates;  // by weight; no such weight has a gradient buffer
  std::int64_t step = 0;

  std::mutex mutex;
  std::condition_variable changed;  // a step starts or ends
  std::int64_t started = 0;
  std::size_t finished = 0;
  bool quit = false;
  std::mutex done_mutex;
  std::condition_variable done_changed;  // a task is done
  std::atomic<int> waiting{0};
  std::atomic<bool> failed{false};
  std::string failure;
  bool tracing = false;
  std::chrono::steady_clock::time_point epoch;
  std::vector<std::thread> threads;
};

Executor::Executor(const Program& program, const ExecutorOptions& options)
    : implementation_(std::make_unique<Implementation>(program, options)) {}
Executor::~Executor() = default;

void Executor::set_input(const std::string& name, const HostTensor& value) {
  const auto& buffers = implementation_->find(implementation_->input_buffers, name, "input");
  const ProgramTensor& tensor = implementation_->program.tensor_of(buffers[0]);
  bool indices = tensor.dtype == DType::i32;
  if (value.dims != tensor.dims || indices != (value.dtype == DType::i32))
    throw_input_error("input '{}': found {}[{}], expected {}", name, to_string(value.dtype),
                      fmt::join(value.dims, ", "), to_string(Shape{tensor.dims, tensor.dtype}));
  implementation_->fill(buffers, value);
}

std::vector<ProgramLeaf> Executor::inputs() const {
  std::vector<ProgramLeaf> list;
  for (const ProgramLeaf& leaf : implementation_->program.leaves)
    if (implementation_->input_buffers.contains(leaf.name)) list.push_back(leaf);
  return list;
}

void Executor::set_learning_rate_factor(double factor) { implementation_->backend->set_learning_rate_factor(factor); }

StepResult Executor::step(bool trace) { return implementation_->run_step(trace); }
std::int64_t Executor::steps_done() const { return implementation_->step; }
void Executor::set_steps_done(std::int64_t steps) { implementation_->step = steps; }
const ExecutorOptions& Executor::options() const { return implementation_->options; }

HostTensor Executor::output(std::size_t index) const {
  const ProgramOutput& out = implementation_->program.outputs.at(index);
  return implementation_->assemble(out.dims, out.buffers, true);
}

HostTensor Executor::weight(const std::string& name) const {
  const auto& buffers = implementation_->find(implementation_->weight_buffers, name, "weight");
  return implementation_->assemble(implementation_->program.tensor_of(buffers[0]).dims, buffers, false);
}

HostTensor Executor::gradient(const std::string& name) const {
  if (auto found = implementation_->row_updates.find(name); found != implementation_->row_updates.end())
    return implementation_->row_gradient(found->second);
  const auto& buffers = implementation_->find(implementation_->gradient_buffers, name, "gradient of a weight");
  return implementation_->assemble(implementation_->program.tensor_of(buffers[0]).dims, buffers, false);
}

void Executor::set_weight(const std::string& name, const HostTensor& value) {
  implementation_->assign(implementation_->find(implementation_->weight_buffers, name, "weight"), "weight", value);
}

std::vector<StateTensor> Executor::state() const {
  std::vector<StateTensor> list;
  for (const auto* buffers : {&implementation_->weight_buffers, &implementation_->optimizer_buffers})
    for (const auto& [name, ids] : *buffers) {
      const ProgramTensor& tensor = implementation_->program.tensor_of(ids[0]);
      bool constant = tensor.leaf >= 0 && !tensor.origin.valid();  // of the lowering, such as the loss's own gradient
      if (!constant) list.push_back({name, tensor.dims});
    }
  return list;
}

HostTensor Executor::state(const std::string& name) const {
  if (implementation_->weight_buffers.contains(name)) return weight(name);
  const auto& buffers = implementation_->find(implementation_->optimizer_buffers, name, "weight or optimizer state");
  return implementation_->assemble(implementation_->program.tensor_of(buffers[0]).dims, buffers, false);
}

void Executor::set_state(const std::string& name, const HostTensor& value) {
  if (implementation_->weight_buffers.contains(name)) return set_weight(name, value);
  implementation_->assign(implementation_->find(implementation_->optimizer_buffers, name, "weight or optimizer state"),
                          "state", value);
}

std::vector<std::string> Executor::weight_names() const {
  std::vector<std::string> names;
  for (const ProgramLeaf& leaf : implementation_->program.leaves)
    if (implementation_->gradient_buffers.contains(leaf.name) || implementation_->row_updates.contains(leaf.name))
      names.push_back(leaf.name);
  return names;
}

std::vector<Bytes> Executor::memory() const { return implementation_->backend->memory(); }

}  // namespace unity
