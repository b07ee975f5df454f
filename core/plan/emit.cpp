#include "core/plan/emit.h"

#include <algorithm>

namespace unity {

std::int32_t Emitter::tensor(ProgramTensor t) {
  program_.tensors.push_back(std::move(t));
  return static_cast<std::int32_t>(program_.tensors.size()) - 1;
}

BufferId Emitter::buffer(std::int32_t tensor, DeviceId device, Box box, BufferCategory category, int partial) {
  program_.buffers.push_back({tensor, device, std::move(box), category, partial});
  return BufferId(static_cast<std::int64_t>(program_.buffers.size()) - 1);
}

TaskId Emitter::add(Task task, const std::vector<BufferId>& operands, TaskList after) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  task.phase = phase;
  task.operands_begin = static_cast<std::uint32_t>(program_.operands.size());
  program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
  task.operands_end = static_cast<std::uint32_t>(program_.operands.size());
  task.dependencies_begin = static_cast<std::uint32_t>(program_.dependencies.size());
  program_.dependencies.insert(program_.dependencies.end(), after.begin(), after.end());
  task.dependencies_end = static_cast<std::uint32_t>(program_.dependencies.size());
  program_.tasks.push_back(task);
  return TaskId(static_cast<std::int64_t>(program_.tasks.size()) - 1);
}

namespace {
Shape block_shape(const Program& program, BufferId buffer) {
  return {program.buffer(buffer).box.extent, program.tensor_of(buffer).dtype};
}
}  // namespace

TaskId Emitter::compute(std::int32_t op, DeviceId device, const std::vector<BufferId>& inputs,
                        const std::vector<BufferId>& outputs, TaskList after, double flops, int micro) {
  Task task{.kind = TaskKind::compute, .device = device, .op = op, .micro = micro, .flops = flops};
  const ProgramOp& info = program_.ops[static_cast<std::size_t>(op)];
  operands_.assign(inputs.begin(), inputs.end());
  operands_.insert(operands_.end(), outputs.begin(), outputs.end());
  shapes_.clear();
  for (BufferId in : inputs) shapes_.push_back(block_shape(program_, in));
  const Shape result = block_shape(program_, outputs[0]);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (info.shape_only[i]) continue;
    std::int64_t all = shapes_[i].elements();
    std::int64_t read = info.op->elements_read(shapes_, result, i).value_or(all);
    task.bytes += static_cast<double>(std::min(read, all) * size_of(shapes_[i].dtype));
  }
  for (BufferId out : outputs) task.bytes += static_cast<double>(program_.bytes_of(out).count);
  return add(task, operands_, std::move(after));
}

namespace {
double box_bytes(const Program& program, BufferId buffer, const Box& box) {
  return static_cast<double>(box.elements() * size_of(program.tensor_of(buffer).dtype));
}
}  // namespace

TaskId Emitter::copy(BufferId from, BufferId to, const Box& box, TaskList after) {
  program_.boxes.push_back(box);
  Task task{.kind = TaskKind::copy, .device = program_.buffer(to).device};
  task.op = static_cast<std::int32_t>(program_.boxes.size()) - 1;
  task.bytes = 2 * box_bytes(program_, to, box);
  return add(task, {from, to}, std::move(after));
}

TaskId Emitter::accumulate(BufferId from, BufferId to, const Box& box, TaskList after) {
  program_.boxes.push_back(box);
  Task task{.kind = TaskKind::accumulate, .device = program_.buffer(to).device};
  task.op = static_cast<std::int32_t>(program_.boxes.size()) - 1;
  task.bytes = 3 * box_bytes(program_, to, box);
  task.flops = box_bytes(program_, to, box) / 4;
  return add(task, {from, to}, std::move(after));
}

TaskId Emitter::zero(BufferId buffer, TaskList after) {
  Task task{.kind = TaskKind::zero, .device = program_.buffer(buffer).device};
  task.bytes = static_cast<double>(program_.bytes_of(buffer).count);
  return add(task, {buffer}, std::move(after));
}

TaskId Emitter::update(const std::vector<BufferId>& operands, TaskList after) {
  Task task{.kind = TaskKind::update, .device = program_.buffer(operands[0]).device};
  // Weight and states are read and written, the gradient is read.
  for (std::size_t i = 0; i < operands.size(); ++i)
    task.bytes += (i == 1 ? 1.0 : 2.0) * static_cast<double>(program_.bytes_of(operands[i]).count);
  task.flops = 4 * static_cast<double>(program_.buffer(operands[0]).box.elements());
  return add(task, operands, std::move(after));
}

TaskId Emitter::communicate(Communication communication, TaskList after) {
  Task task{
      .kind = TaskKind::communicate, .stream = Stream::communication, .device = communication.participants[0].device};
  task.op = static_cast<std::int32_t>(program_.communications.size());
  task.bytes = static_cast<double>(communication_bytes(communication).count);
  program_.communications.push_back(std::move(communication));
  return add(task, {}, std::move(after));
}

}  // namespace unity
