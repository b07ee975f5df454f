#include "gui/session/estimate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/hash.h"
#include "core/models/summary.h"
#include "core/plan/lower.h"
#include "core/search/explain.h"
#include "core/search/mapping_search.h"
#include "gui/session/prediction.h"

namespace unity::gui {
namespace {

constexpr std::size_t kMostOperators = 60;  // of the surroundings of one change
constexpr std::size_t kMostKinds = 4;       // of changes that differ

using Members = std::vector<bool>;  // by node
using Key = std::pair<std::string, const Operator*>;

Key key_of(const Node& n) { return {n.name, n.op}; }

// What a piece takes: with one micro-batch (or none), and for each further one.
struct PieceTime {
  Picoseconds once, more;
};

// A plan's graph as what is computed where: parallelization operators belong to the operands.
class Side {
 public:
  Side(const Plan& plan, int devices) : plan_(plan), devices_(devices), pcg_(plan.pcg), source_(pcg_.size()) {
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      const Node& n = pcg_.nodes()[i];
      source_[i] = n.is_parallelization() ? source_[n.inputs[0].node.index()] : i;
      if (n.is_compute()) by_key_.emplace(key_of(n), i);
    }
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (pcg_.nodes()[i].is_compute()) {
        for (ValueRef v : pcg_.nodes()[i].inputs) {
          std::size_t from = source_[v.node.index()];
          if (!pcg_.nodes()[from].is_compute()) continue;
          neighbours_[i].push_back(from);
          neighbours_[from].push_back(i);
        }
      }
  }

  const Pcg& pcg() const { return pcg_; }
  bool compute(std::size_t i) const { return pcg_.nodes()[i].is_compute(); }
  const std::map<Key, std::size_t>& by_key() const { return by_key_; }

  // What decides what an operator does: itself, where it is, and in which layouts it gets which operands.
  Hash signature(std::size_t i) const {
    const Node& n = pcg_.nodes()[i];
    Hash hash = hash_text(n.op->name() + to_string(plan_.mappings[i]));
    for (const AttributeValue& a : n.attributes) hash = combine(hash, hash_text(to_string(a)));
    for (ValueRef v : n.inputs) {
      const Node& from = pcg_.nodes()[source_[v.node.index()]];
      hash = combine(hash, hash_text(from.name + to_string(pcg_.shape(v))));
      if (!from.is_compute()) hash = combine(hash, hash_text(to_string(plan_.mappings[source_[v.node.index()]])));
    }
    for (const ParallelShape& s : n.outputs) hash = combine(hash, hash_text(to_string(s)));
    return hash;
  }

  void add_neighbours(Members& members) const {
    Members now = members;
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i])
        for (std::size_t other : neighbours(i)) members[other] = true;
  }

  // Summands do not cross the border: whoever makes them and whoever adds them up are on one side.
  void close(Members& members) const {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < pcg_.size(); ++i) {
        if (!compute(i)) continue;
        for (ValueRef v : pcg_.nodes()[i].inputs) {
          std::size_t from = source_[v.node.index()];
          if (!compute(from) || members[i] == members[from] || pcg_.shape(v).partials == 1) continue;
          members[i] = members[from] = more = true;
        }
      }
    }
  }

  // Those that hang together.
  std::vector<std::vector<std::size_t>> pieces(const Members& members) const {
    std::vector<std::vector<std::size_t>> pieces;
    Members seen(members.size(), false);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!members[i] || seen[i]) continue;
      std::vector<std::size_t> piece = {i};
      seen[i] = true;
      for (std::size_t p = 0; p < piece.size(); ++p)
        for (std::size_t other : neighbours(piece[p]))
          if (members[other] && !seen[other]) seen[other] = true, piece.push_back(other);
      std::sort(piece.begin(), piece.end());
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }

  // Equal for pieces that do the same, such as the same operators of other layers.
  Hash kind(const std::vector<std::size_t>& piece) const {
    Hash hash = piece.size();
    for (std::size_t i : piece) {
      const Node& n = pcg_.nodes()[i];
      hash = combine(hash, hash_text(without_indices(n.name) + n.op->name() + to_string(plan_.mappings[i])));
      for (ValueRef v : n.inputs) hash = combine(hash, hash_text(to_string(pcg_.shape(v))));
    }
    return hash;
  }

  // Of these operators alone.
  Result<PieceTime> time(const std::vector<std::size_t>& piece, const CostModel& cost,
                         const DeviceBlocks& blocks) const;

  int micro_batches() const {
    int most = 1;
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (compute(i)) most = std::max(most, micro_count(node_sharding(pcg_, NodeId(static_cast<std::int64_t>(i)))));
    return most;
  }
  // Stages are told by their first devices.
  int stage(std::size_t i) const { return plan_.mappings[i].start; }
  // Whether the operator is on devices of no other of the stages, which begin there.
  bool in_a_stage(std::size_t i, const std::map<int, double>& stages) const {
    const MachineMapping& mapping = plan_.mappings[i];
    if (!mapping.places.empty()) return false;
    TaskGrid grid = node_grid(pcg_, NodeId(static_cast<std::int64_t>(i)));
    int last = mapping.start;
    for (std::size_t d = 0; d < grid.size(); ++d) last += (grid[d].degree - 1) * mapping.strides[d];
    return stages.contains(mapping.start) && stages.upper_bound(mapping.start) == stages.upper_bound(last);
  }
  // By stage: multiply-adds of a device.
  std::map<int, double> work() const {
    std::map<int, double> work;
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (compute(i))
        work[stage(i)] += static_cast<double>(multiply_adds(pcg_.nodes()[i])) /
                          std::max(task_count(node_grid(pcg_, NodeId(static_cast<std::int64_t>(i)))), 1);
    return work;
  }

 private:
  const std::vector<std::size_t>& neighbours(std::size_t i) const {
    static const std::vector<std::size_t> none;
    auto at = neighbours_.find(i);
    return at == neighbours_.end() ? none : at->second;
  }
  friend class Cutting;

  const Plan& plan_;
  int devices_;
  const Pcg& pcg_;
  std::vector<std::size_t> source_;  // by node: the operator or leaf before parallelization operators
  std::map<Key, std::size_t> by_key_;
  std::map<std::size_t, std::vector<std::size_t>> neighbours_;
};

// A piece as a graph of its own: what comes from outside is a boundary in the layout that is read, what goes outside is
// delivered in the layout that it is made in.
class Cutting {
 public:
  Cutting(const Side& side, const std::vector<std::size_t>& piece) : side_(side), members_(side.pcg().size(), false) {
    for (std::size_t i : piece) members_[i] = true;
  }

  Result<void> cut() {
    const Pcg& from = side_.pcg();
    std::vector<ValueRef> outputs;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!members_[i]) continue;
      const Node& n = from.nodes()[i];
      std::vector<ValueRef> inputs;
      for (ValueRef v : n.inputs) inputs.push_back(UNITY_TRY(bring(v)));
      NodeId id = UNITY_TRY(add(*n.op, n.attributes, std::move(inputs), n.origin, n.name, side_.plan_.mappings[i]));
      moved_[i] = id;
    }
    std::set<ValueRef> delivered;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!side_.compute(i) || members_[i]) continue;
      for (ValueRef v : from.nodes()[i].inputs) {
        // The last value on the way out that the piece makes, in one summand.
        ValueRef out = v;
        if (!members_[side_.source_[v.node.index()]] || !delivered.insert(out).second) continue;
        ValueRef here = UNITY_TRY(bring(out));
        if (graph_.shape(here).dtype == DType::i32) continue;
        NodeId deliver = UNITY_TRY(graph_.try_add(get_operator("deliver"), {}, {here}, from[out.node].origin,
                                                  fmt::format("deliver.{}", outputs.size())));
        mappings_.push_back(mapping_at(deliver, side_.source_[out.node.index()]));
        outputs.push_back({deliver, 0});
      }
    }
    for (ValueRef v : from.outputs())
      if (std::size_t source = side_.source_[v.node.index()]; members_[source])
        outputs.insert(outputs.begin(), UNITY_TRY(bring(v)));
    if (outputs.empty()) return fail("a piece of a graph that gives nothing");
    graph_.set_outputs(std::move(outputs));
    return {};
  }

  const Pcg& graph() const { return graph_; }
  const std::vector<MachineMapping>& mappings() const { return mappings_; }

 private:
  Result<NodeId> add(const Operator& op, Attributes attributes, std::vector<ValueRef> inputs, OriginId origin,
                     const std::string& name, MachineMapping mapping) {
    NodeId id = UNITY_TRY(graph_.try_add(op, std::move(attributes), std::move(inputs), origin, name));
    mappings_.push_back(std::move(mapping));
    return id;
  }

  Result<ValueRef> bring(ValueRef v) {
    if (auto at = moved_.find(v.node.index()); at != moved_.end()) return ValueRef{at->second, v.output};
    if (auto at = borders_.find(v); at != borders_.end()) return at->second;
    const Pcg& from = side_.pcg();
    std::size_t i = v.node.index(), source = side_.source_[i];
    const Node& n = from.nodes()[i];
    if (side_.compute(source) && !members_[source]) return borders_[v] = UNITY_TRY(border(v));
    std::vector<ValueRef> inputs;
    for (ValueRef operand : n.inputs) inputs.push_back(UNITY_TRY(bring(operand)));
    NodeId id = UNITY_TRY(add(*n.op, n.attributes, std::move(inputs), n.origin, n.name, side_.plan_.mappings[i]));
    moved_[i] = id;
    return ValueRef{id, v.output};
  }

  Result<ValueRef> border(ValueRef v) {
    const ParallelShape& shape = side_.pcg().shape(v);
    if (shape.partials > 1) return fail("summands come from outside");
    Integers sizes, degrees;
    for (const auto& d : shape.dims) sizes.push_back(d.size), degrees.push_back(d.degree);
    Attributes attributes = {sizes, degrees, std::int64_t{shape.copies}, std::string(to_string(shape.dtype))};
    NodeId id = UNITY_TRY(graph_.try_add(get_operator("boundary"), std::move(attributes), {},
                                         side_.pcg()[v.node].origin, fmt::format("boundary.{}", borders_.size())));
    mappings_.push_back(mapping_at(id, side_.source_[v.node.index()]));
    ValueRef value{id, 0};
    for (std::size_t d = 0; d < shape.dims.size(); ++d) {
      if (shape.dims[d].micro == 1) continue;
      Attributes parts = {static_cast<std::int64_t>(d), std::int64_t{shape.dims[d].micro}};
      value = {UNITY_TRY(add(get_operator("pipeline"), std::move(parts), {value}, {}, "", {})), 0};
    }
    return value;
  }

  // On the devices from the first of an operator on.
  MachineMapping mapping_at(NodeId id, std::size_t operation) const {
    TaskGrid grid = node_grid(graph_, id);
    MachineMapping natural = natural_mapping(grid), mapping = natural;
    mapping.start = side_.plan_.mappings[operation].start;
    return check_mapping(mapping, grid, side_.devices_).ok() ? mapping : natural;
  }

  const Side& side_;
  Members members_;
  Pcg graph_;
  std::vector<MachineMapping> mappings_;
  std::map<std::size_t, NodeId> moved_;
  std::map<ValueRef, ValueRef> borders_;
};

Result<PieceTime> Side::time(const std::vector<std::size_t>& piece, const CostModel& cost,
                             const DeviceBlocks& blocks) const {
  Cutting cutting(*this, piece);
  UNITY_TRY(cutting.cut());
  LowerOptions options{true, plan_.optimizer, plan_.schedule, {}};
  options.schedule.order = {};
  options.blocks = blocks.find(cutting.graph(), cutting.mappings());
  auto of = [&](int micro_batches) -> Result<Picoseconds> {
    options.micro_batches = micro_batches;
    Result<Program> program = lower(cutting.graph(), cutting.mappings(), cost.topology(), options);
    if (!program.ok() && !options.blocks.all()) {
      options.blocks = {};
      program = lower(cutting.graph(), cutting.mappings(), cost.topology(), options);
    }
    if (!program.ok()) return program.error();
    return cost.score(*program).iteration;
  };
  if (micro_batches() == 1) return PieceTime{UNITY_TRY(of(0)), {}};
  PieceTime time{UNITY_TRY(of(1)), UNITY_TRY(of(2))};
  time.more.count = std::max<std::int64_t>(time.more.count - time.once.count, 0);
  return time;
}

// Operators of `side` that the other one has not, or not so.
Members changed(const Side& side, const Side& other) {
  Members members(side.pcg().size(), false);
  for (const auto& [key, i] : side.by_key()) {
    auto at = other.by_key().find(key);
    members[i] = at == other.by_key().end() || side.signature(i) != other.signature(at->second);
  }
  return members;
}

void add_common(Members& members, const Side& side, const Members& theirs, const Side& other) {
  for (const auto& [key, i] : other.by_key())
    if (theirs[i])
      if (auto at = side.by_key().find(key); at != side.by_key().end()) members[at->second] = true;
}

// Of all pieces; those of one kind are timed once.
struct PiecesTime {
  Picoseconds once;
  std::map<int, std::int64_t> more;  // by stage: picoseconds of a further micro-batch
};

std::optional<PiecesTime> time_of(const Side& side, const Members& members, const CostModel& cost,
                                  const DeviceBlocks& blocks) {
  struct Kind {
    std::vector<std::size_t> first;
    std::map<int, int> count;  // by stage
  };
  std::map<Hash, Kind> kinds;
  for (std::vector<std::size_t>& piece : side.pieces(members)) {
    if (piece.size() > kMostOperators) return {};
    Kind& kind = kinds[side.kind(piece)];
    ++kind.count[side.stage(piece.front())];
    if (kind.first.empty()) kind.first = std::move(piece);
  }
  if (kinds.size() > kMostKinds) return {};
  PiecesTime sum;
  for (const auto& [hash, kind] : kinds) {
    Result<PieceTime> time = side.time(kind.first, cost, blocks);
    if (!time.ok()) return {};
    for (auto [stage, count] : kind.count) {
      sum.once.count += time->once.count * count;
      sum.more[stage] += time->more.count * count;
    }
  }
  return sum;
}

// What the slowest stage takes more for each further micro-batch.
std::int64_t change_of_slowest(const std::map<int, double>& work, Picoseconds iteration, int micro_batches,
                               const PiecesTime& before, const PiecesTime& after) {
  double all = 0, most = 0;
  for (const auto& [stage, of] : work) all += of, most = std::max(most, of);
  if (all <= 0) return 0;
  double scale = static_cast<double>(iteration.count) / (all + (micro_batches - 1) * most), now = 0;
  std::map<int, double> times;
  for (const auto& [stage, of] : work) times[stage] = scale * of;
  for (const auto& [stage, time] : after.more) times[stage] += static_cast<double>(time);
  for (const auto& [stage, time] : before.more) times[stage] -= static_cast<double>(time);
  for (const auto& [stage, time] : times) now = std::max(now, time);
  return static_cast<std::int64_t>(now - scale * most);
}

}  // namespace

std::optional<Picoseconds> estimate_change(const Plan& before, Picoseconds iteration, const Plan& after,
                                           const CostModel& cost, const DeviceBlocks& blocks) {
  for (const Plan* plan : {&before, &after})
    if (!devices_do_alike(plan->schedule) || plan->schedule.order == PipelineOrder::interleaved ||
        std::any_of(plan->pcg.nodes().begin(), plan->pcg.nodes().end(),
                    [](const Node& n) { return n.op->name() == "batch"; }))
      return {};
  auto devices = static_cast<int>(cost.topology().device_count());
  Side old(before, devices), now(after, devices);
  Members was = changed(old, now), is = changed(now, old);
  if (std::none_of(was.begin(), was.end(), [](bool m) { return m; }) &&
      std::none_of(is.begin(), is.end(), [](bool m) { return m; }))
    return Picoseconds{};
  int micro_batches = old.micro_batches();
  std::map<int, double> work = old.work();
  // What leaves its stage delays others.
  for (const auto& [key, i] : now.by_key()) {
    if (micro_batches == 1 || !is[i]) continue;
    auto at = old.by_key().find(key);
    if (!now.in_a_stage(i, work) || (at != old.by_key().end() && old.stage(at->second) != now.stage(i))) return {};
  }
  // Both sides have the same surroundings, as far as there are the same operators.
  for (int i = 0; i < 2; ++i) {
    if (i == 0) old.add_neighbours(was), now.add_neighbours(is);
    old.close(was), now.close(is);
    add_common(was, old, is, now);
    add_common(is, now, was, old);
  }
  std::optional<PiecesTime> first = time_of(old, was, cost, blocks);
  if (!first) return {};
  std::optional<PiecesTime> second = time_of(now, is, cost, blocks);
  if (!second) return {};
  Picoseconds change{second->once.count - first->once.count};
  if (micro_batches > 1)
    change.count += (micro_batches - 1) * change_of_slowest(work, iteration, micro_batches, *first, *second);
  return change;
}

}  // namespace unity::gui
