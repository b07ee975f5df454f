#include "core/plan/task_key.h"

#include <charconv>

#include "core/ops/chain.h"
#include "core/plan/row_updates.h"

namespace unity {
namespace {

void append(std::string& out, std::int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append(std::string& out, DType dtype, const Dims& extent) {
  out += to_string(dtype);
  out += '[';
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (d) out += ", ";
    append(out, extent[d]);
  }
  out += ']';
}

std::string optimizer_kind(const OptimizerSpec& o) {
  std::string kind = o.name;
  if (o.momentum != 0) kind += o.nesterov ? " nesterov" : " momentum";
  if (o.weight_decay != 0) kind += " decay";
  return kind;
}

// What a task that is no operator's is measured as: copies between a device and its host apart from those within it.
std::string_view moved_as(const Program& program, const Task& task) {
  if (program.copies_to_host(task)) return "copy to host";
  if (program.copies_from_host(task)) return "copy from host";
  return to_string(task.kind);
}

std::string with_attributes(const ProgramOp& op) {
  if (op.chain) return op.chain->text() + " of ";
  std::string text = op.op->name();
  for (std::size_t i = 0; i < op.attributes.size(); ++i) text += (i == 0 ? "{" : ", ") + to_string(op.attributes[i]);
  return op.attributes.empty() ? text : text + "}";
}

}  // namespace

void TaskKeys::append_communication(const Communication& c) {
  key_ += to_string(c.kind);
  key_ += " of ";
  append(key_, static_cast<std::int64_t>(c.participants.size()));
  key_ += '(';
  const Participant& first = c.participants.front();
  if (c.kind == CollectiveKind::all_to_all) {
    append(key_, c.dtype, c.exchanges.empty() ? Dims{} : c.exchanges.front().box.extent);
    key_ += ", ";
    append(key_, static_cast<std::int64_t>(c.exchanges.size()));
    key_ += " exchanges, ";
    append(key_, elements_moved(c));
    key_ += " elements";
  } else {
    append(key_, c.dtype, first.piece.extent);
  }
  for (BufferId buffer : {first.send, c.participants.back().receive}) {
    if (!buffer.valid() || program_.buffer(buffer).box.extent == first.piece.extent) continue;
    key_ += buffer == first.send ? " of " : " to ";
    append(key_, c.dtype, program_.buffer(buffer).box.extent);
  }
  if (!c.joined.empty()) {
    key_ += ", ";
    append(key_, static_cast<std::int64_t>(c.part_count()));
    key_ += " parts, ";
    append(key_, elements_moved(c));
    key_ += " elements";
  }
  key_ += ')';
  const auto& [name, devices_per_node, chunks] = c.algorithm;
  if (name == CollectiveAlgorithm::binomial) key_ += " along a tree";
  if (name == CollectiveAlgorithm::hierarchical) {
    key_ += " in nodes of ";
    append(key_, std::int64_t{devices_per_node});
    key_ += ", ";
    append(key_, std::int64_t{chunks});
    key_ += " chunks";
  }
}

const std::string& TaskKeys::of(const Task& task) {
  key_.clear();
  if (task.kind == TaskKind::communicate) {
    append_communication(program_.communications[static_cast<std::size_t>(task.op)]);
    return key_;
  }
  auto operands = program_.operands_of(task);
  auto operand = [&](std::size_t i) {
    append(key_, program_.tensor_of(operands[i]).dtype, program_.buffer(operands[i]).box.extent);
  };
  const bool moves = task.kind == TaskKind::copy || task.kind == TaskKind::accumulate;
  std::size_t inputs = operands.size();
  if (task.kind == TaskKind::compute || is_row_update(task)) {
    std::string& name = operators_[static_cast<std::size_t>(task.op)];
    const ProgramOp& op = program_.ops[static_cast<std::size_t>(task.op)];
    if (name.empty()) name = with_attributes(op);
    if (task.kind == TaskKind::update) key_ += "update ";
    key_ += name;
    if (task.kind == TaskKind::compute) inputs = op.inputs;
  } else {
    key_ += moved_as(program_, task);
    if (task.kind == TaskKind::update) key_ += ' ' + optimizer_kind(program_.optimizer), inputs = 1;
  }
  key_ += '(';
  if (moves) {
    append(key_, program_.tensor_of(operands[0]).dtype, program_.boxes[static_cast<std::size_t>(task.op)].extent);
    key_ += " of ";
    operand(0);
    key_ += " to ";
    operand(1);
  } else {
    for (std::size_t i = 0; i < inputs; ++i) {
      if (i) key_ += ", ";
      operand(i);
    }
  }
  key_ += ')';
  for (std::size_t i = inputs; i < operands.size() && task.kind == TaskKind::compute; ++i) {
    key_ += i == inputs ? " -> " : ", ";
    operand(i);
  }
  return key_;
}

std::string task_key(const Program& program, const Task& task) { return TaskKeys(program).of(task); }

TaskCurve task_curve(const Program& program, const Task& task) {
  switch (task.kind) {
    case TaskKind::compute:
      return {};
    case TaskKind::copy:
    case TaskKind::accumulate:
    case TaskKind::zero:
      return {std::string(moved_as(program, task)), task.bytes};
    case TaskKind::update:
      if (is_row_update(task)) return {};
      return {"update " + optimizer_kind(program.optimizer),
              static_cast<double>(program.buffer(program.operands_of(task)[0]).box.elements())};
    case TaskKind::communicate: {
      const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
      return {fmt::format("{} of {}", to_string(c.kind), c.participants.size()),
              static_cast<double>(elements_moved(c) * size_of(c.dtype))};
    }
  }
  return {};
}

}  // namespace unity
