#include "gui/panels/pcg/relations.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

namespace unity::gui {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool matches(const Node& node, const std::vector<std::string>& words) {
  std::string name = lower(node.op->name()), label = lower(node.name);
  for (const std::string& word : words) {
    if (word.starts_with("kind:")) {
      if (name != word.substr(5)) return false;
    } else if (word == "degree>1") {
      if (std::none_of(node.outputs.begin(), node.outputs.end(), [](const ParallelShape& s) { return s.parallel(); }))
        return false;
    } else if (name.find(word) == std::string::npos && label.find(word) == std::string::npos) {
      return false;
    }
  }
  return true;
}

// From each node, what can be reached along the edges, as flags.
std::vector<bool> reached(const Pcg& pcg, NodeId from) {
  std::vector<bool> flags(pcg.size(), false);
  flags[from.index()] = true;
  for (std::size_t i = from.index() + 1; i < pcg.size(); ++i)
    for (ValueRef v : pcg.nodes()[i].inputs)
      if (flags[v.node.index()]) flags[i] = true;
  return flags;
}

std::map<std::string, NodeId> by_name(const Pcg& pcg) {
  std::map<std::string, int> seen;
  std::map<std::string, NodeId> names;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    std::string name = node.op->name() + " " + node.name;
    names.emplace(fmt::format("{} {}", name, seen[name]++), NodeId(static_cast<std::int64_t>(i)));
  }
  return names;
}

}  // namespace

std::vector<NodeId> search_nodes(const Pcg& pcg, const std::string& query) {
  std::istringstream in(lower(query));
  std::vector<std::string> words(std::istream_iterator<std::string>(in), {});
  std::vector<NodeId> found;
  if (words.empty()) return found;
  for (bool compute : {true, false})
    for (std::size_t i = 0; i < pcg.size(); ++i)
      if (pcg.nodes()[i].is_compute() == compute && matches(pcg.nodes()[i], words))
        found.emplace_back(static_cast<std::int64_t>(i));
  return found;
}

std::vector<NodeId> nodes_between(const Pcg& pcg, NodeId a, NodeId b) {
  if (b < a) std::swap(a, b);  // ids are in topological order
  std::vector<bool> from = reached(pcg, a), to(pcg.size(), false);
  to[b.index()] = true;
  for (std::size_t i = b.index() + 1; i-- > a.index();)
    if (to[i])
      for (ValueRef v : pcg.nodes()[i].inputs) to[v.node.index()] = true;
  std::vector<NodeId> nodes;
  if (!from[b.index()]) return nodes;
  for (std::size_t i = a.index(); i <= b.index(); ++i)
    if (from[i] && to[i]) nodes.emplace_back(static_cast<std::int64_t>(i));
  return nodes;
}

std::vector<NodeId> nodes_on_device(const Plan& plan, DeviceId device) {
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (plan.pcg[id].is_parallelization()) continue;
    TaskGrid grid = node_grid(plan.pcg, id);
    if (plan.mappings[i].strides.size() != grid.size()) continue;  // inputs have no tasks
    std::vector<DeviceId> devices = plan.mappings[i].devices(grid);
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) nodes.push_back(id);
  }
  return nodes;
}

PcgDiff diff_graphs(const Pcg& before, const Pcg& after) {
  std::map<std::string, NodeId> old = by_name(before), fresh = by_name(after);
  std::map<std::int32_t, std::string> old_name;
  for (const auto& [name, id] : old) old_name[id.value] = name;
  std::map<std::int32_t, std::string> fresh_name;
  for (const auto& [name, id] : fresh) fresh_name[id.value] = name;
  PcgDiff diff;
  for (const auto& [name, id] : fresh) {
    auto at = old.find(name);
    if (at == old.end()) {
      diff.added.push_back(id);
      continue;
    }
    const Node &a = before[at->second], &b = after[id];
    bool same = a.attributes == b.attributes && a.outputs == b.outputs && a.inputs.size() == b.inputs.size();
    for (std::size_t i = 0; same && i < a.inputs.size(); ++i)
      same = old_name[a.inputs[i].node.value] == fresh_name[b.inputs[i].node.value] &&
             a.inputs[i].output == b.inputs[i].output;
    if (!same) diff.changed.push_back(id);
  }
  for (const auto& [name, id] : old)
    if (!fresh.contains(name)) diff.removed.push_back(id);
  for (std::vector<NodeId>* list : {&diff.added, &diff.changed, &diff.removed}) std::sort(list->begin(), list->end());
  return diff;
}

}  // namespace unity::gui
