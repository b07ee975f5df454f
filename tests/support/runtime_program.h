// Programs put together task by task, for tests of the runtime that must not lean on lowering.
#pragma once

#include <utility>

#include "core/plan/program.h"

namespace unity::test {

struct ProgramByHand {
  Program program;

  std::int32_t tensor(std::string name, Dims dims, int leaf = -1) {
    program.tensors.push_back({std::move(name), std::move(dims), DType::f32, {}, leaf});
    return static_cast<std::int32_t>(program.tensors.size()) - 1;
  }
  std::int32_t leaf(const std::string& name, const std::string& op, Attributes attributes, OriginId origin = {}) {
    Dims dims = ints_attribute(attributes, 0);
    program.leaves.push_back({name, &get_operator(op), std::move(attributes), origin});
    return tensor(name, std::move(dims), static_cast<int>(program.leaves.size()) - 1);
  }
  BufferId buffer(std::int32_t tensor, int device, Box box, BufferCategory category = BufferCategory::activation,
                  int partial = 0) {
    program.buffers.push_back({tensor, DeviceId(device), std::move(box), category, partial});
    program.devices = std::max(program.devices, device + 1);
    return BufferId(static_cast<std::int64_t>(program.buffers.size()) - 1);
  }
  // A compute task of `op`, the last operand being its result.
  TaskId compute(const std::string& op, Attributes attributes, const std::vector<BufferId>& operands,
                 const std::vector<TaskId>& after = {}) {
    const Operator& definition = get_operator(op);
    attributes = complete_attributes(op, definition.attributes(), std::move(attributes)).value();
    auto inputs = static_cast<std::uint32_t>(operands.size()) - 1;
    program.ops.push_back({&definition, std::move(attributes), OriginId(0), op, inputs, std::vector<bool>(inputs)});
    return task(TaskKind::compute, program.buffer(operands[0]).device,
                static_cast<std::int32_t>(program.ops.size()) - 1, operands, after);
  }
  // A task of an operator of `program.ops`, the operands being its inputs and its results.
  TaskId run(std::int32_t op, const std::vector<BufferId>& operands) {
    return task(TaskKind::compute, program.buffer(operands[0]).device, op, operands, {});
  }
  TaskId update(const std::vector<BufferId>& operands, const std::vector<TaskId>& after) {
    return task(TaskKind::update, program.buffer(operands[0]).device, -1, operands, after);
  }
  TaskId communicate(Communication c, const std::vector<TaskId>& after) {
    DeviceId first = c.participants[0].device;
    program.communications.push_back(std::move(c));
    return task(TaskKind::communicate, first, static_cast<std::int32_t>(program.communications.size()) - 1, {}, after);
  }

 private:
  TaskId task(TaskKind kind, DeviceId device, std::int32_t op, const std::vector<BufferId>& operands,
              const std::vector<TaskId>& after) {
    Task t;
    t.kind = kind;
    t.stream = kind == TaskKind::communicate ? Stream::communication : Stream::compute;
    t.device = device;
    t.op = op;
    t.operands_begin = static_cast<std::uint32_t>(program.operands.size());
    program.operands.insert(program.operands.end(), operands.begin(), operands.end());
    t.operands_end = static_cast<std::uint32_t>(program.operands.size());
    t.dependencies_begin = static_cast<std::uint32_t>(program.dependencies.size());
    program.dependencies.insert(program.dependencies.end(), after.begin(), after.end());
    t.dependencies_end = static_cast<std::uint32_t>(program.dependencies.size());
    program.tasks.push_back(t);
    return TaskId(static_cast<std::int64_t>(program.tasks.size()) - 1);
  }
};

}  // namespace unity::test
