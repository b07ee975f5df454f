#include "core/search/evaluator.h"

#include <algorithm>

namespace unity {

Bytes Score::peak() const {
  return peak_memory.empty() ? Bytes{} : *std::max_element(peak_memory.begin(), peak_memory.end());
}

MemoryUse memory_use(const Program& program) {
  std::vector<BufferLife> lives = buffer_lives(program);
  TaskId turn(static_cast<std::int64_t>(program.tasks.size()));
  for (std::size_t i = 0; i < program.tasks.size(); ++i)
    if (program.tasks[i].phase != Phase::forward) {
      turn = TaskId(static_cast<std::int64_t>(i));
      break;
    }
  auto devices = static_cast<std::size_t>(program.devices);
  std::vector<std::int64_t> persistent(devices, 0), used(devices, 0), peak(devices, 0);
  std::vector<std::vector<BufferId>> starts(program.tasks.size() + 1), ends(program.tasks.size() + 1);
  // Gradients that an update reads stay until the end of the iteration.
  for (std::size_t b = 0; b < lives.size(); ++b) {
    BufferId id(static_cast<std::int64_t>(b));
    const BufferLife& life = lives[b];
    std::int64_t bytes = program.bytes_of(id).count;
    auto device = program.buffers[b].device.index();
    if (program.buffers[b].on_host) continue;
    if (life.persistent) {
      persistent[device] += bytes, used[device] += bytes;
    } else if (life.first.valid()) {
      bool spans = life.first < turn && life.last >= turn;
      bool waits = program.tasks[life.last.index()].kind == TaskKind::update;
      if (spans || waits) persistent[device] += bytes;
      starts[life.first.index()].push_back(id);
      ends[life.last.index()].push_back(id);
    }
  }
  peak = used;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (BufferId b : starts[t]) {
      auto d = program.buffer(b).device.index();
      used[d] += program.bytes_of(b).count;
      peak[d] = std::max(peak[d], used[d]);
    }
    for (BufferId b : ends[t]) used[program.buffer(b).device.index()] -= program.bytes_of(b).count;
  }
  MemoryUse use;
  for (std::size_t d = 0; d < devices; ++d) {
    use.persistent = std::max(use.persistent, Bytes{persistent[d]});
    use.transient = std::max(use.transient, Bytes{std::max<std::int64_t>(0, peak[d] - persistent[d])});
  }
  return use;
}

Evaluator::Evaluator(const CostModel& cost, const LowerOptions& lower, Bytes memory_limit,
                     const EvaluatorOptions& options)
    : cost_(cost),
      lower_(lower),
      memory_limit_(memory_limit),
      options_(options),
      mapping_(cost, options.cache),
      record_(options.stop, options.time_limit) {}

Result<Candidate> Evaluator::evaluate(Pcg pcg) { return evaluate(std::move(pcg), lower_); }

Result<Candidate> Evaluator::evaluate(Pcg pcg, const Schedule& schedule) {
  LowerOptions lower = lower_;
  lower.schedule = schedule;
  return evaluate(std::move(pcg), lower);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings) {
  return evaluate(std::move(pcg), std::move(mappings), lower_);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings, const Schedule& schedule) {
  LowerOptions lower = lower_;
  lower.schedule = schedule;
  return evaluate(std::move(pcg), std::move(mappings), lower);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, const LowerOptions& lower) {
  if (!options_.mapping_dp) {
    std::vector<MachineMapping> natural = natural_mappings(pcg);
    return evaluate(std::move(pcg), std::move(natural), lower);
  }
  if (stopping()) return evaluate(std::move(pcg), {}, lower);
  Result<MappingResult> mapping = record_.timed(SearchLevel::mapping, [&] { return mapping_.run(pcg); });
  if (!mapping.ok()) {
    record_.left_out(LeftOut::not_runnable);
    return mapping.error();
  }
  return evaluate(std::move(pcg), std::move(mapping->mappings), lower);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings,
                                      const LowerOptions& lower_options) {
  if (stopping()) {
    record_.left_out(LeftOut::interrupted);
    return fail("the search was stopped before this candidate");
  }
  Result<Program> program =
      record_.timed(SearchLevel::lowering, [&] { return lower(pcg, mappings, cost_.topology(), lower_options); });
  if (!program.ok()) {
    record_.left_out(LeftOut::not_runnable);
    return program.error();
  }
  ++scored_;
  auto timer = record_.time(SearchLevel::simulation);
  Score score = cost_.score(*program);
  return Candidate{std::move(pcg), std::move(mappings), lower_options.schedule, std::move(score), memory_use(*program)};
}

void Evaluator::found(const Score& score, std::int64_t candidates) {
  if (fits(score))
    record_.found(candidates ? candidates : scored(), score.iteration);
  else
    record_.left_out(LeftOut::does_not_fit);
}

Bytes Evaluator::memory_of(DeviceId device) const {
  Bytes has = cost_.topology().spec(device).memory;
  return memory_limit_.count > 0 ? std::min(has, memory_limit_) : has;
}

bool Evaluator::fits(const Score& score) const {
  for (std::size_t d = 0; d < score.peak_memory.size(); ++d)
    if (score.peak_memory[d] > memory_of(DeviceId(static_cast<std::int64_t>(d)))) return false;
  return true;
}

}  // namespace unity
