#include "gui/session/rewriting.h"

#include <charconv>
#include <map>
#include <sstream>

#include "core/rewrite/library.h"
#include "core/search/mapping_search.h"

namespace unity::gui {

const Rule* find_rule(const std::string& name) {
  for (const RuleFile& file : rule_files())
    for (const Rule& rule : file.rules)
      if (rule.name == name) return &rule;
  return nullptr;
}

std::string to_text(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

Result<Parameters> parse_parameters(const std::string& text) {
  Parameters parameters;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    std::size_t equal = word.find('=');
    std::int64_t value = 0;
    const char* end = word.data() + word.size();
    if (equal == std::string::npos) return fail("parameters: found '{}', expected name=number", word);
    auto [rest, error] = std::from_chars(word.data() + equal + 1, end, value);
    if (error != std::errc() || rest != end) return fail("parameters: found '{}', expected name=number", word);
    parameters[word.substr(0, equal)] = value;
  }
  return parameters;
}

namespace {

// The last dimension innermost, from `first` on, where the machine has so many devices.
MachineMapping natural_mapping(const TaskGrid& grid, int first, int devices) {
  MachineMapping mapping = unity::natural_mapping(grid);
  mapping.start = first;
  return check_mapping(mapping, grid, devices).ok() ? mapping : unity::natural_mapping(grid);
}

}  // namespace

Result<Plan> rewrite_plan(const Plan& plan, const Topology& topology, const Rule& rule, const Match& match,
                          const Parameters& parameters) {
  Plan next = plan;
  next.pcg = UNITY_TRY(apply(plan.pcg, rule, match, parameters));
  next.mappings.assign(next.pcg.size(), {});
  std::map<std::pair<std::string, const Operator*>, std::size_t> before;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i)
    before.emplace(std::pair(plan.pcg.nodes()[i].name, plan.pcg.nodes()[i].op), i);
  auto devices = static_cast<int>(topology.device_count());
  for (std::size_t i = 0; i < next.pcg.size(); ++i) {
    const Node& node = next.pcg.nodes()[i];
    if (node.is_parallelization()) continue;
    TaskGrid grid = node_grid(next.pcg, NodeId(static_cast<std::int64_t>(i)));
    auto old = before.find({node.name, node.op});
    if (old != before.end() && plan.mappings[old->second].strides.size() == grid.size() &&
        check_mapping(plan.mappings[old->second], grid, devices).ok())
      next.mappings[i] = plan.mappings[old->second];
    else
      next.mappings[i] = natural_mapping(grid, plan.mappings[match.root().index()].start, devices);
  }
  auto degree = parameters.find("d");
  const std::string& where = plan.pcg[match.root()].name;
  next.derivation.push_back({rule.name, where, degree == parameters.end() ? 0 : static_cast<int>(degree->second), 0});
  Result<void> fits = check_plan(next, topology);
  if (!fits.ok()) return fail("{} at {}: {}", rule.name, where, fits.error().message);
  return next;
}

}  // namespace unity::gui
