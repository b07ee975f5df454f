// Factors on parts of a machine.
#include <catch2/catch.hpp>

#include "core/machine/collectives.h"
#include "core/machine/profile.h"
#include "core/machine/scale.h"

using namespace unity;
using Catch::Contains;

namespace {

Topology scaled(const std::string& machine, const std::vector<std::string>& texts) {
  Topology topology = load_topology(machine, {.nodes = 2});
  std::vector<Scale> scales;
  for (const std::string& text : texts) scales.push_back(parse_scale(text));
  apply_scales(scales, topology);
  return topology;
}

}  // namespace

TEST_CASE("a scale of a kind of link changes its bandwidth or latency, and no other link") {
  Topology before = load_topology("summit", {.nodes = 2});
  Topology after = scaled("summit", {"link:infiniband=2", "link:infiniband.latency=0.5"});
  for (std::size_t l = 0; l < before.links.size(); ++l) {
    bool network = before.links[l].kind == LinkKind::infiniband;
    CHECK(after.links[l].bandwidth.rate == (network ? 2 : 1) * before.links[l].bandwidth.rate);
    CHECK(after.links[l].latency.count == before.links[l].latency.count / (network ? 2 : 1));
  }
  CHECK(scaled("summit", {"link=2", "link=3"}).links[0].bandwidth.rate == 6 * before.links[0].bandwidth.rate);
}

TEST_CASE("a scale of devices changes all their rates, or the one that it names") {
  const DeviceSpec before = load_topology("summit", {.nodes = 1}).specs[0];
  DeviceSpec all = scaled("summit", {"device=1.5"}).specs[0];
  CHECK(all.peak[DType::f32].rate == 1.5 * before.peak.at(DType::f32).rate);
  CHECK(all.memory_bandwidth.rate == 1.5 * before.memory_bandwidth.rate);
  DeviceSpec memory = scaled("summit", {"device:" + before.name + ".memory-bandwidth=2", "device.launch=0"}).specs[0];
  CHECK(memory.peak[DType::f32].rate == before.peak.at(DType::f32).rate);
  CHECK(memory.memory_bandwidth.rate == 2 * before.memory_bandwidth.rate);
  CHECK(memory.launch_overhead.count == 0);
}

TEST_CASE("a faster device shortens measured times, too, which cannot be split into their causes") {
  Topology topology = load_topology("laptop");
  DeviceProfile profile;
  profile.sections[1].tasks["matmul"] = {.warm = 4, .cold = 6, .low = 4, .high = 4, .samples = 3};
  use_profile(topology, profile);
  apply_scales({parse_scale("device=2")}, topology);
  CHECK(topology.specs[0].profile->sections.at(1).tasks.at("matmul").cold == 3);
  CHECK_THROWS_WITH(apply_scales({parse_scale("device.memory-bandwidth=2")}, topology), Contains("are measured"));
}

TEST_CASE("the latency of links scales the hops of the library of collectives that cross them") {
  Topology topology = load_topology("dgx-a100", {.nodes = 2});
  CollectiveLibrary library;
  library.protocols.emplace_back().name = "Simple";
  library.protocols[0].network_overhead = {60};
  library.protocols[0].costs[0] = ProtocolCosts{{1000}, {{{100}, {200}, {300}}}};
  topology.collectives = std::make_shared<CollectiveLibrary>(library);
  apply_scales({parse_scale("link:infiniband.latency=0.5")}, topology);
  const CollectiveProtocol& after = topology.collectives->protocols[0];
  CHECK(after.costs[0]->hops == std::array<Picoseconds, 3>{{{100}, {200}, {150}}});
  CHECK(after.costs[0]->base.count == 1000);
  CHECK(after.network_overhead.count == 30);
}

TEST_CASE("a scale is written as it is read") {
  for (const char* text : {"link=2", "link:nvlink=0.5", "link:nvlink.latency=0", "device.memory-bandwidth=2",
                           "device:V100-SXM2-16GB.compute=3", "task:matmul=0.5"})
    CHECK(parse_scale(text).text() == text);
  CHECK(parse_scale("link.bandwidth=2").text() == "link=2");
}

TEST_CASE("a scale that makes no sense is refused with what could be meant") {
  auto refused = [](const std::string& text, const std::string& said) {
    CHECK_THROWS_WITH(scaled("summit", {text}), Contains(said));
    CHECK_THROWS_AS(scaled("summit", {text}), InputError);
  };
  refused("link", "found 'link', expected KIND");
  refused("lnk=2", "did you mean 'link'?");
  refused("link:infiniband=fast", "found 'fast', expected a number");
  refused("link:infiniband=-1", "found '-1', expected a number of at least 0");
  refused("device=1e300", "at most 1e12");
  refused("link=0", "found 0, expected more than 0");
  refused("link:infinband=2", "did you mean 'infiniband'?");
  refused("link:ethernet=2", "does not have (known: ");
  refused("link.latncy=2", "did you mean 'latency'?");
  refused("device:V100=2", "device: found 'V100'");
  refused("device:=2", "expected a name after 'device:'");
  refused("link.latency=1e12", "expected 0 to 60 s");
  refused("task=2", "expected an operator");
}
