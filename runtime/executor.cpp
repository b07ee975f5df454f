#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <span>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/ops/leaves.h"
#include "core/plan/delayed_weights.h"
#include "core/plan/repeat.h"
#include "core/plan/row_updates.h"
#include "runtime/cpu/threads.h"

namespace unity {

struct Executor::Implementation {
  Implementation(const Program& p, const ExecutorOptions& o)
      : program(p),
        options(o),
        alone(o.processes ? nullptr : std::make_unique<Processes>()),
        processes(o.processes ? *o.processes : *alone) {
    processes.require_devices(p.devices);
    if (processes.size() > 1)
      processes.require_equal("the plan as lowered, its precision and seed",
                              fmt::format("{:016x} in {} from {}{}", program_hash(p), to_string(o.precision), o.seed,
                                          o.threads > 0 ? fmt::format(" on {} threads a device", o.threads) : ""));
    backend = make_backend(o.backend, p, processes, {o.precision, threads(), o.share_memory, o.one_device});
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      BufferId id(static_cast<std::int64_t>(b));
      const ProgramTensor& tensor = p.tensor_of(id);
      if (p.buffers[b].category == BufferCategory::weight && tensor.leaf >= 0)
        weight_buffers[tensor.name].push_back(id);
      if (p.buffers[b].category == BufferCategory::optimizer_state && !p.buffers[b].staged)
        optimizer_buffers[tensor.name].push_back(id);
      if (p.buffers[b].category == BufferCategory::input) input_buffers[tensor.name].push_back(id);
    }
    std::vector<BufferId> weights;
    for (auto& [name, buffers] : weight_buffers)
      std::copy_if(buffers.begin(), buffers.end(), std::back_inserter(weights), [&](BufferId id) { return here(id); });
    if (o.initialize) parallel_for(weights.size(), 0, [&](std::size_t i) { initialize(weights[i]); });
    for (const Task& t : p.tasks) {
      if (t.iteration + 1 < p.iterations) continue;
      if (is_row_update(t))
        row_updates[updated_weight(t)].push_back(t);
      else if (t.kind == TaskKind::update)
        gradient_buffers[updated_weight(t)].push_back(p.operands_of(t)[1]);
    }
  }

  // Of each device, the same in all processes, as the order of sums depends on it: the least of the nodes' fair shares.
  int threads() const {
    if (options.threads > 0 || processes.size() == 1) return options.threads;
    struct Share {
      int node = 0, devices = 0, cores = 0;
    };
    Share mine{processes.node(), processes.count(program.devices), cpu::available_cores()};
    std::map<int, Share> nodes;
    for (const std::vector<std::byte>& bytes : processes.all_gather(std::as_bytes(std::span(&mine, 1)), "the nodes")) {
      Share share;
      UNITY_CHECK(bytes.size() == sizeof share, "a process sent {} bytes", bytes.size());
      std::memcpy(&share, bytes.data(), sizeof share);
      Share& node = nodes.try_emplace(share.node, Share{share.node, 0, 0}).first->second;
      node.devices += share.devices, node.cores = std::max(node.cores, share.cores);
    }
    int least = std::numeric_limits<int>::max();
    for (const auto& [rank, node] : nodes) least = std::min(least, node.cores / std::max(1, node.devices));
    return std::max(1, least);
  }

  // The weight's name, whichever of its versions the task updates (delayed_weights.h).
  std::string updated_weight(const Task& update) const {
    const ProgramTensor& tensor = program.tensor_of(program.operands_of(update)[0]);
    return tensor.leaf >= 0 ? program.leaves[static_cast<std::size_t>(tensor.leaf)].name : tensor.name;
  }

  // For messages: what processes wait for outside of tasks.
  std::string gather_of(const std::string& what) const {
    return fmt::format("the gather of {} after step {}", what, step);
  }

  int owner(BufferId id) const { return processes.owner(program.buffer(id).device, program.devices); }
  bool here(BufferId id) const { return owner(id) == processes.rank(); }
  std::size_t bytes(BufferId id) const {
    return static_cast<std::size_t>(program.buffer(id).box.elements() * size_of(type_of(id)));
  }
  DType type_of(BufferId id) const { return held_type(program.tensor_of(id).dtype, options.precision); }

  void initialize(BufferId id) const {
    const ProgramLeaf& leaf = program.leaves[static_cast<std::size_t>(program.tensor_of(id).leaf)];
    RandomKey key = RandomKey(options.seed).with(static_cast<std::uint64_t>(leaf.origin.value));
    fill_reals(id, [&](std::int64_t logical) { return initial_weight(leaf.attributes, key, logical); });
  }

  // The last dimension of a block: what lies in one run both there and in the logical tensor.
  static std::int64_t row_of(const Box& box) { return box.rank() ? box.extent.back() : 1; }
  static std::int64_t rows_of(const Box& box) { return box.elements() == 0 ? 0 : box.elements() / row_of(box); }

  // Calls f(row-major position in the logical tensor, position in the buffer) for every element of these rows.
  template <class F>
  void visit_rows(BufferId id, std::int64_t first, std::int64_t end, F&& f) const {
    const Box& box = program.buffer(id).box;
    const Dims& dims = program.tensor_of(id).dims;
    const std::int64_t row = row_of(box);
    Dims index(box.rank(), 0);
    std::int64_t left = first;
    for (std::size_t d = box.rank() < 2 ? 0 : box.rank() - 1; d-- > 0; left /= box.extent[d])
      index[d] = left % box.extent[d];
    for (std::int64_t r = first; r < end; ++r) {
      std::int64_t logical = 0;
      for (std::size_t d = 0; d < box.rank(); ++d)
        logical = logical * dims[d] + box.offset[d] + (d + 1 == box.rank() ? 0 : index[d]);
      for (std::int64_t i = 0; i < row; ++i) f(logical + i, r * row + i);
      for (std::size_t d = box.rank() < 2 ? 0 : box.rank() - 1; d-- > 0;) {
        if (++index[d] < box.extent[d]) break;
        index[d] = 0;
      }
    }
  }
  template <class F>
  void visit(BufferId id, F&& f) const {
    visit_rows(id, 0, rows_of(program.buffer(id).box), std::forward<F>(f));
  }
  // The same on several threads.
  template <class F>
  void visit_in_parts(BufferId id, F&& f) const {
    constexpr std::int64_t kPart = 1 << 16;  // elements
    const Box& box = program.buffer(id).box;
    const std::int64_t rows = rows_of(box),
                       part = std::max<std::int64_t>(1, kPart / std::max<std::int64_t>(1, row_of(box)));
    parallel_for(static_cast<std::size_t>((rows + part - 1) / part), 0, [&](std::size_t i) {
      const auto first = static_cast<std::int64_t>(i) * part;
      visit_rows(id, first, std::min(rows, first + part), f);
    });
  }

  // Lets f write all values of a buffer of this process.
  template <class F>
  void overwrite(BufferId id, F&& f) const {
    if (void* direct = backend->host_memory(id)) return f(direct);
    std::vector<std::byte> values(bytes(id));
    f(values.data());
    backend->write(id, values.data());
  }
  // What holds the same values: in copies, the same block of the same tensor (and of the same summands).
  std::vector<std::vector<BufferId>> copies(const std::vector<BufferId>& buffers) const {
    std::map<std::tuple<std::int32_t, std::int32_t, Dims, Dims>, std::size_t> index;
    std::vector<std::vector<BufferId>> groups;
    for (BufferId id : buffers) {
      const Buffer& b = program.buffer(id);
      auto [it, inserted] = index.try_emplace({b.tensor, b.partial, b.box.offset, b.box.extent}, groups.size());
      if (inserted) groups.emplace_back();
      groups[it->second].push_back(id);
    }
    return groups;
  }

  // Lets f read one buffer of each group of copies, in the order of the groups. Every process calls it; where it is not
  // a reader, f is not called. A copy is sent only to readers that have none themselves.
  template <class F>
  void inspect(const std::vector<std::vector<BufferId>>& groups, int reader, F&& f) const {
    auto ranks = static_cast<std::size_t>(processes.size()), self = static_cast<std::size_t>(processes.rank());
    auto reads = [&](std::size_t rank) { return reader == kEveryone || static_cast<std::size_t>(reader) == rank; };
    auto held_by = [&](const std::vector<BufferId>& group, std::size_t rank) {
      auto found = std::find_if(group.begin(), group.end(),
                                [&](BufferId id) { return static_cast<std::size_t>(owner(id)) == rank; });
      return found == group.end() ? BufferId() : *found;
    };
    BytesByRank out(ranks), in;
    std::vector<bool> from(ranks, false);
    for (const std::vector<BufferId>& group : groups) {
      auto source = static_cast<std::size_t>(owner(group[0]));
      if (bytes(group[0]) == 0) continue;
      for (std::size_t r = 0; r < ranks; ++r) {
        if (!reads(r) || held_by(group, r).valid()) continue;
        if (r == self) from[source] = true;
        if (source != self) continue;
        std::size_t begin = out[r].size();
        out[r].resize(begin + bytes(group[0]));
        backend->read(group[0], out[r].data() + begin);
      }
    }
    if (ranks > 1) in = processes.exchange(out, from, gather_of("'" + program.tensor_of(groups.at(0)[0]).name + "'"));
    if (!reads(self)) return;
    std::vector<std::size_t> begin(ranks, 0);
    std::vector<std::byte> copy;
    for (const std::vector<BufferId>& group : groups) {
      if (BufferId mine = held_by(group, self); mine.valid()) {
        const void* direct = backend->host_memory(mine);
        if (!direct) copy.resize(bytes(mine)), backend->read(mine, copy.data()), direct = copy.data();
        f(mine, direct);
        continue;
      }
      auto source = static_cast<std::size_t>(owner(group[0]));
      UNITY_CHECK(begin[source] + bytes(group[0]) <= in[source].size(), "rank {} sent {} bytes", source,
                  in[source].size());
      f(group[0], in[source].data() + begin[source]);
      begin[source] += bytes(group[0]);
    }
  }
  static double value(const void* data, DType type, std::int64_t i) {
    switch (type) {
      case DType::f64:
        return static_cast<const double*>(data)[i];
      case DType::i32:
        return static_cast<const std::int32_t*>(data)[i];
      default:
        return static_cast<double>(static_cast<const float*>(data)[i]);
    }
  }

  // Sets every element of a buffer of reals to value(row-major position in the logical tensor).
  template <class F>
  void fill_reals(BufferId id, F&& value) const {
    auto write = [&]<class T>(T* data) {
      visit(id, [&](std::int64_t logical, std::int64_t local) { data[local] = static_cast<T>(value(logical)); });
    };
    overwrite(id, [&](void* data) {
      if (type_of(id) == DType::f64)
        write(static_cast<double*>(data));
      else
        write(static_cast<float*>(data));
    });
  }

  // The gradient that updates by rows of one weight do not form.
  HostTensor row_gradient(const std::vector<Task>& updates, int reader) const {
    HostTensor t = real_tensor(program.tensor_of(program.operands_of(updates[0])[0]).dims);
    for (const Task& update : updates) {
      auto operands = program.operands_of(update);
      const Box& box = program.buffer(operands[0]).box;
      double factor = row_update_factor(program, update);
      std::vector<double> ids, dy;
      inspect({{operands[1]}, {operands[2]}}, reader, [&](BufferId id, const void* data) {
        std::vector<double>& to = id == operands[1] ? ids : dy;
        for (std::int64_t i = 0; i < program.buffer(id).box.elements(); ++i) to.push_back(value(data, type_of(id), i));
      });
      if (ids.empty()) continue;  // not a reader
      for_each_updated(
          program, update, [&](std::int64_t i) { return static_cast<std::int64_t>(ids[static_cast<std::size_t>(i)]); },
          [&](std::int64_t to, std::int64_t from) {
            std::int64_t row = box.offset[0] + to / box.extent[1], column = box.offset[1] + to % box.extent[1];
            t.reals[static_cast<std::size_t>(row * t.dims[1] + column)] += factor * dy[static_cast<std::size_t>(from)];
          });
    }
    return t;
  }

  // Puts a logical tensor together from shards, of which there may be copies.
  HostTensor assemble(const Dims& dims, const std::vector<BufferId>& buffers, int reader) const {
    bool reads = reader == kEveryone || reader == processes.rank();
    HostTensor t = reads ? real_tensor(dims) : HostTensor{};
    inspect(copies(buffers), reader, [&](BufferId id, const void* data) {
      DType type = type_of(id);
      visit(id, [&](std::int64_t logical, std::int64_t local) {
        t.reals[static_cast<std::size_t>(logical)] = value(data, type, local);
      });
    });
    return t;
  }
  // From shards and summands, each there once.
  HostTensor add_up(const Dims& dims, const std::vector<BufferId>& buffers) const {
    HostTensor t = real_tensor(dims);
    std::vector<std::vector<BufferId>> each;
    for (BufferId id : buffers) each.push_back({id});
    inspect(each, kEveryone, [&](BufferId id, const void* data) {
      DType type = type_of(id);
      visit(id, [&](std::int64_t logical, std::int64_t local) {
        t.reals[static_cast<std::size_t>(logical)] += value(data, type, local);
      });
    });
    return t;
  }

  Hash hash(BufferId id) const {
    std::vector<std::byte> copy;
    const void* data = backend->host_memory(id);
    std::size_t n = bytes(id);
    if (!data) copy.resize(n), backend->read(id, copy.data()), data = copy.data();
    return hash_bytes({static_cast<const std::byte*>(data), n});
  }

  void check_replicas() const {
    std::vector<std::vector<BufferId>> groups;
    // Devices that compute a running state apart, from sums in an order of their own, may round it differently.
    auto computed = [&](const std::vector<BufferId>& buffers) {
      const std::int32_t leaf = program.tensor_of(buffers[0]).leaf;
      return leaf >= 0 && !program.leaves[static_cast<std::size_t>(leaf)].op->trainable();
    };
    for (const auto* kind : {&weight_buffers, &optimizer_buffers})
      for (const auto& [name, buffers] : *kind) {
        if (computed(buffers)) continue;
        for (std::vector<BufferId>& group : copies(buffers))
          if (group.size() > 1) groups.push_back(std::move(group));
      }
    std::vector<BufferId> here_of;
    for (const std::vector<BufferId>& group : groups)
      std::copy_if(group.begin(), group.end(), std::back_inserter(here_of), [&](BufferId id) { return here(id); });
    std::vector<Hash> mine(here_of.size());
    parallel_for(mine.size(), 0, [&](std::size_t i) { mine[i] = hash(here_of[i]); });
    BytesByRank all = processes.all_gather(std::as_bytes(std::span(mine)), gather_of("the hashes of all copies"));
    std::vector<std::size_t> next(all.size(), 0);
    for (const std::vector<BufferId>& group : groups) {
      std::map<Hash, std::vector<std::string>> where;
      for (BufferId id : group) {
        auto rank = static_cast<std::size_t>(owner(id));
        Hash h = 0;
        UNITY_CHECK((next[rank] + 1) * sizeof h <= all[rank].size(), "rank {} sent {} bytes", rank, all[rank].size());
        std::memcpy(&h, all[rank].data() + next[rank]++ * sizeof h, sizeof h);
        where[h].push_back(fmt::format("{} (rank {})", program.buffer(id).device, rank));
      }
      if (where.size() == 1) continue;
      std::vector<std::string> kinds;
      for (const auto& [h, devices] : where) kinds.push_back(fmt::format("{:016x} on {}", h, fmt::join(devices, ", ")));
      const Buffer& first = program.buffer(group[0]);
      throw ReplicasDiffer(fmt::format("copies of '{}' [{}] from [{}] differ after step {}: {}",
                                       program.tensor_of(group[0]).name, fmt::join(first.box.extent, ", "),
                                       fmt::join(first.box.offset, ", "), step, fmt::join(kinds, "; ")));
    }
  }

  void fill(const std::vector<BufferId>& buffers, const HostTensor& value) const {
    for (BufferId id : buffers)
      if (here(id)) overwrite(id, [&](void* data) { take_block(id, value, data); });
  }

  // The block of a buffer, in held_type().
  void take_block(BufferId id, const HostTensor& value, void* data) const {
    auto take = [&]<class T>(T* to, const auto& from) {
      visit_in_parts(id, [&](std::int64_t logical, std::int64_t local) {
        to[local] = static_cast<T>(from[static_cast<std::size_t>(logical)]);
      });
    };
    if (type_of(id) == DType::i32)
      take(static_cast<std::int32_t*>(data), value.indices);
    else if (type_of(id) == DType::f64)
      take(static_cast<double*>(data), value.reals);
    else
      take(static_cast<float*>(data), value.reals);
  }

  const std::vector<BufferId>& input(const std::string& name, const HostTensor& value, int iteration) const {
    const auto& buffers = find(input_buffers, input_of_iteration(name, iteration), "input");
    const ProgramTensor& tensor = program.tensor_of(buffers[0]);
    bool indices = tensor.dtype == DType::i32;
    if (value.dims != tensor.dims || indices != (value.dtype == DType::i32))
      throw_input_error("input '{}': found {}[{}], expected {}", name, to_string(value.dtype),
                        fmt::join(value.dims, ", "), to_string(Shape{tensor.dims, tensor.dtype}));
    return buffers;
  }

  void repeat(const std::vector<BufferId>& buffers, const HostTensor& values) const {
    for (BufferId id : buffers) {
      if (!here(id)) continue;
      const std::int64_t n = program.buffer(id).box.elements(), count = std::min(values.elements(), n);
      auto over_and_over = [&]<class T>(const auto& source, std::vector<T> held) {
        held.resize(static_cast<std::size_t>(count));
        std::transform(source.begin(), source.begin() + count, held.begin(), [](auto x) { return static_cast<T>(x); });
        if (count < n && backend->write_repeated(id, held.data(), count)) return;
        overwrite(id, [&](void* data) {
          for (std::int64_t i = 0; i < n; i += count)
            std::copy_n(held.begin(), std::min(count, n - i), static_cast<T*>(data) + i);
        });
      };
      if (type_of(id) == DType::i32)
        over_and_over(values.indices, std::vector<std::int32_t>());
      else if (type_of(id) == DType::f64)
        over_and_over(values.reals, std::vector<double>());
      else
        over_and_over(values.reals, std::vector<float>());
    }
  }

  void assign(const std::vector<BufferId>& buffers, const char* what, const HostTensor& value) const {
    const ProgramTensor& tensor = program.tensor_of(buffers[0]);
    if (value.dims != tensor.dims)
      throw_input_error("{} '{}': found [{}], expected [{}]", what, tensor.name, fmt::join(value.dims, ", "),
                        fmt::join(tensor.dims, ", "));
    fill(buffers, value);
  }

  StepResult run_step(bool trace) {
    // Every process counts time from its call of step(): these agree about as well as messages are quick.
    if (trace) processes.barrier("the start of a step");
    auto begin = std::chrono::steady_clock::now();
    std::vector<Span> spans = backend->step({options.seed, step, rate_factor, trace});
    step += program.iterations;
    StepResult result;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto loss = std::find_if(program.outputs.begin(), program.outputs.end(),
                             [&](const ProgramOutput& out) { return out.iteration + 1 == program.iterations; });
    if (loss != program.outputs.end() && loss->dims.empty()) result.loss = add_up({}, loss->buffers).reals[0];
    if (trace) result.trace = to_trace(std::move(spans));
    return result;
  }

  Trace to_trace(std::vector<Span> mine) const {
    static_assert(std::is_trivially_copyable_v<Span>);
    Trace t;
    t.source = "measured";
    t.program = program_hash(program);
    for (const std::vector<std::byte>& bytes :
         processes.all_gather(std::as_bytes(std::span(mine)), gather_of("the trace"))) {
      std::size_t before = t.spans.size();
      t.spans.resize(before + bytes.size() / sizeof(Span));
      if (!bytes.empty()) std::memcpy(t.spans.data() + before, bytes.data(), bytes.size());
    }
    std::sort(t.spans.begin(), t.spans.end(), starts_before);
    if (t.spans.empty()) return t;
    Picoseconds first = t.spans[0].start;
    for (Span& s : t.spans) {
      s.start = s.start - first, s.end = s.end - first;
      t.iteration = std::max(t.iteration, s.end);
    }
    return t;
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
  std::unique_ptr<Processes> alone;
  Processes& processes;
  std::unique_ptr<Backend> backend;
  std::map<std::string, std::vector<BufferId>> weight_buffers, optimizer_buffers, input_buffers, gradient_buffers;
  std::map<std::string, std::vector<Task>> row_updates;  // by weight; its other parts have gradient buffers
  std::int64_t step = 0;
  double rate_factor = 1;
};

Executor::Executor(const Program& program, const ExecutorOptions& options)
    : implementation_(std::make_unique<Implementation>(program, options)) {}
Executor::~Executor() = default;

void Executor::set_input(const std::string& name, const HostTensor& value, int iteration) {
  implementation_->fill(implementation_->input(name, value, iteration), value);
}

HeldBatch Executor::prepare(const std::map<std::string, HostTensor>& batch) const {
  const Implementation& m = *implementation_;
  HeldBatch held;
  for (const auto& [name, value] : batch)
    for (BufferId id : m.input(name, value, 0)) {
      if (!m.here(id)) continue;
      std::vector<std::byte> values(m.bytes(id));
      m.take_block(id, value, values.data());
      held.blocks.emplace_back(id, m.backend->held_form(id, std::move(values)));
    }
  return held;
}

void Executor::set_inputs(const HeldBatch& batch) {
  for (const auto& [id, values] : batch.blocks) implementation_->backend->write_held(id, values);
}

bool Executor::leaves_host_free() const { return implementation_->backend->leaves_host_free(); }

void Executor::repeat_values(const std::string& name, const HostTensor& values) {
  auto weight = implementation_->weight_buffers.find(name);
  const auto& buffers = weight != implementation_->weight_buffers.end()
                            ? weight->second
                            : implementation_->find(implementation_->input_buffers, name, "input");
  bool indices = implementation_->program.tensor_of(buffers[0]).dtype == DType::i32;
  if (values.elements() == 0 || indices != (values.dtype == DType::i32))
    throw_input_error("'{}': found {} values of {}, expected some of {}", name, values.elements(),
                      to_string(values.dtype), indices ? "i32" : "f32");
  implementation_->repeat(buffers, values);
}

std::vector<ProgramLeaf> Executor::inputs() const {
  std::vector<ProgramLeaf> list;
  for (const ProgramLeaf& leaf : implementation_->program.leaves)
    if (implementation_->input_buffers.contains(leaf.name)) list.push_back(leaf);
  return list;
}

void Executor::set_learning_rate_factor(double factor) { implementation_->rate_factor = factor; }

StepResult Executor::step(bool trace) { return implementation_->run_step(trace); }
std::int64_t Executor::steps_done() const { return implementation_->step; }
void Executor::set_steps_done(std::int64_t steps) { implementation_->step = steps; }
const ExecutorOptions& Executor::options() const { return implementation_->options; }

HostTensor Executor::output(std::size_t index) const {
  const ProgramOutput& out = implementation_->program.outputs.at(index);
  return implementation_->add_up(out.dims, out.buffers);
}

HostTensor Executor::weight(const std::string& name, int reader) const {
  const auto& buffers = implementation_->find(implementation_->weight_buffers, name, "weight");
  return implementation_->assemble(implementation_->program.tensor_of(buffers[0]).dims, buffers, reader);
}

HostTensor Executor::gradient(const std::string& name, int reader) const {
  auto rows = implementation_->row_updates.find(name);
  bool some_by_rows = rows != implementation_->row_updates.end();
  if (some_by_rows && !implementation_->gradient_buffers.contains(name))
    return implementation_->row_gradient(rows->second, reader);
  const auto& buffers = implementation_->find(implementation_->gradient_buffers, name, "gradient of a weight");
  HostTensor t = implementation_->assemble(implementation_->program.tensor_of(buffers[0]).dims, buffers, reader);
  if (some_by_rows) {
    HostTensor others = implementation_->row_gradient(rows->second, reader);
    for (std::size_t i = 0; i < t.reals.size(); ++i) t.reals[i] += others.reals[i];
  }
  return t;
}

void Executor::set_weight(const std::string& name, const HostTensor& value) {
  implementation_->assign(implementation_->find(implementation_->weight_buffers, name, "weight"), "weight", value);
  if (auto next = implementation_->weight_buffers.find(next_version(name));
      next != implementation_->weight_buffers.end())
    implementation_->assign(next->second, "weight", value);
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

HostTensor Executor::state(const std::string& name, int reader) const {
  if (implementation_->weight_buffers.contains(name)) return weight(name, reader);
  const auto& buffers = implementation_->find(implementation_->optimizer_buffers, name, "weight or optimizer state");
  return implementation_->assemble(implementation_->program.tensor_of(buffers[0]).dims, buffers, reader);
}

void Executor::set_state(const std::string& name, const HostTensor& value) {
  if (auto weight = implementation_->weight_buffers.find(name); weight != implementation_->weight_buffers.end())
    return implementation_->assign(weight->second, "weight", value);
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

bool Executor::holds(const std::string& name) const {
  for (const auto* buffers : {&implementation_->weight_buffers, &implementation_->optimizer_buffers})
    if (auto found = buffers->find(name); found != buffers->end())
      return std::any_of(found->second.begin(), found->second.end(),
                         [&](BufferId id) { return implementation_->here(id); });
  return false;
}

void Executor::check_replicas() const { implementation_->check_replicas(); }

Processes& Executor::processes() const { return implementation_->processes; }

bool Executor::tracing_costs() const { return implementation_->backend->tracing_costs(); }

std::vector<Bytes> Executor::memory() const { return implementation_->backend->memory(); }

}  // namespace unity
