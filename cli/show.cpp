// unity show: what a model, a topology, a plan or a rule is.
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/graphviz.h"
#include "cli/options.h"
#include "cli/plan_summary.h"
#include "cli/show_topology.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/graph/export_dot.h"
#include "core/graph/text.h"
#include "core/models/summary.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/search/explain.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  ModelOptions model;  // its `model` is the name to show
  int nodes = 0, devices = 0;
  std::string dot, svg;
  bool graph = false, json = false;
};

void draw(const Options& o, const Pcg& pcg) {
  std::string dot = to_dot(pcg);
  if (!o.dot.empty()) write_file_atomically(o.dot, dot);
  if (!o.svg.empty()) write_svg(dot, o.svg);
}

ordered_json facts_json(const ModelFacts& facts) {
  return {{"parameters", facts.parameters},
          {"macs_per_sample", facts.macs_per_sample},
          {"operators", facts.operators},
          {"activation_bytes", facts.activation_bytes}};
}

void show_model(const Options& o) {
  ModelInfo info = model_info(o.model.model);
  report::optimizer_of(info);  // refused here, too
  ModelSpec spec = o.model.spec(1);
  Pcg pcg = build_model(spec);
  draw(o, pcg);
  ModelSummary summary = summarize(pcg);
  std::map<std::string, std::int64_t> sizes = spec.options;
  sizes.insert(info.options.begin(), info.options.end());  // what is not given
  if (o.json) {
    ordered_json blocks = ordered_json::array();
    for (const ModelBlock& block : summary.blocks) {
      ordered_json entry = {{"name", block.name}, {"count", block.count}, {"even", block.even}};
      entry.update(facts_json(block.facts));
      blocks.push_back(entry);
    }
    ordered_json result = {{"model", info.name}, {"description", info.description}, {"batch", summary.batch}};
    result.update(facts_json(summary.facts));
    result.update({{"options", sizes}, {"optimizer", info.optimizer}, {"loss", info.loss}, {"blocks", blocks}});
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{}: {}\n", info.name, info.description);
  fmt::print("  parameters       {}\n", grouped(summary.facts.parameters));
  fmt::print("  MACs per sample  {}\n", grouped(summary.facts.macs_per_sample));
  fmt::print("  operators        {}\n", summary.facts.operators);
  fmt::print("  activations      {} for {} samples\n", to_string(Bytes{summary.facts.activation_bytes}), summary.batch);
  std::vector<std::string> options;
  for (const auto& [name, value] : sizes) options.push_back(fmt::format("{}={}", name, value));
  fmt::print("  optimizer        {}\n  options          {}\n\n", info.optimizer, join(options));
  Table table({"block", "count", "parameters", "MACs per sample", "operators", "activations"});
  bool even = true;
  for (const ModelBlock& b : summary.blocks) {
    const char* about = b.even ? "" : "~";
    even = even && b.even;
    table.add({b.name, std::to_string(b.count), about + grouped(b.facts.parameters),
               about + grouped(b.facts.macs_per_sample), about + std::to_string(b.facts.operators),
               about + to_string(Bytes{b.facts.activation_bytes})});
  }
  table.print();
  if (!even) fmt::print("~: mean of blocks that differ\n");
  if (o.graph) fmt::print("\n{}", print(pcg));
}

void show_plan(const Options& o) {
  Plan plan = load_plan(o.model.model);
  draw(o, plan.pcg);
  if (o.json) {
    ordered_json result = plan_summary(plan, o.model.model);
    result["nodes_of_graph"] = plan.pcg.size();
    fmt::print("{}\n", result.dump(2));
    return;
  }
  plan_table({plan}).print();
  fmt::print("\n{}", print(plan.pcg));
}

std::optional<Rule> rule_named(const std::string& name) {
  for (const std::vector<Rule>& rules : {rule_library(), import_rules(), derived_rules()})
    for (const Rule& rule : rules)
      if (rule.name == name) return rule;
  return std::nullopt;
}

void show_rule(const Rule& rule, bool json) {
  if (json)
    fmt::print("{}\n",
               ordered_json({{"rule", rule.name}, {"proof", to_string(rule.proof)}, {"text", print(rule)}}).dump(2));
  else
    fmt::print("{}# {}\n", print(rule), to_string(rule.proof));
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A YAML file says what it is in its format line.
bool is_topology_file(const std::string& path) {
  return path.ends_with(".yaml") && read_file(path).find("unity-topology") != std::string::npos;
}

constexpr const char* kOfModels = "--batch-per-gpu --global-batch --seq-len --layers --option --graph --dot --svg";

// Options that say nothing of what is shown are refused, not ignored.
void refuse_others(const CLI::App& command, const std::string& what, const std::string& used) {
  for (const CLI::Option* option : command.get_options())
    if (std::string name = option->get_name(); option->nonpositional() && option->count() > 0 && name != "--json" &&
                                               name != "--help" &&
                                               (" " + used + " ").find(" " + name + " ") == std::string::npos)
      throw_input_error("show: found {}, which says nothing of a {}", name, what);
}

void show(const Options& o, const CLI::App& command) {
  require_writable(o.dot);
  require_writable(o.svg);
  const std::string& name = o.model.model;
  if (o.graph && o.json) throw_input_error("show: --graph excludes --json: it is a text");
  if (is_plan_path(name)) {
    refuse_others(command, "plan", "--dot --svg --graph");
    return show_plan(o);
  }
  std::vector<std::string> models = model_names(), topologies = topology_names();
  if (contains(topologies, name) || is_topology_file(name)) {
    if (!o.dot.empty() || !o.svg.empty())
      throw_input_error("show: --dot and --svg draw graphs, found topology '{}'", name);
    refuse_others(command, "topology", "--nodes --devices");
    return show_topology(load_topology(name, {o.nodes, o.devices}), o.json);
  }
  if (contains(models, name) || name.ends_with(".yaml") || name.ends_with(".yml")) {
    refuse_others(command, "model", kOfModels);
    return show_model(o);
  }
  if (std::optional<Rule> rule = rule_named(name)) {
    refuse_others(command, "rule, which unity rules show draws", "");
    return show_rule(*rule, o.json);
  }
  std::vector<std::string> known = models;
  known.insert(known.end(), topologies.begin(), topologies.end());
  for (const Rule& rule : rule_library()) known.push_back(rule.name);
  for (const Rule& rule : derived_rules()) known.push_back(rule.name);
  std::string near = nearest_name(name, known);
  throw_input_error("show: unknown '{}', expected a model, topology, rule or plan file{}", name,
                    near.empty() ? "" : suggestion(name, known));
}

}  // namespace

void add_show(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "show", "Show a model, topology, plan or rule",
                                  "  unity show bert-large --seq-len 128\n"
                                  "  unity show summit --nodes 2\n"
                                  "  unity show plan.json --svg plan.svg");
  command->add_option("NAME", o->model.model, "A model, topology or rule name, a YAML file or a plan file")->required();
  o->model.add_sizes(*command);
  at_least_one(command->add_option("--nodes", o->nodes, "Number of nodes of a topology"));
  at_least_one(command->add_option("--devices", o->devices, "First N devices of a topology"));
  output_file(command->add_option("--dot", o->dot, "Write the graph in Graphviz's language to a file"));
  output_file(command->add_option("--svg", o->svg, "Draw the graph to a file (needs Graphviz's dot)"));
  command->add_flag("--graph", o->graph, "Print a model's graph as text, too");
  add_json(*command, o->json);
  command->callback([o, command] { show(*o, *command); });
}

}  // namespace unity::cli
