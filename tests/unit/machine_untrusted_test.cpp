// Topology and device files that others wrote: they reach no other files and ask for no more than a machine can have.
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

const std::string kLink = "kind: pcie, bandwidth: 1 GB/s, latency: 1 us}";
const std::string kPair = "hierarchy: {gpu: 2}\ndevice: cpu\nlinks: [{between: [gpu0, gpu1], " + kLink + "]\n";
const std::string kDevice =
    "format: unity-device\nversion: 1\nname: d\nkind: cpu\npeak: {f32: 1 TFLOPS}\nmemory_bandwidth: 1 GB/s\n"
    "memory: 1 GB\nlaunch_overhead: 1 us\n";

}  // namespace

TEST_CASE("a topology names only files of its own folder") {
  CHECK_THAT(topology_error("hierarchy: {gpu: 1}\ndevice: ../cpu\n"),
             Contains(":4:9: device: found '../cpu.yaml', which leads out of its folder"));
  CHECK_THAT(topology_error("hierarchy: {gpu: 1}\ndevice: /etc/hostname\n"), Contains("the absolute path"));
  CHECK_THAT(topology_error("devices: [{name: a, device: ../../cpu}]\n"), Contains("leads out of its folder"));
  CHECK_THAT(topology_error(kPair + "collectives: ../nccl.yaml\n"),
             Contains(":6:14: collectives: found '../nccl.yaml', which leads out"));
  CHECK_THAT(topology_error(kPair + "mapping_families: /etc/hostname\n"),
             Contains(":6:19: mapping_families: found the absolute path"));
  TextFile device(kDevice + "profile: ../profile.yaml\n");
  CHECK_THROWS_WITH(load_device(device.path()), Contains(":9:10: profile: found '../profile.yaml', which leads out"));
}

TEST_CASE("a symbolic link beside a topology leads to no file elsewhere") {
  fs::path all = fs::temp_directory_path() / "untrusted-machine", own = all / "own";
  fs::create_directories(own / "devices");
  std::ofstream(all / "secret.yaml") << kDevice;
  std::ofstream(own / "devices" / "fine.yaml") << kDevice;
  fs::create_symlink(all / "secret.yaml", own / "devices" / "link.yaml");
  auto load = [&](const std::string& device) {
    std::ofstream(own / "m.yaml") << "format: unity-topology\nversion: 1\nhierarchy: {gpu: 1}\ndevice: " << device
                                  << "\n";
    return load_topology((own / "m.yaml").string());
  };
  CHECK(load("fine").specs[0].name == "d");
  CHECK_THROWS_WITH(load("link"), Contains(":4:9: device: found 'link.yaml', which leads out of its folder"));
  fs::remove_all(all);
}

TEST_CASE("a machine has a bounded number of parts") {
  CHECK_THAT(topology_error("hierarchy: {gpu: 1e12}\ndevice: cpu\n"),
             Contains(":3:18: hierarchy: gpu: found '1e12', expected a whole number above 0"));
  CHECK_THAT(topology_error("hierarchy: {gpu: 1000000000000}\ndevice: cpu\n"), Contains("expected a whole number"));
  CHECK_THAT(topology_error("hierarchy: {node: 2000, gpu: 2000}\ndevice: cpu\n"),
             Contains("more than 1048576 devices"));
  CHECK_THAT(topology_error(kPair + "switches: {machine: [s*1000000000000]}\n"), Contains("expected 1 to 1048576"));
  CHECK_THAT(topology_error(kPair + "switches: {machine: [s*1000000, t*1000000]}\n"),
             Contains("'t*1000000': with it there are more than 1048576"));
  CHECK_THAT(topology_error("hierarchy: {node: 5000, gpu: 1}\ndevice: cpu\nswitches: {node: [s*1000]}\n"),
             Contains("more than 2097152 devices and switches"));
  std::string levels;
  for (int i = 0; i < 1000; ++i) levels += fmt::format("{}a{}: 1", i ? ", " : "", i);
  CHECK_THAT(topology_error("hierarchy: {" + levels + "}\ndevice: cpu\n"), Contains("found more than 16 levels"));
}

TEST_CASE("links among all devices of a large machine are refused, made or not") {
  auto all_pairs = [](int devices, const std::string& where) {
    return topology_error(
        fmt::format("hierarchy: {{gpu: {}}}\ndevice: cpu\nlinks: [{{between: [\"gpu*\", \"gpu*\"], {}{}]\n", devices,
                    where, kLink));
  };
  CHECK_THAT(all_pairs(5000, ""), Contains(":5:19: found more than 8388608 pairs"));
  CHECK_THAT(all_pairs(40000, "where: 0 == 1, "), Contains(":5:19: found more than 536870912 pairs"));
}

TEST_CASE("a pattern with many stars is matched at once") {
  std::string name(200, 'a'), stars;
  for (int i = 0; i < 40; ++i) stars += "*a";
  CHECK_THAT(topology_error(fmt::format("hierarchy: {{gpu: 2}}\ndevice: cpu\nswitches: {{machine: [{}]}}\n"
                                        "links: [{{between: [\"{}b\", gpu0], {}]\n",
                                        name, stars, kLink)),
             Contains("matches nothing"));
}

TEST_CASE("patterns of devices may hold expressions, which have values") {
  CHECK(topology_of("hierarchy: {gpu: 2}\ndevice: {\"gpu<1-1>\": cpu, \"*\": cpu}\n"
                    "links: [{between: [gpu0, gpu1], " +
                    kLink + "]\nforwarding: [\"gpu<0+1>\"]\n")
            .device_count() == 2);
  CHECK_THAT(topology_error("hierarchy: {gpu: 2}\ndevice: {\"gpu<1/0>\": cpu}\n"), Contains("division by zero"));
}
