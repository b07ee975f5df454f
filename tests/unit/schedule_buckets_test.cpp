#include <set>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/buckets.h"
#include "core/plan/lower.h"
#include "core/search/lowered_programs.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Four layers of [8, 8] weights (256 bytes of gradient each), the batch over two devices.
Program layers(Bytes bucket) {
  Builder b("layers");
  ValueRef h = partition(b, 0, 2, b.input("x", {4, 8}));
  for (int i = 0; i < 4; ++i)
    h = b.apply("matmul", {}, {h, replicate(b, 2, b.weight("w" + std::to_string(i), {8, 8}))});
  ValueRef labels = partition(b, 0, 2, b.input("labels", {4}, DType::i32));
  Pcg pcg = std::move(b).finish({reduce(b, 2, b.apply("cross_entropy", {}, {h, labels}))});
  return lower(pcg, natural_mappings(pcg), uniform_topology(2), {.schedule = {.bucket = bucket}}).value();
}

std::vector<std::size_t> parts_of(const Program& program) {
  std::vector<std::size_t> parts;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::communicate)
      parts.push_back(program.communications[static_cast<std::size_t>(t.op)].part_count());
  return parts;
}

}  // namespace

TEST_CASE("gradients are joined until a bucket has the bytes asked for, and the same bytes move") {
  // 256 bytes each: one alone is enough for 256, two for 257, all four for a megabyte.
  CHECK(parts_of(layers({0})) == std::vector<std::size_t>{1, 1, 1, 1});
  CHECK(parts_of(layers({256})) == std::vector<std::size_t>{1, 1, 1, 1});
  CHECK(parts_of(layers({257})) == std::vector<std::size_t>{2, 2});
  CHECK(parts_of(layers({513})) == std::vector<std::size_t>{3, 1});
  CHECK(parts_of(layers({1'000'000})) == std::vector<std::size_t>{4});
  for (std::int64_t bytes : {0, 257, 513, 1'000'000})
    CHECK(layers({bytes}).communicated().count == 4 * 2 * 256);  // 2 (n - 1) S for each weight
}

TEST_CASE("buckets that join nothing change nothing, and the work is that of other such buckets") {
  CHECK(program_hash(layers({256})) == program_hash(layers({0})));
  CHECK(work_hash(layers({256})) == work_hash(layers({0})));
  CHECK(work_hash(layers({513})) == work_hash(layers({600})));
  CHECK(work_hash(layers({257})) != work_hash(layers({0})));
  CHECK(work_hash(layers({257})) != work_hash(layers({513})));
}

TEST_CASE("work is the same whatever things are called, and differs with what is done, when and where") {
  const Program program = layers({257});
  Program named = program;
  named.name = "other";
  for (ProgramTensor& t : named.tensors) t.name += "'";
  for (ProgramOp& op : named.ops) op.name += "'";
  for (Communication& c : named.communications) c.name += "'";
  CHECK(work_hash(named) == work_hash(program));
  std::set<Hash> seen = {work_hash(program)};
  auto differs = [&](auto change) {
    Program changed = program;
    change(changed);
    return seen.insert(work_hash(changed)).second;
  };
  CHECK(differs([](Program& p) { p.tasks.back().flops += 1; }));
  CHECK(differs([](Program& p) { p.tasks.back().bytes += 1; }));
  CHECK(differs([](Program& p) { p.tasks.back().device = DeviceId(1 - p.tasks.back().device.value); }));
  CHECK(differs([](Program& p) { p.tasks.back().micro = 1; }));
  CHECK(differs([](Program& p) { p.tasks.back().stream = Stream::copy; }));
  CHECK(differs([](Program& p) { p.dependencies.pop_back(), --p.tasks.back().dependencies_end; }));
  CHECK(differs([](Program& p) { p.operands.back() = p.operands.front(); }));
  CHECK(differs([](Program& p) { p.tensors.back().dtype = DType::i64; }));
  CHECK(differs([](Program& p) { p.buffers.back().box.extent[0] += 1; }));
  CHECK(differs([](Program& p) { p.buffers.back().category = BufferCategory::activation; }));
  CHECK(differs([](Program& p) { p.communications[0].kind = CollectiveKind::reduce; }));
  CHECK(differs([](Program& p) { p.communications[0].algorithm.name = CollectiveAlgorithm::binomial; }));
  CHECK(
      differs([](Program& p) { std::swap(p.communications[0].participants[0], p.communications[0].participants[1]); }));
  CHECK(differs([](Program& p) { p.outputs[0].buffers.clear(); }));
}

TEST_CASE("a bucket starts with its last gradient, and the backward pass goes on meanwhile") {
  Program program = layers({257});
  std::vector<std::size_t> at;  // backward computations before each collective
  std::size_t computed = 0;
  for (const Task& t : program.tasks) {
    if (t.kind == TaskKind::communicate) at.push_back(computed);
    computed += t.kind == TaskKind::compute && t.phase == Phase::backward && t.device == DeviceId(0);
  }
  // cross_entropy, then w3: its weight's and its input's gradient, then w2's; the last layer's input needs none.
  REQUIRE(at.size() == 2);
  CHECK(at[0] < at[1]);
  CHECK(at[0] + 1 < computed);
}

TEST_CASE("a bucket pays one latency of the network") {
  // Links of 1 GB/s with 10 us: a ring of two passes them twice. Four of 256 bytes: 4 (20 us + 256 ns) one after the
  // other, 20 us + 4 * 256 ns in one bucket; 60 us less.
  Topology slow = uniform_topology(2);
  for (Link& link : slow.links) link.latency = from_seconds(10e-6);
  Picoseconds apart = simulate(layers({0}), slow, {}).iteration,
              joined = simulate(layers({1 << 20}), slow, {}).iteration;
  INFO(apart.count << " ps, " << joined.count << " ps");
  CHECK(apart - joined > from_seconds(20e-6));
}

TEST_CASE("sums that the backward pass waits for are not joined") {
  // Megatron's pair of matmuls: the all-reduce of the input's gradient is read by what comes before.
  Builder b("pair");
  ValueRef x = b.input("x", {4, 8}), w0 = b.weight("w0", {8, 8});
  ValueRef h = replicate(b, 2, b.apply("matmul", {}, {x, w0}));
  h = b.apply("matmul", {}, {h, partition(b, 1, 2, b.weight("w1", {8, 8}))});
  h = reduce(b, 2, b.apply("matmul", {}, {h, partition(b, 0, 2, b.weight("w2", {8, 8}))}));
  Pcg pcg = std::move(b).finish({b.apply("cross_entropy", {}, {h, b.input("labels", {4}, DType::i32)})});
  Program program = lower(pcg, natural_mappings(pcg), uniform_topology(2), {.schedule = {.bucket = {1 << 20}}}).value();
  for (const Communication& c : program.communications) CHECK(c.joined.empty());
}
