// Routes between the vertices of a topology, found from each source when first asked for. Internal to this folder.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/hash.h"
#include "core/machine/topology.h"

namespace unity {

// A topology's links as a graph for route search, without its custom routes and links inside vertices.
class RouteGraph {
 public:
  explicit RouteGraph(const Topology& topology);

  // Breadth-first search, one level after the other. Within a level the vertices stand in the order of their routes'
  // link ids, so that the first of equally good ways is the one with the lowest ids.
  class Search {
   public:
    explicit Search(const RouteGraph& graph);
    // Finds the best routes to all vertices.
    void run(VertexId source);
    // Finds the best route to one vertex, the same as run() would. It looks from both ends, in turn from where fewer
    // links lead on, so that it sees little of a large machine. arriving() is of vertices on the route.
    void find(VertexId source, VertexId goal);
    // The last link of the best route to a vertex; invalid at the source and where there is no way.
    LinkId arriving(VertexId v) const { return arriving_[v.index()]; }
    const std::vector<LinkId>& arriving() const { return arriving_; }
    bool reached(VertexId v) const { return ways_[v.index()].hops >= 0; }
    // Whether a best route to its end may end with this link.
    bool is_tight(LinkId link) const;
    // Of these vertices the one with the best route, the first of equally good ones; invalid: none is reached.
    VertexId nearest(std::span<const VertexId> vertices) const;

   private:
    // What makes one way to a vertex better than another with as many hops: latency, then bandwidth.
    struct Way {
      int hops = -1;
      std::int64_t latency = 0;
      double bandwidth = 0;
      bool better_than(const Way& other) const {
        return latency != other.latency ? latency < other.latency : bandwidth > other.bandwidth;
      }
      bool operator==(const Way&) const = default;
    };
    Way extend(const Way& way, const Link& link) const;

    void begin(VertexId source);
    // A link to a vertex of the next level; they come in the order of where they begin, then of their ids.
    void arrive(LinkId edge, int hops);
    void end_level();

    const RouteGraph& graph_;
    VertexId source_;
    std::vector<Way> ways_;
    std::vector<LinkId> arriving_;
    std::vector<int> rank_;
    std::vector<VertexId> level_, next_, reached_;  // reached_: all vertices with a way

    bool replaced_ = false;

    // How far find() looked.
    struct Hops {
      int from_source = -1, to_goal = -1;
      bool between = false;  // on a shortest way
    };
    std::vector<Hops> hops_;      // by vertex
    std::vector<VertexId> seen_;  // those that are not as at first
  };

  // Whether all that forwards is of one piece, in both directions, that all the devices touch: then all are connected.
  bool one_piece(const std::vector<Device>& devices) const;

  std::vector<Link> links;
  std::vector<std::uint32_t> out_begin, in_begin;  // by vertex, with an end
  std::vector<LinkId> out, in;                     // by vertex, ascending
  std::vector<LinkId> inside;                      // by vertex
  std::vector<char> forwards;                      // by vertex
};

class RouteTable {
 public:
  // Beyond so many entries of trees, routes are found one by one, as long as few are asked for.
  explicit RouteTable(const Topology& topology, std::size_t most_entries = 100'000'000);

  // Gives the links of the route to `use`, the last one first.
  template <class Use>
  void walk_back(VertexId from, VertexId to, std::uint64_t label, Use use) const {
    if (from == to) return;
    if (routing_ == Routing::shortest && large_) {
      Tree& t = trees_[tree_of_[from.index()]];
      std::unique_lock lock(t.mutex);
      if (const std::vector<LinkId>* links = one_of_few(t, from, to)) {
        lock.unlock();
        for (LinkId link : *links) use(link);
        return;
      }
    }
    const Tree& t = tree(from);  // `from`: a device or a host
    Hash hash = combine(combine(static_cast<Hash>(from.value), static_cast<Hash>(to.value)), label);
    for (VertexId v = to;;) {
      LinkId link = routing_ == Routing::ecmp ? draw(t, v, hash) : t.arriving[v.index()];
      UNITY_CHECK(link.valid(), "no route from vertex {} to {}", from.value, to.value);
      use(link);
      v = graph_.links[link.index()].from;
      if (v == from) return;
      if (LinkId inside = graph_.inside[v.index()]; inside.valid()) use(inside);
    }
  }

  // The host of a device; invalid: it reaches none.
  VertexId host(VertexId device) const { return hosts_.empty() ? VertexId() : tree(device).host; }

 private:
  struct Tree {
    std::once_flag once;
    std::vector<LinkId> arriving;      // shortest: last link of the route, by vertex
    std::vector<std::uint64_t> tight;  // ECMP: a bit for each place in RouteGraph::in, set where a best route arrives
    VertexId host;                     // nearest to the source
    std::mutex mutex;                  // of what follows
    std::deque<std::pair<VertexId, std::vector<LinkId>>> few;  // routes from the end, instead of a tree
  };
  const Tree& tree(VertexId source) const;
  // On a large machine, a tree for each source would need more memory than all else. Most sources are asked for a few
  // routes only, round a ring, say. Null: they are more than a few.
  const std::vector<LinkId>* one_of_few(Tree& tree, VertexId from, VertexId to) const;
  LinkId draw(const Tree& tree, VertexId v, Hash hash) const;

  RouteGraph graph_;
  Routing routing_;
  bool large_;
  std::vector<VertexId> hosts_;
  std::vector<std::uint32_t> tree_of_;  // by vertex: place in trees_ of a device or host
  std::unique_ptr<Tree[]> trees_;
  mutable std::mutex searches_mutex_;
  mutable std::vector<std::unique_ptr<RouteGraph::Search>> searches_;  // not in use
};

}  // namespace unity
