// Files about machines: topologies, devices, profiles, mapping families, collectives; what other programs print of
// them.
#include <filesystem>

#include "core/base/text.h"
#include "core/machine/collectives.h"
#include "core/machine/files.h"
#include "core/machine/import/nccl_tests.h"
#include "core/machine/import/nccl_topo.h"
#include "core/machine/import/nvidia_smi.h"
#include "core/machine/index_expression.h"
#include "core/machine/mapping_families.h"
#include "core/machine/profile.h"
#include "tests/fuzz/target.h"

namespace unity::fuzz {
namespace {

constexpr const char* kSmallDevice =
    "format: unity-device\nversion: 1\nname: small\nkind: gpu\npeak: {f32: 1 TFLOPS}\nmemory_bandwidth: 1 TB/s\n"
    "memory: 1 GB\nlaunch_overhead: 1 us\n";

// Topologies find short device files beside them, whatever the names in the seeds.
void write_small_devices() {
  static const bool written = [] {
    for (const std::string& name : device_names()) scratch_file("devices/" + name + ".yaml", kSmallDevice);
    scratch_file("devices/d.yaml", kSmallDevice);
    return true;
  }();
  (void)written;
}

void check_topology(const Topology& t) {
  require(!t.devices.empty(), "accepted a machine without devices");
  for (const Device& d : t.devices) {
    require(d.spec < t.specs.size() && d.physical < t.physical_devices.size(), "{} has no specification", d.name);
    require(t.vertices.at(d.vertex.index()).device.valid(), "{} is no vertex", d.name);
  }
  for (const Link& l : t.links)
    require(l.bandwidth.rate > 0 && l.latency.count >= 0 && l.to.index() < t.vertices.size(), "a link leads nowhere");
  // A few of the ways from one device to another: links that join up.
  DeviceId first(0), last(static_cast<std::int64_t>(t.device_count()) - 1);
  for (auto [from, to] : {std::pair(first, last), std::pair(last, first)}) {
    VertexId at = t.device(from).vertex;
    for (LinkId link : t.route(from, to, 3)) {
      require(t.links.at(link.index()).from == at, "a route has a gap");
      at = t.links[link.index()].to;
    }
    require(at == t.device(to).vertex, "a route ends elsewhere");
    if (from != to)
      require(t.bandwidth(from, to).rate > 0 && t.latency(from, to).count >= 0, "a route has no bandwidth");
  }
}

void run_topology(std::string_view input) {
  write_small_devices();
  std::string path = scratch_file("topology.yaml", input);
  accepted([&] {
    Topology t = load_topology(path);
    check_topology(t);
    require(load_topology(path).hash() == t.hash(), "the same file gives another machine");
    auto half = static_cast<int>(t.device_count() + 1) / 2;
    require(t.first_devices(half).device_count() == static_cast<std::size_t>(half), "half of the devices are not half");
  });
}

// Long topologies take milliseconds each; what they add to short ones are more devices.
std::vector<std::string> topology_seeds() {
  std::vector<std::string> seeds = {
      "format: unity-topology\nversion: 1\nhierarchy: {node: 2, gpu: 2}\ndevice: d\nswitches: {node: [nvswitch], "
      "machine: "
      "[{name: spine, capacity: 10 GB/s}]}\nlinks:\n  - {within: node, between: [gpu*, nvswitch], kind: nvlink, "
      "bandwidth: 50 GB/s, latency: 1 us}\n  - {between: [node*.nvswitch, spine], kind: infiniband, bandwidth: 10 "
      "GB/s, "
      "latency: 2 us}\n",
      "format: unity-topology\nversion: 1\ndevices:\n  - {name: a, device: d}\n  - {name: b, device: d}\n"
      "links: [{pairs: [[a, b]], kind: pcie, bandwidth: 1 GB/s, latency: 1 us}]\nroutes:\n"
      "  - {pairs: [[a, b]], via: []}\n"};
  for (std::string& text : tree_files("topologies", ".yaml"))
    if (text.find("unity-topology") != std::string::npos && text.size() < 6000) seeds.push_back(std::move(text));
  return seeds;
}

void run_device(std::string_view input) {
  std::string path = scratch_file("device.yaml", input);
  accepted([&] {
    DeviceSpec spec = load_device_file(path);
    require(spec.peak.contains(DType::f32) && spec.memory.count > 0, "accepted a device without rates");
    for (const auto& [type, rate] : spec.peak) require(rate.rate > 0, "a rate is not positive");
    for (double amount : {0.0, 1.0, 1e6, 1e30})
      for (const auto* curve : {&spec.matmul_efficiency, &spec.memory_efficiency}) {
        double fraction = efficiency_at(*curve, amount);
        require(fraction > 0 && fraction <= 1, "an efficiency is {}", fraction);
      }
  });
}

std::vector<std::string> device_seeds() {
  std::vector<std::string> seeds = tree_files("topologies/devices", ".yaml");
  seeds.emplace_back(kSmallDevice);
  return seeds;
}

void run_profile(std::string_view input) {
  std::string path = scratch_file("profile.yaml", input);
  accepted([&] {
    DeviceProfile profile = load_profile(path);
    for (const auto& [threads, section] : profile.sections)
      for (const auto& [name, curve] : section.curves)
        for (double amount : {0.0, 1.0, 1e3, 1e12}) {
          TaskSeconds s = seconds_at(curve, amount);
          require(s.warm >= 0 && s.cold >= 0, "curve {} gives {} s", name, s.warm);
        }
    if (profile.collectives)
      for (const auto& [name, curve] : profile.collectives->times)
        require(seconds_at(curve, 1e4).warm >= 0, "collective {}", name);
    // Numbers are rounded when they are written, which may make points meet; but never a file that is no profile.
    std::string text = profile_to_yaml(profile);
    std::string again = scratch_file("written.yaml", text);
    require_equal(profile_to_yaml(load_profile(again)), text, "a profile that is written, read and written");
  });
}

std::vector<std::string> profile_seeds() {
  return {
      "format: unity-profile\nversion: 1\ndevice: 'laptop, 2 cores'\ndate: 2026-01-31\nbackend: cpu\nprecision: f32\n"
      "cache: 1 MB\nsections:\n  - threads: 1\n    task_overhead: 1e-6\n    handover: 2e-6\n    peak: 1e11\n"
      "    efficiency:\n      matmul: {1000: 0.1, 1000000: 0.9}\n      memory: {1000: 0.5}\n    curves:\n"
      "      copy: {1000: [1e-6, 2e-6], 1000000: 1e-4}\n      update sgd: {1000: 1e-6}\n    tasks:\n"
      "      'matmul f32[2, 3] f32[3, 4]': {warm: 1e-6, cold: 2e-6, low: 1e-6, high: 2e-6, samples: 9}\n",
      "format: unity-profile\nversion: 2\ndevice: d\ndate: 2026-01-31\nbackend: cpu\nprecision: f32\ncollectives:\n"
      "  comm: mpi\n  processes: 4\n  topology: laptop\n  levels: [node, device]\n  times:\n"
      "    all_reduce of 4 device: {4096: [1e-4, 2e-4, 1e-4, 3e-4], 16384: 2e-4}\nsections: []\n"};
}

const Topology& four_devices() {
  static const Topology topology = [] {
    write_small_devices();
    return load_topology(scratch_file(
        "four.yaml",
        "format: unity-topology\nversion: 1\nhierarchy: {node: 2, gpu: 2}\ndevice: d\nlinks: [{between: [node*.gpu*, "
        "node*.gpu*], kind: nvlink, bandwidth: 1 GB/s, latency: 1 us}]\n"));
  }();
  return topology;
}

void run_families(std::string_view input) {
  const Topology& topology = four_devices();
  std::string path = scratch_file("families.yaml", input);
  accepted([&] {
    MappingFamilies families(path, topology);
    for (const std::vector<int>& degrees : {std::vector<int>{}, {4}, {2, 2}, {3}, {2, 1, 2}}) {
      TaskGrid grid;
      for (int degree : degrees) grid.push_back({.degree = degree});
      accepted([&] {
        for (const MachineMapping& m : families.mappings(grid))
          require(check_mapping(m, grid, 4).ok(), "a family has a mapping that does not fit");
      });
    }
  });
}

void run_collectives(std::string_view input) {
  std::string path = scratch_file("collectives.yaml", input);
  accepted([&] {
    auto library = load_collectives(path, "H100-SXM5");
    require(!library->protocols.empty() && library->channels > 0, "accepted a library without protocols");
    for (const CollectiveProtocol& p : library->protocols)
      require(library->limit(CollectiveAlgorithm::ring, p, 2) > 0, "a limit is not positive");
  });
}

// What an importer writes is a topology that loads. Nodes without a network cannot be two.
void check_node(const ImportedNode& node) {
  write_small_devices();
  std::string path = scratch_file("imported.yaml", topology_text(node));
  for (int nodes : {1, 2}) {
    bool loads = accepted([&] {
      Topology t = load_topology(path, {.nodes = nodes});
      require(t.device_count() == static_cast<std::size_t>(nodes * node.gpus), "found {} GPUs in {} nodes of {}",
              t.device_count(), nodes, node.gpus);
    });
    require(loads || nodes > 1, "the topology of an imported node does not load");
  }
}

void run_nvidia_smi(std::string_view input) {
  ImportedNode node;
  if (accepted([&] { node = import_nvidia_smi(std::string(input), "topo.txt"); })) check_node(node);
}

void run_nccl_topology(std::string_view input) {
  ImportedNode node;
  if (accepted([&] { node = import_nccl_topology(std::string(input), "topo.xml"); })) check_node(node);
}

void run_nccl_tests(std::string_view input) {
  accepted([&] {
    NcclTable table = read_nccl_tests(std::string(input), "table.txt", 4);
    for (const NcclTime& t : table.times) require(t.bytes > 0 && t.seconds > 0, "a time is not positive");
    if (table.ranks > 4) return;
    LinkFit fit = fit_links({table}, four_devices());
    require(fit.latency.count >= 0 && fit.bandwidth.rate >= 0, "a fitted link is negative");
  });
}

void run_expression(std::string_view input) {
  IndexScope scope;
  scope.add("n", 8);
  scope.add("i", 3);
  Result<IndexExpression> parsed = IndexExpression::parse(input, scope);
  if (parsed.ok()) (void)parsed->evaluate(scope.values);
  (void)parse_bytes(input), (void)parse_time(input), (void)parse_bandwidth(input), (void)parse_compute_rate(input);
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"topology", "routes join up; the file read twice gives one machine; half of the devices are a machine",
       run_topology, topology_seeds, 4096, "topology"},
      {"device", "rates are positive, efficiencies in (0, 1]", run_device, device_seeds, 2048, "topology"},
      {"profile", "written, read and written again it is the same", run_profile, profile_seeds, 2048, "topology"},
      {"families", "mappings fit grids and machine", run_families,
       [] { return tree_files("topologies/mappings", ".yaml"); }, 2048, "topology"},
      {"collectives", "limits are positive", run_collectives,
       [] { return tree_files("topologies/collectives", ".yaml"); }, 8192, "topology"},
      {"nvidia-smi", "what is imported loads as a topology", run_nvidia_smi,
       [] { return tree_files("tests/data/machines", ".smi.txt"); }, 4096, "nvidia-smi"},
      {"nccl-topology", "what is imported loads as a topology", run_nccl_topology,
       [] { return tree_files("tests/data/machines", ".xml"); }, 4096, "nccl-topology"},
      {"nccl-tests", "times are positive; links can be fitted or it says why not", run_nccl_tests,
       [] { return std::vector{tree_file("tests/data/machines/all-reduce-8-h100.txt")}; }, 4096, "nccl-tests"},
      {"expression", "ends in a number or an error", run_expression,
       [] {
         return std::vector<std::string>{
             "(i+1) % n", "i/8 == n/8 && i < n", "root(n, 3) * min(i, -2)", "12.5 GB/s", "1.25 us",
             "16 GiB",    "15.7 TFLOPS"};
       },
       512, "expression"},
  };
  return list;
}

}  // namespace unity::fuzz
