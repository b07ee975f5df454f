// What is written as Chakra execution traces, read back.
#include <map>
#include <set>

#include <catch2/catch.hpp>
#include <execution_trace.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <nlohmann/json.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "core/trace/chakra/chakra.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/planned.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

struct File {
  chakra::Metadata metadata;
  std::vector<chakra::Node> nodes;
};

File read(const std::string& bytes) {
  File file;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  std::uint32_t size = 0;
  for (bool first = true; in.ReadVarint32(&size); first = false) {
    std::string message;
    REQUIRE(in.ReadString(&message, static_cast<int>(size)));
    if (first)
      REQUIRE(file.metadata.ParseFromString(message));
    else
      REQUIRE(file.nodes.emplace_back().ParseFromString(message));
  }
  return file;
}

const chakra::Attribute& attribute(const chakra::Node& node, const std::string& name) {
  for (const chakra::Attribute& a : node.attributes())
    if (a.name() == name) return a;
  FAIL("no attribute " << name << " of " << node.name());
  throw std::logic_error(name);
}

}  // namespace

TEST_CASE("a Chakra node is encoded as the format says, byte by byte") {
  ProgramBuilder b(1);
  b.compute(0, 3, {}, {b.buffer(0, 4)});  // 3 us, 3e6 FLOPs
  Trace trace = simulate(b.program, MachineBuilder(1).finish()).trace;
  std::string file = chakra_traces(b.program, trace).at(0);
  // Length 7, field 1 (version), 5 characters.
  CHECK(file.substr(0, 8) == std::string("\x07\x0a\x05"
                                         "0.0.4"));
  // Length; field 2: "zero t0"; field 3: type 4; field 7: 3 us; field 10: is_cpu_op with field 27 (tag 0xd8 0x01)
  // false, 14 bytes. Id and start are 0, which the encoding leaves out.
  std::string node = file.substr(9);
  CHECK(node.substr(0, 13) == std::string("\x12\x07zero t0\x18\x04\x38\x03"));
  CHECK(node.substr(13, 16) == std::string("\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00", 16));
}

TEST_CASE("a Chakra trace has a node for each task of the device, after what it waits for") {
  Topology topology = load_topology("summit", {.nodes = 1, .devices = 4});
  for (const char* strategy : {"data-parallel", "expert"}) {
    Program program = planned("bert-tiny", 16, strategy, topology);
    std::vector<std::string> files = chakra_traces(program, simulate(program, topology).trace);
    REQUIRE(files.size() == 4);
    std::map<std::uint64_t, std::multimap<std::int64_t, int>> collectives;  // by task: type and size, on a device
    std::map<std::uint64_t, int> messages;                                  // by task: sends and receives
    for (int d = 0; d < 4; ++d) {
      File file = read(files[static_cast<std::size_t>(d)]);
      CHECK(file.metadata.version() == "0.0.4");
      std::set<std::uint64_t> seen;
      std::int64_t computing = 0, in_program = 0;
      bool ordered = true, times = true;
      for (const chakra::Node& node : file.nodes) {
        for (std::uint64_t before : node.data_dependencies()) ordered = ordered && seen.contains(before);
        for (std::uint64_t before : node.control_dependencies()) ordered = ordered && seen.contains(before);
        ordered = ordered && seen.insert(node.id()).second;
        times = times && attribute(node, "duration_picoseconds").int64_val() > 0 && node.duration_microseconds() > 0;
        computing += node.type() == 4;
        if (node.type() == 7) {
          if (strategy == std::string("data-parallel")) CHECK(attribute(node, "pg_name").string_val() == "0");
          collectives[node.id()].emplace(
              attribute(node, "comm_type").int64_val() << 40 | attribute(node, "comm_size").int64_val(), d);
        }
        if (node.type() == 5 || node.type() == 6) {
          ++messages[node.id()];
          CHECK(attribute(node, node.type() == 5 ? "comm_src" : "comm_dst").int32_val() == d);
        }
      }
      for (const Task& t : program.tasks) in_program += t.kind != TaskKind::communicate && t.device == DeviceId(d);
      CHECK(ordered);  // every dependency stands before, so they are in the file and form no cycle
      CHECK(times);
      CHECK(computing == in_program);
    }
    std::size_t written = collectives.size() + messages.size();
    CHECK(written == program.communications.size());
    for (const auto& [task, found] : collectives) {
      CHECK(found.size() == program.devices_of(TaskId(static_cast<std::int64_t>(task))).size());
      CHECK(found.count(found.begin()->first) == found.size());  // equal types and sizes on all participants
    }
    for (const auto& [task, count] : messages) CHECK(count == 2);
  }
}

TEST_CASE("Chakra collectives say their kind, the bytes that each participant holds, and their group") {
  ProgramBuilder b(4);
  b.communicate(CollectiveKind::all_reduce, {0, 1, 2, 3}, 1000);
  b.communicate(CollectiveKind::all_gather, {2, 3}, 1000);
  b.communicate(CollectiveKind::reduce_scatter, {2, 3}, 1000);
  b.all_to_all({0, 2}, 100);
  b.communicate(CollectiveKind::send, {3, 2}, 10);
  // A second tensor of 500 in the same call.
  b.program.communications[0].joined.push_back(b.program.communications[0].participants);
  for (Participant& p : b.program.communications[0].joined[0]) p.piece = whole_box({500});
  Trace trace = simulate(b.program, all_pairs(4, 1)).trace;
  File file = read(chakra_traces(b.program, trace)[2]);
  REQUIRE(file.nodes.size() == 5);
  auto check = [&](int i, std::int64_t type, std::int64_t bytes, const std::string& group) {
    const chakra::Node& node = file.nodes[static_cast<std::size_t>(i)];
    CHECK(attribute(node, "comm_type").int64_val() == type);
    CHECK(attribute(node, "comm_size").int64_val() == bytes);
    CHECK(attribute(node, "pg_name").string_val() == group);
  };
  check(0, 0, 6000, "0");  // 1500 f32; all devices
  check(1, 2, 2000, "1");  // half of it each
  check(2, 7, 4000, "1");
  check(3, 6, 400, "2");
  CHECK(file.nodes[4].type() == 6);
  CHECK(attribute(file.nodes[4], "comm_src").int32_val() == 3);
  CHECK(attribute(file.nodes[4], "comm_tag").int32_val() == 4);
  CHECK(chakra_groups(b.program) == "{\"1\":[2,3],\"2\":[0,2]}\n");
  trace.program ^= 1;
  CHECK_THROWS_WITH(chakra_traces(b.program, trace), Contains("another program"));
}
