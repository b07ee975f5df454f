#include "simulator/link_use.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace unity {

std::string link_name(const Topology& topology, LinkId link) {
  const Link& l = topology.links[link.index()];
  return topology.vertices[l.from.index()].name + " -> " + topology.vertices[l.to.index()].name;
}

void add_links(const LinkRecord& record, std::span<const std::uint32_t> classes, const Topology& topology,
               Trace& trace) {
  std::vector<std::vector<LinkSample>> samples(record.bytes.size());  // by number in the record
  for (const LinkRecord::Sample& s : record.samples) {
    std::vector<LinkSample>& of_link = samples[s.link];
    double use = std::clamp(s.use * LinkSample::kFull, 0.0, static_cast<double>(LinkSample::kFull));
    LinkSample sample{{}, s.time, static_cast<std::int32_t>(std::lround(use))};
    if (!of_link.empty() && of_link.back().time == s.time) of_link.pop_back();
    if ((of_link.empty() ? 0 : of_link.back().use) != sample.use) of_link.push_back(sample);
  }
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    std::size_t number = classes.empty() ? l : classes[l];
    if (!(record.bytes[number] > 0)) continue;
    LinkId link(static_cast<std::int64_t>(l));
    trace.links.push_back(
        {link, link_name(topology, link), topology.links[l].bandwidth, {std::llround(record.bytes[number])}});
    for (LinkSample s : samples[number]) {
      s.link = link;
      trace.link_use.push_back(s);
    }
  }
  std::sort(trace.link_use.begin(), trace.link_use.end(), [](const LinkSample& a, const LinkSample& b) {
    return std::tie(a.time, a.link) < std::tie(b.time, b.link);
  });
}

}  // namespace unity
