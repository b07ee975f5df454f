#include <catch2/catch.hpp>

#include "core/machine/measured_collectives.h"
#include "core/machine/profile.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;

namespace {

std::string shape(const Topology& topology, std::vector<int> devices) {
  std::vector<DeviceId> group;
  for (int d : devices) group.emplace_back(d);
  return group_shape(topology, group);
}

const std::string kHead =
    "format: unity-profile\nversion: 2\ndevice: d\ndate: 2026-01-31\nbackend: cpu\nprecision: f32\n";

std::string refused(const std::string& text) {
  TextFile file(text);
  try {
    load_profile(file.path());
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a group's shape says of how many parts of each level how many devices are") {
  Topology summit = load_topology("summit", {.nodes = 3});  // of two sockets with three GPUs
  CHECK(shape(summit, {0, 1}) == "2 gpu");
  CHECK(shape(summit, {1, 4}) == "2 socket");
  CHECK(shape(summit, {0, 1, 2, 3, 4, 5}) == "2 socket x 3 gpu");
  CHECK(shape(summit, {0, 6, 12}) == "3 node");
  CHECK(shape(summit, {0, 1, 7, 8}) == "2 node x 2 gpu");
  CHECK(shape(summit, {0, 3, 6, 9}) == "2 node x 2 socket");
  CHECK(shape(summit, {0, 6, 7, 12, 13}) == "3 node (1: 1, 2: 2 gpu)");
  CHECK(shape(summit, {0, 1, 3}) == "2 socket (1: 1, 1: 2 gpu)");
}

TEST_CASE("groups that lie alike have one shape, wherever they are and in whatever order") {
  Topology summit = load_topology("summit", {.nodes = 2});
  CHECK(shape(summit, {3, 4}) == shape(summit, {8, 7}));
  CHECK(shape(summit, {2, 3, 8, 9}) == shape(summit, {9, 0, 5, 6}));
  // Also in a part of the machine.
  CHECK(shape(summit.first_devices(6), {1, 4}) == shape(summit, {7, 10}));
}

TEST_CASE("where nodes differ, each level's parts are those of the machine") {
  Topology mixed = load_topology("mixed-gpus");
  CHECK(shape(mixed, {0, static_cast<int>(mixed.device_count()) - 1}) == "2 node");
}

TEST_CASE("a size is measured where a point is within a factor of 2") {
  MeasuredCollectives m;
  m.put("all_reduce of 2 gpu", {4096, 2e-6, 2e-6, 1e-6, 3e-6});
  m.put("all_reduce of 2 gpu", {1024, 1e-6, 1e-6});
  CHECK(m.find("all_reduce of 2 gpu")->front().amount == 1024);
  for (double bytes : {512.0, 2048.0, 8192.0}) CHECK(m.has("all_reduce of 2 gpu", bytes));
  for (double bytes : {511.0, 8193.0}) CHECK_FALSE(m.has("all_reduce of 2 gpu", bytes));
  CHECK_FALSE(m.has("all_reduce of 4 gpu", 1024));
  m.put("all_reduce of 2 gpu", {4096, 5e-6, 5e-6});
  CHECK(m.find("all_reduce of 2 gpu")->size() == 2);
  CHECK(m.find("all_reduce of 2 gpu")->back().warm == 5e-6);
}

TEST_CASE("measured collectives are read as they were written") {
  Topology summit = load_topology("summit", {.nodes = 2});
  DeviceProfile p;
  p.device = "d", p.date = "2026-01-31", p.backend = "cuda";
  p.collectives = collectives_of(summit, "nccl", 12);
  p.collectives->put("all_reduce of 2 node x 3 gpu", {4096, 3e-5, 3e-5, 2.9e-5, 3.3e-5});
  p.collectives->put("all_reduce of 2 node x 3 gpu", {16384, 4e-5, 5e-5, 4e-5, 4e-5});
  p.collectives->put("broadcast of 3 node (1: 1, 2: 2 gpu)", {64, 1e-5, 1e-5});
  TextFile file(profile_to_yaml(p));
  DeviceProfile q = load_profile(file.path());
  CHECK(profile_to_yaml(q) == profile_to_yaml(p));
  REQUIRE(q.collectives);
  CHECK(q.collectives->times == p.collectives->times);
  CHECK(q.collectives->levels == std::vector<std::string>{"node", "socket", "gpu"});
  CHECK(q.collectives->of(summit));
  CHECK(q.collectives->of(summit.first_devices(6)));
  CHECK(q.collectives->place == file.path() + ":11:13");
}

TEST_CASE("a profile of the first version is read with its checksum, and written as one of the second") {
  const std::string first =
      "format: unity-profile\nversion: 1\ndevice: 'd'\ndate: 2026-01-31\nbackend: cpu\nprecision: f32\n"
      "checksum: CRC\nsections:\n  - threads: 1\n    curves:\n      copy: {512: [6e-08, 5.2e-07]}\n";
  auto with = [&](const std::string& checksum) {
    std::string text = first;
    return text.replace(text.find("CRC"), 3, checksum);
  };
  // As that version's unity wrote it.
  TextFile good(with("cfd547ca"));
  DeviceProfile p = load_profile(good.path());
  CHECK(p.sections.at(1).curves.at("copy").front().cold == 5.2e-7);
  CHECK(p.sections.at(1).curves.at("copy").front().high == 0);
  CHECK_FALSE(p.collectives);
  CHECK(profile_to_yaml(p).find("version: 2\n") != std::string::npos);
  CHECK(refused(with("cfd547cb")).find("checksum") != std::string::npos);
}

TEST_CASE("bad collectives are refused with place, found and expected") {
  using Catch::Contains;
  auto with = [](const std::string& text) { return refused(kHead + "collectives: " + text + "\nsections: []\n"); };
  CHECK_THAT(with("{comm: pigeons, processes: 1, topology: t, levels: [], times: {}}"),
             Contains(":7:21: comm: found 'pigeons', expected 'threads' of backend cpu in 1 process"));
  CHECK_THAT(with("{comm: threads, processes: 4, topology: t, levels: [], times: {}}"),
             Contains("found 'threads', expected 'mpi' of backend cpu in 4 processes"));
  CHECK_THAT(with("{comm: threads, processes: 1, levels: [], times: {}}"), Contains(":7:") && Contains("'topology'"));
  const std::string head = "{comm: threads, processes: 1, topology: t, levels: [gpu], times: ";
  CHECK_THAT(with(head + "{a: {10: 1, 5: 2}}}"), Contains(":7:") && Contains("ascending"));
  CHECK_THAT(with(head + "{a: {10: [1, 2, 3]}}}"), Contains("found 3 numbers, expected [warm, cold]"));
  CHECK_THAT(with(head + "{a: {10: [1, 2, 4, 3]}}}"),
             Contains("found quartiles 4 and 3, expected the lower one first"));
  CHECK_THAT(with(head + "{a: {10: fast}}}"), Contains("'fast'"));
  std::string first = kHead;
  first.replace(first.find("version: 2"), 10, "version: 1");
  CHECK_THAT(refused(first + "collectives: " + head + "{}}\nsections: []\n"),
             Contains(":7:14: collectives: found version 1 of the file, expected 2"));
  CHECK_THAT(refused("format: unity-profile\nversion: 3\n"), Contains(":2:10: version: found 3, expected 1 to 2"));
}

TEST_CASE("collectives of another topology, or of other levels, are refused with their place") {
  using Catch::Contains;
  TextFile file(kHead +
                "collectives:\n  comm: threads\n  processes: 1\n  topology: laptop\n  levels: [node, device]\n"
                "  times: {}\nsections: []\n");
  DeviceProfile profile = load_profile(file.path());
  Topology laptop = load_topology("laptop", {.devices = 2}), summit = load_topology("summit", {.nodes = 1});
  CHECK_NOTHROW(use_profile(laptop, profile));
  CHECK_THROWS_WITH(use_profile(summit, profile), Contains(file.path() + ":10:13: ") && Contains("'laptop'") &&
                                                      Contains("node, device") && Contains("expected 'summit'"));
  laptop.levels.back().name = "gpu";
  CHECK_THROWS_AS(use_profile(laptop, profile), InputError);
}
