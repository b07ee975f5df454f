#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "core/graph/autodiff.h"
#include "core/graph/text.h"
#include "core/plan/lower.h"
#include "tests/support/interpret.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// The largest difference of loss and weight gradients between the program and the reference on one device, relative.
double difference(const Pcg& serial, const Pcg& parallel, const std::vector<MachineMapping>& mappings, int devices,
                  Program* out = nullptr) {
  Program program = lower(parallel, mappings, uniform_topology(devices)).value();
  check_program(program).value();
  LeafValues leaves = random_leaves(serial);
  Interpretation run = interpret(program, leaves);
  Pcg training = differentiate(serial).value();
  LeafValues with_seed = leaves;
  for (const auto& [name, value] : random_leaves(training)) with_seed.try_emplace(name, value);
  for (auto& [name, value] : with_seed)
    if (value.shape().dims.empty() && value.shape().dtype == DType::f64) value.as<double>()[0] = 1;
  std::vector<LogicalTensor> expected = evaluate_outputs(training, with_seed);
  double worst = std::abs(output_value(program, run, 0)[0] - expected[0].number(0)) / std::abs(expected[0].number(0));
  auto gradients = weight_gradients(program, run);
  std::size_t next = serial.outputs().size();
  for (const Node& n : serial.nodes()) {
    if (n.op->name() != "weight") continue;
    const LogicalTensor& e = expected.at(next++);
    const std::vector<double>& g = gradients.at(n.name);
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i < e.elements(); ++i) {
      double d = g[static_cast<std::size_t>(i)] - e.number(i);
      CHECK_FALSE(std::isnan(d));
      error += d * d, norm += e.number(i) * e.number(i);
    }
    worst = std::max(worst, std::sqrt(error / std::max(norm, 1e-300)));
  }
  if (out) *out = std::move(program);
  return worst;
}

constexpr int kBatch = 64, kIn = 784, kHidden = 512, kOut = 10;

struct Mlp {
  Builder b{"mlp"};
  ValueRef x = b.input("x", {kBatch, kIn}), labels = b.input("labels", {kBatch}, DType::i32);
  ValueRef w1 = b.weight("w1", {kIn, kHidden}), w2 = b.weight("w2", {kHidden, kOut});
  ValueRef matmul(ValueRef a, ValueRef w) { return b.apply("matmul", {}, {a, w}); }
  ValueRef relu(ValueRef a) { return b.apply("relu", {}, {a}); }
  Pcg finish(ValueRef logits) && {
    ValueRef loss = b.apply("cross_entropy", {}, {logits, labels});
    return std::move(b).finish({loss});
  }
};

Pcg serial_mlp() {
  Mlp m;
  return std::move(m).finish(m.matmul(m.relu(m.matmul(m.x, m.w1)), m.w2));
}

}  // namespace

TEST_CASE("data parallelism of the worked example moves 813,056 elements") {
  // 2 (c_i h + h c_o), the ring all-reduce of both weight gradients over 2 devices.
  Builder b("mlp");
  ValueRef x = b.input("x", {kBatch, kIn}), labels = b.input("labels", {kBatch}, DType::i32);
  ValueRef w1 = b.weight("w1", {kIn, kHidden}), w2 = b.weight("w2", {kHidden, kOut});
  ValueRef h = b.apply("relu", {}, {b.apply("matmul", {}, {partition(b, 0, 2, x), replicate(b, 2, w1)})});
  ValueRef logits = b.apply("matmul", {}, {h, replicate(b, 2, w2)});
  ValueRef loss = reduce(b, 2, b.apply("cross_entropy", {}, {logits, partition(b, 0, 2, labels)}));
  Pcg parallel = std::move(b).finish({loss});
  Program program;
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 2, &program) < 1e-12);
  CHECK(program.communicated().count == 4 * 813'056);
}

TEST_CASE("the paper's joint plan of the worked example moves 131,712 elements") {
  // First matmul by reduction: all-reduce of its output and of the gradient, 2 * 2 b h = 131,072; logits to one device
  // and their gradient back, 2 * b c_o / 2 = 640.
  Mlp m;
  ValueRef part = m.matmul(partition(m.b, 1, 2, m.x), partition(m.b, 0, 2, m.w1));
  ValueRef h = m.relu(replicate(m.b, 2, reduce(m.b, 2, part)));
  ValueRef logits = combine(m.b, 1, 2, m.matmul(h, partition(m.b, 1, 2, m.w2)));
  Pcg parallel = std::move(m).finish(logits);
  Program program;
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 2, &program) < 1e-12);
  CHECK(program.communicated().count == 4 * 131'712);
}

TEST_CASE("output-then-reduction of the worked example moves 1,280 elements") {
  // Logits are summands on both devices: b c_o to one device, and their gradient back.
  Mlp m;
  ValueRef h = m.relu(m.matmul(replicate(m.b, 2, m.x), partition(m.b, 1, 2, m.w1)));
  ValueRef logits = reduce(m.b, 2, m.matmul(h, partition(m.b, 0, 2, m.w2)));
  Pcg parallel = std::move(m).finish(logits);
  Program program;
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 2, &program) < 1e-12);
  CHECK(program.communicated().count == 4 * 1'280);
}

TEST_CASE("two-way data and two-way model parallelism equal one device, with redundant loss") {
  Mlp m;
  ValueRef h =
      m.relu(m.matmul(replicate(m.b, 2, partition(m.b, 0, 2, m.x)), replicate(m.b, 2, partition(m.b, 1, 2, m.w1))));
  ValueRef logits = replicate(m.b, 2, reduce(m.b, 2, m.matmul(h, replicate(m.b, 2, partition(m.b, 0, 2, m.w2)))));
  ValueRef loss =
      reduce(m.b, 2, m.b.apply("cross_entropy", {}, {logits, replicate(m.b, 2, partition(m.b, 0, 2, m.labels))}));
  Pcg parallel = std::move(m.b).finish({loss});
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 4) < 1e-12);
}

TEST_CASE("a weight that is stored sharded and gathered before use trains like one device, with a reduce-scatter") {
  Mlp m;
  ValueRef w1 = replicate(m.b, 2, combine(m.b, 0, 2, partition(m.b, 0, 2, m.w1)));
  ValueRef h = m.relu(m.matmul(partition(m.b, 0, 2, m.x), w1));
  ValueRef logits = m.matmul(h, replicate(m.b, 2, m.w2));
  ValueRef loss = reduce(m.b, 2, m.b.apply("cross_entropy", {}, {logits, partition(m.b, 0, 2, m.labels)}));
  Pcg parallel = std::move(m.b).finish({loss});
  Program program;
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 2, &program) < 1e-12);
  int scatters = 0, gathers = 0;
  for (const Communication& c : program.communications) {
    scatters += c.kind == CollectiveKind::reduce_scatter;
    gathers += c.kind == CollectiveKind::all_gather;
  }
  CHECK(gathers == 1);
  CHECK(scatters == 1);
}

namespace {

// Of a weight and its gradient.
std::map<CollectiveKind, int> collectives(const Program& program, const std::string& weight) {
  std::map<CollectiveKind, int> kinds;
  for (const Communication& c : program.communications)
    if (c.name == weight || c.name == weight + ".gradient") ++kinds[c.kind];
  return kinds;
}

}  // namespace

TEST_CASE("parts of a weight that two groups of devices hold are gathered in each group") {
  // Rows in 16 parts on devices 2i and 2i + 1, columns in 2: the groups are the even and the odd ones.
  Mlp m;
  ValueRef parts = partition(m.b, 0, 16, partition(m.b, 1, 2, m.w1));
  ValueRef w1 = replicate(m.b, 16, combine(m.b, 0, 16, parts));
  ValueRef h = m.relu(m.matmul(replicate(m.b, 2, partition(m.b, 0, 16, m.x)), w1));
  ValueRef w2 = replicate(m.b, 16, partition(m.b, 0, 2, m.w2));
  ValueRef logits = reduce(m.b, 2, m.matmul(h, w2));
  ValueRef loss = reduce(m.b, 16, m.b.apply("cross_entropy", {}, {logits, partition(m.b, 0, 16, m.labels)}));
  Pcg parallel = std::move(m.b).finish({loss});
  Program program;
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 32, &program) < 1e-12);
  auto kinds = collectives(program, "w1");
  CHECK(kinds[CollectiveKind::all_gather] == 2);
  CHECK(kinds[CollectiveKind::reduce_scatter] == 2);
  CHECK(kinds[CollectiveKind::send] == 0);
}

TEST_CASE("parts of a weight go to other devices once each, which gather them") {
  const int users = GENERATE(16, 32);
  Mlp m;
  ValueRef w1 = replicate(m.b, users, combine(m.b, 0, 16, partition(m.b, 0, 16, m.w1)));
  ValueRef product = m.matmul(partition(m.b, 0, users, m.x), w1);
  ValueRef logits = m.matmul(m.relu(product), replicate(m.b, users, m.w2));
  ValueRef loss = reduce(m.b, users, m.b.apply("cross_entropy", {}, {logits, partition(m.b, 0, users, m.labels)}));
  Pcg parallel = std::move(m.b).finish({loss});
  std::vector<MachineMapping> mappings = natural_mappings(parallel);
  for (std::size_t i = 0; i < parallel.size(); ++i)
    if (parallel.nodes()[i].name != "w1") mappings[i].start = 16;
  Program program;
  CHECK(difference(serial_mlp(), parallel, mappings, 16 + users, &program) < 1e-12);
  // Forth and back.
  auto kinds = collectives(program, "w1");
  std::size_t transfers = 0;
  for (const Communication& c : program.communications)
    if (c.name.starts_with("w1") && c.kind == CollectiveKind::all_to_all) transfers += c.exchanges.size();
  CHECK(kinds[CollectiveKind::send] + static_cast<int>(transfers) == 2 * users);
  CHECK(kinds[CollectiveKind::all_gather] == users / 16);
  CHECK(kinds[CollectiveKind::reduce_scatter] == users / 16);
}

TEST_CASE("of a weight that some devices have a copy of, each sends it to the one at its place among others") {
  Mlp m;
  ValueRef product = m.matmul(partition(m.b, 0, 4, m.x), replicate(m.b, 4, m.w1));
  ValueRef logits = m.matmul(m.relu(product), replicate(m.b, 4, m.w2));
  ValueRef loss = reduce(m.b, 4, m.b.apply("cross_entropy", {}, {logits, partition(m.b, 0, 4, m.labels)}));
  Pcg parallel = std::move(m.b).finish({loss});
  std::vector<MachineMapping> mappings = natural_mappings(parallel);
  for (std::size_t i = 0; i < parallel.size(); ++i)
    if (parallel.nodes()[i].name != "w1") mappings[i].start = 4;
  Program program;
  CHECK(difference(serial_mlp(), parallel, mappings, 8, &program) < 1e-12);
  std::set<std::pair<int, int>> sent;
  for (const Communication& c : program.communications)
    if (c.kind == CollectiveKind::send && c.name.starts_with("w1"))
      sent.emplace(c.participants[0].device.value, c.participants[1].device.value);
  std::set<std::pair<int, int>> expected;
  for (int d = 0; d < 4; ++d) expected.emplace(d, d + 4), expected.emplace(d + 4, d);  // forth and back
  CHECK(sent == expected);
}

TEST_CASE("micro-batches on one device equal the whole batch") {
  Mlp m;
  auto pipeline = [&](ValueRef v) { return m.b.apply("pipeline", {std::int64_t{0}, std::int64_t{4}}, {v}); };
  ValueRef logits = m.matmul(m.relu(m.matmul(pipeline(m.x), m.w1)), m.w2);
  ValueRef loss = m.b.apply("cross_entropy", {}, {logits, pipeline(m.labels)});
  Pcg parallel = std::move(m.b).finish({loss});
  CHECK(difference(serial_mlp(), parallel, natural_mappings(parallel), 1) < 1e-12);
}

TEST_CASE("producers and consumers on different devices exchange by all-to-all and by sends") {
  Mlp m;
  ValueRef h = combine(m.b, 1, 2, m.matmul(replicate(m.b, 2, m.x), partition(m.b, 1, 2, m.w1)));
  ValueRef r = combine(m.b, 0, 2, m.relu(partition(m.b, 0, 2, h)));
  Pcg parallel = std::move(m).finish(m.matmul(r, m.w2));
  std::vector<MachineMapping> mappings = natural_mappings(parallel);
  Program program;
  CHECK(difference(serial_mlp(), parallel, mappings, 4, &program) < 1e-12);
  int exchanges = 0;
  for (const Communication& c : program.communications) exchanges += c.kind == CollectiveKind::all_to_all;
  CHECK(exchanges == 2);  // forward, and its adjoint
  for (std::size_t i = 0; i < parallel.size(); ++i)
    if (parallel.nodes()[i].op->name() == "relu") mappings[i].start = 2;
  CHECK(difference(serial_mlp(), parallel, mappings, 4) < 1e-12);
}

TEST_CASE("sends of an operator's operands go in rounds, in which no device has two") {
  constexpr int kDevices = 6;
  auto branches = [](Builder& b, bool split) {
    ValueRef x = b.input("x", {24, 4}), labels = b.input("labels", {24}, DType::i32);
    std::vector<ValueRef> parts;
    for (int i = 0; i < kDevices; ++i) {
      std::string name = fmt::format("branch.{}", i);
      ValueRef w = b.weight(name + ".w", {4, 3});
      ValueRef h = b.apply("matmul", {}, {x, w}, name);
      parts.push_back(split ? partition(b, 0, kDevices, h) : h);
    }
    ValueRef all = b.apply("concat", {std::int64_t{1}}, parts), w = b.weight("w", {3 * kDevices, 5});
    if (split) w = replicate(b, kDevices, w), labels = partition(b, 0, kDevices, labels);
    ValueRef loss = b.apply("cross_entropy", {}, {b.apply("matmul", {}, {all, w}), labels});
    return split ? reduce(b, kDevices, loss) : loss;
  };
  Builder one("branches"), several("branches");
  Pcg serial = [&] {
    ValueRef loss = branches(one, false);
    return std::move(one).finish({loss});
  }();
  Pcg parallel = [&] {
    ValueRef loss = branches(several, true);
    return std::move(several).finish({loss});
  }();
  std::vector<MachineMapping> mappings = natural_mappings(parallel);
  for (std::size_t i = 0; i < parallel.size(); ++i)
    if (const std::string& name = parallel.nodes()[i].name; name.starts_with("branch."))
      mappings[i].start = name[7] - '0';
  Program program;
  CHECK(difference(serial, parallel, mappings, kDevices, &program) < 1e-12);
  // As lowered: scheduled, they become one all-to-all.
  program = lower(parallel, mappings, uniform_topology(kDevices), {.scheduled = false}).value();
  // By device, the first round in which it has nothing: each device has its communications in the order of the program.
  for (Phase phase : {Phase::forward, Phase::backward}) {
    std::map<DeviceId, int> next;
    int rounds = 0, sends = 0;
    for (const Task& t : program.tasks) {
      if (t.kind != TaskKind::communicate || t.phase != phase) continue;
      const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
      if (c.kind != CollectiveKind::send) continue;
      int &a = next[c.participants[0].device], &b = next[c.participants[1].device];
      a = b = std::max(a, b) + 1;
      rounds = std::max(rounds, a), ++sends;
    }
    CHECK(sends == kDevices * (kDevices - 1));
    CHECK(rounds >= 2 * (kDevices - 1));      // that many are a device's own
    CHECK(rounds <= 2 * (kDevices - 1) + 4);  // one branch after the other: 25 and more
  }
}

TEST_CASE("a mapping that falls off the machine is refused by name") {
  Mlp m;
  Pcg g = std::move(m).finish(m.matmul(m.relu(m.matmul(m.x, m.w1)), m.w2));
  std::vector<MachineMapping> mappings = natural_mappings(g);
  mappings[4].start = 7;
  auto result = lower(g, mappings, uniform_topology(2));
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message.find("matmul") != std::string::npos);
}

TEST_CASE("inference normalises by the running moments, and computes no others") {
  Builder b("norm");
  ValueRef x = b.input("x", {4, 2, 3});
  std::vector<ValueRef> moments = b.results("moments", {}, {x});
  ValueRef mean = b.apply("state", {Dims{2}, std::string("zeros"), 0.0}, {}, "mean");
  ValueRef variance = b.apply("state", {Dims{2}, std::string("ones"), 0.0}, {}, "variance");
  auto combined = b.results("combine_moments", {std::int64_t{12}}, {moments[0], moments[1], mean, variance});
  ValueRef gamma = b.weight("gamma", {2}, "ones"), beta = b.weight("beta", {2}, "zeros");
  ValueRef y = b.apply("batch_norm", {3.0}, {x, combined[0], combined[1], gamma, beta});
  Pcg pcg = std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1, 2}}, {y})});
  std::vector<MachineMapping> mappings(pcg.size());
  Program program = lower(pcg, mappings, uniform_topology(1), {.training = false}).value();
  check_program(program).value();
  CHECK(program.tasks.size() == 2);
  LeafValues leaves = random_leaves(pcg);
  for (const auto& [name, value] :
       std::map<std::string, double>{{"mean", 0}, {"variance", 1}, {"gamma", 1}, {"beta", 0}})
    std::fill_n(leaves[name].as<double>(), 2, value);
  double sum = 0;
  for (std::int64_t i = 0; i < 24; ++i) sum += leaves["x"].number(i);
  // (x - 0) / sqrt(1 + 3)
  CHECK(output_value(program, interpret(program, leaves), 0)[0] == Approx(sum / 24 / 2));
}

namespace {

// The mean over rows of log(sum of exponentials) less the logit of the label, by its parts; the columns of w are split
// as `vocabulary` says.
Pcg by_vocabulary(int d, const std::function<ValueRef(Builder&, ValueRef)>& columns) {
  Builder b("by vocabulary");
  ValueRef x = b.input("x", {6, 5}), labels = b.input("labels", {6}, DType::i32), w = b.weight("w", {5, 8});
  auto copies = [&](ValueRef v) { return d > 1 ? replicate(b, d, v) : v; };
  auto whole = [&](ValueRef v) { return d > 1 ? reduce(b, d, v) : v; };
  ValueRef logits = b.apply("matmul", {}, {copies(x), columns(b, w)});
  ValueRef largest = whole(b.apply("reduce_max", {Dims{1}, std::int64_t{1}}, {logits}));
  ValueRef shift = copies(b.apply("reshape", {Dims{6, 1}}, {largest}));
  ValueRef sum = whole(b.apply("reduce_sum", {Dims{1}}, {b.apply("exp", {}, {b.apply("sub", {}, {logits, shift})})}));
  ValueRef picked = whole(b.apply("pick", {}, {logits, copies(labels)}));
  ValueRef rows = b.apply("sub", {}, {b.apply("add", {}, {b.apply("log", {}, {sum}), largest}), picked});
  ValueRef loss = b.apply("reduce_mean", {Dims{0}}, {rows});
  return std::move(b).finish({loss, largest});
}

Pcg cross_entropy_of_logits() {
  Builder b("serial");
  ValueRef x = b.input("x", {6, 5}), labels = b.input("labels", {6}, DType::i32), w = b.weight("w", {5, 8});
  ValueRef loss = b.apply("cross_entropy", {}, {b.apply("matmul", {}, {x, w}), labels});
  return std::move(b).finish({loss});
}

}  // namespace

TEST_CASE("cross-entropy of logits in parts of the vocabulary trains like one device, by one maximum and two sums") {
  for (int d : {2, 4}) {
    Pcg parallel = by_vocabulary(d, [&](Builder& b, ValueRef w) { return partition(b, 1, d, w); });
    Program program;
    CHECK(difference(cross_entropy_of_logits(), parallel, natural_mappings(parallel), d, &program) < 1e-12);
    std::map<Monoid, int> reductions;
    for (const Communication& c : program.communications)
      if (c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce) ++reductions[c.monoid];
    // To the first device, of every row: its largest logit, the sum of its exponentials, the logit of its label.
    CHECK(reductions == std::map<Monoid, int>{{Monoid::sum, 2}, {Monoid::max, 1}});
  }
}

TEST_CASE("partial maxima of micro-batches are folded where they are") {
  Builder b("micro");
  ValueRef x = b.input("x", {4, 6}), w = b.weight("w", {4});
  ValueRef cut = b.apply("pipeline", {std::int64_t{1}, std::int64_t{3}}, {x});
  ValueRef largest = b.apply("reduce_max", {Dims{1}, std::int64_t{1}}, {cut});
  ValueRef loss = b.apply("reduce_sum", {Dims{0}}, {b.apply("mul", {}, {largest, w})});
  Pcg parallel = std::move(b).finish({loss});
  Builder s("serial");
  ValueRef sx = s.input("x", {4, 6}), sw = s.weight("w", {4});
  ValueRef all = s.apply("reduce_max", {Dims{1}, std::int64_t{1}}, {sx});
  ValueRef sum = s.apply("reduce_sum", {Dims{0}}, {s.apply("mul", {}, {all, sw})});
  Program program;
  CHECK(difference(std::move(s).finish({sum}), parallel, natural_mappings(parallel), 1, &program) < 1e-12);
  // Three parts, two maxima of two.
  CHECK(std::count_if(program.tasks.begin(), program.tasks.end(), [&](const Task& t) {
          return t.kind == TaskKind::compute && program.ops[static_cast<std::size_t>(t.op)].op->name() == "maximum";
        }) == 2);
}

TEST_CASE("copies whose summands are added up apart, one in parts and one whole, train like one device") {
  // Copy 0 is on devices 0 and 3, which need a half each; copy 1 on 1 and 4, of which one needs a half. Device 2 finds
  // both forms of its half.
  Pcg serial = parse_pcg(
      "pcg serial { x = input([4, 4]) t = input([4, 6]) w0 = weight([4, 6]) w1 = weight([6, 6])\n"
      "return mean_squared_error(matmul(matmul(x, w0), w1), t) }",
      "serial");
  Pcg parallel = parse_pcg(
      "pcg parallel { x = input([4, 4]) t = input([4, 6]) w0 = weight([4, 6]) w1 = weight([6, 6])\n"
      "h = matmul(replicate(2, partition(1, 2, x)), replicate(2, partition(0, 2, w0)))\n"
      "y = matmul(partition(0, 2, reduce(2, h)), replicate(4, w1))\n"
      "return mean_squared_error(combine(0, 2, y), replicate(2, t)) }",
      "parallel");
  std::vector<MachineMapping> mappings = natural_mappings(parallel);
  for (std::size_t i = 0; i < parallel.size(); ++i)
    if (parallel.nodes()[i].name == "h") mappings[i] = {0, {3, 1}};
  CHECK(difference(serial, parallel, mappings, 6) < 1e-12);
}

TEST_CASE("a program that does not fit into the memory of this machine is refused before it is made") {
  // 2000 operators on 512 devices in 2048 micro-batches: six thousand million tasks, and it has no 8 TB.
  std::string text = "pcg g {\n x = input([2097152])\n v0 = pipeline(0, 2048, partition(0, 512, x))\n";
  for (int i = 1; i <= 2000; ++i) text += fmt::format(" v{} = relu(v{})\n", i, i - 1);
  Pcg pcg = parse_pcg(text + " return combine(0, 512, batch(0, 2048, v2000))\n}");
  std::vector<MachineMapping> mappings(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (!pcg.nodes()[i].is_parallelization())
      mappings[i].strides.assign(node_grid(pcg, NodeId(static_cast<std::int64_t>(i))).size(), 1);
  auto program = lower(pcg, mappings, uniform_topology(512));
  REQUIRE(!program.ok());
  CHECK_THAT(program.error().message, Catch::Contains("has some 6291 million tasks on 512 devices") &&
                                          Catch::Contains("of memory here, expected about 8.179 TB"));
}

TEST_CASE("an output that is left in partial maxima is refused") {
  Builder b("left");
  ValueRef x = b.input("x", {4, 6});
  ValueRef largest = b.apply("reduce_max", {Dims{1}, std::int64_t{1}}, {partition(b, 1, 2, x)}, "largest");
  Pcg pcg = std::move(b).finish({largest});
  auto program = lower(pcg, natural_mappings(pcg), uniform_topology(2), {.training = false});
  REQUIRE_FALSE(program.ok());
  CHECK(program.error().message ==
        "output largest is f32[4] partials 2 max, expected it reduced: its parts are no summands");
}

TEST_CASE("a weight changes once it is sent to all, whether its gradient waits for that or not") {
  // To a product beside the loss, or to a copy that no gradient comes from, on devices without the weight.
  for (bool copies : {false, true}) {
    CAPTURE(copies);
    Builder b("beside");
    ValueRef x = b.input("x", {4, 6}), labels = b.input("labels", {4}, DType::i32), w = b.weight("w", {6, 3});
    if (copies) {
      x = replicate(b, 2, x), labels = replicate(b, 2, labels);
      w = replicate(b, 2, combine(b, 0, 2, partition(b, 0, 2, w)));
    }
    ValueRef logits = b.apply("matmul", {}, {x, w}, "logits");
    ValueRef loss = b.apply("cross_entropy", {}, {logits, labels}, "loss");
    ValueRef other = copies ? logits : b.apply("matmul", {}, {x, w}, "other");
    Pcg pcg = std::move(b).finish({loss, other});
    std::vector<MachineMapping> mappings = natural_mappings(pcg);
    for (std::size_t i = 0; i < pcg.size(); ++i)
      if (pcg.nodes()[i].name == (copies ? "w" : "other")) mappings[i].start = 2;
    Program program = lower(pcg, mappings, uniform_topology(4)).value();
    int sent = 0;
    for (const Task& update : program.tasks) {
      if (update.kind != TaskKind::update) continue;
      auto after = program.dependencies_of(update);
      for (std::size_t t = 0; t < program.tasks.size(); ++t) {
        const Task& task = program.tasks[t];
        if (task.kind != TaskKind::communicate) continue;
        for (const Participant& p : program.communications[static_cast<std::size_t>(task.op)].participants) {
          if (p.send != program.operands_of(update)[0]) continue;
          CHECK(std::find(after.begin(), after.end(), TaskId(static_cast<std::int64_t>(t))) != after.end());
          ++sent;
        }
      }
    }
    CHECK(sent == (copies ? 2 : 1));
  }
}
