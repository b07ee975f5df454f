#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "core/machine/collectives.h"
#include "core/machine/topology.h"

using namespace unity;

namespace {

const std::string kHead = "format: unity-collectives\nversion: 1\n";
const std::string kRing = "{base: 1 us, nvlink: 2 us, pci: 3 us, net: 4 us}";

std::filesystem::path written(const std::string& text) {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "unity_collectives_test.yaml";
  std::ofstream(path) << text;
  return path;
}

CollectiveLibrary load(const std::string& body, const std::string& device = "V100") {
  return *load_collectives(written(kHead + body).string(), device);
}

void check_refused(const std::string& body, const std::string& place, const std::string& message) {
  INFO(body);
  CHECK_THROWS_WITH(load(body), Catch::Contains(".yaml:" + place) && Catch::Contains(message));
}

}  // namespace

TEST_CASE("a library of collectives gives costs by algorithm and protocol, and limits by nodes") {
  CollectiveLibrary l =
      load("algorithms: [ring, tree]\ntrees_inside_nodes: chain\nprotocols:\n  A: {ring: " + kRing +
           "}\nmachines:\n  - devices: [A100]\n    channels: 9\n  - devices: [V100]\n    channels: 2\n"
           "    link_efficiency: {net: 0.5}\n    limits:\n"
           "      - {protocol: A, per_channel: [8 GB/s, 4 GB/s, 2 GB/s]}\n"
           "      - {algorithm: tree, total: 1 GB/s}\n");
  CHECK(l.algorithms == std::vector{CollectiveAlgorithm::ring, CollectiveAlgorithm::tree});
  CHECK(l.chains_in_nodes);
  CHECK(l.channels == 2);
  CHECK(l.link_efficiency == std::array<double, 3>{1, 1, 0.5});
  const CollectiveProtocol& a = l.protocols.at(0);
  CHECK(a.of(CollectiveAlgorithm::ring)->hops[2].count == 4'000'000);
  CHECK(a.of(CollectiveAlgorithm::direct) == a.of(CollectiveAlgorithm::ring));
  CHECK(a.of(CollectiveAlgorithm::tree) == nullptr);
  CHECK(l.limit(CollectiveAlgorithm::ring, a, 1) == 16e9);  // two channels
  CHECK(l.limit(CollectiveAlgorithm::ring, a, 3) == 8e9);
  CHECK(l.limit(CollectiveAlgorithm::tree, a, 64) == 1e9);
}

TEST_CASE("the library that comes with Unity knows the GPUs that do") {
  for (const std::string& device : device_names()) {
    DeviceSpec spec = load_device(device);
    if (spec.kind == "gpu") CHECK(load_collectives(*find_collectives("nccl", ""), spec.name)->protocols.size() == 3);
  }
}

TEST_CASE("a wrong file of collectives is refused with its place") {
  const std::string protocols = "protocols: {A: {ring: " + kRing + "}}\n";
  check_refused("algorithms: [rign]\n" + protocols, "3:14:", "did you mean 'ring'");
  check_refused("algorithms: []\n" + protocols, "3:13:", "at least one");
  check_refused("algorithms: [ring]\n", "1:1:", "'protocols' is missing");
  check_refused("algorithms: [ring]\nprotocols: {A: {ring: {base: 1 us}}}\n", "4:23:", "'nvlink' is missing");
  check_refused("algorithms: [ring]\nprotocols: {A: {rings: {}}}\n", "4:17:", "unknown key 'rings'");
  check_refused("algorithms: [ring]\n" + protocols + "machines: [{devices: [V1], link_efficiency: {net: 1.5}}]\n",
                "5:51:", "at most 1");
  check_refused(
      "algorithms: [ring]\n" + protocols + "machines: [{devices: [V1], limits: [{protocol: B, total: 1 GB/s}]}]\n",
      "5:48:", "unknown protocol 'B'");
  check_refused("algorithms: [ring]\n" + protocols + "machines: [{devices: [A100]}]\n",
                "5:11:", "no entry for the device 'V100'");
  check_refused("algorithms: [tree]\nprotocols: {A: {tree: " + kRing + "}}\n", "4:12:", "costs of 'ring' in none");
  CHECK(
      load("algorithms: [tree]\nprotocols: {A: {tree: " + kRing + "}, B: {ring: " + kRing + "}}\n").protocols.size() ==
      2);
  check_refused("algorithms: [ring]\n" + protocols + "trees_inside_nodes: star\n", "5:21:", "expected tree or chain");
  CHECK(!find_collectives("ncll", "").ok());
}

TEST_CASE("a topology names its collectives, and is refused with the place of a name that is not known") {
  const std::string machine =
      "format: unity-topology\nversion: 1\nhierarchy: {node: 1, gpu: 2}\ndevice: h100-sxm5\n"
      "links:\n  - {between: [node0.gpu*, node0.gpu*], kind: nvlink, bandwidth: 10 GB/s, latency: 1 us}\n";
  CHECK(load_topology(written(machine).string()).collectives == nullptr);
  Topology t = load_topology(written(machine + "collectives: nccl\n").string());
  REQUIRE(t.collectives);
  CHECK(t.collectives->name == "nccl");
  CHECK_THROWS_WITH(load_topology(written(machine + "collectives: ncll\n").string()),
                    Catch::Contains(".yaml:7:14:") && Catch::Contains("did you mean 'nccl'"));
}
