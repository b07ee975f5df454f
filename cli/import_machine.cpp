#include "cli/import_machine.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/machine/import/nccl_tests.h"
#include "core/machine/import/nvidia_smi.h"
#ifdef UNITY_HAS_TINYXML2
#include "core/machine/import/nccl_topo.h"
#endif

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::vector<std::string> files;
  std::string output, device, topology;
  int nodes = 0, devices = 0;
  bool json = false;
};

std::string output_of(const Options& o, const std::string& ending) {
  std::string path = o.output;
  if (path.empty()) path = std::filesystem::path(o.files.front()).replace_extension(ending).string();
  if (std::find(o.files.begin(), o.files.end(), path) != o.files.end())
    throw_input_error("import: {} is read, expected another file to write with -o", path);
  require_writable(path);
  return path;
}

// What is written can be read, or nothing is written and an old file stays as it is.
Topology write_topology(const std::string& path, const std::string& text) {
  std::string probe = path + ".probe.yaml";
  write_file_atomically(probe, text);
  try {
    Topology topology = load_topology(probe);
    std::filesystem::remove(probe);
    write_file_atomically(path, text);
    return topology;
  } catch (const InputError& why) {
    std::filesystem::remove(probe);
    std::string_view message = why.what();
    if (message.starts_with(probe + ":")) message.remove_prefix(probe.size() + 1);
    throw_input_error("{}: not written, as it could not be read: {}", path, message);
  }
}

void write_node(const Options& o, const ImportedNode& node) {
  std::string path = output_of(o, ".yaml");
  Topology written = write_topology(path, topology_text(node));
  if (o.json) {
    ordered_json out = {{"topology", path},
                        {"devices", written.device_count()},
                        {"device", node.device},
                        {"links", written.links.size() / 2},
                        {"notes", node.notes}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{} written: a node of {} {}, {} links\n", path, written.device_count(), node.device,
             written.links.size() / 2);
  for (const std::string& note : node.notes) fmt::print("{}\n", note);
}

void import_smi(const Options& o) { write_node(o, import_nvidia_smi(read_file(o.files[0]), o.files[0], o.device)); }

void import_nccl(const Options& o) {
#ifdef UNITY_HAS_TINYXML2
  write_node(o, import_nccl_topology(read_file(o.files[0]), o.files[0], o.device));
#else
  throw_input_error("import: this build cannot read '{}'; install libtinyxml2-dev and configure again", o.files[0]);
#endif
}

void import_tests(const Options& o) {
  std::vector<NcclTable> tables;
  int hosts = o.nodes;
  for (const std::string& file : o.files) {
    tables.push_back(read_nccl_tests(read_file(file), file, o.devices));
    if (!o.nodes) hosts = std::max(hosts, tables.back().hosts);
  }
  Topology topology = load_topology(o.topology);
  if (hosts > topology.nodes || o.nodes) topology = load_topology(o.topology, {hosts});
  LinkFit fit = fit_links(tables, topology);
  std::string path = output_of(o, ".fitted.yaml");
  std::string about =
      fmt::format("# {} links fitted to {}: median error {:.1f}%, largest {:.1f}%.\n", to_string(fit.before.kind),
                  join(o.files), 100 * fit.median_error, 100 * fit.largest_error);
  write_topology(path, about + with_fitted_links(o.topology, fit));
  if (o.json) {
    ordered_json runs = ordered_json::array();
    for (const NcclTable& t : tables)
      runs.push_back({{"file", t.file}, {"collective", t.collective}, {"ranks", t.ranks}, {"times", t.times.size()}});
    ordered_json out = {{"topology", path},
                        {"kind", to_string(fit.before.kind)},
                        {"bytes_per_second", fit.bandwidth.rate},
                        {"latency_seconds", fit.latency.seconds()},
                        {"bytes_per_second_before", fit.before.bandwidth.rate},
                        {"latency_seconds_before", fit.before.latency.seconds()},
                        {"median_error", fit.median_error},
                        {"largest_error", fit.largest_error},
                        {"runs", runs}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  Table table({"file", "collective", "ranks", "size", "measured", "predicted / measured"});
  table.left(1);
  std::size_t at = 0;
  for (const NcclTable& t : tables)
    for (const NcclTime& time : t.times) {
      table.add({t.file, t.collective, std::to_string(t.ranks), to_string(Bytes{static_cast<std::int64_t>(time.bytes)}),
                 to_string(from_seconds(time.seconds)), fmt::format("{:.3f}", fit.ratios[at++])});
    }
  table.print();
  fmt::print("\n{} links: {} and {}, before {} and {}; error {:.1f}% in the median, {:.1f}% at most\n",
             to_string(fit.before.kind), to_string(fit.bandwidth), to_string(fit.latency),
             to_string(fit.before.bandwidth), to_string(fit.before.latency), 100 * fit.median_error,
             100 * fit.largest_error);
  fmt::print("{} written\n", path);
}

CLI::App* add_one(CLI::App& import, const char* name, const char* description, const char* examples,
                  const std::shared_ptr<Options>& o, void (*run)(const Options&)) {
  CLI::App* command = add_command(import, name, description, examples);
  output_file(
      command->add_option("-o,--output", o->output, "The topology file to write (default: beside the first file)"));
  add_json(*command, o->json);
  command->callback([o, run, command, &import] {
    for (const CLI::Option* option : import.get_options())
      if (option->count() > 0)
        throw_input_error("import: found {} before {}, expected it after that, if at all", option->get_name(),
                          command->get_name());
    run(*o);
  });
  return command;
}

}  // namespace

void add_machine_imports(CLI::App& import) {
  auto smi = std::make_shared<Options>(), nccl = std::make_shared<Options>(), tests = std::make_shared<Options>();
  for (const auto& [o, command] :
       {std::pair(smi, add_one(import, "nvidia-smi-topo", "Make a topology of what 'nvidia-smi topo -m' prints",
                               "  nvidia-smi topo -m > topo.txt\n"
                               "  unity import nvidia-smi-topo topo.txt -o node.yaml\n"
                               "  unity show node.yaml --nodes 4",
                               smi, import_smi)),
        std::pair(nccl, add_one(import, "nccl-topo", "Make a topology of the XML that NCCL_TOPO_DUMP_FILE names",
                                "  unity import nccl-topo topo.xml -o node.yaml\n"
                                "  unity import nccl-topo topo.xml --device h200 -o node.yaml",
                                nccl, import_nccl))}) {
    command->add_option("FILE", o->files, "What the program wrote")->required()->expected(1);
    command->add_option("--device", o->device, "Device file of the GPUs (default: as the file tells)");
  }
  CLI::App* command =
      add_one(import, "nccl-tests", "Fit a topology's links to tables of nccl-tests",
              "  unity import nccl-tests all_reduce.txt --topology dgx-h100 -o fitted.yaml", tests, import_tests);
  command->add_option("FILE", tests->files, "What all_reduce_perf and the like wrote")->required();
  command->add_option("--topology", tests->topology, "The machine that was measured: a name or a YAML file")
      ->required();
  at_least_one(command->add_option("--nodes", tests->nodes, "Its nodes (default: hosts of the tables, or as it says)"));
  at_least_one(command->add_option("--devices", tests->devices, "Ranks, where the tables do not list them"));
}

}  // namespace unity::cli
