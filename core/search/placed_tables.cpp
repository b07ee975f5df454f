#include "core/search/placed_tables.h"

#include <algorithm>
#include <numeric>

#include "core/base/parallel.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/device_speeds.h"
#include "core/search/substitution.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

constexpr std::size_t kIds = 0, kTable = 1;  // operands of an embedding bag

Bytes table_bytes(const Pcg& pcg, NodeId lookup) {
  return {pcg.shape(source_of(pcg, pcg[lookup].inputs[kTable])).shape().bytes()};
}

// Those of tables of so many bytes at least.
bool is_lookup(const Pcg& pcg, NodeId id, Bytes smallest) {
  return pcg[id].op->name() == "embedding_bag" &&
         pcg[source_of(pcg, pcg[id].inputs[kTable]).node].op->name() == "weight" && table_bytes(pcg, id) >= smallest;
}

std::vector<NodeId> lookups(const Pcg& pcg, Bytes smallest) {
  std::vector<NodeId> found;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (NodeId id(static_cast<std::int64_t>(i)); is_lookup(pcg, id, smallest)) found.push_back(id);
  return found;
}

// Lookups by columns, all else by batch.
Result<State> split_around_tables(const State& whole, int columns, int devices, Bytes smallest) {
  ValueRef leaf = UNITY_TRY(batch_leaf(whole.pcg));
  std::vector<AxisClass> classes = axis_classes(whole.pcg);
  auto batch = class_of_dimension(whole.pcg, classes, leaf, 0);
  if (!batch) return fail("no operator can be split along the batch");
  AxisClass rest = classes[*batch];
  std::erase_if(rest.members, [&](const AxisClassMember& m) { return is_lookup(whole.pcg, m.node, smallest); });
  State state = whole;
  std::vector<DerivationEvent> log;
  if (devices > 1) state.pcg = UNITY_TRY(shard_class(whole.pcg, rest, devices, &log));
  for (const DerivationEvent& e : log) state.steps.push_back({e.rule, e.where, e.degree, 0});
  for (std::size_t k = 0; columns > 1 && k < lookups(state.pcg, smallest).size(); ++k) {
    NodeId id = lookups(state.pcg, smallest)[k];
    const AxisTable& table = *state.pcg[id].table;
    int axis = split_axis(table, table.outputs[0].dims.back());
    state = UNITY_TRY(
        apply_move(state, {Move::Kind::shard_one, static_cast<int>(id.value), axis, columns}, rule_library()));
  }
  return state;
}

// Biggest first on the devices with the fewest bytes; among equals in this order.
std::vector<MachineMapping> place(const Pcg& pcg, const std::vector<int>& order, Bytes smallest) {
  std::vector<MachineMapping> mappings = natural_mappings(pcg);
  std::vector<NodeId> tables = lookups(pcg, smallest);
  auto bytes = [&](NodeId id) { return table_bytes(pcg, id).count; };
  std::stable_sort(tables.begin(), tables.end(), [&](NodeId a, NodeId b) { return bytes(a) > bytes(b); });
  std::vector<std::int64_t> held(order.size(), 0);
  for (NodeId id : tables) {
    TaskGrid grid = node_grid(pcg, id);
    int parts = task_count(grid);
    std::vector<std::size_t> slots(order.size());
    std::iota(slots.begin(), slots.end(), std::size_t{0});
    std::stable_sort(slots.begin(), slots.end(), [&](std::size_t a, std::size_t b) { return held[a] < held[b]; });
    MachineMapping mapping = natural_mapping(grid);
    for (std::size_t p = 0; p < static_cast<std::size_t>(parts); ++p) {
      mapping.places.push_back(order[slots[p]]);
      held[slots[p]] += bytes(id) / parts;
    }
    if (grid.empty()) mapping = {mapping.places[0], {}, {}};
    mappings[id.index()] = mapping;
    for (std::size_t operand : {kIds, kTable}) {
      NodeId source = source_of(pcg, pcg[id].inputs[operand]).node;
      if (task_count(node_grid(pcg, source)) == parts) mappings[source.index()] = mapping;
    }
  }
  return mappings;
}

}  // namespace

Result<Outcome> placed_tables(const StrategyInput& input, Bytes smallest) {
  const State whole{normalize(input.model), {}, {}};
  std::size_t tables = lookups(whole.pcg, smallest).size();
  if (tables < 2) return fail("the model has no tables of embedding bags to place on devices");
  if (smallest.count > 0 && tables == lookups(whole.pcg, {}).size())
    return fail("the model has no tables of fewer than {}", to_string(smallest));
  int per_node = common_node_size(input.evaluator.cost().topology());
  // The first devices of all nodes, then the second ones.
  std::vector<int> along(static_cast<std::size_t>(input.devices)), across;
  std::iota(along.begin(), along.end(), 0);
  for (int d = 0; d < per_node; ++d)
    for (int first = d; first < input.devices; first += per_node) across.push_back(first);
  // Tables need no more parts than that every device has one.
  std::vector<std::pair<int, bool>> ways;
  for (int columns = 1; columns <= input.devices; ++columns)
    if (columns == 1 ||
        (input.devices % columns == 0 && columns * static_cast<int>(tables) < input.devices + static_cast<int>(tables)))
      for (bool nodes : {false, true})
        if (!nodes || per_node < input.devices) ways.emplace_back(columns, nodes);
  std::vector<Result<Outcome>> plans(ways.size(), fail("not tried"));
  parallel_for(ways.size(), input.evaluator.threads(), [&](std::size_t i) {
    auto [columns, nodes] = ways[i];
    SearchRecorder& record = input.evaluator.record();
    plans[i] = [&, columns = columns, nodes = nodes]() -> Result<Outcome> {
      State state = UNITY_TRY(record.timed(
          SearchLevel::substitution, [&] { return split_around_tables(whole, columns, input.devices, smallest); }));
      auto mappings =
          record.timed(SearchLevel::mapping, [&] { return place(state.pcg, nodes ? across : along, smallest); });
      Candidate candidate = UNITY_TRY(input.evaluator.evaluate(state.pcg, std::move(mappings)));
      return Outcome{std::move(candidate),
                     std::move(state.steps),
                     fmt::format("{} tables {}on devices{}, all else by batch, is the fastest", tables,
                                 columns > 1 ? fmt::format("in {} parts ", columns) : "", nodes ? " across nodes" : ""),
                     {}};
    }();
  });
  Result<Outcome> best = std::move(plans[0]);
  if (best.ok()) input.evaluator.found(best->candidate.score);
  for (std::size_t i = 1; i < plans.size(); ++i)
    if (plans[i].ok()) take_better(best, std::move(plans[i]), input.evaluator);
  return best;
}

}  // namespace unity
