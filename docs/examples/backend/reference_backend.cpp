// Backend `reference`, a plug-in: the buffers of all devices in host memory, each task by the reference evaluator of
// its operator. Slow, and exact enough to judge kernels by. Double precision, plain gradient descent.
#include <cstring>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/plan/row_updates.h"
#include "runtime/backend.h"
#include "runtime/cpu/blocks.h"
#include "runtime/cpu/optimizers.h"
#include "runtime/lanes.h"
#include "runtime/plugin.h"

namespace unity {
namespace {

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(const Program& program, Processes& processes, const BackendOptions& options) : program_(program) {
    if (options.precision != Precision::f64)
      throw_input_error("backend reference: precision is {}, expected f64", to_string(options.precision));
    const OptimizerSpec& o = program.optimizer;
    if (o.name != "sgd" || o.momentum != 0)
      throw_input_error("backend reference: optimizer is {}, expected sgd without momentum", o.name);
    for (std::size_t b = 0; b < program.buffers.size(); ++b)
      buffers_.emplace_back(static_cast<std::size_t>(bytes(BufferId(static_cast<std::int64_t>(b)))));
    for (const Task& task : program.tasks)
      if (is_row_update(task)) throw_input_error("backend reference: updates of single rows are not supported");
    lanes_.emplace(program, options.precision, processes,
                   Lanes::Work{[this](TaskId task, const StepInfo& info) { run(program_.tasks[task.index()], info); },
                               [this](BufferId buffer) { return data(buffer); }});
  }

  // Lanes run the tasks of each stream when what they depend on is done, and the collectives.
  std::vector<Span> step(const StepInfo& info) override { return lanes_->step(info); }
  void read(BufferId buffer, void* to) override { std::memcpy(to, data(buffer), bytes(buffer)); }
  void write(BufferId buffer, const void* from) override { std::memcpy(data(buffer), from, bytes(buffer)); }
  void* host_memory(BufferId buffer) override { return data(buffer); }
  std::vector<Bytes> memory() const override {
    std::vector<Bytes> sums(static_cast<std::size_t>(program_.devices), Bytes{0});
    for (std::size_t b = 0; b < buffers_.size(); ++b)
      sums[program_.buffers[b].device.index()].count += static_cast<std::int64_t>(buffers_[b].size());
    return sums;
  }

 private:
  DType type(BufferId id) const { return held_type(program_.tensor_of(id).dtype, Precision::f64); }
  std::size_t bytes(BufferId id) const {
    return static_cast<std::size_t>(program_.buffer(id).box.elements() * size_of(type(id)));
  }
  void* data(BufferId id) { return buffers_[id.index()].data(); }

  void run(const Task& task, const StepInfo& info) {
    auto operands = program_.operands_of(task);
    auto box = [&](std::size_t i) -> const Box& { return program_.buffer(operands[i]).box; };
    auto moved = [&]() -> const Box& { return program_.boxes[static_cast<std::size_t>(task.op)]; };
    switch (task.kind) {
      case TaskKind::compute: {
        const ProgramOp& op = program_.ops[static_cast<std::size_t>(task.op)];
        std::vector<Operand> all;
        for (BufferId id : operands)
          all.push_back({data(id), type(id), program_.buffer(id).box.extent, program_.buffer(id).box.offset,
                         program_.tensor_of(id).dims});
        RandomKey key = RandomKey(info.seed)
                            .with(static_cast<std::uint64_t>(op.origin.value))
                            .with(static_cast<std::uint64_t>(info.step + task.iteration));
        std::span<const Operand> span(all);
        op.op->reference({op.attributes, span.first(op.inputs), span.subspan(op.inputs), key});
        break;
      }
      case TaskKind::copy:
        cpu::copy_block(data(operands[1]), box(1), data(operands[0]), box(0), moved(), type(operands[1]));
        break;
      case TaskKind::accumulate:
        cpu::accumulate_block(data(operands[1]), box(1), data(operands[0]), box(0), moved(), type(operands[1]));
        break;
      case TaskKind::zero:
        cpu::zero_block(data(operands[0]), box(0).elements(), type(operands[0]));
        break;
      case TaskKind::update:
        cpu::sgd_step(data(operands[0]), data(operands[1]), nullptr, box(0).elements(),
                      {program_.optimizer.learning_rate * info.rate_factor, 0, program_.optimizer.weight_decay},
                      type(operands[0]));
        break;
      case TaskKind::communicate:
        break;  // the lanes'
    }
  }

  const Program& program_;
  std::vector<std::vector<std::byte>> buffers_;
  std::optional<Lanes> lanes_;  // the last: its threads end first
};

}  // namespace
}  // namespace unity

extern "C" unity::Backend* unity_make_reference_backend(int version, const unity::Program& program,
                                                        unity::Processes& processes,
                                                        const unity::BackendOptions& options) {
  if (version != unity::kPluginVersion) return nullptr;
  return new unity::ReferenceBackend(program, processes, options);
}
