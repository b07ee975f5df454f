#include "core/search/lowered_programs.h"

#include <algorithm>

namespace unity {
namespace {

constexpr std::size_t kMostPlans = 64, kMostTasks = 600'000, kMostTasksOfOne = 2'000'000;

Hash hash_integers(Hash seed, const std::vector<int>& integers) {
  Hash hash = combine(seed, integers.size());
  for (int i : integers) hash = combine(hash, static_cast<Hash>(i));
  return hash;
}

}  // namespace

Hash lowered_hash(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const LowerOptions& options) {
  Hash hash = combine(mix(pcg.size()), static_cast<Hash>(options.micro_batches));
  for (const Node& n : pcg.nodes()) {
    hash = combine(hash, combine(hash_text(n.op->name()), hash_text(n.name)));
    hash = combine(hash, combine(hash_attributes(n.attributes), static_cast<Hash>(n.origin.value)));
    for (ValueRef v : n.inputs)
      hash = combine(hash, static_cast<Hash>(v.node.value) << 8 | static_cast<Hash>(v.output));
    for (const ParallelShape& s : n.outputs) hash = combine(hash, hash_shape(s));
  }
  for (ValueRef v : pcg.outputs())
    hash = combine(hash, static_cast<Hash>(v.node.value) << 8 | static_cast<Hash>(v.output));
  for (const MachineMapping& m : mappings)
    hash = hash_integers(hash_integers(combine(hash, static_cast<Hash>(m.start)), m.strides), m.places);
  return hash_integers(combine(hash, static_cast<Hash>(options.blocks.size)), options.blocks.stands_for);
}

Hash schedule_hash(const Schedule& schedule) {
  Hash hash = combine(static_cast<Hash>(schedule.order), static_cast<Hash>(schedule.overlap));
  hash = combine(hash, static_cast<Hash>(schedule.bucket.count));
  for (const std::string& label : schedule.remat) hash = combine(hash, hash_text(label));
  hash = combine(hash, static_cast<Hash>(schedule.zero_stage));
  if (schedule.fuse != Fuse::none) hash = combine(hash, static_cast<Hash>(schedule.fuse));
  return combine(hash, combine(static_cast<Hash>(schedule.offload), static_cast<Hash>(schedule.weights)));
}

std::shared_ptr<LoweredPrograms::Kept> LoweredPrograms::find(Hash plan) {
  std::lock_guard lock(mutex_);
  auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.plan == plan; });
  if (at == entries_.end())
    entries_.push_front({plan, 0, std::make_shared<Kept>()});
  else
    entries_.splice(entries_.begin(), entries_, at);
  return entries_.front().kept;
}

// Now that a plan is known to have so many tasks.
void LoweredPrograms::drop_oldest(Hash plan, std::size_t tasks) {
  std::lock_guard lock(mutex_);
  for (Entry& e : entries_)
    if (e.plan == plan) e.tasks = tasks;
  std::size_t plans = 0, all = 0;
  for (auto at = entries_.begin(); at != entries_.end();) {
    all += at->tasks;
    bool many = ++plans > kMostPlans || all > kMostTasks;
    at = many && plans > 1 ? entries_.erase(at) : std::next(at);
  }
}

Result<Program> LoweredPrograms::get(Hash plan, const std::function<Result<Program>()>& lower) {
  std::shared_ptr<Kept> kept = find(plan);
  std::shared_ptr<const Program> program;
  {
    std::lock_guard lock(kept->mutex);
    if (!kept->program) {
      Program fresh = UNITY_TRY(lower());
      if (fresh.tasks.size() > kMostTasksOfOne) return fresh;
      drop_oldest(plan, fresh.tasks.size());
      kept->program = std::make_shared<const Program>(std::move(fresh));
    }
    program = kept->program;
  }
  return *program;
}

}  // namespace unity
