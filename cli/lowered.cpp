#include "cli/lowered.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <CLI/CLI.hpp>

#include "core/base/does_not_fit.h"
#include "runtime/held_types.h"
#include "simulator/simulate.h"

namespace unity::cli {
namespace {

// By device, with tensors and copies of weights as a backend holds them.
std::vector<Bytes> peak_memory(const Program& program, const Topology& topology, Precision precision) {
  if (precision == Precision::f32 || precision == Precision::tf32)
    return simulate(program, topology, {.trace = false}).peak_memory;
  std::vector<DType> types = held_types(program, precision);
  RoundedWeights rounded = rounded_weights(program, precision, types);
  Program held = program;
  for (std::size_t t = 0; t < types.size(); ++t) held.tensors[t].dtype = types[t];
  std::vector<Bytes> peaks = simulate(held, topology, {.trace = false}).peak_memory;
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    if (rounded.has_copy[b])
      peaks[program.buffers[b].device.index()] += {program.buffers[b].box.elements() * size_of(DType::bf16)};
  return peaks;
}

// What is trained has its loss as the first output.
void require_loss(const Pcg& pcg, const std::string& place) {
  const ValueRef first = pcg.outputs().at(0);
  const ParallelShape& shape = pcg.shape(first);
  if (!shape.dims.empty() || shape.dtype == DType::i32)
    throw_input_error("{}: outputs: found '{}' first, {}, expected a scalar, the loss", place, pcg[first.node].name,
                      to_string(shape.shape()));
}

}  // namespace

void PlanSource::add(CLI::App& command, const std::string& what, bool models, bool short_schedule) {
  command.add_option(models ? "PLAN|MODEL" : "PLAN", model.model, what)->required();
  seeds_runs_ = true;
  add_options(command, models, true, short_schedule);
}

void PlanSource::add_options(CLI::App& command, bool models, bool with_budget, bool short_schedule) {
  machine.add(command, false);
  if (!models) return add_schedule_options(command, settings.schedule, short_schedule);
  std::vector<CLI::Option*> before = command.get_options();
  model.add_sizes(command);
  add_search_options(command, settings, with_budget, short_schedule);
  command.add_option("--strategy", strategy, "For a model: how to find its plan")->capture_default_str();
  for (const CLI::Option* option : command.get_options())
    if (std::find(before.begin(), before.end(), option) == before.end() &&
        !(seeds_runs_ && option->check_lname("seed")) && !option->check_lname("optimizer") &&
        !option->check_lname("pipeline-schedule") && !option->check_lname("bucket") && !option->check_lname("remat") &&
        !option->check_lname("offload") && !option->check_lname("weight-versions") && !option->check_lname("overlap") &&
        !option->check_lname("zero-stage") && !option->check_lname("fuse"))
      for_models_.push_back(option);
}

PlanSource PlanSource::of(const std::string& plan_or_model) const {
  PlanSource one = *this;
  one.model.model = plan_or_model;
  return one;
}

Plan PlanSource::load(Topology& topology, Precision precision) const {
  if (is_plan_path(model.model)) {
    for (const CLI::Option* option : for_models_)
      if (option->count() > 0)
        throw_input_error("{}: is a plan, which has its own {}; expected a model, or a plan without that option",
                          model.model, option->get_name());
    Plan plan = load_plan(model.model);
    if (!settings.optimizer.empty()) plan.optimizer = parse_optimizer(settings.optimizer);
    settings.schedule.apply(plan.schedule);
    topology = machine_of(plan, machine, model.model);
    return plan;
  }
  MachineOptions where = machine;
  if (where.topology.empty()) where.topology = "laptop";
  topology = where.load();
  settings.add_mappings(topology);
  SimulatedCostModel cost(topology);
  SearchOptions options = settings.options(strategy, model.model);
  auto plan = search_plan(model, where.topology, cost, options);
  if (!plan.ok() && precision == Precision::bf16 && options.memory_limit.count == 0) {
    Topology larger = topology;
    for (DeviceSpec& spec : larger.specs) spec.memory = {std::int64_t{1} << 60};
    if (auto found = search_plan(model, where.topology, SimulatedCostModel(larger), options); found.ok()) {
      found->topology_hash = topology.hash();
      return std::move(*found);
    }
  }
  if (!plan.ok()) throw_input_error("{}", plan.error().message);
  return std::move(*plan);
}

Plan PlanSource::load_to_train(Topology& topology, Precision precision) const {
  if (!is_plan_path(model.model)) {
    if (const ModelInfo info = model_info(model.model); !info.outputs_place.empty())
      require_loss(build_model({model.model, {}}), info.outputs_place);
    return load(topology, precision);
  }
  Plan plan = load(topology, precision);
  require_loss(plan.pcg, model.model + ": plan.pcg");
  return plan;
}

Program lower_plan(const Plan& plan, const Topology& topology, bool training, Precision precision) {
  auto program = lower(plan.pcg, plan.mappings, topology, {training, plan.optimizer, plan.schedule});
  if (!program.ok()) throw_input_error("plan for {}: {}", plan.model.name, program.error().message);
  require_memory(plan, peak_memory(*program, topology, precision), topology);
  return std::move(*program);
}

void require_memory(const Plan& plan, const std::vector<Bytes>& peaks, const Topology& topology) {
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    if (peaks[d] > topology.spec(device).memory)
      throw DoesNotFit(fmt::format("plan for {}: needs {} on {}, which has {}", plan.model.name, to_string(peaks[d]),
                                   topology.device(device).name, to_string(topology.spec(device).memory)),
                       topology.spec(device).memory.count);
  }
}

void warn_of_no_effect(const report::ScheduleSettings& asked, const Plan& plan, const Topology& topology) {
  constexpr double kLongSeconds = 2;  // of one lowering
  const Schedule none;
  const Schedule& all = plan.schedule;
  struct Setting {
    std::string option;
    const std::string& value;
    Schedule without;
  };
  std::vector<Setting> settings;
  auto add = [&](const char* option, const std::string& value, auto field) {
    Schedule without = all;
    without.*field = none.*field;
    if (!value.empty() && !(without == all)) settings.push_back({option, value, std::move(without)});
  };
  add("--pipeline-schedule", asked.order, &Schedule::order);
  add("--overlap", asked.overlap, &Schedule::overlap);
  add("--bucket", asked.bucket, &Schedule::bucket);
  add("--remat", asked.remat, &Schedule::remat);
  add("--offload", asked.offload, &Schedule::offload);
  add("--weight-versions", asked.weights, &Schedule::weights);
  if (all.zero_stage > 1) add("--zero-stage", asked.zero_stage, &Schedule::zero_stage);
  add("--fuse", asked.fuse, &Schedule::fuse);
  if (settings.empty()) return;
  auto hash = [&](const Schedule& schedule) -> std::optional<Hash> {
    auto program = lower(plan.pcg, plan.mappings, topology, {true, plan.optimizer, schedule});
    if (!program.ok()) return std::nullopt;
    return program_hash(*program);
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<Hash> whole = hash(all);
  if (!whole || std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > kLongSeconds) return;
  for (const Setting& s : settings)
    if (hash(s.without) == whole)
      fmt::print(stderr, "unity: warning: {} {} changes nothing of this plan\n", s.option, s.value);
}

}  // namespace unity::cli
