#include "simulator/analysis/network_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace unity {

std::vector<BusyLink> busiest_links(const PreparedProgram& prepared, const Topology& topology, const Trace& trace,
                                    std::size_t count) {
  std::map<LinkId, std::int32_t> peaks;
  for (const LinkSample& s : trace.link_use) peaks[s.link] = std::max(peaks[s.link], s.use);
  std::vector<BusyLink> links;
  std::map<std::tuple<LinkKind, double, std::int64_t, std::int32_t>, std::size_t> alike;
  for (const LinkUsage& l : trace.links) {
    LinkKind kind = topology.links[l.link.index()].kind;
    auto [at, fresh] = alike.try_emplace({kind, l.bandwidth.rate, l.bytes.count, peaks[l.link]}, links.size());
    if (!fresh) {
      ++links[at->second].like_it;
      continue;
    }
    double full = l.bandwidth.rate * trace.iteration.seconds();
    links.push_back({l.link, l.name, kind, l.bandwidth, l.bytes});
    links.back().mean = full > 0 ? static_cast<double>(l.bytes.count) / full : 0;
    links.back().peak = LinkSample{l.link, {}, peaks[l.link]}.fraction();
  }
  std::stable_sort(links.begin(), links.end(), [](const BusyLink& a, const BusyLink& b) { return a.mean > b.mean; });
  links.resize(std::min(links.size(), count));
  std::map<LinkId, std::size_t> place;
  for (std::size_t i = 0; i < links.size(); ++i) place[links[i].link] = i;
  const Program& program = *prepared.program;
  std::vector<std::string> groups = task_groups(program);
  std::vector<std::map<std::string, double>> users(links.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    if (prepared.flows[t] == PreparedProgram::kNoFlow) continue;
    const auto& choice = prepared.choices[prepared.flows[t]];
    if (!choice->shape) continue;
    for (const CollectivePhase& phase : choice->shape->phases)
      for (const LinkUse& use : phase.pattern->uses) {
        auto at = place.find(LinkId(use.link));
        if (at == place.end()) continue;
        users[at->second][fmt::format("{} ({})", groups[t], to_string(choice->shape->algorithm))] +=
            phase.share * choice->bytes * use.times;
      }
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (const auto& [user, bytes] : users[i]) links[i].by.emplace_back(user, Bytes{std::llround(bytes)});
    std::stable_sort(links[i].by.begin(), links[i].by.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  return links;
}

std::vector<CollectiveSummary> summarise_collectives(const PreparedProgram& prepared) {
  using Key = std::tuple<CollectiveKind, std::size_t, CollectiveAlgorithm, std::string, ChoiceReason>;
  std::map<Key, CollectiveSummary> summaries;
  for (std::size_t c = 0; c < prepared.program->communications.size(); ++c) {
    const auto& choice = prepared.choices[c];
    if (!choice || choice->alternatives.empty()) continue;
    const Communication& communication = prepared.program->communications[c];
    const CollectiveAlternative& chosen = choice->alternatives.front();
    std::size_t participants = communication.participants.size();
    auto [at, fresh] =
        summaries.try_emplace(Key{communication.kind, participants, chosen.algorithm, chosen.protocol, choice->reason});
    CollectiveSummary& s = at->second;
    Bytes bytes{std::llround(choice->bytes)};
    if (fresh)
      s = {communication.kind, participants, chosen.algorithm, chosen.protocol, choice->reason, 0, bytes, {}, {}, {}};
    if (fresh || bytes > s.largest) s.alternatives = choice->alternatives;
    s.smallest = std::min(s.smallest, bytes);
    s.largest = std::max(s.largest, bytes);
    s.idle += chosen.time;
    ++s.count;
  }
  std::vector<CollectiveSummary> result;
  for (auto& [key, summary] : summaries) result.push_back(std::move(summary));
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.idle > b.idle; });
  return result;
}

}  // namespace unity
