// unity list: the names that other commands take.
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/ops/operator.h"

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

struct Kind {
  std::string name;
  Listing (*list)();
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"operators", list_operators}};
  return all;
}

void list(const std::string& what, bool json) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    names.push_back(kind.name);
    if (kind.name != what) continue;
    Listing listing = kind.list();
    if (json)
      fmt::print("{}\n", listing.entries.dump(2));
    else
      listing.table.print();
    return;
  }
  throw_input_error("list: unknown '{}', expected one of {}{}", what, join(names), suggestion(what, names));
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
