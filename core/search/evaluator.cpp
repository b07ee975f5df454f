#include "core/search/evaluator.h"

#include <algorithm>

namespace unity {
Bytes Score::peak() const {
  return peak_memory.empty() ? Bytes{} : *std::max_element(peak_memory.begin(), peak_memory.end());
}

namespace {

// From the score of a few blocks of devices to that of all.
void unfold(Score& score, const Program& program, const LoweredBlocks& blocks) {
  for (std::size_t d = 0; d < score.peak_memory.size(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    score.peak_memory[d] =
        score.peak_memory[static_cast<std::size_t>(blocks.lowered(device) * blocks.size + device.value % blocks.size)];
  }
  std::vector<std::int64_t> alike(blocks.stands_for.size(), 0);
  for (int b : blocks.stands_for) ++alike[static_cast<std::size_t>(b)];
  for (const Communication& c : program.communications) {
    int block = blocks.block(c.participants[0].device);
    if (std::all_of(c.participants.begin(), c.participants.end(),
                    [&](const Participant& p) { return blocks.block(p.device) == block; }))
      score.communicated.count += communication_bytes(c).count * (alike[static_cast<std::size_t>(block)] - 1);
  }
}

}  // namespace

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
      blocks_(cost.topology()),
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

Result<Candidate> Evaluator::evaluate_part(Pcg pcg) {
  LowerOptions lower = lower_;
  bool many = static_cast<int>(cost_.topology().device_count()) > kManyDevices;
  return evaluate(std::move(pcg), lower, many && options_.blocks && lower.schedule == Schedule());
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, const LowerOptions& lower, bool few_must_tell) {
  if (!options_.mapping_dp) {
    std::vector<MachineMapping> natural = natural_mappings(pcg);
    return evaluate(std::move(pcg), std::move(natural), lower, few_must_tell);
  }
  if (stopping()) return evaluate(std::move(pcg), {}, lower);
  Result<MappingResult> mapping = record_.timed(SearchLevel::mapping, [&] { return mapping_.run(pcg); });
  if (!mapping.ok()) {
    record_.left_out(LeftOut::not_runnable);
    return mapping.error();
  }
  return evaluate(std::move(pcg), std::move(mapping->mappings), lower, few_must_tell);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings, const LowerOptions& lower_options,
                                      bool few_must_tell) {
  if (stopping()) {
    record_.left_out(LeftOut::interrupted);
    return fail("the search was stopped before this candidate");
  }
  LowerOptions options = lower_options;
  if (options_.blocks && options.schedule == Schedule())
    options.blocks = record_.timed(SearchLevel::lowering, [&] { return blocks_.find(pcg, mappings); });
  auto not_told = [&] {
    record_.left_out(LeftOut::not_told);
    return fail("a few devices do not tell what all {} do", cost_.topology().device_count());
  };
  if (few_must_tell && options.blocks.all()) return not_told();
  auto lowered = [&] {
    return record_.timed(SearchLevel::lowering, [&] { return lower(pcg, mappings, cost_.topology(), options); });
  };
  Result<Program> program = lowered();
  if (!program.ok() && !options.blocks.all()) {
    if (few_must_tell) return not_told();
    options.blocks = {};
    program = lowered();
  }
  if (!program.ok()) {
    record_.left_out(LeftOut::not_runnable);
    return program.error();
  }
  ++scored_;
  auto timer = record_.time(SearchLevel::simulation);
  Score score = cost_.score(*program);
  if (!options.blocks.all()) unfold(score, *program, options.blocks);
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
