#include "cli/prediction_report.h"

#include <algorithm>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cli/path_report.h"
#include "cli/table.h"
#include "core/models/summary.h"
#include "core/trace/compare.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct NamedBound {
  const char *key, *words;
  Picoseconds time;
};

std::vector<NamedBound> named(const LowerBounds& b) {
  return {{"busiest_device", "busiest device: its tasks, never held up", b.busiest_device},
          {"whole_machine", "whole machine at its peaks, perfectly balanced", b.whole_machine},
          {"busiest_link", "busiest link: its bytes at full bandwidth", b.busiest_link},
          {"free_communication", "communications that take no time", b.free_communication},
          {"longest_chain", "longest chain of dependencies", b.longest_chain}};
}

double ratio(Picoseconds a, Picoseconds b) { return b.count ? a.seconds() / b.seconds() : 0; }

double of_iteration(double seconds, const PredictionReport& report) {
  double iteration = report.result.iteration.seconds();
  return iteration > 0 ? seconds / iteration : 0;
}

void print_bounds(const PredictionReport& r) {
  fmt::print("\n");
  Table table({"at best", "time", "iteration is"});
  for (const NamedBound& b : named(r.bounds))
    table.add(
        {b.words, to_string(b.time), b.time.count ? fmt::format("{:.2f}x", ratio(r.result.iteration, b.time)) : "-"});
  table.print();
}

// Devices that do the same in one row.
void print_devices(const PredictionReport& r, const Topology& topology) {
  fmt::print("\n");
  const std::vector<DeviceUse> uses = device_use(r.result.trace, topology.device_count());
  const bool copies = std::any_of(uses.begin(), uses.end(), [](const DeviceUse& u) { return u.copies.count > 0; });
  std::vector<std::string> columns = {"device", "compute", "communication", "of that hidden", "idle", "peak memory"};
  if (copies) columns.insert(columns.begin() + 4, "copies alone");
  Table table(columns);
  struct Row {
    DeviceUse use;
    Bytes memory;
    int count = 1;
  };
  std::vector<Row> rows;
  for (const DeviceUse& u : uses) {
    Bytes memory = r.result.peak_memory[u.device.index()];
    auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
      return std::tie(row.use.compute, row.use.communication, row.use.hidden, row.use.copies, row.use.idle,
                      row.memory) == std::tie(u.compute, u.communication, u.hidden, u.copies, u.idle, memory);
    });
    if (same == rows.end())
      rows.push_back({u, memory});
    else
      ++same->count;
  }
  for (const Row& row : rows) {
    std::string name = topology.device(row.use.device).name;
    if (row.count > 1) name += fmt::format(" and {} like it", row.count - 1);
    std::vector<std::string> cells = {name,
                                      percent(row.use.compute, r.result.iteration),
                                      percent(row.use.communication, r.result.iteration),
                                      percent(row.use.hidden, row.use.communication),
                                      percent(row.use.idle, r.result.iteration),
                                      to_string(row.memory)};
    if (copies) cells.insert(cells.begin() + 4, percent(row.use.copies, r.result.iteration));
    table.add(cells);
  }
  table.print();
}

void print_links(const PredictionReport& r) {
  if (r.links.empty()) return;
  fmt::print("\n");
  Table table({"busiest links", "kind", "bytes", "mean use", "peak use", "most for"});
  table.left(1).left(5);
  for (const BusyLink& l : r.links) {
    std::string most = l.by.empty() ? "-" : l.by[0].first;
    if (l.by.size() > 1) most += fmt::format(" and {} more", l.by.size() - 1);
    std::string name = l.name;
    if (l.like_it) name += fmt::format(" and {} like it", l.like_it);
    table.add({name, std::string(to_string(l.kind)), to_string(l.bytes), fmt::format("{:.1f}%", 100 * l.mean),
               fmt::format("{:.1f}%", 100 * l.peak), most});
  }
  table.print();
}

std::string algorithm_text(CollectiveAlgorithm algorithm, const std::string& protocol) {
  std::string text(to_string(algorithm));
  return protocol.empty() ? text : text + " " + protocol;
}

void print_collectives(const PredictionReport& r) {
  if (r.collectives.empty()) return;
  fmt::print("\n");
  Table table({"collectives", "devices", "count", "size", "by", "why", "each, alone", "instead, for the largest"});
  table.left(4).left(5).left(7);
  for (const CollectiveSummary& s : r.collectives) {
    std::string size = to_string(s.smallest), instead = "-";
    if (s.largest > s.smallest) size += " to " + to_string(s.largest);
    if (s.alternatives.size() > 1)
      instead = fmt::format("{} ({:.2f}x)", algorithm_text(s.alternatives[1].algorithm, s.alternatives[1].protocol),
                            ratio(s.alternatives[1].time, s.alternatives[0].time));
    table.add({std::string(to_string(s.kind)), std::to_string(s.participants), std::to_string(s.count), size,
               algorithm_text(s.algorithm, s.protocol), std::string(to_string(s.reason)),
               to_string(Picoseconds{s.idle.count / s.count}), instead});
  }
  table.print();
}

void print_what_ifs(const PredictionReport& r) {
  if (r.what_ifs.empty()) return;
  fmt::print("\n");
  Table table({"what if", "iteration", "faster by"});
  for (const WhatIf& w : r.what_ifs)
    table.add({w.what, to_string(w.iteration), fmt::format("{:.2f}x", ratio(r.result.iteration, w.iteration))});
  table.print();
}

ordered_json path_json(const PredictionReport& r, const Scenario& scenario) {
  PathReport path = report_path(scenario.program(), r.result.trace);
  ordered_json kinds = ordered_json::array();
  for (const auto& [kind, time] : path.groups) kinds.push_back({{"kind", kind}, {"seconds", time.seconds()}});
  return {{"tasks", path.steps.size()},
          {"compute_seconds", path.computing.seconds()},
          {"communication_seconds", path.communicating.seconds()},
          {"host_copies_seconds", path.copying.seconds()},
          {"waiting_seconds", path.waiting.seconds()},
          {"kinds", kinds},
          {"longest", steps_json(path.longest(10), scenario.program(), scenario.topology())}};
}

ordered_json links_json(const PredictionReport& r) {
  ordered_json list = ordered_json::array();
  for (const BusyLink& l : r.links) {
    ordered_json by = ordered_json::array();
    for (const auto& [what, bytes] : l.by) by.push_back({{"collective", what}, {"bytes", bytes.count}});
    list.push_back({{"link", l.name},
                    {"like_it", l.like_it},
                    {"kind", std::string(to_string(l.kind))},
                    {"bytes_per_second", l.bandwidth.rate},
                    {"bytes", l.bytes.count},
                    {"mean_use", l.mean},
                    {"peak_use", l.peak},
                    {"collectives", by}});
  }
  return list;
}

ordered_json collectives_json(const PredictionReport& r) {
  ordered_json list = ordered_json::array();
  for (const CollectiveSummary& s : r.collectives) {
    ordered_json alternatives = ordered_json::array();
    for (const CollectiveAlternative& a : s.alternatives)
      alternatives.push_back({{"algorithm", std::string(to_string(a.algorithm))},
                              {"protocol", a.protocol},
                              {"seconds", a.time.seconds()}});
    list.push_back({{"kind", std::string(to_string(s.kind))},
                    {"participants", s.participants},
                    {"count", s.count},
                    {"smallest_bytes", s.smallest.count},
                    {"largest_bytes", s.largest.count},
                    {"algorithm", std::string(to_string(s.algorithm))},
                    {"protocol", s.protocol},
                    {"reason", std::string(to_string(s.reason))},
                    {"idle_seconds", s.idle.seconds()},
                    {"alternatives", alternatives}});
  }
  return list;
}

}  // namespace

std::map<DType, double> model_flops(const Pcg& pcg) {
  std::map<DType, double> flops;
  std::vector<bool> trained;  // by node: whether a weight stands before it
  for (const Node& node : pcg.nodes()) {
    auto is_trained = [&](ValueRef v) { return trained[v.node.index()]; };
    trained.push_back(node.op->name() == "weight" || std::any_of(node.inputs.begin(), node.inputs.end(), is_trained));
    std::int64_t macs = multiply_adds(node);
    if (macs == 0) continue;
    int times = is_trained(node.inputs[0]) ? 3 : trained.back() ? 2 : 1;
    flops[node.outputs[0].dtype] += times * 2 * static_cast<double>(macs);
  }
  return flops;
}

PredictionReport report_prediction(const Plan& plan, const Scenario& scenario) {
  PredictionReport r;
  const Topology& topology = scenario.topology();
  r.result = scenario.simulate(true);
  double seconds = r.result.iteration.seconds();
  if (seconds > 0) r.samples_per_second = static_cast<double>(plan.global_batch) / seconds;
  r.bounds = lower_bounds(scenario.prepared(), topology);
  r.model_seconds = seconds_at_peak(model_flops(plan.pcg), topology);
  r.executed_seconds = seconds_at_peak(executed_flops(scenario.program()), topology);
  r.links = busiest_links(scenario.prepared(), topology, r.result.trace, 10);
  r.collectives = summarise_collectives(scenario.prepared());
  return r;
}

void print_prediction(const PredictionReport& r, const Scenario& scenario) {
  const std::string use = r.executed_seconds ? fmt::format("{:.1f}% of the peak FLOPs for the model, {:.1f}% in all",
                                                           100 * of_iteration(*r.model_seconds, r),
                                                           100 * of_iteration(*r.executed_seconds, r))
                                             : "peak FLOPs not known";
  fmt::print("predicted: {} per iteration, {:.1f} samples/s; {}\n", to_string(r.result.iteration), r.samples_per_second,
             use);
  if (r.result.profiled_tasks)
    fmt::print("times of {} tasks measured, of {} estimated\n", r.result.profiled_tasks, r.result.estimated_tasks);
  print_bounds(r);
  print_path(report_path(scenario.program(), r.result.trace), scenario.program(), scenario.topology(),
             r.result.iteration);
  print_devices(r, scenario.topology());
  print_links(r);
  print_collectives(r);
  print_what_ifs(r);
}

ordered_json prediction_json(const PredictionReport& r, const Scenario& scenario) {
  ordered_json bounds, devices = ordered_json::array(), what_ifs = ordered_json::array();
  auto utilization = [&](std::optional<double> seconds) {
    return seconds ? ordered_json(of_iteration(*seconds, r)) : ordered_json();
  };
  for (const NamedBound& b : named(r.bounds)) bounds[b.key] = b.time.seconds();
  for (const DeviceUse& u : device_use(r.result.trace, scenario.topology().device_count()))
    devices.push_back({{"device", scenario.topology().device(u.device).name},
                       {"compute_seconds", u.compute.seconds()},
                       {"communication_seconds", u.communication.seconds()},
                       {"hidden_seconds", u.hidden.seconds()},
                       {"copies_alone_seconds", u.copies.seconds()},
                       {"idle_seconds", u.idle.seconds()},
                       {"peak_memory_bytes", r.result.peak_memory[u.device.index()].count}});
  for (const WhatIf& w : r.what_ifs)
    what_ifs.push_back({{"scale", w.what},
                        {"iteration_seconds", w.iteration.seconds()},
                        {"speedup", ratio(r.result.iteration, w.iteration)}});
  ordered_json out = {{"iteration_seconds", r.result.iteration.seconds()},
                      {"samples_per_second", r.samples_per_second},
                      {"profiled_tasks", r.result.profiled_tasks},
                      {"estimated_tasks", r.result.estimated_tasks},
                      {"model_flops_utilization", utilization(r.model_seconds)},
                      {"executed_flops_utilization", utilization(r.executed_seconds)},
                      {"lower_bounds_seconds", bounds},
                      {"efficiency", ratio(r.bounds.largest(), r.result.iteration)},
                      {"critical_path", path_json(r, scenario)},
                      {"devices", devices},
                      {"links", links_json(r)},
                      {"collectives", collectives_json(r)}};
  if (!r.what_ifs.empty()) out["what_if"] = what_ifs;
  return out;
}

}  // namespace unity::cli
