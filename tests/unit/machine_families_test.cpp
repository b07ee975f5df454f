// Families of machine mappings in YAML.
#include <catch2/catch.hpp>

#include "core/machine/mapping_families.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

TaskGrid grid(std::vector<int> degrees) {
  TaskGrid g;
  for (int d : degrees) g.push_back({GridDim::Kind::axis, static_cast<int>(g.size()), d});
  return g;
}

// 2 nodes x 2 sockets x 3 GPUs.
std::vector<MachineMapping> of(const std::string& families, const TaskGrid& g) {
  TextFile file("format: unity-mappings\nversion: 1\nfamilies:\n" + families);
  return MappingFamilies(file.path(), load_topology("summit", {.nodes = 2})).mappings(g);
}

std::string error(const std::string& families, const TaskGrid& g) {
  try {
    of(families, g);
  } catch (const InputError& e) {
    std::string message = e.what();
    return message.substr(message.find(".yaml:") + 5);
  }
  return {};
}

}  // namespace

TEST_CASE("strides and starts are expressions of levels and degrees, and a member for each of a count") {
  const std::string family =
      "  - {name: every-second, dimensions: 1, each: {s: 2}, start: s * gpu, strides: [socket]}\n";
  // A stride of 2 sockets; starts 0 and 3 GPUs.
  CHECK(of(family, grid({3})) == std::vector<MachineMapping>{{0, {2}}, {3, {2}}});
  CHECK(of(family, grid({3, 2})).empty());
  CHECK(of("  - {name: f, dimensions: 2, where: d0 > d1, strides: [1, d0]}\n", grid({3, 2})) ==
        std::vector<MachineMapping>{{0, {1, 3}}});
  CHECK(of("  - {name: f, dimensions: 2, where: d0 > d1, strides: [1, d0]}\n", grid({2, 3})).empty());
}

TEST_CASE("a snake through two rows of six devices is a table") {
  // There along the first node, back along the second: i, then 17 - i.
  const std::string snake =
      "  - {name: snake, where: tasks == devices, device: (task < 6) * task + (task >= 6) * (17 - task)}\n";
  CHECK(of(snake, grid({12})) == std::vector<MachineMapping>{{0, {1}, {0, 1, 2, 3, 4, 5, 11, 10, 9, 8, 7, 6}}});
  CHECK(of(snake, grid({2, 6})) == std::vector<MachineMapping>{{0, {6, 1}, {0, 1, 2, 3, 4, 5, 11, 10, 9, 8, 7, 6}}});
  CHECK(of(snake, grid({6})).empty());
  // By coordinates: the innermost dimension over nodes.
  CHECK(of("  - {name: c, dimensions: 2, where: tasks <= devices, device: x0 + 6 * x1}\n", grid({2, 2})) ==
        std::vector<MachineMapping>{{0, {2, 1}, {0, 6, 1, 7}}});
}

TEST_CASE("a list of devices is for grids of as many tasks") {
  const std::string list = "  - {name: l, devices: [2, 0, devices - 1]}\n";
  CHECK(of(list, grid({3})) == std::vector<MachineMapping>{{0, {1}, {2, 0, 11}}});
  CHECK(of(list, grid({2})).empty());
}

TEST_CASE("mappings off the machine or with two tasks on a device are refused, with place, family and grid") {
  CHECK_THAT(error("  - {name: far, dimensions: 1, start: 10, strides: [1]}\n", grid({3})),
             Contains(":4:5: family 'far', a task grid of 3: mapping (start 10, strides [1]): a task on device 12, "
                      "expected 0 to 11"));
  CHECK_THAT(error("  - {name: same, dimensions: 2, strides: [1, 1]}\n", grid({2, 2})),
             Contains("two tasks on device 1"));
  CHECK_THAT(error("  - {name: half, device: task / 2}\n", grid({4})),
             Contains("through devices [0, 0, 1, 1]): found two tasks on one device, expected one on each"));
  CHECK_THAT(error("  - {name: none, device: task / (tasks - 2)}\n", grid({2})),
             Contains(":4:26: family 'none': device: ") && Contains("by zero"));
}

TEST_CASE("what a file of families can not say is refused, with its place") {
  CHECK_THAT(error("  - {name: f, stride: [1]}\n", {}),
             Contains(":4:15: unknown key 'stride' (did you mean 'strides'?)"));
  CHECK_THAT(error("  - {name: f}\n", {}),
             Contains(":4:5: family 'f': found 0 of the keys strides, device and devices"));
  CHECK_THAT(error("  - {name: f, dimensions: 1, strides: [gpus]}\n", {}),
             Contains(":4:40: family 'f': strides: ") && Contains("gpus"));
  CHECK_THAT(error("  - {name: f, dimensions: 2, strides: [1]}\n", {}),
             Contains("strides: found 1 of them, expected one for each of the 'dimensions', 2"));
  CHECK_THAT(error("  - {name: f, devices: [0, 12]}\n", {}),
             Contains(":4:28: family 'f': devices: found 12, expected 0 to 11"));
  CHECK_THAT(error("  - {name: f, devices: [0, 0]}\n", {}), Contains("devices: found 0 twice"));
  CHECK_THAT(error("  - {name: f, each: {node: 2}, device: task}\n", {}),
             Contains(":4:22: family 'f': each: found 'node'"));
  CHECK_THAT(error("  - {name: f, each: {s: 65}, device: task}\n", {}), Contains("found more than 64 mappings"));
  CHECK_THAT(error("  - {name: f, each: {s: -1}, device: task}\n", {}),
             Contains(":4:25: family 'f': each: found -1, expected at least 1"));
  CHECK_THAT(error("  - {name: f, each: {s: 2 - 2}, device: task}\n", {}), Contains("found 0, expected at least 1"));
  CHECK_THAT(error("  - {name: f, device: task}\n  - {name: f, device: task}\n", {}),
             Contains("family 'f' is given twice"));
}

TEST_CASE("a topology file names its families; a file that is not one of mappings is refused") {
  TextFile families("format: unity-mappings\nversion: 1\nfamilies: [{name: f, device: devices - 1 - task}]\n");
  const std::string machine =
      "format: unity-topology\nversion: 1\nhierarchy: {gpu: 2}\ndevice: cpu\nlinks:\n"
      "  - {between: [gpu0, gpu1], kind: pcie, bandwidth: 1 GB/s, latency: 1 us}\nmapping_families: ";
  TextFile topology(machine + std::filesystem::path(families.path()).filename().string() + "\n");
  CHECK(load_topology(topology.path()).mapping_families->mappings(grid({2})) ==
        std::vector<MachineMapping>{{0, {1}, {1, 0}}});
  // On the first device alone, `devices` is 1.
  CHECK(load_topology(topology.path(), {.devices = 1}).mapping_families->mappings({}) ==
        std::vector<MachineMapping>{{0, {}, {0}}});
  CHECK_THROWS_WITH(MappingFamilies(topology.path(), load_topology("summit")),
                    Contains(":1:9: format: found 'unity-topology', expected 'unity-mappings'"));
  TextFile nothing(machine + "nowhere.yaml\n");
  CHECK_THROWS_WITH(load_topology(nothing.path()), Contains(":7:19: mapping_families: found no file"));
}
