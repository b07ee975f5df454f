// unity list: the names that other commands take.
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/machine/files.h"
#include "core/machine/topology.h"
#include "core/models/models.h"
#include "core/models/summary.h"
#include "core/ops/operator.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/search/search.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Listing {
  Table table;
  ordered_json entries = ordered_json::array();
};

std::string operand_count(const Arity& arity) {
  if (arity.max < 0) return fmt::format("{} or more", arity.min);
  return arity.min == arity.max ? std::to_string(arity.min) : fmt::format("{} to {}", arity.min, arity.max);
}

Listing list_operators() {
  Listing list{Table({"operator", "category", "operands", "attributes"}).left(1).left(3)};
  constexpr const char* kCategories[] = {"leaf", "compute", "parallelization"};
  for (const Operator* op : all_operators()) {
    std::vector<std::string> attributes;
    for (const AttributeSpec& a : op->attributes())
      attributes.push_back(a.required ? a.name : fmt::format("[{}={}]", a.name, to_string(a.fallback)));
    const char* category = kCategories[static_cast<int>(op->category())];
    list.table.add({op->name(), category, op->category() == OpCategory::leaf ? "0" : operand_count(op->arity()),
                    join(attributes)});
    list.entries.push_back({{"name", op->name()}, {"category", category}, {"attributes", attributes}});
  }
  return list;
}

Listing list_models() {
  Listing list{
      Table({"model", "parameters", "batch per GPU", "optimizer", "data", "description"}).left(3).left(4).left(5)};
  for (const std::string& name : model_names()) {
    ModelInfo info = model_info(name);
    ModelFacts facts = summarize(build_model({name, {}})).facts;
    list.table.add({name, grouped(facts.parameters), std::to_string(info.batch_per_gpu), info.optimizer,
                    join(info.datasets), info.description});
    list.entries.push_back({{"name", name},
                            {"description", info.description},
                            {"parameters", facts.parameters},
                            {"batch_per_gpu", info.batch_per_gpu},
                            {"options", info.options},
                            {"optimizer", info.optimizer},
                            {"loss", info.loss},
                            {"datasets", info.datasets}});
  }
  return list;
}

Listing list_topologies() {
  Listing list{Table({"topology", "nodes", "devices", "levels", "device"}).left(3).left(4)};
  if (topology_names().empty()) throw_input_error("there are no topologies in '{}'", topology_folder().string());
  for (const std::string& name : topology_names()) {
    Topology t = load_topology(name);
    std::vector<std::string> specs;
    for (const DeviceSpec& spec : t.specs) specs.push_back(spec.name);
    list.table.add({name, std::to_string(t.nodes), std::to_string(t.device_count()), in_words(t.levels), join(specs)});
    list.entries.push_back(
        {{"name", name}, {"nodes", t.nodes}, {"devices", t.device_count()}, {"device_specs", specs}});
  }
  return list;
}

Listing list_devices() {
  Listing list{Table({"device", "name", "kind", "f32 peak", "memory", "memory bandwidth", "launch"}).left(1).left(2)};
  for (const std::string& name : device_names()) {
    DeviceSpec d = load_device(name);
    list.table.add({name, d.name, d.kind, to_string(d.peak.at(DType::f32)), to_string(d.memory),
                    to_string(d.memory_bandwidth), to_string(d.launch_overhead)});
    list.entries.push_back({{"name", name},
                            {"full_name", d.name},
                            {"kind", d.kind},
                            {"f32_flops_per_second", d.peak.at(DType::f32).rate},
                            {"memory_bytes", d.memory.count},
                            {"memory_bytes_per_second", d.memory_bandwidth.rate},
                            {"launch_overhead_seconds", d.launch_overhead.seconds()}});
  }
  return list;
}

Listing list_rules() {
  Listing list{Table({"rule", "proof"}).left(1)};
  for (const std::vector<Rule>& rules : {rule_library(), import_rules(), derived_rules()}) {
    for (const Rule& rule : rules) {
      list.table.add({rule.name, std::string(to_string(rule.proof))});
      list.entries.push_back({{"name", rule.name}, {"proof", to_string(rule.proof)}});
    }
  }
  return list;
}

Listing list_strategies() {
  Listing list{Table({"strategy", "description"}).left(1)};
  for (const StrategyInfo& strategy : strategies()) {
    list.table.add({strategy.name, strategy.description});
    list.entries.push_back({{"name", strategy.name}, {"description", strategy.description}});
  }
  return list;
}

struct Kind {
  const char* name;
  Listing (*list)();
};
constexpr Kind kKinds[] = {{"models", list_models},   {"topologies", list_topologies},
                           {"devices", list_devices}, {"operators", list_operators},
                           {"rules", list_rules},     {"strategies", list_strategies}};

void list(const std::string& what, bool json) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    names.push_back(kind.name);
    if (what != kind.name) continue;
    Listing listing = kind.list();
    if (json)
      fmt::print("{}\n", listing.entries.dump(2));
    else
      listing.table.print();
    return;
  }
  std::string near = nearest_name(what, names);
  throw_input_error("list: found '{}', expected one of {}{}", what, join(names),
                    near.empty() ? "" : suggestion(what, names));
}

}  // namespace

void add_list(CLI::App& app) {
  struct Options {
    std::string what;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "list", "List models, topologies, devices, operators, rules or strategies",
                                  "  unity list models\n  unity list operators --json");
  command->add_option("WHAT", o->what, "models, topologies, devices, operators, rules or strategies")->required();
  command->add_flag("--json", o->json, "Print one JSON document");
  command->callback([o] { list(o->what, o->json); });
}

}  // namespace unity::cli
