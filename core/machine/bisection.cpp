#include "core/machine/bisection.h"

#include <algorithm>
#include <limits>

namespace unity {
namespace {

class MaximumFlow {
 public:
  explicit MaximumFlow(std::size_t vertices) : out_(vertices), level_(vertices), next_(vertices) {}

  void add(std::size_t from, std::size_t to, double capacity) {
    out_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    out_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  double run(std::size_t source, std::size_t sink) {
    double total = 0;
    while (find_levels(source, sink)) {
      std::fill(next_.begin(), next_.end(), 0);
      while (double sent = push(source, sink, std::numeric_limits<double>::infinity())) total += sent;
    }
    return total;
  }

 private:
  struct Edge {
    std::size_t to;
    double left;
  };
  static constexpr double kNothing = 1e-3;  // bytes per second: what rounding leaves

  bool find_levels(std::size_t source, std::size_t sink) {
    std::fill(level_.begin(), level_.end(), -1);
    level_[source] = 0;
    std::vector<std::size_t> queue = {source};
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (std::size_t e : out_[queue[i]])
        if (edges_[e].left > kNothing && level_[edges_[e].to] < 0) {
          level_[edges_[e].to] = level_[queue[i]] + 1;
          queue.push_back(edges_[e].to);
        }
    return level_[sink] >= 0;
  }

  // Along one way of least edges, of which the ways that are used up are not tried again.
  double push(std::size_t v, std::size_t sink, double most) {
    if (v == sink) return most;
    for (; next_[v] < out_[v].size(); ++next_[v]) {
      std::size_t e = out_[v][next_[v]];
      if (edges_[e].left <= kNothing || level_[edges_[e].to] != level_[v] + 1) continue;
      double sent = push(edges_[e].to, sink, std::min(most, edges_[e].left));
      if (sent <= 0) continue;
      edges_[e].left -= sent;
      edges_[e ^ 1].left += sent;
      return sent;
    }
    return 0;
  }

  std::vector<Edge> edges_;  // each followed by its reverse
  std::vector<std::vector<std::size_t>> out_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace

BytesPerSecond bisection_bandwidth(const Topology& t) {
  if (t.device_count() < 2) return {};
  // What enters a vertex enters at v, and leaves at v + n where the vertex has a capacity.
  const std::size_t n = t.vertices.size(), source = 2 * n, sink = 2 * n + 1;
  MaximumFlow flow(2 * n + 2);
  for (const Link& link : t.links) {
    std::size_t from = link.from.index();
    if (link.from == link.to)
      flow.add(from, from + n, link.bandwidth.rate);
    else
      flow.add(t.vertices[from].inside.valid() ? from + n : from, link.to.index(), link.bandwidth.rate);
  }
  const double unbounded = std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    std::size_t v = t.devices[d].vertex.index();
    if (d < t.device_count() / 2)
      flow.add(source, v, unbounded);
    else
      flow.add(v, sink, unbounded);
  }
  return {flow.run(source, sink)};
}

}  // namespace unity
