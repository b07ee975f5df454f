#include "simulator/incremental/alignment.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace unity {
namespace {

// From two places on: how many tasks to skip on either side until both go on alike.
class Resynchronisation {
 public:
  Resynchronisation(std::span<const Hash> before, std::span<const Hash> after)
      : before_(before), after_(after), work_left_(8 * (before.size() + after.size())) {}

  struct Skip {
    std::size_t before, after;
  };
  // As few as possible, looking ever further ahead; everything when nothing is found with reasonable work.
  Skip find(std::size_t i, std::size_t j) {
    for (std::size_t window = 16;; window *= 2) {
      std::size_t a_end = std::min(window, before_.size() - i), b_end = std::min(window, after_.size() - j);
      Skip best{before_.size() - i, after_.size() - j};
      bool found = false, all = a_end == best.before && b_end == best.after;
      std::unordered_map<Hash, std::size_t> first;
      for (std::size_t a = 0; a < a_end; ++a) first.try_emplace(before_[i + a], a);
      for (std::size_t b = 0; b < b_end && (!found || b < best.before + best.after); ++b) {
        auto at = first.find(after_[j + b]);
        if (at == first.end() || !goes_on(i + at->second, j + b)) continue;
        if (found && at->second + b >= best.before + best.after) continue;
        best = {at->second, b};
        found = true;
      }
      work_left_ -= std::min(work_left_, a_end + b_end);
      if (found || all || work_left_ == 0) return best;
    }
  }

 private:
  bool goes_on(std::size_t i, std::size_t j) const {
    constexpr std::size_t kEqual = 4;
    std::size_t count = std::min({kEqual, before_.size() - i, after_.size() - j});
    return std::equal(before_.begin() + static_cast<std::ptrdiff_t>(i),
                      before_.begin() + static_cast<std::ptrdiff_t>(i + count),
                      after_.begin() + static_cast<std::ptrdiff_t>(j));
  }

  std::span<const Hash> before_, after_;
  std::size_t work_left_;
};

bool same_choice(const CollectiveChoice& a, const CollectiveChoice& b) {
  if (a.bytes != b.bytes || !a.shape != !b.shape) return false;
  if (!a.shape) return true;
  auto same_phase = [](const CollectivePhase& x, const CollectivePhase& y) {
    return x.stage == y.stage && x.share == y.share && x.drain == y.drain && x.wait == y.wait &&
           x.latency == y.latency && x.pattern->hops == y.pattern->hops && x.pattern->uses == y.pattern->uses;
  };
  auto same_stage = [](const CollectiveStage& x, const CollectiveStage& y) {
    return x.first == y.first && x.end == y.end;
  };
  return std::equal(a.shape->phases.begin(), a.shape->phases.end(), b.shape->phases.begin(), b.shape->phases.end(),
                    same_phase) &&
         std::equal(a.shape->stages.begin(), a.shape->stages.end(), b.shape->stages.begin(), b.shape->stages.end(),
                    same_stage);
}

bool same_participants(const Program& a, const Task& x, const Program& b, const Task& y) {
  const auto& p = a.communications[static_cast<std::size_t>(x.op)].participants;
  const auto& q = b.communications[static_cast<std::size_t>(y.op)].participants;
  return std::equal(p.begin(), p.end(), q.begin(), q.end(),
                    [](const Participant& m, const Participant& n) { return m.device == n.device; });
}

// Of tasks with equal keys.
bool same_task(const PreparedProgram& a, std::size_t i, const PreparedProgram& b, std::size_t j, bool communicates) {
  if (a.times[i].alone != b.times[j].alone || a.times[i].measured != b.times[j].measured) return false;
  bool crosses = a.flows[i] != PreparedProgram::kNoFlow;
  if (crosses != (b.flows[j] != PreparedProgram::kNoFlow)) return false;
  if (crosses) {
    const auto &x = a.choices[a.flows[i]], &y = b.choices[b.flows[j]];
    if (x == y) return true;  // made once for a group of devices
    if (!same_choice(*x, *y)) return false;
  }
  return !communicates || same_participants(*a.program, a.program->tasks[i], *b.program, b.program->tasks[j]);
}

// The lower bits of a key, which are equal for the same kind, stream and device only.
constexpr int kKindBits = 3, kStreamBits = 2, kDeviceBits = 19, kExactBits = kKindBits + kStreamBits + kDeviceBits;
TaskKind kind_of(Hash key) { return static_cast<TaskKind>(key % (1 << kKindBits)); }

}  // namespace

std::vector<Hash> task_keys(const Program& program) {
  UNITY_CHECK(program.devices <= 1 << kDeviceBits, "{} devices", program.devices);
  std::vector<Hash> ops, tensors, communications, keys;
  auto hash = [](const std::string& name) { return hash_bytes(std::as_bytes(std::span(name))); };
  for (const ProgramOp& op : program.ops) ops.push_back(hash(op.name));
  for (const ProgramTensor& tensor : program.tensors) tensors.push_back(hash(tensor.name));
  for (const Communication& c : program.communications) communications.push_back(hash(c.name));
  keys.reserve(program.tasks.size());
  for (const Task& task : program.tasks) {
    Hash name = 0;
    if (task.kind == TaskKind::compute)
      name = ops[static_cast<std::size_t>(task.op)];
    else if (task.kind == TaskKind::communicate)
      name = communications[static_cast<std::size_t>(task.op)];
    else if (task.operands_begin != task.operands_end)
      name = tensors[static_cast<std::size_t>(program.buffer(program.operands[task.operands_begin]).tensor)];
    Hash exact = static_cast<Hash>(task.kind) | static_cast<Hash>(task.stream) << kKindBits |
                 task.device.index() << (kKindBits + kStreamBits);
    Hash which = name ^ (static_cast<Hash>(task.phase) | static_cast<Hash>(task.micro) << 2);
    keys.push_back(which * 0x9e3779b97f4a7c15u << kExactBits | exact);
  }
  return keys;
}

Alignment::Alignment(const PreparedProgram& before, std::span<const Hash> keys_before, const PreparedProgram& after)
    : to_after_(before.program->tasks.size(), kNone), to_before_(after.program->tasks.size(), kNone) {
  bool same_machine = before.handovers == after.handovers && before.step_overhead == after.step_overhead &&
                      std::equal(before.capacities.begin(), before.capacities.end(), after.capacities.begin(),
                                 after.capacities.end(), [](auto a, auto b) { return a.rate == b.rate; });
  UNITY_CHECK(same_machine, "programs prepared on different machines");
  match(keys_before, task_keys(*after.program));
  drop_different(before, keys_before, after);
  find_changed(before.graph, after.graph);
}

void Alignment::match(std::span<const Hash> before, std::span<const Hash> after) {
  Resynchronisation resynchronisation(before, after);
  for (std::size_t i = 0, j = 0; i < before.size() && j < after.size();) {
    if (before[i] == after[j]) {
      to_after_[i++] = static_cast<std::uint32_t>(j++);
      continue;
    }
    auto skip = resynchronisation.find(i, j);
    i += skip.before;
    j += skip.after;
  }
}

void Alignment::drop_different(const PreparedProgram& before, std::span<const Hash> keys,
                               const PreparedProgram& after) {
  for (std::size_t i = 0; i < to_after_.size(); ++i) {
    if (to_after_[i] == kNone) continue;
    if (same_task(before, i, after, to_after_[i], kind_of(keys[i]) == TaskKind::communicate))
      to_before_[to_after_[i]] = static_cast<std::uint32_t>(i);
    else
      to_after_[i] = kNone;
  }
}

void Alignment::find_changed(const TaskGraph& before, const TaskGraph& after) {
  std::vector<std::uint8_t> changed_before(to_after_.size()), changed_after(to_before_.size());
  auto mark = [](std::vector<std::uint8_t>& changed, std::span<const std::uint32_t> tasks) {
    for (std::uint32_t t : tasks) changed[t] = true;
  };
  auto same_followers = [&](std::span<const std::uint32_t> then, std::span<const std::uint32_t> now) {
    if (then.size() != now.size()) return false;
    bool same = true;
    for (std::size_t k = 0; k < then.size(); ++k) same &= to_after_[then[k]] == now[k];
    return same;
  };
  for (std::size_t i = 0; i < to_after_.size(); ++i) {
    if (to_after_[i] == kNone) {
      changed_before[i] = true;
      mark(changed_before, before.followers(i));
    } else if (!same_followers(before.followers(i), after.followers(to_after_[i]))) {
      mark(changed_before, before.followers(i));
      mark(changed_after, after.followers(to_after_[i]));
    }
  }
  for (std::size_t j = 0; j < to_before_.size(); ++j) {
    if (to_before_[j] != kNone) continue;
    changed_after[j] = true;
    mark(changed_after, after.followers(j));
  }
  for (std::size_t i = 0; i < to_after_.size(); ++i)
    if (std::uint32_t j = to_after_[i]; j != kNone)
      changed_before[i] = changed_after[j] = changed_before[i] | changed_after[j];
  changed_before_ = Changed(before, changed_before);
  changed_after_ = Changed(after, changed_after);
}

Alignment::Changed::Changed(const TaskGraph& graph, std::span<const std::uint8_t> changed) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // a changed task, and one that it waits for
  std::span<const std::uint32_t> followers = graph.all_followers(), begin = graph.followers_begin();
  for (std::uint32_t e = 0; e < followers.size(); ++e) {
    if (!changed[followers[e]]) continue;
    auto next = std::upper_bound(begin.begin(), begin.end(), e);
    edges.push_back({followers[e], static_cast<std::uint32_t>(next - begin.begin()) - 1});
  }
  std::sort(edges.begin(), edges.end());
  auto edge = edges.begin();
  for (std::uint32_t t = 0; t < changed.size(); ++t) {
    if (!changed[t]) continue;
    tasks_.push_back(t);
    begin_.push_back(static_cast<std::uint32_t>(waits_for_.size()));
    for (; edge != edges.end() && edge->first == t; ++edge) waits_for_.push_back(edge->second);
  }
  begin_.push_back(static_cast<std::uint32_t>(waits_for_.size()));
}

}  // namespace unity
