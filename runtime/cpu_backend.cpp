// Logical devices as host memory; kernels of runtime/cpu on the lanes' threads and their teams.

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/does_not_fit.h"
#include "core/base/this_machine.h"
#include "core/plan/memory_plan.h"
#include "core/plan/row_updates.h"
#include "runtime/backend.h"
#include "runtime/cpu/arena.h"
#include "runtime/cpu/blocks.h"
#include "runtime/cpu/chain.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/optimizers.h"
#include "runtime/cpu/threads.h"
#include "runtime/lanes.h"

namespace unity {
namespace {

// The kernels are compiled for more than the oldest processors have.
void require_instructions() {
#if defined(__x86_64__) && !defined(__clang__)
  __builtin_cpu_init();
  constexpr std::string_view level = UNITY_CPU_LEVEL;
  const bool has = level == "x86-64-v2"   ? __builtin_cpu_supports("x86-64-v2")
                   : level == "x86-64-v3" ? __builtin_cpu_supports("x86-64-v3")
                   : level == "x86-64-v4" ? __builtin_cpu_supports("x86-64-v4")
                                          : true;
  if (!has)
    throw_input_error(
        "backend cpu: this build's kernels are for processors of {} (v3: AVX2), which this one is not; configure with "
        "-DUNITY_CPU_LEVEL=x86-64 and build anew",
        level);
#endif
}

constexpr int kMostThreads = 1024;  // of a device, more than machines have cores; to start more takes seconds

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Program& program, Processes& processes, const BackendOptions& options)
      : program_(program),
        precision_(options.precision),
        threads_(options.threads > 0 ? options.threads : cpu::fair_share(processes.count(program.devices))) {
    std::vector<Bytes> bytes;
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      BufferId id(static_cast<std::int64_t>(b));
      bytes.push_back({program.buffers[b].box.elements() * size_of(type_of(id))});
    }
    plan_ = plan_memory(program, bytes, {.alignment = kAlignment, .share = options.share_memory});
    require_memory(processes);
    for (std::size_t d = 0; d < plan_.arenas.size(); ++d) {
      here_.push_back(processes.has(DeviceId(static_cast<std::int64_t>(d)), program.devices));
      arenas_.emplace_back(here_[d] ? plan_.arenas[d] : Bytes{0});
      host_arenas_.emplace_back(here_[d] ? plan_.host_arenas[d] : Bytes{0});
    }
    for (std::size_t b = 0; b < bytes.size() && !options.share_memory; ++b)
      if (plan_.offsets[b] >= 0 && here_[program.buffers[b].device.index()])
        arena_of(program.buffers[b]).guard(plan_.offsets[b] + bytes[b].count, kAlignment);
    calls_.resize(program.tasks.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      const Task& task = program.tasks[t];
      if (task.kind != TaskKind::compute || !here_[task.device.index()]) continue;
      const ProgramOp& op = program.ops[static_cast<std::size_t>(task.op)];
      calls_[t].kernel = cpu::find_kernel(*op.op);
      UNITY_CHECK(calls_[t].kernel || op.chain, "the cpu backend has no kernel for {}", op.op->name());
      auto operands = program.operands_of(task);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        bool read = i >= op.inputs || !op.shape_only[i];
        const Buffer& buffer = program.buffer(operands[i]);
        calls_[t].operands.push_back({read ? host_memory(operands[i]) : nullptr, type_of(operands[i]),
                                      buffer.box.extent, buffer.box.offset, program.tensor_of(operands[i]).dims});
      }
      if (op.chain) calls_[t].chain.emplace(*op.chain, calls_[t].operands);
    }
    lanes_.emplace(program, precision_, processes,
                   Lanes::Work{[this](TaskId task, const StepInfo& info) { run(task, info); },
                               [this](BufferId buffer) { return host_memory(buffer); }, threads_});
  }

  std::vector<Span> step(const StepInfo& info) override { return lanes_->step(info); }
  void read(BufferId buffer, void* to) override { std::memcpy(to, host_memory(buffer), size(buffer)); }
  void write(BufferId buffer, const void* from) override { std::memcpy(host_memory(buffer), from, size(buffer)); }
  void* host_memory(BufferId buffer) override {
    std::int64_t offset = plan_.offsets[buffer.index()];
    return offset < 0 ? nullptr : arena_of(program_.buffer(buffer)).data() + offset;
  }
  std::vector<Bytes> memory() const override { return plan_.arenas; }

 private:
  // The system hands out more than there is, and ends who uses it, without a word. What counts is all that the
  // processes of this node take, an evaluation beside its training.
  void require_memory(Processes& processes) const {
    Bytes ours;
    int devices = 0;
    for (std::size_t d = 0; d < plan_.arenas.size(); ++d) {
      if (!processes.has(DeviceId(static_cast<std::int64_t>(d)), program_.devices)) continue;
      ours += plan_.arenas[d] + plan_.host_arenas[d], ++devices;
    }
    const Bytes before = cpu::taken_by_arenas(), memory = memory_of_this_machine();
    struct Share {
      std::int64_t node = 0, devices = 0, bytes = 0, before = 0;
    };
    const Share mine{processes.node(), devices, ours.count, before.count};
    Share all{mine.node, 0, 0, 0};
    int there = 0;
    for (const std::vector<std::byte>& theirs : processes.all_gather(std::as_bytes(std::span(&mine, 1)))) {
      Share share;
      std::memcpy(&share, theirs.data(), sizeof share);
      if (share.node != mine.node) continue;
      all.devices += share.devices, all.bytes += share.bytes, all.before += share.before, ++there;
    }
    if (all.bytes + all.before <= memory.count) return;
    const std::int64_t left = std::max<std::int64_t>(0, memory.count - all.before);
    throw DoesNotFit(
        fmt::format(
            "backend cpu: {} device{} of {} need{} {}{}, found {} of memory here", all.devices,
            all.devices == 1 ? "" : "s",
            there == 1 ? "this process" : fmt::format("the {} processes of this node", there),
            all.devices == 1 ? "s" : "", to_string(Bytes{all.bytes}),
            all.before > 0 ? fmt::format(" beside {} that they take already", to_string(Bytes{all.before})) : "",
            to_string(memory)),
        left / std::max<std::int64_t>(1, all.devices));
  }
  cpu::Arena& arena_of(const Buffer& buffer) {
    return (buffer.on_host ? host_arenas_ : arenas_)[buffer.device.index()];
  }
  void* data(BufferId buffer) { return host_memory(buffer); }
  std::size_t size(BufferId buffer) const {
    return static_cast<std::size_t>(program_.buffer(buffer).box.elements() * size_of(type_of(buffer)));
  }

  void run(TaskId id, const StepInfo& info) {
    if (cpu::threads() != threads_) cpu::set_threads(threads_);
    const Task& task = program_.tasks[id.index()];
    auto operands = program_.operands_of(task);
    auto box = [&](std::size_t i) -> const Box& { return program_.buffer(operands[i]).box; };
    switch (task.kind) {
      case TaskKind::compute: {
        if (const auto& chain = calls_[id.index()].chain) return (*chain)();
        const ProgramOp& op = program_.ops[static_cast<std::size_t>(task.op)];
        std::span<const Operand> all(calls_[id.index()].operands);
        RandomKey key = RandomKey(info.seed)
                            .with(static_cast<std::uint64_t>(op.origin.value))
                            .with(static_cast<std::uint64_t>(info.step + task.iteration));
        calls_[id.index()].kernel({op.attributes, all.first(op.inputs), all.subspan(op.inputs), key});
        break;
      }
      case TaskKind::copy:
        cpu::copy_block(data(operands[1]), box(1), data(operands[0]), box(0),
                        program_.boxes[static_cast<std::size_t>(task.op)], type_of(operands[1]));
        break;
      case TaskKind::accumulate:
        cpu::accumulate_block(data(operands[1]), box(1), data(operands[0]), box(0),
                              program_.boxes[static_cast<std::size_t>(task.op)], type_of(operands[1]));
        break;
      case TaskKind::zero:
        cpu::zero_block(data(operands[0]), box(0).elements(), type_of(operands[0]));
        break;
      case TaskKind::update: {
        const OptimizerSpec& o = program_.optimizer;
        auto state = [&](std::size_t i) { return operands.size() > 2 + i ? data(operands[2 + i]) : nullptr; };
        double rate = o.learning_rate * info.rate_factor;
        auto operand = [&](std::size_t i) {
          return Operand{data(operands[i]), type_of(operands[i]), box(i).extent, box(i).offset,
                         program_.tensor_of(operands[i]).dims};
        };
        if (is_row_update(task))
          cpu::sgd_rows_step(operand(0), operand(1), operand(2), rate * row_update_factor(program_, task));
        else if (o.name == "sgd")
          cpu::sgd_step(data(operands[0]), data(operands[1]), state(0), box(0).elements(),
                        {rate, o.momentum, o.weight_decay, o.nesterov}, type_of(operands[0]));
        else
          cpu::adam_step(
              data(operands[0]), data(operands[1]), state(0), state(1), box(0).elements(),
              {rate, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.name == "adamw", info.step + task.iteration + 1},
              type_of(operands[0]));
        break;
      }
      case TaskKind::communicate:
        UNITY_CHECK(false, "communication is the lanes'");
    }
  }

  struct Call {
    cpu::Kernel kernel = nullptr;
    std::vector<Operand> operands;
    std::optional<cpu::ChainKernel> chain;  // in place of `kernel`
  };
  DType type_of(BufferId id) const { return held_type(program_.tensor_of(id).dtype, precision_); }

  static constexpr std::int64_t kAlignment = 64;
  const Program& program_;
  Precision precision_;
  int threads_;
  MemoryPlan plan_;
  std::vector<bool> here_;          // by device: one of this process
  std::vector<cpu::Arena> arenas_;  // by device
  std::vector<cpu::Arena> host_arenas_;
  std::vector<Call> calls_;
  std::optional<Lanes> lanes_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Program& program, Processes& processes, const BackendOptions& options) {
  require_instructions();
  if (options.precision != Precision::f32 && options.precision != Precision::f64)
    throw_input_error("backend cpu: precision is {}, expected f32 or f64", to_string(options.precision));
  if (options.threads > kMostThreads)
    throw_input_error("--threads: found {}, expected at most {} for each device", options.threads, kMostThreads);
  return std::make_unique<CpuBackend>(program, processes, options);
}

}  // namespace unity
