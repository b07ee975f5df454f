#include "core/search/placed_operators.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/base/parallel.h"
#include "core/plan/lower.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/device_speeds.h"
#include "core/search/parallelism.h"
#include "core/search/substitution.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

constexpr double kClear = 4;  // a gradient takes so many times what its operator takes

// The operand that is a weight, where there is just one, and no other operator reads it.
std::optional<std::size_t> own_weight(const Pcg& pcg, const Node& n) {
  std::optional<std::size_t> found;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    if (pcg[source_of(pcg, n.inputs[k]).node].op->name() != "weight") continue;
    if (found) return std::nullopt;
    found = k;
  }
  // A chain of parallelizations, of one use each, down to the weight.
  for (NodeId at = found ? n.inputs[*found].node : NodeId(); found; at = pcg[at].inputs[0].node) {
    if (!pcg.only_user(at).valid()) return std::nullopt;
    if (pcg[at].is_leaf()) break;
  }
  return found;
}

std::int64_t weight_bytes(const Pcg& pcg, NodeId id) {
  std::optional<std::size_t> weight = own_weight(pcg, pcg[id]);
  return weight ? pcg.shape(source_of(pcg, pcg[id].inputs[*weight])).shape().bytes() : 0;
}

std::vector<NodeId> nodes_of(const Pcg& pcg, const std::set<OriginId>& origins) {
  std::vector<NodeId> found;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].is_compute() && origins.contains(pcg.nodes()[i].origin))
      found.emplace_back(static_cast<std::int64_t>(i));
  return found;
}

// The axis of a result that only the weight walks, too: columns. Splitting it splits the weight, and sums nothing.
std::optional<int> column_axis(const Pcg& pcg, NodeId id) {
  const AxisTable& table = *pcg[id].table;
  std::optional<std::size_t> weight = own_weight(pcg, pcg[id]);
  auto walks_it = [](const OperandAxes& operand, int axis) {
    return std::any_of(operand.dims.begin(), operand.dims.end(),
                       [&](const DimAxes& d) { return std::count(d.axes.begin(), d.axes.end(), axis) > 0; });
  };
  for (const DimAxes& dim : table.outputs[0].dims) {
    int axis = split_axis(table, dim);
    if (axis < 0 || !can_split(table, axis) || !weight) continue;
    bool only = walks_it(table.inputs[*weight], axis);
    for (std::size_t k = 0; k < table.inputs.size(); ++k)
      only = only && (k == *weight || !walks_it(table.inputs[k], axis));
    if (only) return axis;
  }
  return std::nullopt;
}

// Those placed by columns, all else by batch.
Result<State> split_around(const State& whole, const std::set<OriginId>& placed, int columns, int devices) {
  ValueRef leaf = UNITY_TRY(batch_leaf(whole.pcg));
  std::vector<AxisClass> classes = axis_classes(whole.pcg);
  auto batch = class_of_dimension(whole.pcg, classes, leaf, 0);
  if (!batch) return fail("no operator can be split along the batch");
  AxisClass rest = classes[*batch];
  std::erase_if(rest.members, [&](const AxisClassMember& m) { return placed.contains(whole.pcg[m.node].origin); });
  State state = whole;
  std::vector<DerivationEvent> log;
  if (devices > 1) state.pcg = UNITY_TRY(shard_class(whole.pcg, rest, devices, &log));
  for (const DerivationEvent& e : log) state.steps.push_back({e.rule, e.where, e.degree, 0});
  for (std::size_t k = 0; columns > 1 && k < placed.size(); ++k) {
    NodeId id = nodes_of(state.pcg, placed)[k];
    std::optional<int> axis = column_axis(state.pcg, id);
    if (!axis) return fail("'{}' has no columns", state.pcg[id].name);
    state = UNITY_TRY(
        apply_move(state, {Move::Kind::shard_one, static_cast<int>(id.value), *axis, columns}, rule_library()));
  }
  return state;
}

// Of operators, by origin: what they load a device with.
using Loads = std::map<OriginId, std::int64_t>;

Loads weights_of(const Pcg& pcg, const std::set<OriginId>& placed) {
  Loads bytes;
  for (NodeId id : nodes_of(pcg, placed)) bytes[pcg[id].origin] = weight_bytes(pcg, id);
  return bytes;
}

// The largest load first, on the devices with the least; among equals in this order.
std::vector<MachineMapping> place(const Pcg& pcg, const Loads& loads, const std::set<OriginId>& placed,
                                  const std::vector<int>& order) {
  std::vector<MachineMapping> mappings = natural_mappings(pcg);
  std::vector<NodeId> nodes = nodes_of(pcg, placed);
  auto load = [&](NodeId id) { return loads.at(pcg[id].origin); };
  std::stable_sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return load(a) > load(b); });
  std::vector<std::int64_t> held(order.size(), 0);
  for (NodeId id : nodes) {
    TaskGrid grid = node_grid(pcg, id);
    int parts = task_count(grid);
    std::vector<std::size_t> slots(order.size());
    std::iota(slots.begin(), slots.end(), std::size_t{0});
    std::stable_sort(slots.begin(), slots.end(), [&](std::size_t a, std::size_t b) { return held[a] < held[b]; });
    MachineMapping mapping = natural_mapping(grid);
    for (std::size_t p = 0; p < static_cast<std::size_t>(parts); ++p) {
      mapping.places.push_back(order[slots[p]]);
      held[slots[p]] += load(id) / parts;
    }
    if (grid.empty()) mapping = {mapping.places[0], {}, {}};
    mappings[id.index()] = mapping;
    for (ValueRef operand : pcg[id].inputs) {  // leaves that it reads are there, too
      NodeId source = source_of(pcg, operand).node;
      if (pcg[source].is_leaf() && task_count(node_grid(pcg, source)) == parts) mappings[source.index()] = mapping;
    }
  }
  return mappings;
}

struct Way {
  int columns = 1;
  bool across = false;  // on the first devices of all nodes, then the second ones
  auto operator<=>(const Way&) const = default;
};

class Placing {
 public:
  Placing(const StrategyInput& input, const Schedule& schedule, std::string what)
      : in_(input),
        what_(std::move(what)),
        schedule_(schedule),
        whole_{normalize(input.model), {}, {}},
        per_node_(common_node_size(input.evaluator.cost().topology())),
        along_(static_cast<std::size_t>(input.devices)) {
    std::iota(along_.begin(), along_.end(), 0);
    for (int d = 0; d < per_node_; ++d)
      for (int first = d; first < in_.devices; first += per_node_) across_.push_back(first);
  }
  const Pcg& whole() const { return whole_.pcg; }

  // Operators need no more parts than that every device has one.
  std::vector<Way> ways(const std::set<OriginId>& placed) const {
    std::vector<Way> found;
    auto count = static_cast<int>(placed.size());
    for (int columns = 1; columns <= (may_split() ? in_.devices : 1); ++columns)
      if (columns == 1 ||
          (in_.devices % columns == 0 && columns * count < in_.devices + count && have_columns(placed, columns)))
        for (bool across : {false, true})
          if (!across || per_node_ < in_.devices) found.push_back({columns, across});
    return found;
  }

  Result<Outcome> plan(const std::set<OriginId>& placed, const Loads& loads, const Way& way) const {
    SearchRecorder& record = in_.evaluator.record();
    State state = UNITY_TRY(record.timed(SearchLevel::substitution,
                                         [&] { return split_around(whole_, placed, way.columns, in_.devices); }));
    auto mappings = record.timed(SearchLevel::mapping,
                                 [&] { return place(state.pcg, loads, placed, way.across ? across_ : along_); });
    Candidate candidate = UNITY_TRY(in_.evaluator.evaluate(state.pcg, std::move(mappings), schedule_));
    return Outcome{
        std::move(candidate),
        std::move(state.steps),
        fmt::format("{} {} {}on devices{}, all else by batch, is the fastest", placed.size(), what_,
                    way.columns > 1 ? fmt::format("in {} parts ", way.columns) : "", way.across ? " across nodes" : ""),
        {}};
  }

 private:
  bool may_split() const { return is_allowed({"model"}, in_.options.parallelism); }
  // Each of them has columns, in so many equal parts.
  bool have_columns(const std::set<OriginId>& placed, int parts) const {
    std::vector<NodeId> nodes = nodes_of(whole_.pcg, placed);
    return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      std::optional<int> axis = column_axis(whole_.pcg, id);
      return axis && whole_.pcg[id].table->axes[static_cast<std::size_t>(*axis)].size % parts == 0;
    });
  }

  const StrategyInput& in_;
  std::string what_;  // is placed, in words
  Schedule schedule_;
  State whole_;
  int per_node_;
  std::vector<int> along_, across_;
};

// An operator with a weight of its own.
struct Weighted {
  OriginId origin;
  std::int64_t sum = 0;   // what its gradient takes to be summed over all devices
  std::int64_t work = 1;  // what it takes for the whole batch on one of them
  double ratio() const { return static_cast<double>(sum) / static_cast<double>(work); }
};

// Those that take less than the sum of their gradient, the clearest cases first.
std::vector<Weighted> heavy_operators(const StrategyInput& input, const Pcg& whole, bool joined) {
  const CostModel& cost = input.evaluator.cost();
  std::vector<DeviceId> all;
  for (int d = 0; d < input.devices; ++d) all.emplace_back(d);
  auto sum = [&](Bytes bytes) { return cost.collective_time(CollectiveKind::all_reduce, all, bytes).count; };
  std::map<OriginId, Weighted> found;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (NodeId id(static_cast<std::int64_t>(i)); whole[id].is_compute())
      if (Bytes bytes{weight_bytes(whole, id)}; bytes.count > 0)
        found[whole[id].origin] = {whole[id].origin, sum(bytes) - (joined ? sum({1}) : 0)};
  auto program = lower(whole, natural_mappings(whole), cost.topology(), {true, input.options.optimizer, {}});
  if (!program.ok()) return {};
  for (const Task& t : program->tasks) {
    if (t.kind != TaskKind::compute) continue;
    const ProgramOp& op = program->ops[static_cast<std::size_t>(t.op)];
    if (auto it = found.find(op.origin); it != found.end()) it->second.work += cost.task_time(t, &op, t.device).count;
  }
  std::vector<Weighted> heavy;
  for (const auto& [origin, w] : found)
    if (w.sum > w.work) heavy.push_back(w);
  std::stable_sort(heavy.begin(), heavy.end(),
                   [](const Weighted& a, const Weighted& b) { return a.ratio() > b.ratio(); });
  return heavy;
}

Result<void> may_split_the_rest(const StrategyInput& input) {
  if (input.devices == 1 || is_allowed({"data"}, input.options.parallelism)) return {};
  return fail("what is not placed is split by batch, which is not allowed");
}

}  // namespace

Result<Outcome> placed_tables(const StrategyInput& input) {
  UNITY_TRY_VOID(may_split_the_rest(input));
  Placing placing(input, input.options.schedule, "tables");
  std::set<OriginId> tables;
  for (const Node& n : placing.whole().nodes())
    if (n.op->name() == "embedding_bag" && own_weight(placing.whole(), n)) tables.insert(n.origin);
  if (tables.size() < 2) return fail("the model has no tables of embedding bags to place on devices");
  Loads bytes = weights_of(placing.whole(), tables);
  Result<Outcome> best = fail("not tried");
  int columns = 1;  // of the best
  auto try_all = [&](const std::vector<Way>& ways) {
    std::vector<Result<Outcome>> plans(ways.size(), fail("not tried"));
    parallel_for(ways.size(), input.evaluator.threads(),
                 [&](std::size_t i) { plans[i] = placing.plan(tables, bytes, ways[i]); });
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (take_better(best, std::move(plans[i]), input)) columns = ways[i].columns;
  };
  // In how many parts, then in which order of devices.
  std::vector<Way> all = placing.ways(tables), along = all, across = all;
  std::erase_if(along, [](const Way& w) { return w.across; });
  try_all(along);
  std::erase_if(across, [&](const Way& w) { return !w.across || w.columns != columns; });
  try_all(across);
  return best;
}

Result<Outcome> placed_operators(const StrategyInput& input, Bytes bucket) {
  UNITY_TRY_VOID(may_split_the_rest(input));
  Schedule schedule = input.options.schedule;
  schedule.bucket = bucket;
  Placing placing(input, schedule, "operators with large weights");
  std::vector<Weighted> heavy = heavy_operators(input, placing.whole(), bucket.count > 0);
  if (heavy.size() < 2) return fail("the model has no operators with large weights and little to do");
  // So many of the clearest cases, in one way, balanced by bytes or by work.
  struct Choice {
    std::size_t count = 0;
    Way way;
    bool by_work = false;
    auto operator<=>(const Choice&) const = default;
  };
  auto clearest = [&](std::size_t count) {
    std::set<OriginId> placed;
    for (std::size_t i = 0; i < count; ++i) placed.insert(heavy[i].origin);
    return placed;
  };
  Loads work, bytes;
  for (const Weighted& w : heavy) work[w.origin] = w.work;
  bytes = weights_of(placing.whole(), clearest(heavy.size()));
  Result<Outcome> best = fail("not tried");
  Choice chosen;
  std::set<Choice> tried;
  // Whether one of them is better than what there is.
  auto improve = [&](std::vector<Choice> choices) {
    std::erase_if(choices, [&](const Choice& c) { return !tried.insert(c).second; });
    std::vector<Result<Outcome>> plans(choices.size(), fail("not tried"));
    parallel_for(choices.size(), input.evaluator.threads(), [&](std::size_t i) {
      plans[i] = placing.plan(clearest(choices[i].count), choices[i].by_work ? work : bytes, choices[i].way);
    });
    bool better = false;
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (take_better(best, std::move(plans[i]), input)) chosen = choices[i], better = true;
    return better;
  };
  auto count_of = [&](double ratio) {
    auto count = std::count_if(heavy.begin(), heavy.end(), [&](const Weighted& w) { return w.ratio() >= ratio; });
    return std::max<std::size_t>(2, static_cast<std::size_t>(count));
  };
  std::vector<Choice> choices;
  for (const Way& way : placing.ways(clearest(count_of(kClear)))) {
    // On many devices a coarse look; steps lead to what is between.
    bool coarse = input.devices > kManyDevices;
    if (coarse && (way.across || (!choices.empty() && way.columns < 2 * choices.back().way.columns))) continue;
    choices.push_back({count_of(kClear), way});
  }
  improve(choices);
  choices.clear();
  for (double ratio : {1.0, kClear / 2, kClear * 2}) choices.push_back({count_of(ratio), chosen.way, chosen.by_work});
  improve(choices);
  // Then step by step.
  while (best.ok() && !input.evaluator.stopping()) {
    choices.clear();
    auto step = [&](auto change) { change(choices.emplace_back(chosen)); };
    step([](Choice& c) { c.by_work = !c.by_work; });
    if (chosen.count < heavy.size()) step([](Choice& c) { ++c.count; });
    if (chosen.count > 2) step([](Choice& c) { --c.count; });
    std::optional<Way> fewer, more;
    for (const Way& way : placing.ways(clearest(chosen.count))) {
      if (way.columns == chosen.way.columns && way.across != chosen.way.across) step([&](Choice& c) { c.way = way; });
      if (way.across != chosen.way.across) continue;
      if (way.columns < chosen.way.columns) fewer = way;
      if (way.columns > chosen.way.columns && !more) more = way;
    }
    if (fewer) step([&](Choice& c) { c.way = *fewer; });
    if (more) step([&](Choice& c) { c.way = *more; });
    if (!improve(choices)) break;
  }
  return best;
}

}  // namespace unity
