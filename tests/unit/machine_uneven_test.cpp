// Machines whose parts are of unequal size.
#include <catch2/catch.hpp>

#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;

TEST_CASE("nodes may be of unequal size: a level's counts are a list, one for each part of the level outside") {
  // node0 with sockets of 3 GPUs: 0-5; node1 with one: 6-8.
  const std::string links =
      "device: cpu\nswitches: {machine: [hub]}\n"
      "links: [{between: [node*.socket*.gpu*, hub], kind: pcie, bandwidth: 1 GB/s, latency: 1 us}]\n";
  Topology t = topology_of("hierarchy: {node: 2, socket: [2, 1], gpu: 3}\n" + links);
  REQUIRE(t.device_count() == 9);
  CHECK(t.device(DeviceId(6)).name == "node1.socket0.gpu0");
  CHECK(in_words(t.levels) == "2 node x up to 2 socket x up to 3 gpu");
  CHECK(t.levels[0].begins == std::vector<int>{0, 6});
  CHECK(t.levels[1].begins == std::vector<int>{0, 3, 6});
  auto distance = [](const Topology& of, int a, int b) { return of.distance_level(DeviceId(a), DeviceId(b)); };
  CHECK(distance(t, 5, 6) == 0);
  CHECK(distance(t, 2, 3) == 1);
  CHECK(distance(t, 6, 8) == 2);
  CHECK(distance(t, 8, 8) == 3);
  Topology small = topology_of("hierarchy: {node: 2, socket: 1, gpu: [1, 3]}\n" + links);
  CHECK(distance(small, 0, 1) == 0);
  CHECK(distance(small, 1, 3) == 2);
  CHECK(small.first_devices(3).levels[0].begins == std::vector<int>{0, 1});
  CHECK(small.first_devices(1).nodes == 1);
  // Sockets of 2, 2 and 4 GPUs: the first three are one and a half sockets of node0, the first five reach node1.
  Topology mixed = topology_of("hierarchy: {node: 2, socket: [2, 1], gpu: [2, 2, 4]}\n" + links);
  CHECK(in_words(mixed.first_devices(3).levels) == "1 node x up to 2 socket x up to 2 gpu");
  CHECK(in_words(mixed.first_devices(5).levels) == "2 node x up to 2 socket x up to 2 gpu");
  CHECK(in_words(mixed.first_devices(8).levels) == in_words(mixed.levels));
  CHECK(small.hash() != topology_of("hierarchy: {node: 2, socket: 1, gpu: [3, 1]}\n" + links).hash());
  CHECK_THAT(
      topology_error("hierarchy: {node: 3, socket: 1, gpu: [1, 3]}\n" + links),
      Catch::Contains(":3:38: hierarchy: gpu: found 2 counts, expected one for each socket, of which there are 3"));
  CHECK_THAT(topology_error("hierarchy: {node: [2]}\n" + links),
             Catch::Contains(":3:19: hierarchy: node: found a list, expected a number"));
}
