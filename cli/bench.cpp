// unity bench: the figures of this project on this machine. Each is the median over runs that fill half a second, in
// processor time of this process, so that what else runs on the machine counts little.
#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/table.h"
#include "core/base/random.h"
#include "core/generate/enumerate.h"
#include "core/models/models.h"
#include "core/rewrite/library.h"
#include "core/rewrite/match.h"
#include "core/search/mapping_search.h"
#include "core/verify/verify.h"
#include "simulator/folding/folded.h"
#include "simulator/incremental/resimulate.h"
#include "simulator/network/transfers.h"
#include "simulator/simulate.h"
#include "simulator/simulation_bytes.h"

namespace unity::cli {
namespace {

struct Options {
  std::string what = "simulator";
  bool large = false, json = false;
};

// Median seconds of a run: at least five runs and half a second in all, after one that does not count; of runs longer
// than ten seconds only that one counts.
double median_seconds(const std::function<void()>& run) {
  constexpr std::size_t kRuns = 5;
  constexpr double kSeconds = 0.5, kLong = 10;
  auto timed = [&] {
    std::clock_t begin = std::clock();
    run();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  if (double first = timed(); first > kLong) return first;
  std::vector<double> seconds;
  for (double sum = 0; sum < kSeconds || seconds.size() < kRuns; sum += seconds.back()) seconds.push_back(timed());
  auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

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

struct Figure {
  std::string key, unit;
  double value;
};

// Transfers simulated per second.
double transfer_rate(const TransferGraph& graph, const Topology& topology) {
  return static_cast<double>(graph.size()) / median_seconds([&] { simulate_transfers(graph, topology); });
}

// Simulation of a program, whole and folded. Preparing (what tasks wait for, times, collectives) and folding happen
// once for a program, and are given by themselves.
void bench_program(const std::string& name, const Program& program, const Topology& topology,
                   std::vector<Figure>& figures) {
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
                  const CollectiveCache& cache, std::vector<Figure>& figures) {
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
                   std::vector<Figure>& figures) {
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
                      std::vector<Figure>& figures) {
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

std::vector<Figure> bench_simulator(const Options& o) {
  MachineOptions machine;
  machine.topology = "summit";
  std::vector<Figure> figures;
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
  if (o.large) {
    machine.topology = "dgx-h100";
    machine.nodes = 512;
    bench_bert_large("bert_large_4096", machine, false, figures);
  }
  return figures;
}

// Of the library: its proofs; of the generator: all its graphs; of the matcher: all rules on BERT-Large.
std::vector<Figure> bench_rules() {
  std::vector<Figure> figures;
  auto seconds_of = [](const std::function<void()>& run) {
    std::clock_t begin = std::clock();
    run();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  std::vector<double> proofs;
  double all = 0;
  for (const Rule& rule : rule_library()) {
    proofs.push_back(seconds_of([&] { verify(rule); }));
    all += proofs.back();
  }
  std::sort(proofs.begin(), proofs.end());
  figures.push_back({"library_rules", "", static_cast<double>(proofs.size())});
  figures.push_back({"proofs_seconds", "s", all});
  figures.push_back({"proof_median_seconds", "s", proofs[proofs.size() / 2]});
  figures.push_back({"proof_longest_seconds", "s", proofs.back()});

  std::int64_t graphs = 0;
  double enumeration = seconds_of([&] {
    for (Family& family : default_families())
      for (std::int64_t n : enumerate(family).counts.graphs) graphs += n;
  });
  figures.push_back({"enumerated_graphs", "", static_cast<double>(graphs)});
  figures.push_back({"enumerated_graphs_per_second", "", static_cast<double>(graphs) / enumeration});

  Pcg model = build_model({"bert-large", {}});
  std::int64_t matches = 0;
  double matching = median_seconds([&] {
    MatchIndex index(model);
    matches = 0;
    for (const Rule& rule : rule_library()) matches += static_cast<std::int64_t>(find_matches(index, rule).size());
  });
  figures.push_back({"bert_large_matches", "", static_cast<double>(matches)});
  figures.push_back({"bert_large_matching_seconds", "s", matching});
  return figures;
}

void bench(const Options& o) {
  std::vector<Figure> figures = o.what == "rules" ? bench_rules() : bench_simulator(o);
  if (o.json) {
    nlohmann::ordered_json out;
    for (const Figure& f : figures) out[f.key] = f.value;
    fmt::print("{}\n", out.dump(2));
    return;
  }
  Table table({"figure", "value"});
  for (const Figure& f : figures)
    table.add({f.key, f.unit.empty() ? grouped(static_cast<std::int64_t>(f.value)) : to_string(from_seconds(f.value))});
  table.print();
}

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "bench", "Measure Unity's own speed on this machine",
                                  "  unity bench simulator\n"
                                  "  unity bench rules\n"
                                  "  unity bench simulator --json");
  command
      ->add_option("WHAT", o->what,
                   "simulator: events and transfers per second, and BERT-Large on 192 GPUs; rules: proofs, "
                   "enumeration, matching")
      ->required()
      ->check(CLI::IsMember({"simulator", "rules"}));
  command->add_flag("--large", o->large, "BERT-Large on 4,096 GPUs, too: takes minutes and 16 GB of memory");
  add_json(*command, o->json);
  command->callback([o] { bench(*o); });
}

}  // namespace unity::cli
