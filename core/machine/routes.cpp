#include "core/machine/routes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

namespace unity {
namespace {

// Lists the links by the vertex that `end` gives, ascending.
void list_by(const std::vector<Link>& links, VertexId Link::*end, std::size_t vertices,
             std::vector<std::uint32_t>& begin, std::vector<LinkId>& list) {
  auto counts = [](const Link& link) { return link.from != link.to; };
  begin.assign(vertices + 1, 0);
  for (const Link& link : links)
    if (counts(link)) ++begin[(link.*end).index() + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  list.resize(begin.back());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t l = 0; l < links.size(); ++l)
    if (counts(links[l])) list[next[(links[l].*end).index()]++] = LinkId(static_cast<std::int64_t>(l));
}

}  // namespace

RouteGraph::RouteGraph(const Topology& topology) : links(topology.links) {
  list_by(links, &Link::from, topology.vertices.size(), out_begin, out);
  list_by(links, &Link::to, topology.vertices.size(), in_begin, in);
  for (const Vertex& v : topology.vertices) {
    inside.push_back(v.inside);
    forwards.push_back(v.forwards);
  }
}

bool RouteGraph::one_piece(const std::vector<Device>& devices) const {
  std::vector<std::uint32_t> parent(forwards.size());
  std::iota(parent.begin(), parent.end(), 0u);
  auto root = [&](std::size_t v) {
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return static_cast<std::uint32_t>(v);
  };
  std::set<std::pair<VertexId, VertexId>> directed;
  for (const Link& link : links) directed.emplace(link.from, link.to);
  for (const Link& link : links) {
    if (!directed.contains({link.to, link.from})) return false;
    if (forwards[link.from.index()] && forwards[link.to.index()])
      parent[root(link.from.index())] = root(link.to.index());
  }
  std::vector<std::uint32_t> common;  // pieces that all devices so far touch
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::vector<std::uint32_t> touched;
    std::size_t v = devices[d].vertex.index();
    if (forwards[v]) touched.push_back(root(v));
    for (std::uint32_t k = out_begin[v]; k < out_begin[v + 1]; ++k)
      if (std::size_t u = links[out[k].index()].to.index(); forwards[u]) touched.push_back(root(u));
    if (d == 0)
      common = touched;
    else
      std::erase_if(common,
                    [&](std::uint32_t p) { return std::find(touched.begin(), touched.end(), p) == touched.end(); });
  }
  return !common.empty();
}

RouteGraph::Search::Search(const RouteGraph& graph)
    : graph_(graph), ways_(graph.forwards.size()), rank_(graph.forwards.size()) {}

RouteGraph::Search::Way RouteGraph::Search::extend(const Way& way, const Link& link) const {
  Way longer{way.hops + 1, way.latency + link.latency.count, std::min(way.bandwidth, link.bandwidth.rate)};
  if (LinkId inside = graph_.inside[link.from.index()]; inside.valid() && link.from != source_) {
    longer.latency += graph_.links[inside.index()].latency.count;
    longer.bandwidth = std::min(longer.bandwidth, graph_.links[inside.index()].bandwidth.rate);
  }
  return longer;
}

void RouteGraph::Search::run(VertexId source, std::span<LinkId> arriving) {
  std::fill(arriving.begin(), arriving.end(), LinkId{});
  std::fill(ways_.begin(), ways_.end(), Way{});
  source_ = source;
  ways_[source.index()] = {0, 0, std::numeric_limits<double>::infinity()};
  level_.assign(1, source);
  for (int hops = 1; !level_.empty(); ++hops) {
    for (std::size_t i = 0; i < level_.size(); ++i) rank_[level_[i].index()] = static_cast<int>(i);
    next_.clear();
    bool replaced = false;
    for (VertexId u : level_) {
      if (u != source && !graph_.forwards[u.index()]) continue;
      for (std::uint32_t k = graph_.out_begin[u.index()]; k < graph_.out_begin[u.index() + 1]; ++k) {
        const Link& link = graph_.links[graph_.out[k].index()];
        std::size_t v = link.to.index();
        if (ways_[v].hops >= 0 && ways_[v].hops < hops) continue;
        Way way = extend(ways_[u.index()], link);
        if (ways_[v].hops < 0) {
          next_.push_back(link.to);
        } else if (way.better_than(ways_[v])) {
          replaced = true;
        } else {
          continue;
        }
        ways_[v] = way;
        arriving[v] = graph_.out[k];
      }
    }
    if (replaced)
      std::sort(next_.begin(), next_.end(), [&](VertexId a, VertexId b) {
        LinkId x = arriving[a.index()], y = arriving[b.index()];
        return std::tuple(rank_[graph_.links[x.index()].from.index()], x) <
               std::tuple(rank_[graph_.links[y.index()].from.index()], y);
      });
    level_.swap(next_);
  }
}

bool RouteGraph::Search::is_tight(LinkId id) const {
  const Link& link = graph_.links[id.index()];
  const Way& before = ways_[link.from.index()];
  if (before.hops < 0 || (link.from != source_ && !graph_.forwards[link.from.index()])) return false;
  return extend(before, link) == ways_[link.to.index()];
}

VertexId RouteGraph::Search::nearest(std::span<const VertexId> vertices) const {
  VertexId best;
  for (VertexId v : vertices) {
    if (!reached(v)) continue;
    const Way &way = ways_[v.index()], *least = best.valid() ? &ways_[best.index()] : nullptr;
    if (!least || way.hops < least->hops || (way.hops == least->hops && way.better_than(*least))) best = v;
  }
  return best;
}

RouteTable::RouteTable(const Topology& topology)
    : graph_(topology), routing_(topology.routing), tree_of_(topology.vertices.size()) {
  for (std::size_t d = 0; d < topology.devices.size(); ++d)
    tree_of_[topology.devices[d].vertex.index()] = static_cast<std::uint32_t>(d);
  for (std::size_t v = 0; v < topology.vertices.size(); ++v) {
    if (!topology.vertices[v].host) continue;
    tree_of_[v] = static_cast<std::uint32_t>(topology.devices.size() + hosts_.size());
    hosts_.push_back(VertexId(static_cast<std::int64_t>(v)));
  }
  trees_ = std::make_unique<Tree[]>(topology.devices.size() + hosts_.size());
}

const RouteTable::Tree& RouteTable::tree(VertexId source) const {
  Tree& tree = trees_[tree_of_[source.index()]];
  std::call_once(tree.once, [&] {
    RouteGraph::Search search(graph_);
    std::vector<LinkId> arriving(tree_of_.size());
    search.run(source, arriving);
    tree.host = search.nearest(hosts_);
    if (routing_ == Routing::shortest) {
      tree.arriving = std::move(arriving);
      return;
    }
    tree.tight.assign(graph_.in.size() / 64 + 1, 0);
    for (std::size_t k = 0; k < graph_.in.size(); ++k)
      if (search.is_tight(graph_.in[k])) tree.tight[k / 64] |= std::uint64_t{1} << (k % 64);
  });
  return tree;
}

LinkId RouteTable::draw(const Tree& tree, VertexId v, Hash hash) const {
  std::uint32_t begin = graph_.in_begin[v.index()], end = graph_.in_begin[v.index() + 1];
  // The bits of word w that belong to the vertex.
  auto bits = [&](std::uint32_t w) {
    std::uint64_t word = tree.tight[w];
    if (w == begin / 64) word &= ~std::uint64_t{0} << (begin % 64);
    if (w == end / 64) word &= (std::uint64_t{1} << (end % 64)) - 1;
    return word;
  };
  std::uint64_t count = 0;
  for (std::uint32_t w = begin / 64; w <= end / 64; ++w) count += static_cast<std::uint64_t>(std::popcount(bits(w)));
  UNITY_CHECK(count > 0, "no route arrives at vertex {}", v.value);
  std::uint64_t chosen = combine(hash, static_cast<Hash>(v.value)) % count;
  for (std::uint32_t w = begin / 64;; ++w) {
    std::uint64_t word = bits(w);
    auto here = static_cast<std::uint64_t>(std::popcount(word));
    if (chosen >= here) {
      chosen -= here;
      continue;
    }
    for (; chosen > 0; --chosen) word &= word - 1;
    return graph_.in[w * 64 + static_cast<std::uint32_t>(std::countr_zero(word))];
  }
}

std::optional<std::pair<DeviceId, DeviceId>> Topology::unconnected() const {
  RouteGraph graph(*this);
  if (graph.one_piece(devices)) return std::nullopt;
  RouteGraph::Search search(graph);
  std::vector<LinkId> arriving(vertices.size());
  for (std::size_t a = 0; a < devices.size(); ++a) {
    search.run(devices[a].vertex, arriving);
    for (std::size_t b = 0; b < devices.size(); ++b) {
      std::pair ends(DeviceId(static_cast<std::int64_t>(a)), DeviceId(static_cast<std::int64_t>(b)));
      if (!search.reached(devices[b].vertex) && !custom_routes.contains(ends)) return ends;
    }
  }
  return std::nullopt;
}

}  // namespace unity
