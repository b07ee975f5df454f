#include "cli/path_report.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/table.h"

namespace unity::cli {

std::vector<CriticalStep> PathReport::longest(std::size_t count) const {
  std::vector<CriticalStep> result = steps;
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  result.resize(std::min(result.size(), count));
  return result;
}

PathReport report_path(const Program& program, const Trace& trace) {
  PathReport report;
  report.steps = critical_path(trace, [&](TaskId id) { return program.dependencies_of(program.tasks[id.index()]); });
  std::vector<std::string> names = task_groups(program);
  std::map<std::string, Picoseconds> times;
  for (const CriticalStep& step : report.steps) {
    times[names[step.task.index()]] += step.time;
    const Task& task = program.tasks[step.task.index()];
    Picoseconds& sum = task.kind == TaskKind::communicate                               ? report.communicating
                       : program.copies_to_host(task) || program.copies_from_host(task) ? report.copying
                                                                                        : report.computing;
    sum += step.time - step.wait;
    report.waiting += step.wait;
  }
  report.groups.assign(times.begin(), times.end());
  std::stable_sort(report.groups.begin(), report.groups.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return report;
}

nlohmann::ordered_json steps_json(const std::vector<CriticalStep>& steps, const Program& program,
                                  const Topology& topology) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CriticalStep& s : steps)
    list.push_back({{"task", s.task.value},
                    {"name", program.task_name(s.task)},
                    {"device", topology.device(s.device).name},
                    {"seconds", s.time.seconds()}});
  return list;
}

void print_path(const PathReport& report, const Program& program, const Topology& topology, Picoseconds iteration) {
  auto share = [&](Picoseconds time) { return percent(time, iteration); };
  const std::string copying =
      report.copying.count ? fmt::format(", {} copying to and from the host", share(report.copying)) : "";
  fmt::print("\ncritical path: {} tasks; {} computing, {} communicating{}, {} waiting\n\n", report.steps.size(),
             share(report.computing), share(report.communicating), copying, share(report.waiting));
  Table groups({"kind", "time", "share"});
  for (const auto& [group, time] : report.groups) groups.add({group, to_string(time), share(time)});
  groups.print();
  fmt::print("\n");
  Table steps({"longest tasks", "device", "time", "share"});
  steps.left(1);
  for (const CriticalStep& s : report.longest(10))
    steps.add({program.task_name(s.task), topology.device(s.device).name, to_string(s.time), share(s.time)});
  steps.print();
}

std::string percent(Picoseconds part, Picoseconds whole) {
  if (whole.count == 0) return "-";
  return fmt::format("{:.1f}%", 100.0 * static_cast<double>(part.count) / static_cast<double>(whole.count));
}

}  // namespace unity::cli
