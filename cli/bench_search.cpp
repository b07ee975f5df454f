// unity bench search: how long strategy unity searches, by model and machine, and what a candidate costs at each level.
#include <algorithm>

#include <fmt/format.h>
#include <sys/resource.h>

#include "cli/bench.h"
#include "cli/search_options.h"
#include "cli/table.h"

namespace unity::cli {
namespace {

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

SearchFigures search_once(const std::string& model, int nodes, const SearchBench& bench) {
  SimulatedCostModel cost(load_topology("summit", {nodes, 0}));
  SearchSettings settings;
  settings.search.budget = bench.budget;
  settings.search.jobs = bench.jobs;
  settings.search.time_limit = bench.time_limit;
  ModelOptions sizes;
  sizes.model = model;
  Result<Plan> plan = search_plan(sizes, "summit", cost, settings.options("unity", model));
  if (!plan.ok()) throw_input_error("{} on {} nodes: {}", model, nodes, plan.error().message);
  SearchFigures found;
  found.model = plan->model.name;
  found.devices = plan->devices;
  found.iteration = plan->prediction.iteration.seconds();
  found.seconds = plan->search.seconds;
  found.candidates = plan->search.candidates;
  found.stopped_because = plan->search.stopped_because;
  for (std::size_t level = 0; level < kSearchLevels; ++level)
    found.levels.emplace_back(to_string(static_cast<SearchLevel>(level)), plan->search.log.seconds.level[level]);
  for (const auto& [level, seconds] : found.levels) found.processors += seconds;
  found.peak_bytes = peak_bytes();
  return found;
}

}  // namespace

std::vector<SearchFigures> bench_search(const SearchBench& bench) {
  std::vector<int> nodes = bench.nodes;
  std::sort(nodes.begin(), nodes.end());  // the peak of memory grows with the search that took it
  std::vector<SearchFigures> searches;
  for (int n : nodes)
    for (const std::string& model : bench.models) searches.push_back(search_once(model, n, bench));
  return searches;
}

std::vector<BenchFigure> search_figures(const std::vector<SearchFigures>& searches) {
  std::vector<BenchFigure> figures;
  for (const SearchFigures& s : searches) {
    std::string name = fmt::format("{}_{}_", s.model, s.devices);
    std::replace(name.begin(), name.end(), '-', '_');
    figures.push_back({name + "search_seconds", "s", s.seconds});
    figures.push_back({name + "processor_seconds", "s", s.processors});
    figures.push_back({name + "candidates", "", static_cast<double>(s.candidates)});
    figures.push_back({name + "candidates_per_second", "", s.candidates_per_second()});
    for (const auto& [level, seconds] : s.levels)
      figures.push_back({name + level + "_ms_per_candidate", "ms", 1e3 * s.per_candidate(seconds)});
    figures.push_back({name + "iteration_seconds", "s", s.iteration});
  }
  figures.push_back({"peak_memory_bytes", "B", peak_bytes()});
  return figures;
}

void print_searches(const std::vector<SearchFigures>& searches) {
  std::vector<std::string> header = {"model", "GPUs", "search", "processors", "candidates", "per second"};
  for (const auto& [level, seconds] : searches.front().levels) header.push_back(level);
  header.insert(header.end(), {"iteration", "peak so far"});
  Table table(header);
  for (const SearchFigures& s : searches) {
    std::vector<std::string> row = {s.model,
                                    std::to_string(s.devices),
                                    fmt::format("{:.2f} s", s.seconds),
                                    fmt::format("{:.2f} s", s.processors),
                                    grouped(s.candidates),
                                    fmt::format("{:.0f}", s.candidates_per_second())};
    for (const auto& [level, seconds] : s.levels)
      row.push_back(fmt::format("{:.3f} ms", 1e3 * s.per_candidate(seconds)));
    row.push_back(to_string(from_seconds(s.iteration)));
    row.push_back(to_string(Bytes{static_cast<std::int64_t>(s.peak_bytes)}));
    table.add(row);
  }
  table.print();
  fmt::print("\nlevels: processor time for each candidate; peak: memory of this process until then\n");
}

}  // namespace unity::cli
