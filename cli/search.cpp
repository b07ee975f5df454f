// unity search: the plan that a strategy finds.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/lowered.h"
#include "cli/plan_summary.h"
#include "cli/search_log_text.h"
#include "cli/search_options.h"
#include "cli/table.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  SearchSettings settings;
  std::string strategy = "unity", output;
  bool pareto = false, json = false;
};

// FILE, FILE-2, FILE-3 (before the ending): of the plans of a front.
std::string numbered(const std::string& path, std::size_t i) {
  if (i == 0) return path;
  std::filesystem::path p(path);
  return p.replace_filename(fmt::format("{}-{}{}", p.stem().string(), i + 1, p.extension().string())).string();
}

// Whether files may go beside the path, which is not so of /dev/stdout, wherever that leads.
bool takes_front(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return false;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path).parent_path(), error);
  return folder != "/dev" && !folder.string().starts_with("/proc/");
}

// Files of an earlier, larger front, which one of `count` plans leaves as they are.
std::vector<std::string> left_of_front(const std::string& path, std::size_t count) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  std::map<std::size_t, std::string> left;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().stem().string();
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos || dash + 1 == name.size()) continue;
    std::size_t number = 0;
    auto [rest, wrong] = std::from_chars(name.data() + dash + 1, name.data() + name.size(), number);
    if (wrong != std::errc() || rest != name.data() + name.size() || number <= count) continue;
    const std::string file = numbered(path, number - 1);
    if (fs::path(file).filename() == entry.path().filename()) left[number] = file;
  }
  std::vector<std::string> files;
  for (auto& [number, file] : left) files.push_back(std::move(file));
  return files;
}

// What a plan does for its memory.
std::string memory_ways(const Plan& plan) {
  std::vector<std::string> ways;
  for (const DerivationStep& step : plan.derivation) {
    if (step.rule == "gather_stored_parts") ways.emplace_back("weights stored in parts");
    if (step.rule == "micro_batches") ways.push_back(fmt::format("{} micro-batches", step.degree));
  }
  ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
  if (!plan.schedule.remat.empty()) ways.push_back("computed again: " + join(plan.schedule.remat));
  if (plan.schedule.zero_stage > 1) ways.push_back(fmt::format("ZeRO stage {}", plan.schedule.zero_stage));
  if (plan.schedule.offload != Offload::none)
    ways.push_back(fmt::format("offloaded: {}", to_string(plan.schedule.offload)));
  return join(ways);
}

// Why the search ended, and what it looked at.
void print_search(const Plan& found) {
  fmt::print("\nstopped: {}\n", found.search.stopped_because);
  fmt::print("{}\n", certificate_text(found));
  for (const std::string& line : search_log_lines(found)) fmt::print("{}\n", line);
}

void print_front(const std::vector<Plan>& plans, const Options& o) {
  Table table({"iteration", "peak memory", "communication", "for memory", "plan"});
  nlohmann::ordered_json front = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::string path = o.output.empty() ? "" : numbered(o.output, i);
    const Prediction& p = plans[i].prediction;
    table.add(
        {to_string(p.iteration), to_string(p.peak_memory), to_string(p.communicated), memory_ways(plans[i]), path});
    front.push_back(plan_summary(plans[i], path));
    front.back()["for_memory"] = memory_ways(plans[i]);
  }
  if (o.json) {
    nlohmann::ordered_json log = search_log_json(plans.front().search.log);
    fmt::print("{}\n", nlohmann::ordered_json({{"front", std::move(front)}, {"search_log", std::move(log)}}).dump(2));
    return;
  }
  table.print();
  print_search(plans.front());
}

void search(const Options& o) {
  require_writable(o.output);
  if (o.pareto && !o.output.empty() && !takes_front(o.output))
    throw_input_error(
        "--output: found {}, expected a regular file, beside which there is room for a front's other plans", o.output);
  // Those of an earlier front, which this one may write over.
  if (o.pareto && !o.output.empty())
    for (std::size_t i = 1; std::filesystem::exists(numbered(o.output, i)); ++i)
      require_writable(numbered(o.output, i));
  Topology topology = o.machine.load();
  o.settings.add_mappings(topology);
  SimulatedCostModel cost(std::move(topology));
  SearchOptions options = o.settings.options(o.strategy, o.model.model);
  options.pareto = o.pareto;
  if (const auto laid =
          std::count_if(options.rules.begin(), options.rules.end(), [](const Rule& r) { return !r.algebraic(); }))
    fmt::print(stderr,
               "unity: warning: --rules: {} of {} rules say how operators are split, which a search knows from their "
               "definitions; they are not used\n",
               laid, options.rules.size());
  Result<std::vector<Plan>> plans = [&] {
    Interruption interruption("stopping with the best so far");
    options.stop = &interruption.requested();
    Result<std::vector<Plan>> front = search_plans(o.model, o.machine.topology, cost, options);
    if (!front.ok() && was_stopped(front.error())) throw std::runtime_error(front.error().message);
    return front;
  }();
  if (!plans.ok()) throw_input_error("{}", plans.error().message);
  for (std::size_t i = 0; i < plans->size() && !o.output.empty(); ++i) save_plan((*plans)[i], numbered(o.output, i));
  if (o.pareto) {
    print_front(*plans, o);
    if (o.output.empty()) return;
    if (std::vector<std::string> left = left_of_front(o.output, plans->size()); !left.empty())
      fmt::print(stderr, "unity: warning: {}: there from before, {} not of this front of {} plan{}\n", join(left),
                 left.size() == 1 ? "is" : "are", plans->size(), plans->size() == 1 ? "" : "s");
    return;
  }
  const Plan& found = plans->front();
  warn_of_no_effect(o.settings.schedule, found, cost.topology());
  if (o.json) {
    nlohmann::ordered_json summary = plan_summary(found, o.output);
    summary["search_log"] = search_log_json(found.search.log);
    fmt::print("{}\n", summary.dump(2));
    return;
  }
  plan_table({found}).print();
  print_search(found);
  if (!o.output.empty()) fmt::print("plan written to {}; unity explain {} puts it in words\n", o.output, o.output);
}

}  // namespace

void add_search(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, "search", "Find a plan for a model on a machine",
      "  unity search bert-large --topology summit --nodes 2 -o plan.json\n"
      "  unity search mlp-mnist --topology summit --devices 2 --strategy data-parallel --json\n"
      "  unity search gpt2-small --topology dgx-a100 --strategy pipeline --stages 4 --micro-batches 8 --schedule "
      "1f1b");
  o->model.add(*command);
  o->machine.add(*command, true);
  command->add_option("--strategy", o->strategy, "A name of 'unity list strategies'")->capture_default_str();
  add_search_options(*command, o->settings);
  command->add_flag(
      "--pareto", o->pareto,
      "Give all plans among which time and memory are a choice, the fastest first; with -o FILE.json also "
      "FILE-2.json, FILE-3.json, ..");
  output_file(command->add_option("-o,--output", o->output, "Write the plan to a file"));
  add_json(*command, o->json);
  command->callback([o] { search(*o); });
}

}  // namespace unity::cli
