#include "cli/collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "core/base/text.h"
#include "simulator/collectives/running.h"

namespace unity::cli {
namespace {

Bytes parse_size(const std::string& option, const std::string& text) {
  if (text.empty()) return {};
  bool digits = std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  Result<Bytes> bytes = parse_bytes(digits ? text + " B" : text);
  if (!bytes.ok()) throw_input_error("{}: {}", option, bytes.error().message);
  if (bytes->count < 0) throw_input_error("{}: found '{}', expected at least 0", option, text);
  return *bytes;
}

CollectiveKind parse_kind(const std::string& text) {
  std::vector<std::string> names;
  for (int k = 0; k <= static_cast<int>(CollectiveKind::all_to_all); ++k) {
    names.emplace_back(to_string(static_cast<CollectiveKind>(k)));
    if (names.back() == text) return static_cast<CollectiveKind>(k);
  }
  throw_input_error("--collective: unknown collective '{}'{}", text, suggestion(text, names));
}

std::string named(const CollectiveAlternative& a) {
  std::string text(to_string(a.algorithm));
  if (a.chunks > 1) text += fmt::format(" in {} chunks", a.chunks);
  return a.protocol.empty() ? text : text + " " + a.protocol;
}

nlohmann::ordered_json alternatives_json(const std::vector<CollectiveAlternative>& alternatives) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CollectiveAlternative& a : alternatives)
    list.push_back(
        {{"algorithm", to_string(a.algorithm)},
         {"chunks", a.chunks},
         {"protocol", a.protocol.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(a.protocol)},
         {"predicted_seconds", a.time.seconds()}});
  return list;
}

const Communication& communication_of(const Program& program, TaskId task) {
  return program.communications[static_cast<std::size_t>(program.tasks[task.index()].op)];
}

}  // namespace

void CollectiveSettings::add(CLI::App& command) {
  command.add_option(
      "--collective-algorithm", algorithm,
      "ring, tree, hierarchical, in_switch, direct, chain, binomial; or auto: the cheapest on the idle machine of "
      "those that the topology's collectives choose from. A collective that can not be done so takes the cheapest, "
      "too");
  command.add_option("--collective-protocol", protocol,
                     "A protocol of the topology's collectives, such as LL (default: the cheapest)");
  command.add_option("--collective-chunk", chunk,
                     "Trees and chains work in chunks of this size (default: as small as one likes), and the stages of "
                     "hierarchical ones (default: the fastest number of up to 64)");
  command.add_flag("--steps", steps, "Simulate collectives transfer by transfer, instead of as flows: slow");
}

CollectiveOptions CollectiveSettings::options() const {
  CollectiveOptions options;
  if (algorithm != "auto") {
    Result<CollectiveAlgorithm> parsed = parse_collective_algorithm(algorithm);
    if (!parsed.ok()) throw_input_error("--collective-algorithm: {}, or auto", parsed.error().message);
    options.algorithm = *parsed;
  }
  options.protocol = protocol;
  options.chunk = parse_size("--collective-chunk", chunk);
  if (!chunk.empty() && options.chunk.count == 0)
    throw_input_error("--collective-chunk: found '{}', expected more than 0", chunk);
  return options;
}

nlohmann::ordered_json collectives_json(const Program& program, const SimulationResult& result) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TaskCollective& c : result.collectives) {
    const Communication& communication = communication_of(program, c.task);
    list.push_back({{"task", c.task.value},
                    {"name", program.task_name(c.task)},
                    {"devices", communication.participants.size()},
                    {"communication_bytes", communication_bytes(communication).count},
                    {"reason", to_string(c.reason)},
                    {"alternatives", alternatives_json(c.alternatives)}});
  }
  return list;
}

void print_collectives(const Program& program, const SimulationResult& result) {
  struct Sum {
    std::int64_t count = 0;
    Bytes bytes;
    Picoseconds time;
    std::string next;
  };
  std::map<std::tuple<std::string, std::size_t, std::string, std::string>, Sum> sums;
  for (const TaskCollective& c : result.collectives) {
    if (c.alternatives.empty()) continue;
    const Communication& communication = communication_of(program, c.task);
    Sum& sum = sums[{std::string(to_string(communication.kind)), communication.participants.size(),
                     named(c.alternatives[0]), std::string(to_string(c.reason))}];
    ++sum.count;
    sum.bytes += communication_bytes(communication);
    sum.time += c.alternatives[0].time;
    if (c.alternatives.size() > 1) sum.next = named(c.alternatives[1]);
  }
  fmt::print("\n");
  Table table({"collective", "devices", "taken", "because", "next", "count", "bytes moved", "time alone"});
  table.left(2).left(3).left(4);
  for (const auto& [key, sum] : sums) {
    const auto& [kind, devices, taken, reason] = key;
    table.add({kind, fmt::format("{}", devices), taken, reason, sum.next, fmt::format("{}", sum.count),
               to_string(sum.bytes), to_string(sum.time)});
  }
  table.print();
}

void AloneOptions::add(CLI::App& command) {
  command.add_option(
      "--collective", kind,
      "One collective alone, over all devices of --topology: all_reduce, all_gather, reduce_scatter, broadcast, "
      "reduce, all_to_all or send");
  command.add_option("--bytes", bytes,
                     "Its size: of the whole tensor; all_to_all: of what each device holds (with --collective)");
}

void simulate_alone(const AloneOptions& what, const MachineOptions& machine, const CollectiveSettings& settings,
                    bool json) {
  if (machine.topology.empty()) throw_input_error("simulate: --collective needs --topology");
  if (what.bytes.empty()) throw_input_error("simulate: --collective needs --bytes");
  CollectiveKind kind = parse_kind(what.kind);
  Topology topology = machine.load();
  CollectiveOptions options = settings.options();
  check_options(options, topology);
  Bytes size = parse_size("--bytes", what.bytes);
  std::size_t n = topology.device_count();
  if (kind == CollectiveKind::send && n != 2)
    throw_input_error("simulate: found {} devices, expected 2 for a send (--devices 2)", n);
  if (n < 2) throw_input_error("simulate: found {} device, expected at least 2 for a collective", n);
  std::vector<DeviceId> group;
  for (std::size_t d = 0; d < n; ++d) group.emplace_back(static_cast<std::int64_t>(d));
  Bytes all = kind == CollectiveKind::all_to_all ? size * static_cast<std::int64_t>(n) : size;
  CollectiveCache cache(topology);
  auto choice = cache.choose(kind, group, all, options);
  AloneResult result = unity::simulate_alone(topology, choice, options, settings.steps);
  auto rates = [&](Picoseconds time) {
    double rate = time.count > 0 ? static_cast<double>(size.count) / time.seconds() : 0;
    return std::pair(rate, rate * bus_bandwidth_factor(kind, n));
  };
  auto [algbw, busbw] = rates(result.time);
  if (json) {
    nlohmann::ordered_json out = {{"collective", what.kind},
                                  {"topology", topology.name},
                                  {"devices", n},
                                  {"bytes", size.count},
                                  {"seconds", result.time.seconds()},
                                  {"algorithm_bandwidth", algbw},
                                  {"bus_bandwidth", busbw},
                                  {"transfers", result.transfers},
                                  {"reason", to_string(choice->reason)},
                                  {"alternatives", alternatives_json(choice->alternatives)}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{} of {} over {} devices of {}: {} ({}; {} {}), algbw {}, busbw {}\n\n", what.kind, to_string(size), n,
             topology.name, to_string(result.time), to_string(choice->reason), result.transfers,
             settings.steps          ? "transfers"
             : result.transfers == 1 ? "flow"
                                     : "flows",
             to_string(BytesPerSecond{algbw}), to_string(BytesPerSecond{busbw}));
  Table table({"algorithm", "predicted", "algbw", "busbw"});
  for (const CollectiveAlternative& a : choice->alternatives) {
    auto [rate, bus] = rates(a.time);
    table.add({named(a), to_string(a.time), to_string(BytesPerSecond{rate}), to_string(BytesPerSecond{bus})});
  }
  table.print();
}

}  // namespace unity::cli
