#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/base/text.h"
#include "core/machine/topology.h"
#include "tests/support/paths.h"

using namespace unity;
using Catch::Contains;

namespace {

DeviceId device(int i) { return DeviceId(i); }

std::vector<std::string> hops(const Topology& t, int from, int to) {
  std::vector<std::string> names;
  for (LinkId l : t.route(device(from), device(to))) names.push_back(t.vertices[t.links[l.index()].to.index()].name);
  return names;
}

// A topology file of its own, removed afterwards.
class File {
 public:
  explicit File(const std::string& content)
      : path_((std::filesystem::temp_directory_path() / fmt::format("unity_topology_{}.yaml", getpid())).string()) {
    std::ofstream(path_) << content;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(const std::string& content) {
  File file(content);
  try {
    load_topology(file.path());
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

const std::string kHead = "format: unity-topology\nversion: 1\n";

}  // namespace

TEST_CASE("every topology of the folder loads and is connected") {
  for (const std::string& name : topology_names()) {
    INFO(name);
    Topology t = load_topology(name, {.nodes = 2});
    CHECK(t.nodes == 2);
    CHECK(t.hash() != load_topology(name, {.nodes = 1}).hash());
  }
  for (const std::string& name : device_names()) CHECK(load_device(name).peak.contains(DType::f32));
}

TEST_CASE("summit has two sockets of three GPUs in each node") {
  Topology t = load_topology("summit", {.nodes = 2});
  REQUIRE(t.device_count() == 12);
  CHECK(t.device(device(10)).name == "node1.socket1.gpu1");
  CHECK(t.spec(device(10)).peak.at(DType::f32).rate == 15.7e12);
  // per socket 3 GPU pairs and 3 GPU-host; per node 1 X-Bus and 2 PCIe; per machine 2 InfiniBand; two directions each
  CHECK(t.links.size() == 2 * (4 * 6 + 2 * 3 + 2));
}

TEST_CASE("summit-nccl is summit but for what runs its collectives") {
  const Topology rings = load_topology("summit", {.nodes = 3}), nccl = load_topology("summit-nccl", {.nodes = 3});
  CHECK(rings.collectives == nullptr);
  CHECK(nccl.collectives != nullptr);
  REQUIRE(nccl.links.size() == rings.links.size());
  for (std::size_t i = 0; i < rings.links.size(); ++i) {
    const Link &a = rings.links[i], &b = nccl.links[i];
    CHECK(a.from == b.from);
    CHECK(a.to == b.to);
    CHECK(a.kind == b.kind);
    CHECK(a.bandwidth.rate == b.bandwidth.rate);
    CHECK(a.latency == b.latency);
  }
  CHECK(nccl.spec(device(0)).name == rings.spec(device(0)).name);
}

TEST_CASE("routes take the fewest hops") {
  Topology t = load_topology("summit", {.nodes = 2});
  CHECK(hops(t, 0, 2) == std::vector<std::string>{"node0.socket0.gpu2"});
  CHECK(hops(t, 0, 3) == std::vector<std::string>{"node0.socket0.host", "node0.socket1.host", "node0.socket1.gpu0"});
  CHECK(hops(t, 0, 11) == std::vector<std::string>{"node0.socket0.host", "node0.nic", "fabric", "node1.nic",
                                                   "node1.socket1.host", "node1.socket1.gpu2"});
  CHECK(t.route(device(4), device(4)).empty());
  CHECK(t.bandwidth(device(0), device(3)).rate == 32e9);       // X-Bus
  CHECK(t.bandwidth(device(0), device(11)).rate == 16e9);      // PCIe between host and NIC
  CHECK(t.latency(device(0), device(11)).count == 4'000'000);  // 0.5 + 0.5 + 1 + 1 + 0.5 + 0.5 us
}

TEST_CASE("of routes with as many hops the quicker one is taken, then the wider one, then the lowest links") {
  auto links = [](const std::string& left, const std::string& right) {
    return kHead +
           "devices: [{name: a, device: cpu}, {name: b, device: cpu}]\nswitches: {machine: [left, right]}\nlinks:\n"
           "  - {pairs: [[a, left], [left, b]], kind: pcie, " +
           left +
           "}\n"
           "  - {pairs: [[a, right], [right, b]], kind: pcie, " +
           right + "}\n";
  };
  auto over = [&](const std::string& left, const std::string& right) {
    File file(links(left, right));
    return hops(load_topology(file.path()), 0, 1).front();
  };
  CHECK(over("bandwidth: 9 GB/s, latency: 2 us", "bandwidth: 1 GB/s, latency: 1 us") == "right");
  CHECK(over("bandwidth: 1 GB/s, latency: 1 us", "bandwidth: 9 GB/s, latency: 1 us") == "right");
  CHECK(over("bandwidth: 9 GB/s, latency: 1 us", "bandwidth: 9 GB/s, latency: 1 us") == "left");
}

TEST_CASE("each GPU of the hybrid cube mesh has six NVLinks") {
  Topology t = load_topology("dgx-v100");
  for (const Device& d : t.devices) {
    double out = 0;
    for (const Link& l : t.links)
      if (l.from == d.vertex && l.kind == LinkKind::nvlink) out += l.bandwidth.rate;
    CHECK(out == 6 * 25e9);
  }
}

TEST_CASE("on NVSwitch machines GPU i leaves the node by port i") {
  Topology t = load_topology("dgx-a100", {.nodes = 2});
  CHECK(hops(t, 3, 13) == std::vector<std::string>{"node0.nic3", "fabric", "node1.nic5", "node1.gpu5"});
  CHECK(hops(t, 3, 4) == std::vector<std::string>{"node0.nvswitch", "node0.gpu4"});
}

TEST_CASE("the logical devices of a laptop share one physical device of two units") {
  Topology t = load_topology("laptop", {.nodes = 2});
  REQUIRE(t.physical_devices.size() == 2);
  CHECK(t.physical_devices[1].units == 2);
  CHECK(t.device(device(3)).physical == 0);
  CHECK(t.device(device(4)).physical == 1);
}

TEST_CASE("the distance of two devices is the outermost level in which they differ") {
  Topology t = load_topology("summit", {.nodes = 2});
  CHECK(t.distance_level(device(0), device(6)) == 0);
  CHECK(t.distance_level(device(0), device(3)) == 1);
  CHECK(t.distance_level(device(0), device(2)) == 2);
  CHECK(t.distance_level(device(5), device(5)) == 3);
}

TEST_CASE("the first devices keep the routes of the whole machine") {
  Topology all = load_topology("summit", {.nodes = 2}), four = all.first_devices(4);
  CHECK(four.device_count() == 4);
  CHECK(four.nodes == 1);
  CHECK(hops(four, 1, 3) == hops(all, 1, 3));
  CHECK(four.distance_level(device(0), device(3)) == 1);
  CHECK(four.distance_level(device(1), device(2)) == 2);
  CHECK(four.hash() != all.hash());
  CHECK(four.hash() == load_topology("summit", {.nodes = 2, .devices = 4}).hash());
  CHECK_THROWS_WITH(all.first_devices(13), Contains("13 devices asked for, expected 1 to 12"));
}

TEST_CASE("many nodes keep one tree of routes for each device") {
  Topology t = load_topology("summit", {.nodes = 32});
  CHECK(t.device_count() == 192);
  CHECK(t.route(device(0), device(191)).size() == 6);
}

TEST_CASE("nodes may differ") {
  File file(kHead +
            "hierarchy: {node: 2, gpu: 2}\ndevice: {node0.*: v100-sxm2-16gb, '*.*': h200}\nswitches: {machine: [s]}\n"
            "links: [{between: [node*.gpu*, s], kind: ethernet, bandwidth: 10 Gbit/s, latency: 1 us}]\n");
  Topology t = load_topology(file.path());
  CHECK(t.spec(device(1)).name == "V100-SXM2-16GB");
  CHECK(t.spec(device(2)).name == "H200");
}

TEST_CASE("efficiency is interpolated over the logarithm of the amount") {
  std::vector<EfficiencyPoint> curve = {{1e6, 0.1}, {1e8, 0.5}};
  CHECK(efficiency_at(curve, 1) == 0.1);
  CHECK(efficiency_at(curve, 1e7) == Approx(0.3));  // half way from 1e6 to 1e8
  CHECK(efficiency_at(curve, 1e12) == 0.5);
  CHECK(efficiency_at({}, 5) == 1);
}

TEST_CASE("UNITY_TOPOLOGIES names the folder of topologies and devices") {
  setenv("UNITY_TOPOLOGIES", "/nowhere", 1);
  CHECK(topology_names().empty());
  CHECK_THROWS_WITH(load_topology("summit"), "unknown topology 'summit': there are none in '/nowhere'");
  setenv("UNITY_TOPOLOGIES", UNITY_SOURCE_DIR "/topologies", 1);
  CHECK(load_topology("summit").device_count() == 12);
  unsetenv("UNITY_TOPOLOGIES");
}

TEST_CASE("errors in topology files name place, subject, found and expected") {
  CHECK_THROWS_WITH(load_topology("sumit"), "unknown topology 'sumit' (did you mean 'summit'?)");
  CHECK_THROWS_WITH(load_device("h300"), Contains("unknown device 'h300'"));
  const std::string rest = "hierarchy: {gpu: 2}\ndevice: cpu\nlinks:\n  - {between: [gpu0, gpu1], kind: pcie, ";
  CHECK_THAT(error_of(kHead + "hierachy: {gpu: 2}\n"),
             Contains(":3:1: unknown key 'hierachy' (did you mean 'hierarchy'?)"));
  CHECK_THAT(error_of(kHead + rest + "bandwidth: 5, latency: 1 us}\n"),
             Contains(":6:52: bandwidth: found '5' with unit ''"));
  CHECK_THAT(error_of(kHead + rest + "bandwidth: 0 GB/s, latency: 1 us}\n"),
             Contains("found '0 GB/s', expected more than 0"));
  CHECK_THAT(error_of(kHead + rest + "bandwidth: -1 GB/s, latency: 1 us}\n"),
             Contains("found '-1 GB/s', expected more than 0"));
  CHECK_THAT(error_of(kHead + rest + "bandwidth: 1 GB/s}\n"), Contains("key 'latency' is missing"));
  CHECK_THAT(error_of(kHead + rest + "speed: 1 GB/s}\n"), Contains("unknown key 'speed'"));
  CHECK_THAT(error_of(kHead + "hierarchy: {gpu: 2}\ndevice: cpu\n"), Contains("no way from gpu0 to gpu1"));
  CHECK_THAT(error_of(kHead + "hierarchy: {gpu: 0}\ndevice: cpu\n"),
             Contains("found '0', expected a whole number above 0"));
  CHECK_THAT(error_of(kHead + "hierarchy: {gpu: 1}\ndevice: cpuu\n"),
             Contains("unknown device 'cpuu' (did you mean 'cpu'?)"));
  CHECK_THAT(error_of(kHead + "hierarchy: {gpu: 2}\ndevice: cpu\nlinks:\n  - {between: [gpu*, gpo1], kind: pcie, "
                              "bandwidth: 1 GB/s, latency: 1 us}"),
             Contains("'gpo1' matches nothing (did you mean 'gpu1'?)"));
  CHECK_THAT(error_of(kHead + "hierarchy: {gpu: [1\n"), Contains("malformed YAML"));
  CHECK_THAT(error_of("format: unity-plan\nversion: 1\n"), Contains("found 'unity-plan', expected 'unity-topology'"));
  CHECK_THAT(error_of("format: unity-topology\nversion: 2\n"), Contains("version: found 2, expected 1"));
}
