// The keys `links`, `forwarding` and `routes` of a topology file.
#include <algorithm>
#include <map>
#include <set>

#include "core/machine/name_pattern.h"
#include "core/machine/topology_parts.h"

namespace unity {
namespace {

class LinkReader {
 public:
  LinkReader(const YamlReader& yaml, TopologyParts& parts) : yaml_(yaml), parts_(parts), topology_(parts.topology) {}

  void read() {
    const YAML::Node& root = yaml_.root();
    if (YAML::Node links = root["links"])
      for (const YAML::Node& entry : yaml_.items(links, "links")) add_links(entry);
    for (const auto& [vertex, link] : parts_.inside) {
      topology_.vertices[vertex.index()].inside = LinkId(static_cast<std::int64_t>(topology_.links.size()));
      topology_.links.push_back(link);
    }
    if (YAML::Node routes = root["routes"])
      for (const YAML::Node& entry : yaml_.items(routes, "routes")) add_routes(entry);
    read_forwarding();
  }

 private:
  using Values = std::vector<std::int64_t>;

  template <class T>
  T good(Result<T> result, const YAML::Node& node, std::string_view what) const {
    if (!result.ok()) yaml_.fail_at(node, fmt::format("{}: {}", what, result.error().message));
    return std::move(*result);
  }

  const std::string& name(VertexId v) const { return topology_.vertices[v.index()].name; }

  // What a pattern is matched with: the name without the path of the part.
  std::string_view local_name(const MachinePart& part, VertexId v) const {
    std::string_view full = name(v);
    std::size_t prefix = part.path.empty() ? 0 : part.path.size() + 1;
    return full.size() <= prefix ? std::string_view() : full.substr(prefix);
  }

  std::size_t depth_of(const YAML::Node& entry) const {
    YAML::Node within = entry["within"];
    if (!within) return 0;
    std::string level = yaml_.text(within, "within");
    parts_.check_level(yaml_, within, level);
    std::size_t depth = 0;
    while (parts_.level_name(depth) != level) ++depth;
    if (depth >= parts_.parts.size() || depth == topology_.levels.size())
      yaml_.fail_at(within, fmt::format("within: '{}' is a device, expected a level that holds several", level));
    return depth;
  }

  std::vector<YAML::Node> pairs_of(const YAML::Node& entry) const {
    std::vector<YAML::Node> pairs;
    if (YAML::Node between = entry["between"]) pairs.push_back(between);
    if (YAML::Node list = entry["pairs"])
      for (const YAML::Node& pair : yaml_.items(list, "pairs")) pairs.push_back(pair);
    if (pairs.empty()) yaml_.fail_at(entry, "key 'between' or 'pairs' is missing");
    for (const YAML::Node& pair : pairs)
      if (!pair.IsSequence() || pair.size() != 2) yaml_.fail_at(pair, "expected two ends, such as [gpu*, host]");
    return pairs;
  }

  std::vector<VertexId> matches(const MachinePart& part, const NamePattern& pattern, Values values) const {
    if (auto only = pattern.name()) {
      auto found = parts_.vertex_named.find(part.path.empty() ? *only : part.path + "." + *only);
      return found == parts_.vertex_named.end() ? std::vector<VertexId>{} : std::vector{found->second};
    }
    std::vector<VertexId> found;
    for (std::size_t v = part.first_vertex; v < part.end_vertex; ++v) {
      VertexId vertex(static_cast<std::int64_t>(v));
      std::string_view local = local_name(part, vertex);
      if (!local.empty() && pattern.match(local, values)) found.push_back(vertex);
    }
    return found;
  }

  std::vector<VertexId> some_matches(const MachinePart& part, const NamePattern& pattern, const Values& values,
                                     const YAML::Node& node) const {
    std::vector<VertexId> found = matches(part, pattern, values);
    if (found.empty()) {
      std::vector<std::string> here;
      for (std::size_t v = part.first_vertex; v < part.end_vertex && here.size() < 12; ++v)
        if (auto local = local_name(part, VertexId(static_cast<std::int64_t>(v))); !local.empty())
          here.emplace_back(local);
      yaml_.fail_at(node, fmt::format("link: '{}' matches nothing{}", node.Scalar(), suggestion(node.Scalar(), here)));
    }
    return found;
  }

  // "leaf<i/8>" is leaf4 where there are leaf0 to leaf3.
  [[noreturn]] void fail_out_of_range(const MachinePart& part, VertexId from, const std::string& found,
                                      const YAML::Node& node) const {
    std::string stem = found.substr(0, found.find_last_not_of("-0123456789") + 1);
    std::string path = part.path.empty() ? stem : part.path + "." + stem;
    std::size_t count = 0;
    while (parts_.vertex_named.contains(fmt::format("{}{}", path, count))) ++count;
    std::string expected = count == 0   ? fmt::format("there is no {}0", stem)
                           : count == 1 ? fmt::format("expected {}0", stem)
                                        : fmt::format("expected {}0 to {}{}", stem, stem, count - 1);
    yaml_.fail_at(node, fmt::format("link: '{}' is {} for {}, {}", node.Scalar(), found, name(from), expected));
  }

  // Before they are gone through. Every pair without a condition makes at least one direction of a link.
  void count_pairs(const YAML::Node& pair, std::size_t more, bool all) {
    std::size_t most = all ? kMostLinks - std::min(kMostLinks, topology_.links.size()) : kMostPairs - pairs_tried_;
    if (more > most)
      yaml_.fail_at(pair,
                    fmt::format("found more than {} pairs, expected a second end that follows from the first, such "
                                "as gpu<i+1>",
                                most));
    pairs_tried_ += all ? 0 : more;
  }

  // Calls use(a, b, scope, values) for each pair that the two ends and `where` mean, in the order of the vertices.
  template <class Use>
  void for_pairs(const YAML::Node& entry, const YAML::Node& pair, Use use) {
    IndexScope scope = parts_.scope;
    const NamePattern first = good(NamePattern::parse(yaml_.text(pair[0], "link"), scope), pair[0], "link");
    const NamePattern second = good(NamePattern::parse(yaml_.text(pair[1], "link"), scope), pair[1], "link");
    YAML::Node where = entry["where"];
    std::optional<IndexExpression> condition;
    if (where) condition = good(IndexExpression::parse(yaml_.text(where, "where"), scope), where, "where");
    auto holds = [&](const Values& values) {
      return !condition || good(condition->evaluate(values), where, "where") != 0;
    };
    const NamePattern start = good(first.bind(scope.values), pair[0], "link");
    bool same_ends = pair[0].Scalar() == pair[1].Scalar();
    if (same_ends && !where && start.name())
      yaml_.fail_at(pair, fmt::format("found '{}' at both ends, expected two different ones", pair[0].Scalar()));
    for (const MachinePart& part : parts_.parts[depth_of(entry)]) {
      std::vector<VertexId> from = some_matches(part, start, scope.values, pair[0]), to;
      if (!second.has_expressions()) {
        to = some_matches(part, second, scope.values, pair[1]);
        count_pairs(pair, from.size() * to.size(), !where);
      }
      bool any = false;
      for (VertexId a : from) {
        Values values = scope.values;
        start.match(local_name(part, a), values);
        NamePattern end = second;
        if (second.has_expressions()) {
          end = good(second.bind(values), pair[1], "link");
          auto only = end.name();
          if (only && !holds(values)) continue;
          to = matches(part, end, values);
          if (to.empty()) fail_out_of_range(part, a, only ? *only : pair[1].Scalar(), pair[1]);
        }
        if (second.has_expressions()) count_pairs(pair, to.size(), false);
        for (VertexId b : to) {
          if (a == b || (same_ends && b < a)) continue;
          end.match(local_name(part, b), values);
          any = true;
          if (holds(values)) use(a, b, scope, values);
        }
      }
      if (!any && !where && from.size() + to.size() > 2) yaml_.fail_at(pair, "the two ends match no pair");
    }
  }

  static constexpr std::size_t kMostLinks = std::size_t{1} << 23, kMostPairs = std::size_t{1} << 29;

  void add_links(const YAML::Node& entry) {
    yaml_.check_keys(entry, {"within", "between", "pairs", "where", "kind", "bandwidth", "width", "latency"});
    Link link;
    link.kind = read_kind(yaml_.require(entry, "kind"));
    YAML::Node bandwidth = yaml_.require(entry, "bandwidth"), latency = yaml_.require(entry, "latency");
    const BytesPerSecond one = yaml_.quantity(bandwidth, "bandwidth", parse_bandwidth);
    if (!(one.rate > 0))
      yaml_.fail_at(bandwidth, fmt::format("bandwidth: found '{}', expected more than 0", bandwidth.Scalar()));
    link.latency = yaml_.short_time(latency, "latency");
    YAML::Node width = entry["width"];
    for (const YAML::Node& pair : pairs_of(entry))
      for_pairs(entry, pair, [&](VertexId a, VertexId b, const IndexScope& scope, const Values& values) {
        link.bandwidth = one;
        if (width) link.bandwidth.rate *= static_cast<double>(read_width(width, scope, values));
        auto id = static_cast<std::int64_t>(topology_.links.size());
        if (topology_.links.size() >= kMostLinks)
          yaml_.fail_at(pair, fmt::format("found more than {} links, expected at most as many", kMostLinks / 2));
        if (!link_of_.emplace(std::pair(a, b), LinkId(id)).second)
          yaml_.fail_at(pair, fmt::format("{} and {} are linked twice", name(std::min(a, b)), name(std::max(a, b))));
        link_of_.emplace(std::pair(b, a), LinkId(id + 1));
        link.from = a, link.to = b;
        topology_.links.push_back(link);
        std::swap(link.from, link.to);
        topology_.links.push_back(link);
      });
  }

  std::int64_t read_width(const YAML::Node& node, const IndexScope& scope, const Values& values) const {
    IndexExpression expression = good(IndexExpression::parse(yaml_.text(node, "width"), scope), node, "width");
    std::int64_t width = good(expression.evaluate(values), node, "width");
    if (width < 1) yaml_.fail_at(node, fmt::format("width: '{}' is {}, expected at least 1", node.Scalar(), width));
    return width;
  }

  LinkKind read_kind(const YAML::Node& node) const {
    std::vector<std::string> names;
    for (int k = 0; k <= static_cast<int>(LinkKind::memory); ++k) {
      names.emplace_back(to_string(static_cast<LinkKind>(k)));
      if (yaml_.text(node, "kind") == names.back()) return static_cast<LinkKind>(k);
    }
    yaml_.fail_at(node, fmt::format("unknown kind of link '{}'{}", node.Scalar(), suggestion(node.Scalar(), names)));
  }

  void add_routes(const YAML::Node& entry) {
    yaml_.check_keys(entry, {"within", "between", "pairs", "where", "via", "one_way"});
    YAML::Node one_way = entry["one_way"];
    bool back = true;
    if (one_way) {
      bool value = false;
      if (!one_way.IsScalar() || !YAML::convert<bool>::decode(one_way, value))
        yaml_.fail_at(one_way, "one_way: expected true or false");
      back = !value;
    }
    std::vector<YAML::Node> via = yaml_.items(yaml_.require(entry, "via"), "via");
    for (const YAML::Node& pair : pairs_of(entry))
      for_pairs(entry, pair, [&](VertexId a, VertexId b, const IndexScope& scope, const Values& values) {
        std::vector<VertexId> path = {a};
        for (const YAML::Node& node : via) path.push_back(via_vertex(entry, node, a, scope, values));
        path.push_back(b);
        add_route(pair, path);
        if (!back) return;
        std::reverse(path.begin(), path.end());
        add_route(pair, path);
      });
  }

  // The vertex in the part that holds `inside`.
  VertexId via_vertex(const YAML::Node& entry, const YAML::Node& node, VertexId inside, IndexScope scope,
                      const Values& values) const {
    std::size_t names = scope.names().size();
    NamePattern pattern = good(NamePattern::parse(yaml_.text(node, "via"), scope), node, "via");
    auto local = good(pattern.bind(values), node, "via").name();
    if (scope.names().size() > names || !local)
      yaml_.fail_at(node,
                    fmt::format("via: found '{}', expected one vertex, without '*' and new names", node.Scalar()));
    for (const MachinePart& part : parts_.parts[depth_of(entry)]) {
      if (inside.index() < part.first_vertex || inside.index() >= part.end_vertex) continue;
      auto found = parts_.vertex_named.find(part.path.empty() ? *local : part.path + "." + *local);
      if (found != parts_.vertex_named.end()) return found->second;
      std::vector<std::string> known;
      for (std::size_t v = part.first_vertex; v < part.end_vertex; ++v)
        known.emplace_back(local_name(part, VertexId(static_cast<std::int64_t>(v))));
      std::string near = nearest_name(*local, known);
      yaml_.fail_at(node,
                    fmt::format("via: there is no '{}'{}", *local, near.empty() ? "" : suggestion(*local, known)));
    }
    UNITY_CHECK(false, "{} is in no part", name(inside));
    return {};
  }

  void add_route(const YAML::Node& node, const std::vector<VertexId>& path) {
    DeviceId from = topology_.vertices[path.front().index()].device,
             to = topology_.vertices[path.back().index()].device;
    for (VertexId end : {path.front(), path.back()})
      if (!topology_.vertices[end.index()].device.valid())
        yaml_.fail_at(node, fmt::format("route: {} is a switch, expected a device", name(end)));
    std::vector<LinkId> route;
    std::set<VertexId> passed = {path.front()};
    for (std::size_t i = 1; i < path.size(); ++i) {
      auto link = link_of_.find({path[i - 1], path[i]});
      if (!passed.insert(path[i]).second)
        yaml_.fail_at(
            node, fmt::format("route {} to {} passes {} twice", name(path.front()), name(path.back()), name(path[i])));
      if (link == link_of_.end())
        yaml_.fail_at(node, fmt::format("route {} to {}: there is no link from {} to {}", name(path.front()),
                                        name(path.back()), name(path[i - 1]), name(path[i])));
      route.push_back(link->second);
      LinkId inside = topology_.vertices[path[i].index()].inside;
      if (inside.valid() && i + 1 < path.size()) route.push_back(inside);
    }
    if (!topology_.custom_routes.emplace(std::pair(from, to), std::move(route)).second)
      yaml_.fail_at(node, fmt::format("the route {} to {} is given twice", name(path.front()), name(path.back())));
  }

  void let_all_forward(bool forwards) {
    for (const Device& d : topology_.devices) topology_.vertices[d.vertex.index()].forwards = forwards;
  }

  // Left out: no device passes on what others send, unless some could not reach each other then.
  void read_forwarding() {
    let_all_forward(false);
    YAML::Node forwarding = yaml_.root()["forwarding"];
    if (!forwarding) {
      if (topology_.unconnected()) let_all_forward(true);
      return;
    }
    if (forwarding.IsSequence()) {
      for (const YAML::Node& node : forwarding) let_forward(node);
    } else {
      std::string found = yaml_.text(forwarding, "forwarding");
      if (found != "all" && found != "none")
        yaml_.fail_at(forwarding,
                      fmt::format("forwarding: found '{}', expected all, none or a list of devices", found));
      let_all_forward(found == "all");
    }
    if (auto pair = topology_.unconnected()) {
      Topology all = topology_;
      for (Vertex& v : all.vertices) v.forwards = true;
      if (!all.unconnected())
        yaml_.fail_at(forwarding, fmt::format("forwarding: no way from {} to {} unless more devices forward",
                                              topology_.device(pair->first).name, topology_.device(pair->second).name));
    }
  }

  void let_forward(const YAML::Node& node) {
    IndexScope scope;
    const NamePattern parsed = good(NamePattern::parse(yaml_.text(node, "forwarding"), scope), node, "forwarding");
    const NamePattern pattern = good(parsed.bind(scope.values), node, "forwarding");
    bool any = false;
    std::vector<std::string> names;
    for (const Device& d : topology_.devices) {
      names.push_back(d.name);
      if (!pattern.match(d.name, scope.values)) continue;
      any = true;
      topology_.vertices[d.vertex.index()].forwards = true;
    }
    if (names.size() > 12) names.resize(12);
    if (!any)
      yaml_.fail_at(
          node, fmt::format("forwarding: '{}' matches no device{}", node.Scalar(), suggestion(node.Scalar(), names)));
  }

  const YamlReader& yaml_;
  TopologyParts& parts_;
  Topology& topology_;
  std::map<std::pair<VertexId, VertexId>, LinkId> link_of_;
  std::size_t pairs_tried_ = 0;
};

}  // namespace

void TopologyParts::check_level(const YamlReader& yaml, const YAML::Node& node, const std::string& level) const {
  std::vector<std::string> known = {"machine"};
  for (const Level& l : topology.levels) known.push_back(l.name);
  if (std::find(known.begin(), known.end(), level) == known.end())
    yaml.fail_at(node, fmt::format("unknown level '{}'{}", level, suggestion(level, known)));
}

std::int64_t evaluate(const YamlReader& yaml, const YAML::Node& node, std::string_view what, const IndexScope& scope) {
  Result<IndexExpression> expression = IndexExpression::parse(yaml.text(node, what), scope);
  Result<std::int64_t> value = expression.ok() ? expression->evaluate(scope.values) : expression.error();
  if (!value.ok()) yaml.fail_at(node, fmt::format("{}: {}", what, value.error().message));
  return *value;
}

void read_links(const YamlReader& yaml, TopologyParts& parts) { LinkReader(yaml, parts).read(); }

}  // namespace unity
