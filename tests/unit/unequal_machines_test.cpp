// Machines whose devices are unequal, or whose nodes are of unequal size; mapping families of the user's in the search.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/machine/mapping_families.h"
#include "core/models/models.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/device_speeds.h"
#include "core/search/explain.h"
#include "core/search/mapping_search.h"
#include "core/search/search.h"
#include "runtime/train.h"
#include "simulator/cost_model.h"
#include "tests/support/command.h"
#include "tests/support/paths.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;

namespace {

// An A100 and a V100 each, in as many nodes.
Topology mixed(const std::string& node0, const std::string& node1, int gpus) {
  return topology_of(
      fmt::format("hierarchy: {{node: 2, gpu: {}}}\n"
                  "device: {{node0.gpu*: {}, node1.gpu*: {}}}\n"
                  "switches: {{machine: [hub]}}\n"
                  "links: [{{between: [node*.gpu*, hub], kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}}]\n",
                  gpus, node0, node1));
}

Plan planned(const ModelSpec& spec, const Topology& topology, const std::string& strategy, bool seeds = true) {
  SearchOptions options;
  options.seeds = seeds;
  options.strategy = strategy;
  options.budget = 200;
  return find_plan(spec, build_model(spec), SimulatedCostModel(topology), options).value();
}

// Of the equal shares that data parallelism has on equal devices.
Picoseconds equally(const ModelSpec& spec, const Topology& topology) {
  SimulatedCostModel cost(topology);
  Evaluator evaluator(cost, {true, {}, {}}, {});
  State state = shard_batch({normalize(build_model(spec)), {}, {}}, static_cast<int>(topology.device_count())).value();
  return evaluator.evaluate(state.pcg).value().score.iteration;
}

}  // namespace

TEST_CASE("parts go to the device that has done one more the soonest") {
  // Ends of the parts in half seconds: 1 2 3 .. on device 0, 2 4 6 .. on device 1; the first of two at a time counts.
  CHECK(shares(6, {2, 1}) == std::vector<int>{4, 2});
  CHECK(shares(4, {2, 1}) == std::vector<int>{3, 1});
  CHECK(shares(3, {1, 1, 1}) == std::vector<int>{1, 1, 1});
  CHECK(shares(2, {1, 100}) == std::vector<int>{0, 2});
}

TEST_CASE("speeds are those of the cost model; alike devices have one") {
  Pcg pcg = build_model({"mlp", {{"batch", 4096}, {"layers", 2}, {"hidden", 4096}}});
  std::vector<double> speeds = device_speeds(pcg, SimulatedCostModel(mixed("a100-sxm4-80gb", "v100-sxm2-16gb", 1)));
  CHECK(speeds[1] == 1);
  // Products, whose efficiency is the same on both, and little else: 19.5 by 15.7 TFLOPS.
  CHECK(speeds[0] == Approx(19.5 / 15.7).epsilon(0.02));
  CHECK(device_speeds(pcg, SimulatedCostModel(mixed("a100-sxm4-80gb", "a100-sxm4-80gb", 1))) ==
        std::vector<double>{1, 1});
}

TEST_CASE("on unequal devices the faster ones get more of the batch, which is faster") {
  ModelSpec spec{"bert-tiny", {{"batch", 256}}};
  Topology topology = mixed("v100-sxm2-16gb", "a100-sxm4-80gb", 2);
  Plan plan = planned(spec, topology, "data-parallel");
  std::vector<int> places = shared_places(plan.mappings).value();
  std::map<int, int> parts;
  for (int device : places) ++parts[device];
  CHECK(parts[2] > parts[0]);
  CHECK(std::abs(parts[0] - parts[1]) <= 1);
  CHECK(plan.prediction.iteration < equally(spec, topology));
  for (bool seeds : {true, false})
    CHECK(planned(spec, topology, "unity", seeds).prediction.iteration <= plan.prediction.iteration);
  CHECK(check_plan(plan, topology).ok());
  CHECK_THAT(explain_plan(plan),
             Catch::Contains(fmt::format("unequal shares: of {} parts, {} on", places.size(), parts[0])));
  CHECK(plan_from_json(plan_to_json(plan), "p.json").mappings == plan.mappings);
  CHECK_FALSE(shared_places(planned(spec, mixed("v100-sxm2-16gb", "v100-sxm2-16gb", 2), "data-parallel").mappings));
}

TEST_CASE("with unequal shares each device has one task of an operator and one copy of a weight") {
  ModelSpec spec{"mlp", {{"batch", 60}, {"layers", 2}, {"hidden", 64}}};
  Pcg parallel = shard_batch({normalize(build_model(spec)), {}, {}}, 6).value().pcg;
  Topology topology = mixed("a100-sxm4-80gb", "v100-sxm2-16gb", 1);
  Program program = lower(parallel, share_out(parallel, {0, 0, 0, 0, 1, 1}), topology).value();
  std::map<std::string, Integers> rows;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute && t.phase == Phase::forward)
      rows[program.ops[static_cast<std::size_t>(t.op)].name].push_back(
          program.buffer(program.operands_of(t)[0]).box.extent[0]);
  CHECK(rows.size() >= 3);
  for (const auto& [name, extents] : rows) CHECK(extents == Integers{40, 20});
  std::int64_t weights = 0;
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].category == BufferCategory::weight)
      weights += program.buffers[b].box.elements() == 64 * 64 ? 1 : 0;
  CHECK(weights == 2 * 2);  // two layers, two devices
  // A ring's all-reduce of two weights between two devices: each sends its half, then the sum of the other.
  CHECK(program.communicated().count == 2 * 2 * 64 * 64 * 4);
}

TEST_CASE("summands that are not added up at once are not shared out") {
  Builder b("g");
  ValueRef x = b.apply("partition", {std::int64_t{1}, std::int64_t{4}}, {b.input("x", {8, 8})});
  ValueRef w = b.apply("partition", {std::int64_t{0}, std::int64_t{4}}, {b.weight("w", {8, 8})});
  ValueRef y = b.apply("scale", {2.0}, {b.apply("matmul", {}, {x, w}, "product")});
  Pcg pcg = std::move(b).finish({b.apply("reduce", {std::int64_t{4}}, {y})});
  auto program = lower(pcg, share_out(pcg, {0, 0, 1, 1}), mixed("a100-sxm4-80gb", "v100-sxm2-16gb", 1));
  REQUIRE_FALSE(program.ok());
  CHECK(program.error().message ==
        "product (matmul): tasks of one device give several of 4 summands, expected a reduce of all of them, found "
        "scale");
}

TEST_CASE("digits train under unequal shares on the CPU as on one device") {
  ModelSpec spec{"mlp-tiny", {{"batch", 60}}};
  auto losses = [&](const Plan& plan, const Topology& topology) {
    TrainOptions options;
    options.data = "digits";
    options.executor.precision = Precision::f64;
    options.steps = 20;
    Program program = lower(plan.pcg, plan.mappings, topology, {true, plan.optimizer}).value();
    return train(program, nullptr, options).losses;
  };
  // Of a batch this small the faster device gets all; of speeds 3 to 1 it gets three quarters.
  Topology two = mixed("a100-sxm4-80gb", "v100-sxm2-16gb", 1);
  Plan shared = planned(spec, two, "data-parallel");
  shared.pcg = shard_batch({normalize(build_model(spec)), {}, {}}, 4).value().pcg;
  shared.mappings = share_out(shared.pcg, {0, 0, 0, 1});
  Topology one = load_topology("laptop", {1, 1});
  std::vector<double> exact = losses(planned(spec, one, "data-parallel"), one), found = losses(shared, two);
  REQUIRE(found.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(found[i] == Approx(exact[i]).epsilon(1e-9));
}

TEST_CASE("a family of the user's is found where its devices are the better connected ones") {
  // Devices 0 and 2, 1 and 3 have fast links of their own; in other pairs all goes over a slow switch. Mappings of two
  // tasks that are built in begin at 0 or 2 and go on with the next device: never a fast pair.
  const std::string machine =
      "hierarchy: {gpu: 4}\ndevice: a100-sxm4-80gb\nswitches: {machine: [slow]}\nlinks:\n"
      "  - {between: [gpu*, slow], kind: pcie, bandwidth: 1 GB/s, latency: 1 us}\n"
      "  - {pairs: [[gpu0, gpu2], [gpu1, gpu3]], kind: nvlink, bandwidth: 300 GB/s, latency: 1 us}\n";
  ModelSpec spec{"mlp", {{"batch", 514}, {"layers", 2}, {"hidden", 1024}}};  // 514 = 2 x 257: two ways, or one
  SearchOptions options;
  options.parallelism = {"data"};
  options.budget = 400;
  auto found = [&](const Topology& t) {
    return find_plan(spec, build_model(spec), SimulatedCostModel(t), options).value();
  };
  Topology topology = topology_of(machine);
  Plan without = found(topology);
  TextFile families(
      "format: unity-mappings\nversion: 1\nfamilies:\n"
      "  - {name: pairs, dimensions: 1, where: d0 == 2, each: {s: 2}, start: s, strides: [2]}\n");
  topology.mapping_families = std::make_shared<const MappingFamilies>(families.path(), topology);
  Plan with = found(topology);
  CHECK(with.prediction.iteration < without.prediction.iteration);
  bool used = false;
  for (const MachineMapping& m : with.mappings) used = used || m.strides == std::vector<int>{2};
  CHECK(used);
}

TEST_CASE("a serial operator may go to the first device of each kind") {
  // The A100 is neither the first nor the middle device.
  Topology topology = topology_of(
      "hierarchy: {gpu: 3}\ndevice: {gpu2: a100-sxm4-80gb, gpu*: v100-sxm2-16gb}\nswitches: {machine: [hub]}\n"
      "links: [{between: [gpu*, hub], kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}]\n");
  SimulatedCostModel cost(topology);
  Pcg pcg = build_model({"mlp", {{"batch", 512}, {"layers", 2}, {"hidden", 1024}}});
  MappingResult result = MappingSearch(cost).run(pcg).value();
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].is_compute()) CHECK(result.mappings[i].start == 2);
}

TEST_CASE("every strategy finds a plan where nodes are of unequal size") {
  // Eight devices on the first node, four on the second.
  Topology topology = load_topology("dgx-a100", {.nodes = 2, .devices = 12});
  ModelSpec spec{"bert-tiny", {{"batch", 24}}};
  for (const char* strategy : {"data-parallel", "deepspeed-zero", "expert", "flexflow", "pipeline", "unity"}) {
    INFO(strategy);
    Plan plan = planned(spec, topology, strategy);
    CHECK(check_plan(plan, topology).ok());
  }
}

TEST_CASE("search takes families of mappings from a file, and ends with code 2 where it can not read them") {
  const std::string search = "search mlp-mnist --topology dgx-a100 --devices 4 --global-batch 64 --budget 30 ";
  CHECK(command::unity(search + "--mappings " UNITY_SOURCE_DIR "/topologies/mappings/every-other.yaml").code == 0);
  CHECK(command::unity(search + "--mappings " UNITY_SOURCE_DIR "/topologies/mappings/snake.yaml").code == 0);
  TextFile far("format: unity-mappings\nversion: 1\nfamilies: [{name: far, device: task + 4}]\n");
  command::Outcome refused = command::unity(search + "--mappings " + far.path());
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Catch::Contains(":3:12: family 'far', ") && Catch::Contains("expected 0 to 3"));
  CHECK(command::unity(search + "--mappings /nowhere/at-all.yaml").code == 2);
}

TEST_CASE(
    "of a model that no device holds, the joint search is no slower than pipelines found from what does not fit") {
  const SimulatedCostModel cost(topology_of(
      "hierarchy: {node: 3, gpu: [3, 1, 2]}\n"
      "device: {node0.gpu*: a100-sxm4-80gb, node1.gpu*: v100-sxm2-16gb, node2.gpu*: v100-sxm2-16gb}\n"
      "switches: {machine: [fabric], node: [nv]}\nlinks:\n"
      "  - {within: node, between: [gpu*, nv], kind: nvlink, bandwidth: 150 GB/s, latency: 0.95 us}\n"
      "  - {within: machine, between: [node*.nv, fabric], kind: infiniband, bandwidth: 12.5 GB/s, latency: 1 us}\n"));
  const ModelSpec spec{"mlp", {{"batch", 12}, {"layers", 80}, {"hidden", 16384}}};  // 86 GB of weights
  auto iteration = [&](const char* strategy) {
    SearchOptions options;
    options.strategy = strategy;
    return find_plan(spec, build_model(spec), cost, options).value().prediction.iteration;
  };
  CHECK(iteration("unity") <= iteration("pipeline"));
}
