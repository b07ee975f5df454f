#include "core/search/lowered_programs.h"

#include <algorithm>
#include <bit>

#include "core/ops/chain.h"

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

namespace {

// Of very many words: one step of a bijection for each.
class WordHash {
 public:
  void add(Hash word) { hash_ = mix(hash_ ^ word); }
  void add(Hash high, Hash low) { add(high << 32 | static_cast<std::uint32_t>(low)); }
  void add(double number) { add(std::bit_cast<Hash>(number)); }
  void add(const Box& box) {
    add(box.rank());
    for (std::size_t d = 0; d < box.rank(); ++d)
      add(static_cast<Hash>(box.offset[d])), add(static_cast<Hash>(box.extent[d]));
  }
  Hash hash() const { return hash_; }

 private:
  Hash hash_ = 0;
};

void add(WordHash& hash, const ProgramOp& op) {
  hash.add(hash_text(op.chain ? op.chain->text() : op.op->name()));
  hash.add(hash_attributes(op.attributes));
  hash.add(op.inputs, op.shape_only.size());
  for (bool b : op.shape_only) hash.add(Hash{b});
}

void add(WordHash& hash, const Communication& c) {
  hash.add(static_cast<Hash>(c.kind) << 16 | static_cast<Hash>(c.monoid) << 8 | static_cast<Hash>(c.dtype),
           c.algorithm.name ? static_cast<Hash>(*c.algorithm.name) + 1 : 0);
  hash.add(static_cast<Hash>(c.algorithm.devices_per_node), static_cast<Hash>(c.algorithm.chunks));
  hash.add(c.part_count(), c.participants.size());
  for (std::size_t part = 0; part < c.part_count(); ++part)
    for (const Participant& p : c.part(part)) {
      hash.add(static_cast<Hash>(p.device.value));
      hash.add(static_cast<Hash>(p.send.value), static_cast<Hash>(p.receive.value));
      hash.add(p.piece);
    }
  hash.add(c.exchanges.size());
  for (const Exchange& e : c.exchanges) {
    hash.add(static_cast<Hash>(e.from) << 16 | static_cast<Hash>(e.part), static_cast<Hash>(e.to));
    hash.add(e.box);
  }
}

}  // namespace

Hash work_hash(const Program& p) {
  WordHash hash;
  hash.add(static_cast<Hash>(p.devices), static_cast<Hash>(p.iterations));
  for (std::size_t n : {p.tensors.size(), p.ops.size(), p.buffers.size(), p.communications.size(), p.boxes.size(),
                        p.tasks.size(), p.operands.size(), p.dependencies.size(), p.outputs.size()})
    hash.add(n);
  for (const ProgramTensor& t : p.tensors) {
    hash.add(static_cast<Hash>(t.dtype) << 2 | Hash{t.full_precision} << 1 | Hash{t.leaf >= 0}, t.dims.size());
    for (std::int64_t n : t.dims) hash.add(static_cast<Hash>(n));
  }
  for (const ProgramOp& op : p.ops) add(hash, op);
  for (const Buffer& b : p.buffers) {
    hash.add(static_cast<Hash>(b.tensor), static_cast<Hash>(b.device.value));
    hash.add(static_cast<Hash>(b.category) << 2 | Hash{b.on_host} << 1 | Hash{b.staged}, static_cast<Hash>(b.partial));
    hash.add(b.box);
  }
  for (const Communication& c : p.communications) add(hash, c);
  for (const Box& box : p.boxes) hash.add(box);
  for (const Task& t : p.tasks) {
    hash.add(static_cast<Hash>(t.kind) << 24 | static_cast<Hash>(t.phase) << 16 | static_cast<Hash>(t.stream) << 8 |
                 static_cast<Hash>(t.iteration),
             static_cast<Hash>(t.device.value));
    hash.add(static_cast<Hash>(t.op), static_cast<Hash>(t.micro));
    hash.add(t.operands_end, t.dependencies_end);
    hash.add(t.flops), hash.add(t.bytes);
  }
  for (BufferId b : p.operands) hash.add(static_cast<Hash>(b.value));
  for (TaskId d : p.dependencies) hash.add(static_cast<Hash>(d.value));
  for (const ProgramOutput& out : p.outputs) {
    hash.add(out.buffers.size(), static_cast<Hash>(out.iteration));
    for (BufferId b : out.buffers) hash.add(static_cast<Hash>(b.value));
  }
  return hash.hash();
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
