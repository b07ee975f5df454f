// What follows from graphs: rules on random graphs, the lowering of random plans, the simulation of random programs.
#include <algorithm>
#include <random>

#include "core/graph/builder.h"
#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/library.h"
#include "core/rewrite/normalize.h"
#include "core/search/random_plan.h"
#include "core/trace/trace_json.h"
#include "simulator/prepared.h"
#include "simulator/simulate.h"
#include "tests/fuzz/target.h"
#include "tests/support/paths.h"
#include "tests/support/simulator_build.h"
#include "tests/support/stub_cost_model.h"

namespace unity::fuzz {
namespace {

// Random graphs: operators with the attributes of their examples, on earlier values of the same shapes where there are
// some, else on new leaves.
class RandomGraph {
 public:
  explicit RandomGraph(Choices& choices) : choices_(choices) { pcg_.set_name("random"); }

  Pcg make(std::size_t operators) {
    for (std::size_t tried = 0; tried < operators && !choices_.empty(); ++tried) add();
    if (values_.empty()) values_.push_back(leaf({{2, 2}, DType::f32}));
    std::vector<ValueRef> outputs;
    std::vector<bool> used(pcg_.size());
    for (const Node& node : pcg_.nodes())
      for (ValueRef v : node.inputs) used[v.node.index()] = true;
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (!used[i]) outputs.push_back({NodeId(static_cast<std::int64_t>(i)), 0});
    pcg_.set_outputs(std::move(outputs));
    return std::move(pcg_);
  }

 private:
  void add() {
    const Operator& op = *all_operators()[choices_.below(all_operators().size())];
    std::vector<Example> examples = op.examples();
    if (examples.empty()) return;
    const Example& example = examples[choices_.below(examples.size())];
    std::vector<ValueRef> inputs;
    for (const Shape& shape : example.inputs) inputs.push_back(value(shape));
    auto added = pcg_.try_add(op, example.attributes, std::move(inputs),
                              OriginId(static_cast<std::int64_t>(pcg_.size())), fmt::format("n{}", pcg_.size()));
    if (!added.ok()) return;
    for (std::size_t r = 0; r < pcg_[*added].outputs.size(); ++r) values_.push_back({*added, static_cast<int>(r)});
  }

  ValueRef value(const Shape& shape) {
    std::vector<ValueRef> fitting;
    for (ValueRef v : values_)
      if (pcg_.shape(v) == serial(shape)) fitting.push_back(v);
    std::size_t choice = choices_.below(fitting.size() + 2);
    return choice < fitting.size() ? fitting[choice] : leaf(shape);
  }

  ValueRef leaf(const Shape& shape) {
    bool weight = shape.dtype == DType::f32 && choices_.below(2) == 1;
    Attributes attributes{shape.dims, std::string(to_string(shape.dtype))};
    if (weight) attributes = {shape.dims};
    const Operator& op = get_operator(weight ? "weight" : "input");
    attributes = complete_attributes(op.name(), op.attributes(), std::move(attributes)).value();
    NodeId id = pcg_.try_add(op, std::move(attributes), {}, OriginId(static_cast<std::int64_t>(pcg_.size())),
                             fmt::format("x{}", pcg_.size()))
                    .value();
    values_.push_back({id, 0});
    return {id, 0};
  }

  Choices& choices_;
  Pcg pcg_;
  std::vector<ValueRef> values_;
};

void check_graph(const Pcg& pcg) {
  auto ok = check_well_formed(pcg);
  require(ok.ok(), "not well-formed: {}\n{}", ok.ok() ? "" : ok.error().message, print(pcg));
  std::string text = print(pcg);
  require_equal(print(parse_pcg(text)), text, "a graph that is printed, parsed and printed");
}

// A graph, then rules where they match: (rule, match, parameters) again and again.
void run_match(std::string_view input) {
  Choices choices(input);
  Pcg pcg = RandomGraph(choices).make(1 + choices.below(12));
  check_graph(pcg);
  const std::vector<Rule>& library = rule_library();
  for (int applied = 0; applied < 6 && !choices.empty(); ++applied) {
    const Rule& rule = library[choices.number(2) % library.size()];
    MatchIndex index(pcg);
    std::vector<Match> matches = find_matches(index, rule);
    if (matches.empty()) continue;
    const Match& match = matches[choices.below(matches.size())];
    std::vector<Parameters> parameters = parameter_choices(pcg, rule, match, {2, 3});
    if (parameters.empty()) continue;
    auto next = apply(pcg, rule, match, parameters[choices.below(parameters.size())]);
    if (!next.ok()) continue;
    check_graph(*next);
    pcg = normalize(*next);
    check_graph(pcg);
    require(canonical_hash(normalize(pcg)) == canonical_hash(pcg), "normalised twice it is another graph");
  }
}

// A model, a machine, and seeds of the generators of random plans.
struct RandomPlan {
  Topology topology;
  Pcg pcg;
  std::vector<MachineMapping> mappings;
  LowerOptions options;

  explicit RandomPlan(Choices& choices) {
    static const std::vector<Pcg> models = {
        build_model({"mlp-tiny", {{"batch", 12}}}), build_model({"bert-tiny", {{"batch", 12}, {"layers", 1}}}),
        build_model({std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml", {{"batch", 12}}})};
    std::size_t model = choices.below(2 * models.size());
    Pcg serial = model < models.size() ? models[model] : RandomGraph(choices).make(1 + choices.below(8));
    int devices = 1 + static_cast<int>(choices.below(8));
    topology = test::uniform_topology(devices);
    std::mt19937_64 rewriting(choices.number(4)), mapping(choices.number(4));
    pcg = random_state(serial, devices, rewriting).pcg;
    mappings = random_mappings(pcg, topology, mapping);
    options.training = choices.below(8) != 7;
    options.schedule.order = static_cast<PipelineOrder>(choices.below(3));
    options.schedule.overlap = static_cast<int>(choices.below(4));
    options.schedule.bucket = {std::int64_t{1} << choices.below(24)};
    if (choices.below(3) == 0) options.schedule.remat = {choices.below(2) ? "all" : "blocks"};
    options.schedule.offload = static_cast<Offload>(choices.below(4));
    if (choices.below(4) == 0) options.schedule.weights = WeightVersions::delayed;
    constexpr const char* kOptimizers[] = {"sgd 0.1", "adam 1e-3"};
    options.optimizer = parse_optimizer(kOptimizers[choices.below(2)]);
    if (choices.below(2) == 0) options.schedule = {};
    options.schedule.fuse = static_cast<Fuse>(choices.below(2));
  }
};

void check_lowered(const Program& program) {
  auto ok = check_program(program);
  require(ok.ok(), "a lowered program is not well-formed: {}", ok.ok() ? "" : ok.error().message);
  for (const BufferLife& life : buffer_lives(program))
    require(life.persistent || life.first <= life.last, "a buffer ends before it begins");
}

void run_lowering(std::string_view input) {
  Choices choices(input);
  RandomPlan plan(choices);
  Result<Program> program = lower(plan.pcg, plan.mappings, plan.topology, plan.options);
  if (!program.ok()) return require(!program.error().message.empty(), "refused without a reason");
  check_lowered(*program);
  require(program_hash(lower(plan.pcg, plan.mappings, plan.topology, plan.options).value()) == program_hash(*program),
          "lowered twice it is another program");
}

// Ends, takes no negative time, runs every task once and in the order that dependencies ask for; again it is the same.
void check_simulation(const Program& program, const Topology& topology, const SimulationOptions& options) {
  SimulationResult result = simulate(program, topology, options);
  require(result.iteration.count >= 0, "takes {} ps", result.iteration.count);
  std::vector<Picoseconds> start(program.tasks.size()), end(program.tasks.size(), {-1});
  for (const Span& s : result.trace.spans) {
    require(s.start.count >= 0 && s.start <= s.end && s.end <= result.iteration, "a task ends before it starts");
    start[s.task.index()] = s.start;
    end[s.task.index()] = s.end;
  }
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    require(end[t].count >= 0, "task {} never ran", t);
    for (TaskId before : program.dependencies_of(program.tasks[t]))
      require(end[before.index()] <= start[t], "task {} starts before {} has ended", t, before.value);
  }
  for (Bytes peak : result.peak_memory) require(peak.count >= 0, "negative memory");
  SimulationResult again = simulate(program, topology, options);
  require_equal(trace_to_json(again.trace), trace_to_json(result.trace), "a second simulation");
  SimulationOptions folded = options;
  folded.fold = true;
  require(simulate(program, topology, folded).iteration == result.iteration, "folded, it takes another time");
}

SimulationOptions random_options(Choices& choices) {
  SimulationOptions options;
  options.links = choices.below(2) == 1;
  options.steps = choices.below(4) == 1;
  if (choices.below(4) == 1) options.noise.jitter = 0.1;
  if (choices.below(4) == 1) options.noise.stragglers = {{DeviceId(0), 1.5}};
  return options;
}

void run_simulator(std::string_view input) {
  Choices choices(input);
  RandomPlan plan(choices);
  Result<Program> program = lower(plan.pcg, plan.mappings, plan.topology, plan.options);
  if (!program.ok()) return;
  accepted([&] { check_simulation(*program, plan.topology, random_options(choices)); });
}

// Programs that no lowering makes: tasks of any length on any stream, communications among any devices, waiting for any
// tasks before them; on machines with few links, shared compute and switches.
void run_programs(std::string_view input) {
  Choices choices(input);
  int devices = 1 + static_cast<int>(choices.below(6));
  double bandwidth = 1 << choices.below(10), latency = static_cast<double>(choices.below(20));
  Topology topology;
  switch (choices.below(3)) {
    case 0:
      topology = test::all_pairs(devices, bandwidth, latency);
      break;
    case 1:
      topology = test::ring_machine(devices, bandwidth, latency);
      break;
    default: {
      test::MachineBuilder star(devices);
      VertexId middle = star.add_switch("switch");
      for (int d = 0; d < devices; ++d) star.link(star.device(d), middle, bandwidth * (1 + d % 2), latency);
      topology = star.finish();
    }
  }
  for (DeviceSpec& spec : topology.specs) {
    if (choices.below(4) == 1) spec.interference = 0.25;
    if (choices.below(4) == 1) spec.handover = from_seconds(1e-6);
    if (choices.below(4) == 1) spec.launch_overhead = from_seconds(2e-6);
  }
  if (choices.below(4) == 1) {
    topology.physical_devices.resize(1);
    topology.physical_devices[0].units = 2;
    for (Device& d : topology.devices) d.physical = 0;
    topology.finish();
  }
  SimulationOptions options = random_options(choices);
  test::ProgramBuilder builder(devices);
  std::vector<BufferId> buffers;
  auto device = [&] { return static_cast<int>(choices.below(static_cast<std::size_t>(devices))); };
  for (int d = 0; d < devices; ++d) buffers.push_back(builder.buffer(d, 1 + static_cast<int>(choices.below(200))));
  while (!choices.empty() && builder.program.tasks.size() < 60) {
    std::vector<TaskId> after;
    std::size_t tasks = builder.program.tasks.size();
    for (std::size_t n = tasks ? choices.below(4) : 0; n > 0; --n)
      after.emplace_back(static_cast<std::int64_t>(choices.below(tasks)));
    std::size_t kind = choices.below(10);
    std::size_t size = std::size_t{1} << choices.below(24);
    if (kind < 4) {
      int d = device();
      builder.compute(d, static_cast<double>(size % 4099), after, {buffers[static_cast<std::size_t>(d)]},
                      kind == 3 ? Stream::copy : Stream::compute);
      continue;
    }
    std::vector<int> group;
    std::size_t members = choices.number(1);
    for (int d = 0; d < devices; ++d)
      if (members >> d & 1) group.push_back(d);
    if (members >> 6 & 1) std::reverse(group.begin(), group.end());
    if (group.size() < 2) continue;
    if (kind == 4) {
      builder.all_to_all(group, static_cast<std::int64_t>(size), after);
      continue;
    }
    auto collective = static_cast<CollectiveKind>(kind - 4);
    if (kind == 9 || choices.below(8) == 0) collective = CollectiveKind::send;
    if (collective == CollectiveKind::send) group.resize(2);
    builder.communicate(collective, group, static_cast<std::int64_t>(size), after);
  }
  accepted([&] { check_simulation(builder.program, topology, options); });
}

// Bytes of a fixed generator: there are no files to begin with.
template <int kCount, int kLength>
std::vector<std::string> random_seeds() {
  std::mt19937_64 random(7);
  std::vector<std::string> seeds(kCount);
  for (std::string& seed : seeds)
    for (int i = 0; i < kLength; ++i) seed += static_cast<char>(random());
  return seeds;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"match", "rules make well-formed graphs, which print and parse to themselves and are normalised once", run_match,
       random_seeds<24, 80>, 160, "", 600},
      {"lowering", "the program passes its checks; lowered again it is the same", run_lowering, random_seeds<16, 40>,
       80, "", 400},
      {"simulator", "ends; every task runs once, after those it waits for; again and folded it takes the same time",
       run_simulator, random_seeds<16, 40>, 80, "", 400},
      {"programs", "the same, of programs that no lowering makes", run_programs, random_seeds<24, 120>, 400, "", 2000},
  };
  return list;
}

}  // namespace unity::fuzz
