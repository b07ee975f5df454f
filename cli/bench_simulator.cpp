// unity bench simulator: transfers, and a data-parallel iteration of BERT-Large, its parts and changes of it.
#include <functional>
#include <optional>

#include "cli/bench.h"
#include "cli/lowered.h"
#include "core/base/random.h"
#include "core/search/mapping_search.h"
#include "simulator/folding/folded.h"
#include "simulator/incremental/resimulate.h"
#include "simulator/network/transfers.h"
#include "simulator/simulate.h"
#include "simulator/simulation_bytes.h"

namespace unity::cli {
namespace {

std::vector<DeviceId> every(std::size_t first, std::size_t step, std::size_t last) {
  std::vector<DeviceId> devices;
  for (std::size_t d = first; d < last; d += step) devices.push_back(DeviceId(static_cast<std::int64_t>(d)));
  return devices;
}

// What a training step has in flight: in each node a ring all-reduce of its GPUs, again and again; between the nodes a
// ring for every GPU number, which share the network ports; and transfers between neighbours in the pipeline.
TransferGraph mixed_workload(const Topology& topology) {
  TransferGraph graph;
  DeviceRoutes routes(topology, graph);
  std::size_t devices = topology.device_count(), nodes = static_cast<std::size_t>(topology.nodes);
  std::size_t local = devices / nodes;
  RandomKey key(1);
  for (std::size_t node = 0; node < nodes; ++node)
    for (int round = 0; round < 20; ++round)
      add_ring_all_reduce(graph, routes, every(node * local, 1, (node + 1) * local), {25'000'000},
                          from_seconds(round * 2e-3 + 1e-3 * random_uniform(key, node)));
  for (std::size_t gpu = 0; gpu < local; ++gpu)
    add_ring_all_reduce(graph, routes, every(gpu, local, devices), {100'000'000},
                        from_seconds(1e-3 * static_cast<double>(gpu)));
  for (std::size_t i = 0; i < 20 * devices; ++i) {
    DeviceId from(static_cast<std::int64_t>(i % devices)), to(static_cast<std::int64_t>((i + local) % devices));
    graph.add(routes(from, to), 1e6, {}, from_seconds(40e-3 * random_uniform(key.with(1), i)));
  }
  return graph;
}

// Transfers simulated per second.
double transfer_rate(const TransferGraph& graph, const Topology& topology) {
  return static_cast<double>(graph.size()) / median_seconds([&] { simulate_transfers(graph, topology); });
}

// Simulation of a program, whole and folded. Preparing (what tasks wait for, times, collectives) and folding happen
// once for a program, and are given by themselves.
void bench_program(const std::string& name, const Program& program, const Topology& topology,
                   std::vector<BenchFigure>& figures) {
  SimulationOptions options;
  options.trace = false;
  CollectiveCache cache(topology);
  PreparedProgram prepared = prepare(program, cache, options);
  FoldedProgram folded(prepared, topology);
  auto add = [&](const char* what, const std::function<void()>& run) {
    figures.push_back({fmt::format("{}_{}_seconds", name, what), "s", median_seconds(run)});
  };
  add("unfolded", [&] { simulate(program, cache, options); });
  add("prepare", [&] { prepare(program, cache, options); });
  add("fold", [&] { FoldedProgram(prepared, topology); });
  add("folded", [&] { simulate(folded.prepared(), topology, options); });
  double bytes = static_cast<double>(simulation_bytes(prepared, topology, options).count);
  figures.push_back({name + "_bytes_per_task", "", bytes / static_cast<double>(program.tasks.size())});
  figures.push_back({name + "_devices_simulated", "", static_cast<double>(folded.representatives())});
}

// A matmul in the middle of the model.
std::size_t middle_matmul(const Pcg& pcg) {
  std::vector<std::size_t> found;
  for (std::size_t n = 0; n < pcg.size(); ++n)
    if (pcg.nodes()[n].op->name() == "matmul") found.push_back(n);
  return found.at(found.size() / 2);
}

// Its tasks on the same devices, in the opposite order.
Plan with_mapping_turned(Plan plan, std::size_t node) {
  MachineMapping& mapping = plan.mappings[node];
  TaskGrid grid = node_grid(plan.pcg, NodeId(static_cast<std::int64_t>(node)));
  for (std::size_t g = 0; g < grid.size(); ++g) {
    mapping.start += mapping.strides[g] * (grid[g].degree - 1);
    mapping.strides[g] = -mapping.strides[g];
  }
  return plan;
}

// Its weight stored in parts, which are gathered for use.
Plan with_weight_sharded(const Plan& plan, std::size_t node, int parts) {
  const Pcg& pcg = plan.pcg;
  NodeId weight = pcg.nodes()[node].inputs[1].node;
  while (!pcg[weight].is_leaf()) weight = pcg[weight].inputs[0].node;
  Plan sharded = plan;
  sharded.pcg = {};
  sharded.pcg.set_name(pcg.name());
  sharded.mappings.clear();
  std::vector<NodeId> renamed;
  auto add = [&](const Operator& op, const Attributes& attributes, std::vector<ValueRef> inputs, const Node& like) {
    sharded.mappings.emplace_back();
    return sharded.pcg.try_add(op, attributes, std::move(inputs), like.origin, like.name).value();
  };
  for (std::size_t n = 0; n < pcg.size(); ++n) {
    const Node& from = pcg.nodes()[n];
    std::vector<ValueRef> inputs = from.inputs;
    for (ValueRef& input : inputs) input.node = renamed[input.node.index()];
    renamed.push_back(add(*from.op, from.attributes, inputs, from));
    sharded.mappings.back() = plan.mappings[n];
    if (n != weight.index()) continue;
    NodeId leaf = renamed.back();
    Attributes split{std::int64_t{0}, std::int64_t{parts}};
    NodeId stored = add(*find_operator("partition"), split, {{leaf}}, from);
    renamed.back() = add(*find_operator("combine"), split, {{stored}}, from);
    sharded.mappings[leaf.index()] = natural_mapping(node_grid(sharded.pcg, leaf));
  }
  std::vector<ValueRef> outputs = pcg.outputs();
  for (ValueRef& output : outputs) output.node = renamed[output.node.index()];
  sharded.pcg.set_outputs(outputs);
  return sharded;
}

// A changed plan, simulated with what was recorded of the plan and from nothing.
void bench_change(const std::string& name, const Plan& changed, const Recording& recording, const Topology& topology,
                  const CollectiveCache& cache, std::vector<BenchFigure>& figures) {
  Program program = lower(changed.pcg, changed.mappings, topology, {true, changed.optimizer}).value();
  PreparedProgram prepared = prepare(program, cache, recording.options);
  Resimulation again = resimulate(prepared, recording, topology);
  double seconds = median_seconds([&] { resimulate(prepared, recording, topology); });
  figures.push_back({name + "_resimulate_seconds", "s", seconds});
  seconds = median_seconds([&] { simulate(prepared, topology, recording.options); });
  figures.push_back({name + "_simulate_seconds", "s", seconds});
  figures.push_back({name + "_reused_tasks", "", static_cast<double>(again.reused)});
  figures.push_back({name + "_simulated_tasks", "", static_cast<double>(again.simulated)});
}

void bench_changes(const std::string& name, const Plan& plan, const Program& program, const Topology& topology,
                   std::vector<BenchFigure>& figures) {
  CollectiveCache cache(topology);
  SimulationOptions options;
  options.trace = false;
  PreparedProgram prepared = prepare(program, cache, options);
  Recording recording = record(prepared, topology, options);
  double seconds = median_seconds([&] { record(prepared, topology, options); });
  figures.push_back({name + "_record_seconds", "s", seconds});
  std::size_t node = middle_matmul(plan.pcg);
  bench_change(name + "_mapping", with_mapping_turned(plan, node), recording, topology, cache, figures);
  bench_change(name + "_layout", with_weight_sharded(plan, node, program.devices), recording, topology, cache, figures);
}

// BERT-Large, data-parallel.
void bench_bert_large(const std::string& name, const MachineOptions& machine, bool with_changes,
                      std::vector<BenchFigure>& figures) {
  PlanSource source;
  source.model.model = "bert-large";
  source.machine = machine;
  Topology topology;
  Plan plan = source.load(topology);
  std::optional<Program> program;
  figures.push_back({name + "_lowering_seconds", "s", median_seconds([&] {
                       program.reset();
                       program = lower(plan.pcg, plan.mappings, topology, {true, plan.optimizer}).value();
                     })});
  figures.push_back({name + "_tasks", "", static_cast<double>(program->tasks.size())});
  bench_program(name, *program, topology, figures);
  if (with_changes) bench_changes(name, plan, *program, topology, figures);
}

}  // namespace

std::vector<BenchFigure> bench_simulator(bool large_too) {
  MachineOptions machine;
  machine.topology = "summit";
  std::vector<BenchFigure> figures;
  machine.nodes = 16;
  Topology small = machine.load();
  machine.nodes = 32;
  Topology large = machine.load();
  TransferGraph ring_96 = ring_all_reduce(small, every(0, 1, small.device_count()), {100'000'000});
  TransferGraph ring_192 = ring_all_reduce(large, every(0, 1, large.device_count()), {100'000'000});
  TransferGraph mixed = mixed_workload(large);
  double ring_96_rate = transfer_rate(ring_96, small), ring_192_rate = transfer_rate(ring_192, large);
  double mixed_rate = transfer_rate(mixed, large);
  // A transfer is two events: its flow enters and ends.
  double transfers = static_cast<double>(ring_96.size() + ring_192.size() + mixed.size());
  double seconds = static_cast<double>(ring_96.size()) / ring_96_rate +
                   static_cast<double>(ring_192.size()) / ring_192_rate +
                   static_cast<double>(mixed.size()) / mixed_rate;
  figures.push_back({"events_per_second", "", 2 * transfers / seconds});
  figures.push_back({"mixed_events_per_second", "", 2 * mixed_rate});
  figures.push_back({"mixed_transfers", "", static_cast<double>(mixed.size())});
  figures.push_back({"ring_96_transfers_per_second", "", ring_96_rate});
  figures.push_back({"ring_192_transfers_per_second", "", ring_192_rate});

  bench_bert_large("bert_large_192", machine, true, figures);
  if (large_too) {
    machine.topology = "dgx-h100";
    machine.nodes = 512;
    bench_bert_large("bert_large_4096", machine, false, figures);
  }
  return figures;
}

}  // namespace unity::cli
