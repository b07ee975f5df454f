#include "gui/session/prediction.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "core/plan/lower.h"
#include "gui/session/estimate.h"
#include "simulator/analysis/scenario.h"

namespace unity::gui {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMachinesKept = 4;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string scales_text(const std::vector<Scale>& scales) {
  std::string text;
  for (const Scale& scale : scales) text += scale.text() + " ";
  return text;
}

double samples_per_second(const Document& document, Picoseconds iteration) {
  return iteration.count > 0 ? static_cast<double>(document.plan->global_batch) / iteration.seconds() : 0;
}

OriginId origin_of(const Program& program, const Task& task) {
  if (task.kind == TaskKind::communicate) {
    for (const Participant& p : program.communications[static_cast<std::size_t>(task.op)].participants)
      for (BufferId b : {p.send, p.receive})
        if (b.valid()) return program.tensor_of(b).origin;
    return {};
  }
  if (task.kind == TaskKind::compute) return program.ops[static_cast<std::size_t>(task.op)].origin;
  auto operands = program.operands_of(task);
  return operands.empty() ? OriginId() : program.tensor_of(operands.back()).origin;
}

}  // namespace

bool devices_do_alike(const Schedule& schedule) {
  Schedule rest = schedule;
  rest.order = Schedule().order, rest.remat.clear(), rest.bucket = Schedule().bucket;
  return rest == Schedule();
}

std::string PlanPrediction::iteration_text() const { return (estimated ? "about " : "") + to_string(iteration); }

Bytes PlanPrediction::peak() const {
  return peak_memory.empty() ? Bytes{} : *std::max_element(peak_memory.begin(), peak_memory.end());
}

std::string PlanPrediction::does_not_fit(const Topology& topology) const {
  for (std::size_t d = 0; d < peak_memory.size() && d < topology.device_count(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    if (peak_memory[d] > topology.spec(device).memory)
      return fmt::format("needs {} on {}, which has {}", to_string(peak_memory[d]), topology.device(device).name,
                         to_string(topology.spec(device).memory));
  }
  return {};
}

std::shared_ptr<const Predictor::Machine> Predictor::machine(const Document& document) {
  std::pair key(document.topology, scales_text(document.scales));
  {
    std::lock_guard lock(mutex_);
    for (const auto& [known, machine] : machines_)
      if (known == key) return machine;
  }
  Topology scaled = *document.topology;
  apply_scales(document.scales, scaled);
  auto made = std::make_shared<const Machine>(std::move(scaled));
  std::lock_guard lock(mutex_);
  if (machines_.size() >= kMachinesKept) machines_.erase(machines_.begin());
  machines_.emplace_back(std::move(key), made);
  return made;
}

Predictor::Piece Predictor::piece(const Document& document, const Machine& machine) {
  {
    std::lock_guard lock(mutex_);
    if (piece_plan_ == document.plan) return piece_;
  }
  const Plan& plan = *document.plan;
  LowerOptions options{true, plan.optimizer, plan.schedule, {}};
  if (devices_do_alike(plan.schedule)) options.blocks = machine.blocks.find(plan.pcg, plan.mappings);
  Result<Program> program = lower(plan.pcg, plan.mappings, *document.topology, options);
  if (!program.ok() && !options.blocks.all()) {
    options.blocks = {};
    program = lower(plan.pcg, plan.mappings, *document.topology, options);
  }
  Piece piece{options.blocks, nullptr, {}};
  if (program.ok())
    piece.program = std::make_shared<const Program>(std::move(*program));
  else
    piece.error = program.error().message;
  std::lock_guard lock(mutex_);
  piece_plan_ = document.plan;
  piece_ = piece;
  // All devices were lowered: that is the whole program, too.
  if (piece.program && piece.blocks.all()) lowered_plan_ = document.plan, lowered_ = piece.program;
  return piece;
}

std::optional<PlanPrediction> Predictor::estimate(const Document& before, const PlanPrediction& known,
                                                  const Document& after) {
  Clock::time_point begin = Clock::now();
  if (!known.error.empty() || before.topology != after.topology ||
      scales_text(before.scales) != scales_text(after.scales))
    return {};
  std::shared_ptr<const Machine> machine = this->machine(after);
  std::optional<Picoseconds> change =
      estimate_change(*before.plan, known.iteration, *after.plan, machine->cost, machine->blocks);
  if (!change || known.iteration.count + change->count <= 0) return {};
  PlanPrediction prediction;
  prediction.estimated = true;
  prediction.iteration = {known.iteration.count + change->count};
  prediction.samples_per_second = samples_per_second(after, prediction.iteration);
  prediction.seconds = seconds_since(begin);
  return prediction;
}

PlanPrediction Predictor::quick(const Document& document) {
  Clock::time_point begin = Clock::now();
  std::shared_ptr<const Machine> machine = this->machine(document);
  Piece piece = this->piece(document, *machine);
  PlanPrediction prediction;
  prediction.error = piece.error;
  if (piece.program) {
    Score score = machine->cost.score(*piece.program);
    prediction.iteration = score.iteration;
    prediction.communicated = piece.blocks.all() ? score.communicated : Bytes{};
    prediction.peak_memory = score.peak_memory;
    // Devices that were not lowered are like those that stand for them.
    auto size = static_cast<std::size_t>(std::max(piece.blocks.size, 1));
    for (std::size_t d = 0; d < score.peak_memory.size() && !piece.blocks.all(); ++d) {
      auto lowered = static_cast<std::size_t>(piece.blocks.lowered(DeviceId(static_cast<std::int64_t>(d))));
      prediction.peak_memory[d] = score.peak_memory[lowered * size + d % size];
    }
    prediction.samples_per_second = samples_per_second(document, score.iteration);
  }
  prediction.seconds = seconds_since(begin);
  return prediction;
}

std::shared_ptr<const Program> Predictor::program(const Document& document) {
  {
    std::lock_guard lock(mutex_);
    if (lowered_plan_ == document.plan) return lowered_;
  }
  const Plan& plan = *document.plan;
  Result<Program> lowered =
      lower(plan.pcg, plan.mappings, *document.topology, {true, plan.optimizer, plan.schedule, {}});
  auto program = std::make_shared<const Program>(std::move(lowered).value());
  std::lock_guard lock(mutex_);
  lowered_plan_ = document.plan;
  lowered_ = program;
  return program;
}

PlanPrediction Predictor::whole(const Document& document) {
  Clock::time_point begin = Clock::now();
  PlanPrediction prediction;
  prediction.whole = true;
  try {
    prediction.program = program(document);
    Scenario scenario(*prediction.program, *document.topology, document.scales);
    prediction.result = scenario.simulate(true);
    prediction.iteration = prediction.result.iteration;
    prediction.peak_memory = prediction.result.peak_memory;
    prediction.communicated = prediction.program->communicated();
    prediction.samples_per_second = samples_per_second(document, prediction.iteration);
    prediction.nodes = node_costs(document.graph(), *prediction.program, prediction.result.trace);
  } catch (const InputError& error) {
    prediction.error = error.what();
  }
  prediction.seconds = seconds_since(begin);
  return prediction;
}

namespace {

// Layout operators share the origin of what they lay out; what runs is counted at the operator itself.
class NodesByOrigin {
 public:
  explicit NodesByOrigin(const Pcg& pcg) {
    for (std::size_t i = 0; i < pcg.size(); ++i)
      if (!pcg.nodes()[i].is_parallelization())
        nodes_.emplace(pcg.nodes()[i].origin.value, NodeId(static_cast<std::int64_t>(i)));
  }
  NodeId find(OriginId origin) const {
    auto at = nodes_.find(origin.value);
    return at == nodes_.end() ? NodeId() : at->second;
  }

 private:
  std::unordered_map<std::int32_t, NodeId> nodes_;
};

}  // namespace

std::vector<NodeId> nodes_of_tasks(const Pcg& pcg, const Program& program) {
  NodesByOrigin nodes(pcg);
  std::vector<NodeId> of_task(program.tasks.size());
  for (std::size_t t = 0; t < of_task.size(); ++t) of_task[t] = nodes.find(origin_of(program, program.tasks[t]));
  return of_task;
}

std::vector<NodeCost> node_costs(const Pcg& pcg, const Program& program, const Trace& trace) {
  NodesByOrigin nodes(pcg);
  std::vector<NodeId> of_task = nodes_of_tasks(pcg, program);

  auto devices = static_cast<std::size_t>(program.devices);
  std::vector<std::int64_t> compute(pcg.size() * devices, 0), communication(pcg.size() * devices, 0);
  std::vector<NodeCost> costs(pcg.size());
  for (const Span& span : trace.spans) {
    if (!of_task[span.task.index()].valid()) continue;
    std::size_t node = of_task[span.task.index()].index();
    ++costs[node].tasks;
    auto& sum = program.tasks[span.task.index()].kind == TaskKind::communicate ? communication : compute;
    sum[node * devices + span.device.index()] += (span.end - span.start).count;
  }
  std::vector<std::int64_t> memory(pcg.size() * devices, 0);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    NodeId node = nodes.find(program.tensors[static_cast<std::size_t>(buffer.tensor)].origin);
    if (node.valid() && !buffer.on_host)
      memory[node.index() * devices + buffer.device.index()] +=
          program.bytes_of(BufferId(static_cast<std::int64_t>(b))).count;
  }
  for (std::size_t n = 0; n < pcg.size(); ++n) {
    auto most = [&](const std::vector<std::int64_t>& of) {
      auto begin = of.begin() + static_cast<std::ptrdiff_t>(n * devices);
      return *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(devices));
    };
    costs[n].compute = {most(compute)};
    costs[n].communication = {most(communication)};
    costs[n].memory = {most(memory)};
  }
  return costs;
}

}  // namespace unity::gui
