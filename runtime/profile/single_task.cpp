#include "runtime/profile/single_task.h"

#include <algorithm>
#include <optional>

#include "core/ops/chain.h"
#include "core/plan/row_updates.h"

namespace unity {
namespace {

class Builder {
 public:
  explicit Builder(Program& program) : p_(program) {}

  std::int32_t tensor(const std::string& name, const Dims& dims, DType dtype) {
    p_.tensors.push_back({name, dims, dtype, {}, -1});
    return static_cast<std::int32_t>(p_.tensors.size()) - 1;
  }
  void make_leaf(std::int32_t tensor, const Operator& op, Attributes attributes) {
    ProgramTensor& t = p_.tensors[static_cast<std::size_t>(tensor)];
    t.leaf = static_cast<int>(p_.leaves.size());
    p_.leaves.push_back({t.name, &op, std::move(attributes), {}});
  }
  void make_input(std::int32_t tensor) {
    const ProgramTensor& t = p_.tensors[static_cast<std::size_t>(tensor)];
    make_leaf(tensor, get_operator("input"), {t.dims, std::string(to_string(t.dtype))});
  }
  void hold_in_full(std::int32_t tensor) { p_.tensors[static_cast<std::size_t>(tensor)].full_precision = true; }
  BufferId buffer(std::int32_t tensor, int device, Box box) {
    int leaf = p_.tensors[static_cast<std::size_t>(tensor)].leaf;
    BufferCategory category = leaf < 0 ? BufferCategory::activation
                              : p_.leaves[static_cast<std::size_t>(leaf)].op->name() == "weight"
                                  ? BufferCategory::weight
                                  : BufferCategory::input;
    p_.devices = std::max(p_.devices, device + 1);
    p_.buffers.push_back({tensor, DeviceId(device), std::move(box), category, 0});
    return BufferId(static_cast<std::int64_t>(p_.buffers.size()) - 1);
  }
  BufferId block(const std::string& name, const Dims& dims, int device = 0) {
    return buffer(tensor(name, dims, DType::f32), device, whole_box(dims));
  }
  TaskId task(Task t, const std::vector<BufferId>& operands, const std::vector<TaskId>& after = {}) {
    t.operands_begin = static_cast<std::uint32_t>(p_.operands.size());
    p_.operands.insert(p_.operands.end(), operands.begin(), operands.end());
    t.operands_end = static_cast<std::uint32_t>(p_.operands.size());
    t.dependencies_begin = static_cast<std::uint32_t>(p_.dependencies.size());
    p_.dependencies.insert(p_.dependencies.end(), after.begin(), after.end());
    t.dependencies_end = static_cast<std::uint32_t>(p_.dependencies.size());
    p_.tasks.push_back(t);
    return TaskId(static_cast<std::int64_t>(p_.tasks.size()) - 1);
  }
  TaskId move(TaskKind kind, const std::vector<BufferId>& operands, const std::vector<TaskId>& after = {}) {
    Task t{.kind = kind, .device = p_.buffer(operands.back()).device};
    auto bytes = static_cast<double>(p_.bytes_of(operands.back()).count);
    t.bytes = bytes * (kind == TaskKind::zero ? 1 : kind == TaskKind::copy ? 2 : 3);
    if (kind != TaskKind::zero) {
      p_.boxes.push_back(p_.buffer(operands.back()).box);
      t.op = static_cast<std::int32_t>(p_.boxes.size()) - 1;
    }
    return task(t, operands, after);
  }
  TaskId communicate(Communication c, const std::vector<TaskId>& after = {}) {
    Task t{.kind = TaskKind::communicate, .stream = Stream::communication, .device = c.participants[0].device};
    t.op = static_cast<std::int32_t>(p_.communications.size());
    t.bytes = static_cast<double>(communication_bytes(c).count);
    p_.communications.push_back(std::move(c));
    return task(t, {}, after);
  }

 private:
  Program& p_;
};

// Copies one task of a program, with its buffers, once for each set.
class Copier {
 public:
  Copier(const Program& source, TaskId id, const SingleTaskOptions& options, SingleTaskProgram& out)
      : source_(source),
        task_(source.tasks[id.index()]),
        held_(options.held),
        in_place_(options.in_place && task_.kind == TaskKind::communicate),
        out_(out),
        build_(out.program) {
    if (in_place_) out.program.devices = source.devices;
    out.program.name = source.task_name(id);
    out.program.optimizer = source.optimizer;
    if (task_.kind == TaskKind::compute || is_row_update(task_))
      out.program.ops.push_back(source.ops[static_cast<std::size_t>(task_.op)]);
    if (task_.kind == TaskKind::compute && out.program.ops[0].chain) rename_tensors(out.program.ops[0]);
    if (task_.kind == TaskKind::copy || task_.kind == TaskKind::accumulate)
      out.program.boxes.push_back(source.boxes[static_cast<std::size_t>(task_.op)]);
  }

  void begin_set() { copies_.clear(); }

  void add_answer() {
    const Communication& run = out_.program.communications.back();
    if (!one_way(run.kind)) return;
    DeviceId to = run.participants.front().device, from = run.participants.back().device;
    if (run.kind == CollectiveKind::reduce) std::swap(from, to);
    Communication c;
    c.name = "answer";
    c.participants = {{from, token(from), {}, whole_box({1})}, {to, {}, token(to), whole_box({1})}};
    build_.communicate(std::move(c));
  }

  TaskId add(const std::vector<TaskId>& after) {
    if (task_.kind == TaskKind::communicate) return add_communication(after);
    Task t = task_;
    t.device = DeviceId(0);
    t.op = task_.op >= 0 ? 0 : -1;
    std::vector<BufferId> operands;
    auto all = source_.operands_of(task_);
    for (std::size_t i = 0; i < all.size(); ++i) operands.push_back(copy(all[i], 0, input_operand(i)));
    return build_.task(t, operands, after);
  }

 private:
  // What lies between the steps of a chain is held as in the source.
  void rename_tensors(ProgramOp& op) {
    std::vector<ChainStep> steps = op.chain->steps();
    for (ChainStep& step : steps) step.tensor = tensor(step.tensor);
    op.chain = std::make_shared<const Chain>(std::move(steps), op.chain->inputs());
    op.op = op.chain.get();
  }

  std::int32_t tensor(std::int32_t of_source) {
    auto [found, fresh] = tensors_.try_emplace(of_source, -1);
    if (!fresh) return found->second;
    const ProgramTensor& t = source_.tensors[static_cast<std::size_t>(of_source)];
    found->second = build_.tensor(fmt::format("tensor {}", tensors_.size()), t.dims, t.dtype);
    if (held_ && t.dtype == DType::f32 && (*held_)[static_cast<std::size_t>(of_source)] == DType::f32)
      build_.hold_in_full(found->second);
    return found->second;
  }

  // Where the operand stands among the operator's inputs; -1: it is none of them, and holds zeros.
  int input_operand(std::size_t i) const {
    if (is_row_update(task_)) return i == 1 ? 0 : -1;
    if (task_.kind != TaskKind::compute) return -1;
    return i < source_.ops[static_cast<std::size_t>(task_.op)].inputs ? static_cast<int>(i) : -1;
  }

  TaskId add_communication(const std::vector<TaskId>& after) {
    Communication c = source_.communications[static_cast<std::size_t>(task_.op)];
    auto rename = [&](std::vector<Participant>& participants) {
      for (std::size_t i = 0; i < participants.size(); ++i) {
        Participant& p = participants[i];
        if (!in_place_) p.device = DeviceId(static_cast<std::int64_t>(i));
        if (p.send.valid()) p.send = copy(p.send, p.device.value, -1);
        if (p.receive.valid()) p.receive = copy(p.receive, p.device.value, -1);
      }
    };
    rename(c.participants);
    for (std::vector<Participant>& part : c.joined) rename(part);
    return build_.communicate(std::move(c), after);
  }

  BufferId token(DeviceId device) {
    if (answer_ < 0) answer_ = build_.tensor("answer", {1}, DType::f32);
    return build_.buffer(answer_, device.value, whole_box({1}));
  }

  BufferId copy(BufferId id, int device, int input) {
    if (auto found = copies_.find(id); found != copies_.end()) return found->second;
    const Buffer& b = source_.buffer(id);
    const bool fresh = !tensors_.contains(b.tensor);
    const std::int32_t own = tensor(b.tensor);
    if (fresh) {
      const ProgramTensor& t = source_.tensor_of(id);
      if (held_ && b.category == BufferCategory::weight && t.leaf >= 0)
        make_weight(own, t);
      else if (input >= 0) {
        build_.make_input(own);
        if (auto bound = bound_of(input)) out_.index_bounds[fmt::format("tensor {}", tensors_.size())] = *bound;
      }
    }
    const BufferId of_own = copies_[id] = build_.buffer(own, device, b.box);
    out_.program.buffers[of_own.index()].on_host = b.on_host;
    return of_own;
  }

  // Products read a rounded copy of what is a weight.
  void make_weight(std::int32_t tensor, const ProgramTensor& t) {
    const ProgramLeaf& leaf = source_.leaves[static_cast<std::size_t>(t.leaf)];
    build_.make_leaf(tensor, *leaf.op, leaf.attributes);
  }

  std::optional<std::int64_t> bound_of(int input) const {
    const ProgramOp& op = source_.ops[static_cast<std::size_t>(task_.op)];
    std::vector<Shape> shapes;
    auto operands = source_.operands_of(task_);
    if (is_row_update(task_)) {
      // The gradient's operands: ids, dy, and the table.
      for (std::size_t i : {1, 2, 0}) shapes.push_back(shape(operands[i]));
      return op.op->index_bound(op.attributes, shapes, 0);
    }
    for (std::size_t i = 0; i < op.inputs; ++i) shapes.push_back(shape(operands[i]));
    return op.op->index_bound(op.attributes, shapes, static_cast<std::size_t>(input));
  }
  Shape shape(BufferId id) const { return {source_.tensor_of(id).dims, source_.tensor_of(id).dtype}; }

  const Program& source_;
  const Task& task_;
  const std::vector<DType>* held_;
  bool in_place_;
  std::int32_t answer_ = -1;  // a tensor
  SingleTaskProgram& out_;
  Builder build_;
  std::map<std::int32_t, std::int32_t> tensors_;
  std::map<BufferId, BufferId> copies_;  // of this set
};

}  // namespace

bool one_way(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

SingleTaskProgram single_task_program(const Program& source, TaskId task, const SingleTaskOptions& options) {
  SingleTaskProgram out;
  Copier copier(source, task, options, out);
  std::vector<TaskId> after;
  if (options.flush.count > 0) {
    Builder build(out.program);
    Dims elements = {options.flush.count / 4};
    int device = options.in_place ? source.tasks[task.index()].device.value : 0;
    after.push_back(build.move(TaskKind::accumulate,
                               {build.block("flushed by", elements, device), build.block("flush", elements, device)}));
  }
  for (int s = 0; s < options.sets; ++s) {
    copier.begin_set();
    out.runs.emplace_back();
    for (int r = 0; r < options.repeats; ++r) {
      out.runs.back().push_back(copier.add(after));
      after.clear();
      // Or a message would be sent before the one before it has arrived. Of one process that is enough.
      if (source.tasks[task.index()].kind == TaskKind::communicate) after.push_back(out.runs.back().back());
      if (options.answer) copier.add_answer();
    }
  }
  return out;
}

Bytes bytes_touched(const Program& program, TaskId id) {
  const Task& task = program.tasks[id.index()];
  std::vector<BufferId> all(program.operands_of(task).begin(), program.operands_of(task).end());
  if (task.kind == TaskKind::communicate) {
    const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& p : c.part(part))
        for (BufferId b : {p.send, p.receive})
          if (b.valid()) all.push_back(b);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  Bytes bytes;
  for (BufferId b : all) bytes += program.bytes_of(b);
  return bytes;
}

Program operator_program(const std::string& name, Attributes attributes, const std::vector<Shape>& inputs) {
  Program p;
  Builder build(p);
  const Operator& op = get_operator(name);
  attributes = complete_attributes(name, op.attributes(), std::move(attributes)).value();
  std::vector<Shape> outputs = infer_shapes(op, attributes, inputs).value();
  std::vector<BufferId> operands;
  Task t{.kind = TaskKind::compute, .device = DeviceId(0), .op = 0};
  auto add = [&](const Shape& s) {
    std::int32_t tensor = build.tensor(fmt::format("operand {}", operands.size()), s.dims, s.dtype);
    operands.push_back(build.buffer(tensor, 0, whole_box(s.dims)));
    t.bytes += static_cast<double>(s.bytes());
  };
  for (const Shape& s : inputs) add(s);
  for (const Shape& s : outputs) add(s);
  AxisTable table = op.axes(attributes, inputs).value();
  t.flops = flops(table, full_ranges(table));
  p.ops.push_back({&op, std::move(attributes), OriginId(0), name, static_cast<std::uint32_t>(inputs.size()),
                   std::vector<bool>(inputs.size(), false)});
  build.task(t, operands);
  return p;
}

Program movement_program(TaskKind kind, const Dims& dims) {
  Program p;
  Builder build(p);
  std::vector<BufferId> operands;
  if (kind != TaskKind::zero) operands.push_back(build.block("source", dims));
  operands.push_back(build.block("target", dims));
  build.move(kind, operands);
  return p;
}

Program host_copy_program(bool to_host, const Dims& dims) {
  Program p = movement_program(TaskKind::copy, dims);
  p.tasks[0].stream = Stream::copy;
  p.tasks[0].bytes = static_cast<double>(p.bytes_of(p.operands_of(p.tasks[0])[0]).count);
  p.buffers[p.operands_of(p.tasks[0])[to_host ? 1 : 0].index()].on_host = true;
  return p;
}

Program update_program(const OptimizerSpec& optimizer, std::int64_t elements) {
  Program p;
  p.optimizer = optimizer;
  Builder build(p);
  int states = optimizer.name == "sgd" ? (optimizer.momentum != 0 ? 1 : 0) : 2;
  std::vector<BufferId> operands;
  for (int i = 0; i < 2 + states; ++i) operands.push_back(build.block(fmt::format("operand {}", i), {elements}));
  build.task({.kind = TaskKind::update, .phase = Phase::update, .device = DeviceId(0)}, operands);
  return p;
}

Program collective_program(CollectiveKind kind, std::span<const DeviceId> group, std::int64_t elements) {
  Program p;
  Builder build(p);
  Communication c;
  c.kind = kind;
  c.name = "data";
  auto count = static_cast<std::int64_t>(group.size());
  std::int64_t piece = std::max<std::int64_t>(1, elements / count);
  bool pieces = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  bool exchange = kind == CollectiveKind::all_to_all;
  Dims dims = {pieces || exchange ? piece * count : std::max<std::int64_t>(1, elements)};
  std::int32_t sent = build.tensor("sent", dims, DType::f32), received = build.tensor("received", dims, DType::f32);
  for (std::int64_t i = 0; i < count; ++i) {
    DeviceId device = group[static_cast<std::size_t>(i)];
    Box whole = whole_box(dims), own = pieces || exchange ? Box{{i * piece}, {piece}} : whole;
    Participant participant{device, {}, {}, own};
    bool root = i == 0;
    if (!((kind == CollectiveKind::broadcast || kind == CollectiveKind::send) && !root))
      participant.send = build.buffer(sent, device.value, kind == CollectiveKind::all_gather || exchange ? own : whole);
    if (!((kind == CollectiveKind::send && root) || (kind == CollectiveKind::reduce && !root)))
      participant.receive = build.buffer(received, device.value, kind == CollectiveKind::reduce_scatter ? own : whole);
    c.participants.push_back(participant);
  }
  if (exchange)
    for (std::int32_t from = 0; from < count; ++from)
      for (std::int32_t to = 0; to < count; ++to) c.exchanges.push_back({from, to, Box{{from * piece}, {piece}}});
  build.communicate(std::move(c));
  return p;
}

std::vector<DeviceId> first_devices(int count) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < count; ++d) devices.emplace_back(d);
  return devices;
}

Program handover_program(int links, std::int64_t elements) {
  Program p;
  Builder build(p);
  std::vector<BufferId> work, token;
  std::int32_t tokens = build.tensor("token", {1}, DType::f32);
  for (int d = 0; d < 2; ++d) {
    work.push_back(build.block(fmt::format("work {}", d), {elements}, d));
    token.push_back(build.buffer(tokens, d, whole_box({1})));
  }
  std::vector<TaskId> after;
  for (int i = 0; i < links; ++i) {
    auto from = static_cast<std::size_t>(i % 2), to = 1 - from;
    TaskId done = build.move(TaskKind::zero, {work[from]}, after);
    Communication c;
    c.name = "token";
    c.participants = {{DeviceId(static_cast<std::int64_t>(from)), token[from], {}, whole_box({1})},
                      {DeviceId(static_cast<std::int64_t>(to)), {}, token[to], whole_box({1})}};
    after = {build.communicate(std::move(c), {done})};
  }
  build.move(TaskKind::zero, {work[static_cast<std::size_t>(links % 2)]}, after);
  return p;
}

}  // namespace unity
