#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/text.h"
#include "core/machine/files.h"
#include "core/machine/import/nccl_tests.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

bool alike(const Link& a, const Link& b) {
  return a.kind == b.kind && a.bandwidth == b.bandwidth && a.latency == b.latency;
}

struct Ring {
  std::vector<std::vector<LinkId>> edges;
  std::map<LinkId, int> times;
  LinkId bottleneck;
};

Ring ring_of(const Topology& t, int ranks) {
  Ring ring;
  for (int i = 0; i < ranks; ++i) {
    ring.edges.push_back(t.route(DeviceId(i), DeviceId((i + 1) % ranks)));
    for (LinkId l : ring.edges.back()) ++ring.times[l];
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [link, times] : ring.times)
    if (double rate = t.links[link.index()].bandwidth.rate / times; rate < least) least = rate, ring.bottleneck = link;
  return ring;
}

// A measured time as a linear function: seconds = fixed + links * latency + bytes / bandwidth.
struct Equation {
  double seconds, fixed, links, bytes;
  double predicted(double latency, double inverse) const { return fixed + links * latency + bytes * inverse; }
};

std::vector<Equation> equations_of(const NcclTable& table, const Topology& t, const Ring& ring) {
  const Link& bottleneck = t.links[ring.bottleneck.index()];
  // Of all runs of `steps` edges the one with the largest sum of latencies.
  double slowest = -1, fixed = 0, links = 0;
  for (std::size_t first = 0; first < ring.edges.size(); ++first) {
    double sum = 0, others = 0, counted = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(table.steps); ++i)
      for (LinkId l : ring.edges[(first + i) % ring.edges.size()]) {
        const Link& link = t.links[l.index()];
        sum += link.latency.seconds();
        if (alike(link, bottleneck))
          ++counted;
        else
          others += link.latency.seconds();
      }
    if (sum > slowest) slowest = sum, fixed = others, links = counted;
  }
  std::vector<Equation> equations;
  for (const NcclTime& time : table.times)
    equations.push_back({time.seconds, fixed, links, table.bytes_factor * time.bytes * ring.times.at(ring.bottleneck)});
  return equations;
}

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Latency and inverse bandwidth that minimise the weighted squares of relative errors; neither is negative.
std::pair<double, double> solve(const std::vector<Equation>& equations, const std::vector<double>& weights) {
  double ll = 0, lb = 0, bb = 0, lt = 0, bt = 0;
  for (std::size_t i = 0; i < equations.size(); ++i) {
    const Equation& e = equations[i];
    double w = weights[i] / (e.seconds * e.seconds), rest = e.seconds - e.fixed;
    ll += w * e.links * e.links, lb += w * e.links * e.bytes, bb += w * e.bytes * e.bytes;
    lt += w * e.links * rest, bt += w * e.bytes * rest;
  }
  double determinant = ll * bb - lb * lb;
  double latency = determinant > 1e-9 * ll * bb ? (lt * bb - bt * lb) / determinant : 0;
  if (latency <= 0) return {0, bt / bb};
  return {latency, (bt - lb * latency) / bb};
}

}  // namespace

LinkFit fit_links(const std::vector<NcclTable>& tables, const Topology& t) {
  std::vector<Equation> equations;
  std::optional<Link> fitted;
  std::vector<double> sizes;
  for (const NcclTable& table : tables) {
    if (static_cast<std::size_t>(table.ranks) > t.device_count())
      throw_input_error("{}: {} ranks, expected at most the {} devices of topology '{}'", table.file, table.ranks,
                        t.device_count(), t.name);
    Ring ring = ring_of(t, table.ranks);
    const Link& bottleneck = t.links[ring.bottleneck.index()];
    if (fitted && !alike(*fitted, bottleneck))
      throw_input_error(
          "{}: {} ranks are bound by {} links of {}, others by {} links of {}: fit them one after the other",
          table.file, table.ranks, to_string(bottleneck.kind), to_string(bottleneck.bandwidth), to_string(fitted->kind),
          to_string(fitted->bandwidth));
    fitted = bottleneck;
    std::vector<Equation> more = equations_of(table, t, ring);
    equations.insert(equations.end(), more.begin(), more.end());
    for (const NcclTime& time : table.times) sizes.push_back(time.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  if (sizes.empty() || sizes.front() == sizes.back())
    throw_input_error("{}: found one size, expected several to tell latency from bandwidth", tables.front().file);
  if (fitted->kind == LinkKind::switching)
    throw_input_error("topology '{}': the capacity of a switch bounds the ring, expected a link", t.name);
  std::vector<double> weights(equations.size(), 1);
  LinkFit fit{*fitted, {}, {}, std::vector<double>(equations.size())};
  std::vector<double> errors(equations.size());
  double latency = 0, inverse = 0;
  for (int round = 0; round < 50; ++round) {
    std::tie(latency, inverse) = solve(equations, weights);
    for (std::size_t i = 0; i < equations.size(); ++i) {
      fit.ratios[i] = equations[i].predicted(latency, inverse) / equations[i].seconds;
      errors[i] = std::abs(fit.ratios[i] - 1);
    }
    // Huber's constant, on the scale that the median of normal errors tells.
    double limit = std::max(1.345 * median(errors) / 0.6745, 1e-6);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = errors[i] <= limit ? 1 : limit / errors[i];
  }
  // Where bytes take hardly any of the time, the rest of a division is no bandwidth.
  bool grows = std::any_of(equations.begin(), equations.end(),
                           [&](const Equation& e) { return e.bytes * inverse > 0.01 * e.seconds; });
  if (!grows) throw_input_error("{}: times do not grow with the size, expected larger sizes", tables.front().file);
  fit.bandwidth = {1 / inverse};
  fit.latency = from_seconds(latency);
  fit.median_error = median(errors);
  fit.largest_error = *std::max_element(errors.begin(), errors.end());
  return fit;
}

std::string with_fitted_links(const std::string& name_or_path, const LinkFit& fit) {
  const std::string topology_file = topology_path(name_or_path).string();
  YamlReader yaml(topology_file, "unity-topology", 1);
  std::string text = read_file(topology_file);
  std::map<std::size_t, std::pair<std::size_t, std::string>, std::greater<>>
      edits;  // place: length and what comes there
  auto replace = [&](const YAML::Node& scalar, const std::string& by) {
    auto place = static_cast<std::size_t>(scalar.Mark().pos);
    bool quoted = text[place] == '"' || text[place] == '\'';
    edits[place + quoted] = {scalar.Scalar().size(), by};
  };
  for (const YAML::Node& entry : yaml.items(yaml.require(yaml.root(), "links"), "links")) {
    double one = yaml.quantity(yaml.require(entry, "bandwidth"), "bandwidth", parse_bandwidth).rate;
    Picoseconds latency = yaml.quantity(yaml.require(entry, "latency"), "latency", parse_time);
    double width = fit.before.bandwidth.rate / one;
    bool fits = entry["width"] ? width >= 1 && width == std::floor(width) : width == 1;
    if (!fits || latency != fit.before.latency || entry["kind"].Scalar() != to_string(fit.before.kind)) continue;
    replace(entry["bandwidth"], fmt::format("{:.6g} GB/s", fit.bandwidth.rate / width / 1e9));
    replace(entry["latency"], fmt::format("{:.6g} us", static_cast<double>(fit.latency.count) / 1e6));
  }
  UNITY_CHECK(!edits.empty(), "{}: no entry has the links that were fitted", topology_file);
  for (const auto& [place, edit] : edits) text.replace(place, edit.first, edit.second);
  return text;
}

}  // namespace unity
