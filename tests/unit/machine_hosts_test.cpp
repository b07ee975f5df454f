// Which host a device copies to and from, and the links between them.
#include <catch2/catch.hpp>

#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

const std::string& host_of(const Topology& t, int device) { return t.vertices[t.host(DeviceId(device)).index()].name; }

std::vector<std::string> ends(const Topology& t, const std::vector<LinkId>& route) {
  std::vector<std::string> names;
  for (LinkId l : route) names.push_back(t.vertices[t.links[l.index()].to.index()].name);
  return names;
}

}  // namespace

TEST_CASE("a device's host is the nearest one") {
  Topology summit = load_topology("summit", {.nodes = 1});  // two sockets of three devices
  CHECK(host_of(summit, 2) == "node0.socket0.host");
  CHECK(host_of(summit, 3) == "node0.socket1.host");
  Topology dgx = load_topology("dgx-v100");
  CHECK(ends(dgx, dgx.route_to_host(DeviceId(5))) ==
        std::vector<std::string>{"node0.socket1.pcie0", "node0.socket1.host"});
  CHECK(ends(dgx, dgx.route_from_host(DeviceId(5))) ==
        std::vector<std::string>{"node0.socket1.pcie0", "node0.socket1.gpu1"});
}

TEST_CASE("the first devices of a machine keep their hosts, and machines without one have none") {
  CHECK(host_of(load_topology("summit", {.devices = 4}), 3) == "node0.socket1.host");
  CHECK(!load_topology("dgx-a100", {.nodes = 1}).host(DeviceId(0)).valid());
}

TEST_CASE("a host is marked among the switches, with or without a capacity") {
  auto with = [](const std::string& text) {
    return "hierarchy: {gpu: 2}\ndevice: cpu\nswitches:\n  machine: [" + text +
           "]\nlinks: [{between: ['gpu*', host], kind: pcie, bandwidth: 1 GB/s, latency: 1 us}]\n";
  };
  CHECK(topology_error(with("{name: host, host: true}")).empty());
  CHECK(topology_error(with("{name: host, host: true, capacity: 1 GB/s}")).empty());
  CHECK_THAT(topology_error(with("{name: host, host: yes}")),
             Contains(":6:") && Contains("host: found 'yes', expected true or false"));
  CHECK_THAT(topology_error(with("{name: host, host: true, latency: 1 us}")), Contains("key 'capacity' is missing"));
}
