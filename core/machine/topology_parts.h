// A topology while its file is read. Internal to this folder.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/machine/index_expression.h"
#include "core/machine/topology.h"
#include "core/machine/yaml_read.h"

namespace unity {

// One part of the hierarchy: the whole machine, or for example "node0.socket1"; its vertices are contiguous.
struct MachinePart {
  std::string path;
  std::size_t first_vertex = 0, end_vertex = 0;
};

struct TopologyParts {
  Topology topology;
  IndexScope scope;                                        // counts of levels, and parameters
  std::vector<std::vector<MachinePart>> parts;             // by depth: 0 is the machine
  std::unordered_map<std::string, VertexId> vertex_named;  // by full name
  std::vector<std::pair<VertexId, Link>> inside;  // what `capacity` makes; a link id each, once all others have one

  std::string level_name(std::size_t depth) const { return depth == 0 ? "machine" : topology.levels[depth - 1].name; }
  // Fails at the node unless there is such a level; "machine" is one.
  void check_level(const YamlReader& yaml, const YAML::Node& node, const std::string& name) const;
};

// Adds what the keys `links`, `forwarding` and `routes` say, and the links inside switches.
void read_links(const YamlReader& yaml, TopologyParts& parts);

// A value of an expression; fails at the node.
std::int64_t evaluate(const YamlReader& yaml, const YAML::Node& node, std::string_view what, const IndexScope& scope);

}  // namespace unity
