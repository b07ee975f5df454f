#include "core/search/evaluator.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/plan/repeat.h"

namespace unity {

Bytes Score::peak() const {
  return peak_memory.empty() ? Bytes{} : *std::max_element(peak_memory.begin(), peak_memory.end());
}

namespace {

constexpr int kMicroBatchesMore = 4, kMicroBatchesMoreOfMany = 2;

// By device: from the bytes of a few blocks of devices to those of all.
void unfold(std::vector<Bytes>& bytes, const LoweredBlocks& blocks) {
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    bytes[d] = bytes[static_cast<std::size_t>(blocks.lowered(device) * blocks.size + device.value % blocks.size)];
  }
}

// From the score of a few blocks of devices to that of all.
void unfold(Score& score, const Program& program, const LoweredBlocks& blocks) {
  unfold(score.peak_memory, blocks);
  std::vector<int> alike = blocks.alike();
  for (const Communication& c : program.communications)
    if (std::all_of(c.participants.begin(), c.participants.end(),
                    [&](const Participant& p) { return blocks.contains(p.device); }))
      score.communicated.count +=
          communication_bytes(c).count * (alike[static_cast<std::size_t>(blocks.block(c.participants[0].device))] - 1);
}

struct Held {
  MemoryUse use;
  // By device: the most while two micro-batches of what the forward passes left are used up. The second one's gradients
  // are added to those of the first.
  std::vector<Bytes> behind_turn;
  std::vector<Bytes> kept;  // by device: weights, states, inputs, outputs
};

// Lists of buffers, one for each task; a buffer is in one of them at most.
class ByTask {
 public:
  explicit ByTask(std::size_t tasks) : first_(tasks) {}
  void add(TaskId task, BufferId buffer) {
    if (after_.size() <= buffer.index()) after_.resize(buffer.index() + 1);
    after_[buffer.index()] = std::exchange(first_[task.index()], buffer);
  }
  BufferId first(std::size_t task) const { return first_[task]; }
  BufferId after(BufferId buffer) const { return after_[buffer.index()]; }

 private:
  std::vector<BufferId> first_, after_;
};

// In the order of the Program.
Held held_memory(const Program& program, int micro_batches) {
  std::vector<BufferLife> lives = buffer_lives(program);
  TaskId turn(static_cast<std::int64_t>(program.tasks.size()));
  for (std::size_t i = 0; i < program.tasks.size(); ++i)
    if (program.tasks[i].phase != Phase::forward) {
      turn = TaskId(static_cast<std::int64_t>(i));
      break;
    }
  auto spans = [&](const BufferLife& life) { return !life.persistent && life.first < turn && life.last >= turn; };
  auto devices = static_cast<std::size_t>(program.devices);
  std::vector<std::int64_t> persistent(devices, 0), used(devices, 0), spanning(devices, 0);
  ByTask starts(program.tasks.size()), ends(program.tasks.size());
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
      bool waits = program.tasks[life.last.index()].kind == TaskKind::update;
      if (spans(life)) spanning[device] += bytes;
      if (spans(life) || waits) persistent[device] += bytes;
      starts.add(life.first, id);
      ends.add(life.last, id);
    }
  }
  std::vector<std::int64_t> peak = used, freed(devices, 0);
  Held held{{}, std::vector<Bytes>(devices), {}};
  for (std::int64_t bytes : used) held.kept.push_back(Bytes{bytes});
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (BufferId b = starts.first(t); b.valid(); b = starts.after(b)) {
      auto d = program.buffer(b).device.index();
      used[d] += program.bytes_of(b).count;
      peak[d] = std::max(peak[d], used[d]);
      if (t >= turn.index() && freed[d] * micro_batches <= 2 * spanning[d])
        held.behind_turn[d] = std::max(held.behind_turn[d], Bytes{used[d]});
    }
    for (BufferId b = ends.first(t); b.valid(); b = ends.after(b)) {
      auto d = program.buffer(b).device.index();
      used[d] -= program.bytes_of(b).count;
      if (spans(lives[b.index()])) freed[d] += program.bytes_of(b).count;
    }
  }
  for (std::size_t d = 0; d < devices; ++d) {
    held.use.persistent = std::max(held.use.persistent, Bytes{persistent[d]});
    held.use.transient = std::max(held.use.transient, Bytes{std::max<std::int64_t>(0, peak[d] - persistent[d])});
  }
  return held;
}

// What the score of a whole graph depends on: what the Program does, and what is made of that.
Hash scored_hash(const Program& program, const LowerOptions& options) {
  const Schedule& schedule = options.schedule;
  // Iterations that go on into one another are scheduled once more.
  Hash hash = schedule.weights == WeightVersions::delayed ? schedule_hash(schedule)
                                                          : Hash{schedule.order == PipelineOrder::gpipe};
  hash = combine(combine(hash, static_cast<Hash>(options.micro_batches)), static_cast<Hash>(options.blocks.size));
  for (int block : options.blocks.stands_for) hash = combine(hash, static_cast<Hash>(block));
  return combine(hash, work_hash(program));
}

}  // namespace

MemoryUse memory_use(const Program& program) { return held_memory(program, 1).use; }

Evaluator::Evaluator(const CostModel& cost, const LowerOptions& lower, Bytes memory_limit,
                     const EvaluatorOptions& options)
    : cost_(cost),
      lower_(lower),
      memory_limit_(memory_limit),
      options_(options),
      mapping_(cost, options.cache),
      algorithms_(cost.topology()),
      blocks_(cost.topology()),
      own_record_(std::in_place, options.stop, options.time_limit),
      record_(*own_record_),
      own_threads_(std::in_place, options.jobs),
      threads_(*own_threads_) {}

Evaluator::Evaluator(Beside beside)
    : cost_(beside.other.cost_),
      lower_(beside.other.lower_),
      memory_limit_(beside.other.memory_limit_),
      options_(beside.other.options_),
      mapping_(cost_, options_.cache),
      algorithms_(cost_.topology()),
      blocks_(cost_.topology()),
      own_record_(std::in_place, SearchRecorder::Beside{beside.other.record_}),
      record_(*own_record_),
      threads_(beside.other.threads_) {}

void Evaluator::count(const Evaluator& beside) {
  scored_ += beside.scored();
  record_.add(beside.record_);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg) { return evaluate(std::move(pcg), lower_, Limits{}); }

Result<Candidate> Evaluator::evaluate(Pcg pcg, const Schedule& schedule) {
  LowerOptions lower = lower_;
  lower.schedule = schedule;
  return evaluate(std::move(pcg), lower, {.keep = true});
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings) {
  return evaluate(std::move(pcg), std::move(mappings), lower_, {});
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings, const Schedule& schedule) {
  LowerOptions lower = lower_;
  lower.schedule = schedule;
  return evaluate(std::move(pcg), std::move(mappings), lower, {.keep = true});
}

Result<Candidate> Evaluator::evaluate_part(Pcg pcg, Bytes bucket) {
  MappingResult mapping = UNITY_TRY(map(pcg));
  return evaluate_part(std::move(pcg), std::move(mapping), bucket);
}

Result<Candidate> Evaluator::evaluate_part(Pcg pcg, MappingResult mapping, Bytes bucket) {
  LowerOptions lower = lower_;
  bool many = static_cast<int>(cost_.topology().device_count()) > kManyDevices;
  bool few_must_tell = many && options_.blocks && lower.schedule == Schedule();
  if (lower.schedule.bucket.count == 0) lower.schedule.bucket = bucket;
  return evaluate(std::move(pcg), std::move(mapping), lower, {.few_must_tell = few_must_tell});
}

Result<Candidate> Evaluator::evaluate_stages(Pcg pcg, std::vector<MachineMapping> mappings, const Schedule& schedule,
                                             double most_tasks) {
  LowerOptions lower = lower_;
  lower.schedule = schedule;
  return evaluate(std::move(pcg), std::move(mappings), lower, {.most_tasks = most_tasks, .keep = true});
}

Result<Candidate> Evaluator::evaluate_stages(Pcg pcg, const Schedule& schedule, double most_tasks) {
  LowerOptions lower = lower_;
  lower.schedule = schedule;
  return evaluate(std::move(pcg), lower, {.most_tasks = most_tasks, .keep = true});
}

Result<Candidate> Evaluator::evaluate_bucket(const Candidate& candidate, Bytes bucket) {
  LowerOptions lower = lower_;
  lower.schedule = candidate.schedule, lower.schedule.bucket = bucket;
  Limits limits{.keep = true};
  if (!candidate.exact) limits.most_tasks = 2 * static_cast<double>(candidate.tasks);
  return evaluate(candidate.pcg, candidate.mappings, lower, limits);
}

Result<Candidate> Evaluator::evaluate_all(const Candidate& candidate, double most_tasks) {
  LowerOptions lower = lower_;
  lower.schedule = candidate.schedule;
  return evaluate(candidate.pcg, candidate.mappings, lower, {.most_tasks = most_tasks, .all = true, .keep = true});
}

Result<MappingResult> Evaluator::map(const Pcg& pcg, Shares shares) {
  if (!options_.mapping_dp) return MappingResult{natural_mappings(pcg), {}};
  if (stopping()) return MappingResult{};
  auto mapping = record_.timed(SearchLevel::mapping, [&] { return mapping_.run(pcg, shares); });
  if (!mapping.ok()) record_.left_out(LeftOut::not_runnable);
  return mapping;
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, const LowerOptions& lower, const Limits& limits) {
  MappingResult mapping = UNITY_TRY(map(pcg));
  return evaluate(std::move(pcg), std::move(mapping), lower, limits);
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, MappingResult mapping, const LowerOptions& lower, const Limits& limits) {
  auto candidate = evaluate(std::move(pcg), std::move(mapping.mappings), lower, limits);
  if (candidate.ok()) candidate->estimate = mapping.estimate;
  return candidate;
}

Result<Candidate> Evaluator::evaluate(Pcg pcg, std::vector<MachineMapping> mappings, const LowerOptions& lower_options,
                                      const Limits& wanted) {
  Limits limits = wanted;
  if (one_at_once()) limits.most_tasks = std::min(limits.most_tasks, kMostTasksOfOneAtOnce);
  if (stopping() && (after_stop_ <= 0 || after_stop_-- <= 0)) {
    if (!limits.all) record_.left_out(LeftOut::interrupted);
    return fail("the search was stopped before this candidate");
  }
  LowerOptions options = lower_options;
  Schedule rest = options.schedule;  // but for what devices that are alike do alike
  rest.order = Schedule().order, rest.overlap = 0, rest.remat.clear(), rest.bucket = Schedule().bucket;
  rest.fuse = Schedule().fuse, rest.zero_stage = Schedule().zero_stage;
  if (options_.blocks && !limits.all && rest == Schedule())
    options.blocks = record_.timed(SearchLevel::lowering, [&] { return blocks_.find(pcg, mappings); });
  auto not_told = [&] {
    record_.left_out(LeftOut::not_told);
    return fail("a few devices do not tell what all {} do", cost_.topology().device_count());
  };
  if (limits.few_must_tell && options.blocks.all()) return not_told();
  auto too_many = [&] {
    return !std::isinf(limits.most_tasks) && about_tasks(pcg, mappings, options.blocks) > limits.most_tasks;
  };
  Result<Scored> result = fail("more than {:g} tasks", limits.most_tasks);
  bool exact = false, over_budget = too_many();
  if (!over_budget) {
    result = score(pcg, mappings, options, limits.keep);
    exact = options.blocks.exact;
    if (!result.ok() && !options.blocks.all()) {
      if (limits.few_must_tell) return not_told();
      options.blocks = {};
      over_budget = too_many(), exact = true;
      if (!over_budget) result = score(pcg, mappings, options, limits.keep);
    }
  } else if (!limits.all) {
    result = score_from_first(pcg, mappings, options, limits.most_tasks);
  }
  if (!result.ok()) {
    if (!limits.all) record_.left_out(over_budget ? LeftOut::over_budget : LeftOut::not_runnable);
    return result.error();
  }
  if (!limits.all) ++scored_;  // else it was counted
  return Candidate{std::move(pcg),
                   std::move(mappings),
                   lower_options.schedule,
                   std::move(result->score),
                   result->memory,
                   result->tasks,
                   exact,
                   {},
                   result->program};
}

Result<Evaluator::Scored> Evaluator::score(const Pcg& pcg, const std::vector<MachineMapping>& mappings,
                                           const LowerOptions& options, bool keep) {
  const Hash plan = lowered_hash(pcg, mappings, options), key = combine(plan, schedule_hash(options.schedule));
  if (options_.cache) {
    std::lock_guard lock(scores_mutex_);
    if (auto known = scores_.find(key); known != scores_.end()) return known->second;
  }
  const bool piece = is_piece(pcg);
  keep = keep && !piece && !one_at_once();
  Program program = UNITY_TRY(record_.timed(SearchLevel::lowering, [&]() -> Result<Program> {
    const bool joined = options.schedule.remat.empty();
    // What a schedule names may be in another piece, which lowering knows.
    if (!options.training || (piece && !joined)) return lower(pcg, mappings, cost_.topology(), options);
    LowerOptions unscheduled = options;
    unscheduled.scheduled = false;
    const bool once = !keep || !options_.cache;
    Program kept = UNITY_TRY(once ? lower(pcg, mappings, cost_.topology(), unscheduled)
                                  : programs_.get(combine(plan, joined), [&]() -> Result<Program> {
                                      Program fresh = UNITY_TRY(lower(pcg, mappings, cost_.topology(), unscheduled));
                                      if (joined) join_transfers(fresh);
                                      return fresh;
                                    }));
    UNITY_TRY_VOID(schedule_tasks(kept, options.schedule, algorithms_, joined && !once));
    return kept;
  }));
  // (Pieces are many, and seldom the same.)
  const bool may_be_known = options_.cache && !piece;
  Hash work = 0;
  if (may_be_known) {
    work = scored_hash(program, options);
    std::lock_guard lock(scores_mutex_);
    if (auto known = plan_of_work_.find(work); known != plan_of_work_.end()) {
      Scored same = scores_.at(known->second);
      same.program = key;
      return scores_.try_emplace(key, std::move(same)).first->second;
    }
  }
  Scored scored = UNITY_TRY(score(std::move(program), options, piece));
  scored.program = key;
  if (!options_.cache) return scored;
  std::lock_guard lock(scores_mutex_);
  if (may_be_known) plan_of_work_.try_emplace(work, key);
  return scores_.try_emplace(key, std::move(scored)).first->second;
}

Result<Evaluator::Scored> Evaluator::score(Program program, const LowerOptions& options, bool piece) {
  auto timer = record_.time(SearchLevel::simulation);
  Scored scored;
  Held held = held_memory(program, std::max(1, options.micro_batches));
  scored.memory = held.use;
  if (options.schedule.order == PipelineOrder::gpipe) scored.behind_turn = std::move(held.behind_turn);
  if (options.micro_batches > 0) scored.kept = std::move(held.kept);
  // A step with weights of one update before begins before the last one has ended: what it takes among others counts.
  if (options.schedule.weights == WeightVersions::delayed && !piece)
    program = UNITY_TRY(repeat(program, kSteadyIterations, options.schedule));
  scored.score = cost_.score(program);
  scored.tasks = static_cast<std::int64_t>(program.tasks.size());
  if (!options.blocks.all()) {
    unfold(scored.score, program, options.blocks);
    unfold(scored.behind_turn, options.blocks);
    unfold(scored.kept, options.blocks);
  }
  return scored;
}

// Two numbers of micro-batches tell how long one more takes, and what it needs, once all stages have two: so long as
// the slowest stage. Where that is too much, as many as there are stages have to do: 1F1B, which has begun to wait only
// then, looks some percent faster than it is. With a few micro-batches, a device's memory may be fullest at another
// time than with all: where all forward passes come first, behind these.
Result<Evaluator::Scored> Evaluator::score_from_first(const Pcg& pcg, const std::vector<MachineMapping>& mappings,
                                                      const LowerOptions& options, double most_tasks) {
  int all = 1;
  std::set<int> stages;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (pcg[id].op->name() == "batch") return fail("micro-batches are put together");
    if (!pcg[id].is_compute()) continue;
    all = std::max(all, micro_count(node_sharding(pcg, id)));
    stages.insert(mappings[i].start);
  }
  double tasks = about_tasks(pcg, mappings, options.blocks) / all;
  // Of zero-bubble orders twice as many, and no fewer: gradients of weights come up to so many passes later.
  // Of interleaved ones as many again as go through a part in a row, and the first stage begins with nearly twice
  // those.
  const Schedule& schedule = options.schedule;
  const bool rounds = schedule.order == PipelineOrder::interleaved;
  const bool later = rounds || schedule.order == PipelineOrder::zero_bubble;
  const int in_row = static_cast<int>(stages.size()) * (rounds ? std::max(1, schedule.overlap) : 1);
  const int step = rounds ? in_row : one_at_once() ? kMicroBatchesMoreOfMany : kMicroBatchesMore;
  int some = (later ? 4 : 2) * in_row;
  if (!later && tasks * (some + step) > most_tasks) some /= 2;
  int more = some + step;
  if (more >= all || tasks * more > most_tasks) return fail("more than {:g} tasks", most_tasks);
  LowerOptions first = options;
  first.micro_batches = some;
  Scored few = UNITY_TRY(score(pcg, mappings, first, false));
  first.micro_batches = more;
  Scored scored = UNITY_TRY(score(pcg, mappings, first, false));
  auto extend = [&](std::int64_t& to, std::int64_t from) {
    to += static_cast<std::int64_t>(static_cast<double>(to - from) * (all - more) / (more - some));
  };
  extend(scored.score.iteration.count, few.score.iteration.count);
  extend(scored.score.communicated.count, few.score.communicated.count);
  std::vector<Bytes>& peak = scored.score.peak_memory;
  // With as many as there are stages not all are in flight at once; further ones add nothing but what is kept.
  const bool fills = !later && some < 2 * in_row && schedule.order != PipelineOrder::gpipe;
  for (std::size_t d = 0; d < peak.size(); ++d) {
    std::int64_t kept = scored.kept[d].count;
    if (fills)
      extend(kept, few.kept[d].count), peak[d].count += kept - scored.kept[d].count;
    else
      extend(peak[d].count, few.score.peak_memory[d].count);
  }
  for (std::size_t d = 0; d < scored.behind_turn.size(); ++d) {
    extend(scored.behind_turn[d].count, few.behind_turn[d].count);
    peak[d] = std::max(peak[d], scored.behind_turn[d]);
  }
  scored.tasks += few.tasks;
  return scored;
}

void Evaluator::found(const Score& score, std::int64_t candidates) {
  if (fits(score)) return record_.found(candidates ? candidates : scored(), score.iteration);
  found_beside(score);
}

void Evaluator::found_beside(const Score& score) {
  if (fits(score)) return;
  record_.left_out(LeftOut::does_not_fit);
  auto size = [&](const Score& s) { return std::pair(excess(s), s.iteration); };
  std::lock_guard lock(smallest_mutex_);
  if (!smallest_ || size(score) < size(*smallest_)) smallest_ = score;
}

Bytes Evaluator::memory_of(DeviceId device) const {
  Bytes has = cost_.topology().spec(device).memory;
  return memory_limit_.count > 0 ? std::min(has, memory_limit_) : has;
}

bool Evaluator::is_limited(DeviceId device) const { return memory_of(device) < cost_.topology().spec(device).memory; }

bool Evaluator::fits(const Score& score) const {
  for (std::size_t d = 0; d < score.peak_memory.size(); ++d)
    if (score.peak_memory[d] > memory_of(DeviceId(static_cast<std::int64_t>(d)))) return false;
  return true;
}

double Evaluator::excess(const Score& score) const {
  double most = 0;
  for (std::size_t d = 0; d < score.peak_memory.size(); ++d)
    most = std::max(most, static_cast<double>(score.peak_memory[d].count) /
                              static_cast<double>(memory_of(DeviceId(static_cast<std::int64_t>(d))).count));
  return most;
}

}  // namespace unity
