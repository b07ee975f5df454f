// All combinations of mappings, and those near a given one (mapping_search.h).

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/search/mapping_problem.h"

namespace unity {
namespace {

// Whether the machine stays the same when any devices change places: all routes alike, through no common link.
bool all_alike(const Topology& t) {
  std::set<LinkId> used;
  std::set<std::tuple<std::size_t, std::int64_t, double>> seen;
  for (std::size_t a = 0; a < t.device_count(); ++a)
    for (std::size_t b = 0; b < t.device_count(); ++b) {
      if (a == b) continue;
      DeviceId from(static_cast<std::int64_t>(a)), to(static_cast<std::int64_t>(b));
      for (LinkId l : t.route(from, to))
        if (!used.insert(l).second) return false;
      seen.insert({t.device(from).spec, t.latency(from, to).count, t.bandwidth(from, to).rate});
    }
  return seen.size() <= 1 && t.physical_devices.size() == t.device_count();
}

}  // namespace

Result<std::vector<std::vector<MachineMapping>>> MappingSearch::all(const Pcg& pcg, std::int64_t most) const {
  MappingProblem problem(pcg, cost_, *cache_);
  UNITY_TRY_VOID(problem.build());
  const std::vector<MappingProblem::Item>& items = problem.items();
  std::int64_t combinations = 1;
  for (const MappingProblem::Item& item : items) {
    combinations *= static_cast<std::int64_t>(item.tasks->choices.size());
    if (combinations > most) return fail("more than {} mappings", most);
  }
  std::vector<int> chosen;
  bool alike = all_alike(cost_.topology());
  std::set<std::vector<std::int64_t>> seen;
  std::vector<std::vector<MachineMapping>> found;
  for (std::int64_t number = 0; number < combinations; ++number) {
    chosen.clear();
    std::int64_t rest = number;
    std::map<DeviceId, std::int64_t> names;  // in the order in which devices are met
    std::vector<std::int64_t> places;
    for (const MappingProblem::Item& item : items) {
      auto choices = static_cast<std::int64_t>(item.tasks->choices.size());
      chosen.push_back(static_cast<int>(rest % choices));
      rest /= choices;
      for (DeviceId d : item.tasks->devices[static_cast<std::size_t>(chosen.back())])
        places.push_back(alike ? names.try_emplace(d, static_cast<std::int64_t>(names.size())).first->second : d.value);
    }
    if (!seen.insert(places).second) continue;
    found.push_back(problem.mappings(chosen));
  }
  return found;
}

Result<std::vector<std::vector<MachineMapping>>> MappingSearch::neighbours(const Pcg& pcg,
                                                                           const std::vector<MachineMapping>& mappings,
                                                                           bool pairs) const {
  MappingProblem problem(pcg, cost_, *cache_);
  UNITY_TRY_VOID(problem.build());
  const std::vector<MappingProblem::Item>& items = problem.items();
  std::vector<int> chosen;
  for (const MappingProblem::Item& item : items) {
    auto found = std::find(item.tasks->choices.begin(), item.tasks->choices.end(), mappings[item.node.index()]);
    chosen.push_back(found == item.tasks->choices.end() ? 0 : static_cast<int>(found - item.tasks->choices.begin()));
  }
  auto choices = [&](int item) {
    return static_cast<int>(items[static_cast<std::size_t>(item)].tasks->choices.size());
  };
  std::vector<std::vector<MachineMapping>> found;
  if (pairs) {
    std::set<std::pair<int, int>> joined;
    for (const MappingProblem::Edge& e : problem.edges()) joined.insert({e.from, e.to});
    for (auto [a, b] : joined) {
      int &of_a = chosen[static_cast<std::size_t>(a)], &of_b = chosen[static_cast<std::size_t>(b)];
      const int was_a = of_a, was_b = of_b;
      for (int c = 0; c < choices(a); ++c)
        for (int d = 0; d < choices(b); ++d)
          if (c != was_a && d != was_b) of_a = c, of_b = d, found.push_back(problem.mappings(chosen));
      of_a = was_a, of_b = was_b;
    }
    return found;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    int was = chosen[i];
    for (int c = 0; c < static_cast<int>(items[i].tasks->choices.size()); ++c)
      if (c != was) chosen[i] = c, found.push_back(problem.mappings(chosen));
    chosen[i] = was;
  }
  std::vector<int> given = chosen;
  std::size_t most = 0;
  for (const MappingProblem::Item& item : items) most = std::max(most, item.tasks->choices.size());
  for (std::size_t c = 0; c < most; ++c) {
    chosen = given;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (c >= items[i].tasks->choices.size() || chosen[i] == static_cast<int>(c)) continue;
      chosen[i] = static_cast<int>(c);
      if (i > 0) found.push_back(problem.mappings(chosen));
    }
  }
  return found;
}

}  // namespace unity
