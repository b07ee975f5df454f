#include "core/machine/routes.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "core/base/union_find.h"

namespace unity {
namespace {

constexpr std::size_t kFew = 64;  // routes from one source

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
  UnionFind pieces(forwards.size());
  std::set<std::pair<VertexId, VertexId>> directed;
  for (const Link& link : links) directed.emplace(link.from, link.to);
  for (const Link& link : links) {
    if (!directed.contains({link.to, link.from})) return false;
    if (forwards[link.from.index()] && forwards[link.to.index()]) pieces.join(link.from.index(), link.to.index());
  }
  std::vector<std::size_t> common;  // pieces that all devices so far touch
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::vector<std::size_t> touched;
    std::size_t v = devices[d].vertex.index();
    if (forwards[v]) touched.push_back(pieces.find(v));
    for (std::uint32_t k = out_begin[v]; k < out_begin[v + 1]; ++k)
      if (std::size_t u = links[out[k].index()].to.index(); forwards[u]) touched.push_back(pieces.find(u));
    if (d == 0)
      common = touched;
    else
      std::erase_if(common,
                    [&](std::size_t p) { return std::find(touched.begin(), touched.end(), p) == touched.end(); });
  }
  return !common.empty();
}

RouteGraph::Search::Search(const RouteGraph& graph)
    : graph_(graph),
      ways_(graph.forwards.size()),
      arriving_(graph.forwards.size()),
      rank_(graph.forwards.size()),
      hops_(graph.forwards.size()) {}

RouteGraph::Search::Way RouteGraph::Search::extend(const Way& way, const Link& link) const {
  Way longer{way.hops + 1, way.latency + link.latency.count, std::min(way.bandwidth, link.bandwidth.rate)};
  if (LinkId inside = graph_.inside[link.from.index()]; inside.valid() && link.from != source_) {
    longer.latency += graph_.links[inside.index()].latency.count;
    longer.bandwidth = std::min(longer.bandwidth, graph_.links[inside.index()].bandwidth.rate);
  }
  return longer;
}

void RouteGraph::Search::begin(VertexId source) {
  for (VertexId v : reached_) ways_[v.index()] = Way{}, arriving_[v.index()] = LinkId{};
  source_ = source;
  ways_[source.index()] = {0, 0, std::numeric_limits<double>::infinity()};
  level_.assign(1, source);
  reached_.assign(1, source);
  rank_[source.index()] = 0;
}

void RouteGraph::Search::arrive(LinkId edge, int hops) {
  const Link& link = graph_.links[edge.index()];
  std::size_t v = link.to.index();
  if (ways_[v].hops >= 0 && ways_[v].hops < hops) return;
  Way way = extend(ways_[link.from.index()], link);
  if (ways_[v].hops < 0) {
    next_.push_back(link.to);
  } else if (way.better_than(ways_[v])) {
    replaced_ = true;
  } else {
    return;
  }
  ways_[v] = way;
  arriving_[v] = edge;
}

void RouteGraph::Search::end_level() {
  if (replaced_)
    std::sort(next_.begin(), next_.end(), [&](VertexId a, VertexId b) {
      LinkId x = arriving_[a.index()], y = arriving_[b.index()];
      return std::tuple(rank_[graph_.links[x.index()].from.index()], x) <
             std::tuple(rank_[graph_.links[y.index()].from.index()], y);
    });
  replaced_ = false;
  reached_.insert(reached_.end(), next_.begin(), next_.end());
  level_.swap(next_);
  next_.clear();
  for (std::size_t i = 0; i < level_.size(); ++i) rank_[level_[i].index()] = static_cast<int>(i);
}

void RouteGraph::Search::run(VertexId source) {
  begin(source);
  for (int hops = 1; !level_.empty(); ++hops) {
    for (VertexId u : level_) {
      if (u != source && !graph_.forwards[u.index()]) continue;
      for (std::uint32_t k = graph_.out_begin[u.index()]; k < graph_.out_begin[u.index() + 1]; ++k)
        arrive(graph_.out[k], hops);
    }
    end_level();
  }
}

void RouteGraph::Search::find(VertexId source, VertexId goal) {
  begin(source);
  for (VertexId v : seen_) hops_[v.index()] = {};
  seen_ = {source, goal};
  hops_[source.index()].from_source = 0, hops_[goal.index()].to_goal = 0;
  // By level from the source, and from the goal: the links that lead there.
  std::vector<std::vector<LinkId>> ahead, behind;
  std::vector<VertexId> front = {source}, back = {goal}, next;
  auto links_of = [](const std::vector<VertexId>& vertices, const std::vector<std::uint32_t>& begin) {
    std::size_t links = 0;
    for (VertexId v : vertices) links += begin[v.index() + 1] - begin[v.index()];
    return links;
  };
  auto passes = [&](VertexId v) { return v == source || graph_.forwards[v.index()]; };
  for (bool met = false; !met;) {
    if (front.empty() || back.empty()) return;
    next.clear();
    if (links_of(front, graph_.out_begin) <= links_of(back, graph_.in_begin)) {
      std::vector<LinkId>& links = ahead.emplace_back();
      const int level = static_cast<int>(ahead.size());
      for (VertexId u : front) {
        if (!passes(u)) continue;
        for (std::uint32_t k = graph_.out_begin[u.index()]; k < graph_.out_begin[u.index() + 1]; ++k) {
          VertexId v = graph_.links[graph_.out[k].index()].to;
          Hops& hops = hops_[v.index()];
          if (hops.from_source < 0) hops.from_source = level, next.push_back(v), seen_.push_back(v);
          if (hops.from_source != level) continue;
          links.push_back(graph_.out[k]);
          met = met || hops.to_goal >= 0;
        }
      }
      front.swap(next);
    } else {
      std::vector<LinkId>& links = behind.emplace_back();
      const int level = static_cast<int>(behind.size());
      for (VertexId v : back)
        for (std::uint32_t k = graph_.in_begin[v.index()]; k < graph_.in_begin[v.index() + 1]; ++k) {
          VertexId u = graph_.links[graph_.in[k].index()].from;
          if (!passes(u)) continue;
          Hops& hops = hops_[u.index()];
          if (hops.to_goal < 0) hops.to_goal = level, next.push_back(u), seen_.push_back(u);
          if (hops.to_goal != level) continue;
          links.push_back(graph_.in[k]);
          met = met || hops.from_source >= 0;
        }
      back.swap(next);
    }
  }
  // Of these links, those on shortest ways: they lead through where both met.
  const int a = static_cast<int>(ahead.size()), b = static_cast<int>(behind.size());
  for (VertexId v : seen_) {
    Hops& hops = hops_[v.index()];
    hops.between = hops.from_source == a && hops.to_goal == b;
  }
  auto keep = [&](std::vector<LinkId>& links, bool forward) {
    std::erase_if(links, [&](LinkId l) {
      const Link& link = graph_.links[l.index()];
      return !hops_[(forward ? link.from : link.to).index()].between;
    });
    for (LinkId l : links) {
      const Link& link = graph_.links[l.index()];
      hops_[(forward ? link.to : link.from).index()].between = true;
    }
  };
  for (std::size_t level = ahead.size(); level-- > 0;) keep(ahead[level], false);
  for (std::size_t level = behind.size(); level-- > 0;) keep(behind[level], true);
  std::move(behind.rbegin(), behind.rend(), std::back_inserter(ahead));
  for (std::size_t level = 0; level < ahead.size(); ++level) {
    std::sort(ahead[level].begin(), ahead[level].end(), [&](LinkId x, LinkId y) {
      return std::tuple(rank_[graph_.links[x.index()].from.index()], x) <
             std::tuple(rank_[graph_.links[y.index()].from.index()], y);
    });
    for (LinkId l : ahead[level]) arrive(l, static_cast<int>(level) + 1);
    end_level();
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

RouteTable::RouteTable(const Topology& topology, std::size_t most_entries)
    : graph_(topology),
      routing_(topology.routing),
      large_(topology.devices.size() * topology.vertices.size() > most_entries),
      tree_of_(topology.vertices.size()) {
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
    search.run(source);
    tree.host = search.nearest(hosts_);
    if (routing_ == Routing::shortest) {
      tree.arriving = search.arriving();
      return;
    }
    tree.tight.assign(graph_.in.size() / 64 + 1, 0);
    for (std::size_t k = 0; k < graph_.in.size(); ++k)
      if (search.is_tight(graph_.in[k])) tree.tight[k / 64] |= std::uint64_t{1} << (k % 64);
  });
  return tree;
}

const std::vector<LinkId>* RouteTable::one_of_few(Tree& tree, VertexId from, VertexId to) const {
  for (const auto& [end, links] : tree.few)
    if (end == to) return &links;
  if (tree.few.size() == kFew) return nullptr;
  std::unique_ptr<RouteGraph::Search> search;
  {
    std::lock_guard lock(searches_mutex_);
    if (!searches_.empty()) search = std::move(searches_.back()), searches_.pop_back();
  }
  if (!search) search = std::make_unique<RouteGraph::Search>(graph_);
  search->find(from, to);
  auto& [end, links] = tree.few.emplace_back(to, std::vector<LinkId>());
  for (VertexId v = to; v != from;) {
    LinkId link = search->arriving(v);
    UNITY_CHECK(link.valid(), "no route from vertex {} to {}", from.value, to.value);
    links.push_back(link);
    v = graph_.links[link.index()].from;
    if (LinkId inside = graph_.inside[v.index()]; v != from && inside.valid()) links.push_back(inside);
  }
  std::lock_guard lock(searches_mutex_);
  searches_.push_back(std::move(search));
  return &links;
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
  for (std::size_t a = 0; a < devices.size(); ++a) {
    search.run(devices[a].vertex);
    for (std::size_t b = 0; b < devices.size(); ++b) {
      std::pair ends(DeviceId(static_cast<std::int64_t>(a)), DeviceId(static_cast<std::int64_t>(b)));
      if (!search.reached(devices[b].vertex) && !custom_routes.contains(ends)) return ends;
    }
  }
  return std::nullopt;
}

}  // namespace unity
