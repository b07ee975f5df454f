#include "core/plan/stages.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/union_find.h"
#include "core/ops/chain.h"
#include "core/plan/accumulation.h"

namespace unity {
namespace {

void add(std::vector<std::size_t>& to, std::size_t x) {
  if (std::find(to.begin(), to.end(), x) == to.end()) to.push_back(x);
}

// Calls f(operator, origin, label) for an operator, or for each of a chain.
template <class F>
void for_each_operator(const ProgramOp& op, F&& f) {
  if (!op.chain) return f(op.op, op.origin, op.name);
  for (const ChainStep& step : op.chain->steps()) f(step.op, step.origin, step.name);
}

// Operators are named by their index in Program::ops, groups by a number in the order of their first devices.
class StageFinder {
 public:
  explicit StageFinder(const Program& program)
      : program_(program),
        batched_(program.ops.size(), false),
        group_(program.ops.size(), 0),
        part_(program.ops.size(), 0),
        before_(program.ops.size()) {}

  PipelineStages run() {
    PipelineStages stages;
    for (const Task& t : program_.tasks) {
      if (t.kind != TaskKind::compute) continue;
      if (t.micro > 0) batched_[static_cast<std::size_t>(t.op)] = true;
      stages.micro_batches = std::max(stages.micro_batches, t.micro + 1);
    }
    // Of gradients that are added up as they are computed, the first has no sum to add to.
    for (std::size_t op = 0; op + 1 < program_.ops.size(); ++op)
      if (adds_to(program_.ops[op + 1], program_.ops[op])) batched_[op] = batched_[op] || batched_[op + 1];
    join_chains();
    stages.place.assign(program_.ops.size(), -1);
    if (stages.micro_batches == 1) return stages;
    find_groups();
    find_sources();
    number_parts();
    make_chain(stages);
    return stages;
  }

 private:
  // An operator may be part of a chain for some micro-batches only.
  void join_chains() {
    std::set<std::tuple<const Operator*, OriginId, std::string>> batched;
    auto any_chain = [](const ProgramOp& op) { return op.chain != nullptr; };
    if (std::none_of(program_.ops.begin(), program_.ops.end(), any_chain)) return;
    for (std::size_t op = 0; op < program_.ops.size(); ++op)
      if (batched_[op]) for_each_operator(program_.ops[op], [&](const auto&... step) { batched.emplace(step...); });
    for (std::size_t op = 0; op < program_.ops.size(); ++op)
      for_each_operator(program_.ops[op], [&](const auto&... step) {
        if (batched.contains({step...})) batched_[op] = true;
      });
  }

  bool counts(const Task& t) const {
    return t.kind == TaskKind::compute && t.phase == Phase::forward && batched_[static_cast<std::size_t>(t.op)];
  }

  // Devices that share a micro-batched operator are one group.
  void find_groups() {
    UnionFind groups(static_cast<std::size_t>(program_.devices));
    std::map<std::size_t, std::size_t> first_device;  // by operator
    for (const Task& t : program_.tasks) {
      if (!counts(t)) continue;
      auto op = static_cast<std::size_t>(t.op);
      groups.join(first_device.try_emplace(op, t.device.index()).first->second, t.device.index());
      add(order_, op);
    }
    std::map<std::size_t, std::size_t> number;  // of a group, by its first device
    for (const auto& [op, device] : first_device) number.try_emplace(groups.find(device), 0);
    for (auto& [device, index] : number) index = devices_.size(), devices_.emplace_back();
    for (const auto& [op, device] : first_device) group_[op] = number.at(groups.find(device));
    for (std::size_t d = 0; d < static_cast<std::size_t>(program_.devices); ++d)
      if (auto found = number.find(groups.find(d)); found != number.end())
        devices_[found->second].emplace_back(static_cast<std::int64_t>(d));
  }

  // Which operators an operator's operands come from, through copies and communications.
  void find_sources() {
    std::vector<std::vector<std::size_t>> sources(program_.tasks.size());
    for (std::size_t i = 0; i < program_.tasks.size(); ++i) {
      const Task& t = program_.tasks[i];
      if (t.phase != Phase::forward) break;
      for (TaskId d : program_.dependencies_of(t))
        for (std::size_t op : sources[d.index()]) add(sources[i], op);
      if (!counts(t)) continue;
      auto op = static_cast<std::size_t>(t.op);
      for (std::size_t source : sources[i])
        if (source != op) add(before_[op], source);
      sources[i] = {op};
    }
  }

  void number_parts() {
    // passed[op][g]: how many parts of group g lie on a way to op, which is on another.
    std::vector<std::vector<int>> passed(program_.ops.size(), std::vector<int>(devices_.size(), 0));
    for (std::size_t op : order_)
      for (std::size_t p : before_[op]) {
        for (std::size_t g = 0; g < devices_.size(); ++g)
          passed[op][g] = std::max(passed[op][g], group_[p] == g && group_[op] != g ? part_[p] + 1 : passed[p][g]);
        part_[op] = std::max(part_[op], group_[p] == group_[op] ? part_[p] : passed[p][group_[op]]);
      }
    // What only later parts of its group use joins the first of them.
    constexpr int kUnused = -1, kElsewhere = -2;
    std::vector<int> used_by(program_.ops.size(), kUnused);  // the first part that uses it
    for (std::size_t k = order_.size(); k-- > 0;) {
      std::size_t op = order_[k];
      part_[op] = std::max(part_[op], used_by[op]);
      for (std::size_t p : before_[op]) {
        if (group_[p] != group_[op]) used_by[p] = kElsewhere;
        if (used_by[p] == kUnused || used_by[p] > part_[op]) used_by[p] = part_[op];
      }
    }
  }

  // Parts by the longest way to them; groups by their first parts.
  void make_chain(PipelineStages& stages) const {
    std::vector<int> depth(program_.ops.size(), 0);
    std::map<std::pair<std::size_t, int>, int> longest;
    auto where = [&](std::size_t op) { return std::pair(group_[op], part_[op]); };
    for (std::size_t op : order_) {
      for (std::size_t p : before_[op]) depth[op] = std::max(depth[op], depth[p] + (where(p) != where(op) ? 1 : 0));
      int& deepest = longest[where(op)];
      deepest = std::max(deepest, depth[op]);
    }
    std::vector<std::pair<std::pair<std::size_t, int>, int>> chain(longest.begin(), longest.end());
    std::stable_sort(chain.begin(), chain.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    std::map<std::size_t, int> position;  // of a group
    for (const auto& [part, deepest] : chain) {
      auto [found, fresh] = position.try_emplace(part.first, static_cast<int>(stages.groups.size()));
      if (fresh) stages.groups.push_back(devices_[part.first]), stages.part_counts.push_back(0);
      stages.chain.push_back({found->second, stages.part_counts[static_cast<std::size_t>(found->second)]++});
    }
    std::map<std::pair<OriginId, std::string>, int> place_of;  // gradients have the origin and label of their operator
    for (std::size_t op : order_) {
      auto at = std::find_if(chain.begin(), chain.end(), [&](const auto& part) { return part.first == where(op); });
      stages.place[op] = static_cast<int>(at - chain.begin());
      for_each_operator(program_.ops[op], [&](const Operator*, OriginId origin, const std::string& name) {
        int& place = place_of.try_emplace({origin, name}, 0).first->second;
        place = std::max(place, stages.place[op]);
      });
    }
    for (std::size_t op = 0; op < program_.ops.size(); ++op) {
      if (!batched_[op] || stages.place[op] >= 0) continue;
      for_each_operator(program_.ops[op], [&](const Operator*, OriginId origin, const std::string& name) {
        auto found = place_of.find({origin, name});
        if (found != place_of.end()) stages.place[op] = std::max(stages.place[op], found->second);
      });
    }
  }

  const Program& program_;
  std::vector<bool> batched_;                     // by operator: it has micro-batches
  std::vector<std::size_t> group_;                // by micro-batched operator of the forward pass
  std::vector<int> part_;                         // the same: which of its group's parts
  std::vector<std::vector<std::size_t>> before_;  // the same: those whose results it takes
  std::vector<std::size_t> order_;                // these operators, as first computed
  std::vector<std::vector<DeviceId>> devices_;    // by group
};

}  // namespace

PipelineStages find_stages(const Program& program) { return StageFinder(program).run(); }

}  // namespace unity
