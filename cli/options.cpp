#include "cli/options.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <set>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/replacing_file.h"
#include "core/machine/profile.h"
#include "core/models/models.h"

namespace unity::cli {

namespace {

template <class Number>
CLI::Option* from(CLI::Option* option, Number least) {
  return option->check([least](const std::string& text) -> std::string {
    Number number = 0;
    const char* end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && rest == end && number >= least) return {};
    return fmt::format("found '{}', expected a whole number from {} to {}", text, least,
                       std::numeric_limits<Number>::max());
  });
}

}  // namespace

CLI::Option* at_least_one(CLI::Option* option) { return from<std::int32_t>(option, 1); }
CLI::Option* from_zero(CLI::Option* option) { return from<std::uint64_t>(option, 0); }

void MachineOptions::add(CLI::App& command, bool required) {
  command.add_option("--topology", topology, "Machine: a name of 'unity list topologies' or a YAML file")
      ->required(required);
  at_least_one(command.add_option("--nodes", nodes, "Number of nodes (default: as the topology says)"));
  at_least_one(command.add_option("--devices", devices, "Take the first N devices (default: all)"));
  command.add_option("--profile", profile, "Measured times of all devices: a file of 'unity profile'");
}

Topology MachineOptions::load() const {
  Topology loaded = load_topology(topology, {nodes, devices});
  apply_profile(loaded);
  return loaded;
}

void MachineOptions::apply_profile(Topology& loaded) const {
  if (profile.empty()) return;
  const DeviceProfile measured = load_profile(profile);
  use_profile(loaded, measured);
  const std::string_view kind = measured.backend == "cuda" ? "gpu" : "cpu";
  for (const DeviceSpec& spec : loaded.specs)
    if (spec.kind != kind)
      throw_input_error("{}: holds times of backend {} ('{}'), found device {} of kind {} in topology '{}'", profile,
                        measured.backend, measured.device, spec.name, spec.kind, loaded.name);
  std::set<int> threads;
  for (std::size_t d = 0; d < loaded.device_count(); ++d) {
    const DeviceId device(static_cast<std::int64_t>(d));
    if (!section_of(loaded, device)) threads.insert(loaded.threads(device));
  }
  static std::set<std::string> told;  // a command may load it for several plans
  if (threads.empty() || measured.sections.empty() || !told.insert(profile + loaded.name).second) return;
  std::vector<int> there;
  for (const auto& [key, section] : measured.sections) there.push_back(key);
  fmt::print(stderr,
             "unity: warning: {}: holds times of devices with {} threads, expected {}, as devices of topology '{}' "
             "have; theirs are estimated\n",
             profile, fmt::join(there, ", "), fmt::join(threads, ", "), loaded.name);
}

void ModelOptions::add(CLI::App& command) {
  command.add_option("MODEL", model, "A name of 'unity list models' or a YAML file")->required();
  add_sizes(command);
}

void ModelOptions::add_sizes(CLI::App& command) {
  auto* per_gpu = command.add_option("--batch-per-gpu", batch_per_gpu, "Samples per device (default: the model's)");
  auto* global = command.add_option("--global-batch", global_batch, "Samples per iteration, over all devices");
  at_least_one(per_gpu)->excludes(global);
  at_least_one(global);
  at_least_one(command.add_option("--seq-len", seq_len, "Sequence length (models with one)"));
  at_least_one(command.add_option("--layers", layers, "Number of layers (models with a choice)"));
  command.add_option("--option", options, "A further size of the model, NAME=VALUE; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print one JSON document on standard output");
}

void require_writable(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw_input_error("{}: is a folder, expected a file to write", path);
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::exists(folder, error))
    throw_input_error("{}: cannot be written: folder {} does not exist", path, folder.string());
  // Whoever reads a pipe would take the end of a trial for the end of all.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return;
  // Only trying shows what rights, quotas and read-only mounts allow; an old result stays untouched.
  ReplacingFile{path};
}

Topology machine_of(const Plan& plan, const MachineOptions& options, const std::string& file) {
  bool same = options.topology.empty();
  Topology topology = load_topology(
      same ? plan.topology : options.topology,
      {options.nodes || !same ? options.nodes : plan.nodes, options.devices || !same ? options.devices : plan.devices});
  Result<void> fits = check_plan(plan, topology);
  if (!fits.ok()) throw_input_error("{}: {}", file, fits.error().message);
  fits = check_model(plan.model, plan.pcg);
  if (!fits.ok()) throw_input_error("{}: plan.model: {}", file, fits.error().message);
  options.apply_profile(topology);
  return topology;
}

void warn_of_estimates(const Plan& plan, const Topology& topology, const std::string& file) {
  if (!plan.search.profile.empty() && profile_in_words(topology).empty())
    fmt::print(stderr, "unity: warning: {}: found with times measured on {}, and predicted here with estimated ones\n",
               file, plan.search.profile);
}

bool is_plan_path(const std::string& name) { return name.ends_with(".json"); }

}  // namespace unity::cli
