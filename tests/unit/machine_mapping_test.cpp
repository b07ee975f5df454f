#include <algorithm>

#include <catch2/catch.hpp>

#include "core/machine/mapping.h"

using namespace unity;

namespace {

TaskGrid grid(std::vector<int> degrees) {
  TaskGrid g;
  for (int d : degrees) g.push_back({GridDim::Kind::axis, static_cast<int>(g.size()), d});
  return g;
}

bool has(const std::vector<MachineMapping>& all, int start, std::vector<int> strides) {
  return std::find(all.begin(), all.end(), MachineMapping{start, std::move(strides)}) != all.end();
}

// 2 nodes x 2 sockets x 3 GPUs: a socket is 3 devices, a node 6
Topology summit() { return load_topology("summit", {.nodes = 2}); }

}  // namespace

TEST_CASE("one dimension over all devices has one mapping") {
  CHECK(mappings(grid({12}), summit(), {0, 12}) == std::vector<MachineMapping>{{0, {1}}});
}

TEST_CASE("a grid without dimensions is one task on the first device") {
  CHECK(mappings({}, summit(), {6, 6}) == std::vector<MachineMapping>{{6, {}}});
}

TEST_CASE("one dimension of two tasks goes next to each other, over sockets or over nodes") {
  CHECK(mappings(grid({2}), summit(), {0, 12}) == std::vector<MachineMapping>{{0, {1}}, {0, {3}}, {0, {6}}});
}

TEST_CASE("two dimensions: model parallel in a node and data parallel across, or the other way round") {
  auto all = mappings(grid({2, 6}), summit(), {0, 12});
  CHECK(all.front() == MachineMapping{0, {6, 1}});  // the natural one: last dimension innermost
  CHECK(has(all, 0, {1, 2}));
  CHECK(all.size() == 2);  // every other stride leaves the machine: 6 tasks at stride 3 reach device 15
}

TEST_CASE("three dimensions: model in the socket, reduction across sockets, data across nodes") {
  auto all = mappings(grid({2, 3, 2}), summit(), {0, 12});  // data, model, reduction
  CHECK(has(all, 0, {6, 1, 3}));
  for (const MachineMapping& m : all) CHECK(check_mapping(m, grid({2, 3, 2}), 12).ok());
}

TEST_CASE("degree four in nodes of six GPUs is packed, or aligned so that no group straddles nodes") {
  auto all = mappings(grid({2, 4}), summit(), {0, 12});
  CHECK(all.front() == MachineMapping{0, {4, 1}});  // devices 0-3 and 4-7
  CHECK(has(all, 0, {6, 1}));                       // devices 0-3 and 6-9
  CHECK(has(all, 0, {1, 2}));                       // pairs beside each other
  CHECK(has(all, 0, {1, 3}));                       // pairs aligned with sockets: 0 1, 3 4, 6 7, 9 10
}

TEST_CASE("a grid that needs more devices than there are has no mapping") {
  CHECK(mappings(grid({7}), summit(), {0, 6}).empty());
  CHECK(mappings(grid({2, 4}), summit(), {0, 7}).empty());
}

TEST_CASE("a range that starts inside a socket is not aligned with sockets or nodes") {
  for (const MachineMapping& m : mappings(grid({2}), summit(), {1, 11})) CHECK(m == MachineMapping{1, {1}});
  CHECK(has(mappings(grid({2}), summit(), {3, 9}), 3, {3}));
  CHECK_FALSE(has(mappings(grid({2}), summit(), {3, 9}), 3, {6}));
}

TEST_CASE("mappings are distinct and injective") {
  for (auto degrees : {std::vector<int>{2, 2}, {2, 2, 2}, {3, 2}, {2, 1, 3}, {2, 2, 3}}) {
    auto all = mappings(grid(degrees), summit(), {0, 12});
    REQUIRE_FALSE(all.empty());
    for (const MachineMapping& m : all) CHECK(check_mapping(m, grid(degrees), 12).ok());
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }
}

TEST_CASE("tasks map to start plus coordinates times strides, first dimension major") {
  MachineMapping m{1, {6, 2}};
  CHECK(m.device({1, 2}) == DeviceId(11));
  CHECK(m.devices(grid({2, 3})) ==
        std::vector<DeviceId>{DeviceId(1), DeviceId(3), DeviceId(5), DeviceId(7), DeviceId(9), DeviceId(11)});
}

TEST_CASE("a mapping that does not fit is refused with the reason") {
  CHECK(check_mapping({0, {1}}, grid({2, 2}), 12).error().message ==
        "mapping: 1 strides for a task grid of 2 dimensions");
  CHECK(check_mapping({11, {1}}, grid({2}), 12).error().message ==
        "mapping (start 11, strides [1]): a task on device 12, expected 0 to 11");
  CHECK(check_mapping({0, {1, 1}}, grid({2, 2}), 12).error().message ==
        "mapping (start 0, strides [1, 1]): two tasks on device 1");
}

TEST_CASE("through a table, tasks go to any devices, and neighbours on one device are one block") {
  MachineMapping m{0, {1}, {2, 2, 2, 0, 1, 1}};
  CHECK(check_mapping(m, grid({6}), 3).ok());
  CHECK(blocks(m, grid({6})) ==
        std::vector<TaskBlock>{{DeviceId(2), {0}, {2}}, {DeviceId(0), {3}, {3}}, {DeviceId(1), {4}, {5}}});
  CHECK(to_string(m) == "start 0, strides [1] through devices [2, 2, 2, 0, 1, 1]");
}

TEST_CASE("slices of a grid are joined only where all of their tasks share devices") {
  // Rows 0 and 1 are on devices 0 and 1 both; row 2 on 2 and 3.
  MachineMapping rows{0, {2, 1}, {0, 1, 0, 1, 2, 3}};
  CHECK(check_mapping(rows, grid({3, 2}), 4).ok());
  CHECK(blocks(rows, grid({3, 2})) == std::vector<TaskBlock>{{DeviceId(0), {0, 0}, {1, 0}},
                                                             {DeviceId(1), {0, 1}, {1, 1}},
                                                             {DeviceId(2), {2, 0}, {2, 0}},
                                                             {DeviceId(3), {2, 1}, {2, 1}}});
  // Without a table every task is a block.
  CHECK(blocks({0, {2, 1}}, grid({3, 2})).size() == 6);
  // Summands that pass through stay apart.
  TaskGrid passing = {{GridDim::Kind::passing, -1, 2}};
  CHECK(blocks({0, {1}, {0, 0}}, passing).size() == 2);
}

TEST_CASE("a table that leaves the machine, ends too early or scatters a device's tasks is refused") {
  CHECK(check_mapping({0, {1}, {0, 3}}, grid({2}), 3).error().message ==
        "mapping (start 0, strides [1] through devices [0, 3]): a task on device 3, expected 0 to 2");
  CHECK(check_mapping({1, {1}, {0, 1}}, grid({2}), 3).error().message ==
        "mapping (start 1, strides [1] through devices [0, 1]): a task at place 2, expected 0 to 1");
  CHECK(check_mapping({0, {0}, {0, 1}}, grid({2}), 3).error().message ==
        "mapping (start 0, strides [0] through devices [0, 1]): two tasks at place 0");
  CHECK(check_mapping({0, {1}, {0, 1, 0}}, grid({3}), 3).error().message ==
        "mapping (start 0, strides [1] through devices [0, 1, 0]): tasks on device 0 that are not neighbours in the "
        "grid, expected one block of them");
}
