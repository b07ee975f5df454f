// Certificates hold for every plan, and the joint search finds the optimum of small spaces.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/rewrite/instance.h"
#include "core/search/lower_bound.h"
#include "core/search/necessary_work.h"
#include "core/search/random_plan.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/dice.h"
#include "tests/support/stub_cost_model.h"

namespace unity::test {
namespace {

Plan found(const Pcg& pcg, const CostModel& cost, const std::string& strategy, int budget) {
  SearchOptions options;
  options.strategy = strategy;
  options.budget = budget;
  return find_plan({"random", {}}, pcg, cost, options).value();
}

// Products and activations, up to five operators with the loss.
Pcg random_graph(std::uint64_t seed) {
  Dice dice(seed);
  Builder b("random");
  auto size = [&] { return std::array<std::int64_t, 3>{48, 384, 3072}[dice.below(3)]; };
  std::int64_t batch = size();
  ValueRef x = b.input("x", {batch, size()});
  for (std::size_t i = 0, layers = 1 + dice.below(2); i < layers; ++i) {
    std::int64_t width = size();
    x = b.apply("matmul", {}, {x, b.weight(fmt::format("w{}", i), {b.dims(x)[1], width})});
    if (dice.below(2)) x = b.apply(dice.below(2) ? "relu" : "gelu", {}, {x});
  }
  ValueRef target = b.input("target", b.dims(x));
  return std::move(b).finish({b.apply("mean_squared_error", {}, {x, target}, "loss")});
}

double product_flops(const Pcg& pcg) {
  double sum = 0;
  for (const Node& n : pcg.nodes())
    if (n.op->name() == "matmul" || n.op->name() == "conv2d" || n.op->name() == "batch_matmul" ||
        n.op->name() == "attention")
      sum += flops(*n.table, full_ranges(*n.table));
  return sum;
}

double necessary_flops(const Pcg& pcg) {
  double sum = 0;
  for (const WorkItem& item : necessary_work(pcg, {}, {}, 2)) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& units : item.alternatives) {
      double here = 0;
      for (const WorkUnit& u : units)
        for (const WorkStep& s : u.steps)
          if (s.forward) here += s.flops;
      least = std::min(least, here);
    }
    sum += least;
  }
  return sum;
}

// What is behind a rule's results: gelu, through which no rule sees.
Pcg observed(const Pcg& side) {
  Pcg pcg = side;
  std::vector<ValueRef> outputs;
  for (ValueRef v : side.outputs()) {
    if (side.shape(v).dtype == DType::i32) continue;
    outputs.push_back({pcg.try_add(get_operator("gelu"), {}, {v}, {}, "observer").value(), 0});
  }
  pcg.set_outputs(outputs);
  return pcg.without_dead_nodes();
}

// Of the gradients of moments, and of the additions of what arrives at what they are taken of.
struct Additions {
  double moments = 0, sums = 0;
};
Additions necessary_additions(const Pcg& model, int devices) {
  Additions bytes;
  for (const WorkItem& item : necessary_work(model, {}, {}, devices))
    for (const WorkUnit& u : item.alternatives[0])
      for (const WorkStep& s : u.steps) {
        if (model[item.node].op->name() == "moments" && !s.forward) bytes.moments += s.bytes;
        if (model[item.node].op->name() == "batch_norm" && s.task_bytes > 0) bytes.sums += s.bytes;
      }
  return bytes;
}
double added(const Program& program) {
  double bytes = 0;
  for (const Task& t : program.tasks) {
    const bool moments = t.kind == TaskKind::compute &&
                         program.ops[static_cast<std::size_t>(t.op)].op->name().starts_with("moments_gradient");
    if (moments || t.kind == TaskKind::accumulate) bytes += t.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("unity finds the optimum of exhaustive search on small random graphs or better, above the certificate") {
  const std::vector<std::pair<const char*, int>> machines = {
      {"summit", 2}, {"dgx-a100", 2}, {"summit", 3}, {"laptop", 2}};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    INFO("seed " << seed);
    auto [topology, devices] = machines[seed % machines.size()];
    SimulatedCostModel cost(load_topology(topology, {1, devices}));
    Pcg pcg = random_graph(seed);
    Plan best = found(pcg, cost, "exhaustive", 20000), unity = found(pcg, cost, "unity", 4000);
    CHECK(unity.prediction.iteration <= best.prediction.iteration);  // graphs of more operators are not exhaustive's
    CHECK(best.search.lower_bound <= unity.prediction.iteration);
    CHECK(best.search.lower_bound.count > 0);
    CHECK(best.search.lower_bound <= best.prediction.iteration);
  }
}

TEST_CASE("no strategy finds a plan that is faster than the certificate") {
  struct Case {
    ModelSpec model;
    const char* topology;
    int nodes, devices;
  };
  const std::vector<Case> cases = {{{"mlp-mnist", {{"batch", 96}}}, "summit", 1, 4},
                                   {{"bert-tiny", {{"batch", 12}}}, "dgx-a100", 1, 4},
                                   {{"mlp", {{"batch", 384}, {"layers", 4}, {"hidden", 1024}}}, "summit", 2, 12},
                                   {{"mlp-mnist", {{"batch", 96}}}, "laptop", 1, 4},
                                   // Of one device additions count, too.
                                   {{"resnext-50", {{"batch", 4}, {"image", 64}, {"blocks", 1}}}, "summit", 1, 1},
                                   {{"bert-tiny", {{"batch", 12}}}, "summit", 1, 1}};
  for (const Case& c : cases)
    for (const std::string& strategy : strategy_names()) {
      if (strategy == "exhaustive") continue;
      SimulatedCostModel cost(load_topology(c.topology, {c.nodes, c.devices}));
      SearchOptions options;
      options.strategy = strategy;
      options.budget = 120;
      auto plan = find_plan(c.model, build_model(c.model), cost, options);
      if (!plan.ok()) continue;  // does not apply
      INFO(c.model.name << " on " << c.topology << ", " << strategy);
      CHECK(plan->search.lower_bound.count > 0);
      CHECK(plan->search.lower_bound <= plan->prediction.iteration);
    }
}

TEST_CASE("certificates hold for steps that overlap and windows with gaps") {
  auto gelus = [](std::int64_t batch) {
    Builder b("gelus");
    ValueRef x = b.input("x", {batch, 64});
    for (int layer = 0; layer < 3; ++layer) {
      x = b.apply("matmul", {}, {x, b.weight(fmt::format("w{}", layer), {64, layer == 2 ? 16 : 64})});
      for (int i = 0; i < (layer == 2 ? 0 : 24); ++i) x = b.apply("gelu", {}, {x});
    }
    return std::move(b).finish({b.apply("mean_squared_error", {}, {x, b.input("target", b.dims(x))}, "loss")});
  };
  auto check = [](const Pcg& pcg, const CostModel& cost, SearchOptions options) {
    Plan plan = find_plan({"own", {}}, pcg, cost, options).value();
    INFO(plan.search.lower_bound.count << " and " << plan.prediction.iteration.count);
    CHECK(plan.search.lower_bound.count > 0);
    CHECK(plan.search.lower_bound <= plan.prediction.iteration);
    return plan;
  };
  // A step with weights of one update before is shorter than the way through the model and back.
  SimulatedCostModel four(load_topology("summit", {1, 4}));
  SearchOptions delayed{.strategy = "unity"};
  delayed.budget = 300;
  delayed.schedule.weights = WeightVersions::delayed, delayed.schedule.order = PipelineOrder::one_f_one_b;
  Plan overlapping = check(gelus(32), four, delayed);
  delayed.schedule = {};
  CHECK(overlapping.prediction.iteration < check(gelus(32), four, delayed).search.lower_bound);
  // Parts of a convolution whose windows leave pixels out read fewer together than it reads as a whole.
  Builder b("stride");
  ValueRef x = b.input("x", {16, 16, 512, 512});
  x = b.apply("conv2d", {Dims{64, 64}, Dims{0, 0, 0, 0}}, {x, b.weight("w0", {4, 16, 1, 1})});
  x = b.apply("conv2d", {Dims{1, 1}, Dims{0, 0, 0, 0}}, {b.apply("gelu", {}, {x}), b.weight("w1", {4, 4, 1, 1})});
  Pcg stride = std::move(b).finish({b.apply("mean_squared_error", {}, {x, b.input("target", b.dims(x))}, "loss")});
  for (int devices : {3, 5}) {
    SearchOptions options{.strategy = "unity"};
    options.budget = 300;
    check(stride, SimulatedCostModel(load_topology("summit", {1, devices})), options);
  }
}

TEST_CASE("what batch norms and their moments say of one gradient is added up in every plan, at the counted traffic") {
  Pcg pcg = build_model({"resnext-50", {{"batch", 24}, {"image", 64}, {"blocks", 1}}});
  auto norms = [](const Pcg& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [](const Node& n) { return n.op->name() == "batch_norm"; });
  };
  Topology one = load_topology("summit", {1, 1}), six = load_topology("summit", {1, 6});
  Additions bytes = necessary_additions(pcg, 1);
  REQUIRE(bytes.sums > 0);
  // What goes around a block is added up, too.
  const double needed = bytes.moments + bytes.sums, all = added(lower(pcg, natural_mappings(pcg), one).value());
  CHECK(all >= needed * (1 - 1e-9));
  CHECK(all <= needed * 1.1);
  std::mt19937_64 random(11);
  int seen = 0;
  for (int i = 0; i < 24; ++i) {
    State state = random_state(pcg, 6, random);
    auto program = lower(state.pcg, random_mappings(state.pcg, six, random), six);
    if (!program.ok() || norms(state.pcg) < norms(pcg)) continue;
    ++seen;
    CHECK(added(*program) >= needed * (1 - 1e-9));
  }
  CHECK(seen >= 8);
}

TEST_CASE("no random plan is faster than the certificate") {
  const std::vector<ModelSpec> models = {{"bert-tiny", {{"batch", 12}}},
                                         {"resnext-50", {{"batch", 24}, {"image", 64}, {"blocks", 1}}},
                                         {"dlrm", {{"batch", 768}}},
                                         {"candle-uno", {{"batch", 96}}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  std::mt19937_64 random(7);
  for (const ModelSpec& spec : models) {
    Pcg pcg = build_model(spec);
    Picoseconds bound = lower_bound(pcg, cost, {}).value();
    for (int i = 0; i < 8; ++i) {
      State state = random_state(pcg, 6, random);
      auto program = lower(state.pcg, random_mappings(state.pcg, cost.topology(), random), cost.topology());
      if (program.ok()) CHECK(bound <= cost.score(*program).iteration);
    }
  }
}

TEST_CASE("no rule of the library makes the necessary products fewer than it computes") {
  int instances = 0;
  for (const Rule& rule : rule_library()) {
    if (!rule.algebraic()) continue;
    InstanceSampler sampler(rule, {.seed = 3, .serial = true});
    for (int i = 0; i < 12; ++i) {
      auto sample = sampler.next();
      if (!sample) break;
      if (sample->fault != InstanceFault::none) continue;
      const Pcg& source = sample->instance.source;
      if (std::any_of(source.outputs().begin(), source.outputs().end(),
                      [&](ValueRef v) { return source.shape(v).parallel(); }))
        continue;
      INFO(print(rule));
      CHECK(necessary_flops(observed(sample->instance.source)) <= product_flops(sample->instance.target));
      ++instances;
    }
  }
  CHECK(instances > 200);
}

TEST_CASE("the certificate of one product is its FLOPs at the best efficiency, in equal parts") {
  // Tasks take 1 ns and a picosecond for each FLOP. x [8, 4] w [4, 6]: 2 * 8 * 4 * 6 = 384 FLOPs in the forward pass,
  // and as many in the gradient of w; too few for the table, whose rate starts at 1e4 FLOPs: so wide as to count.
  Builder b("one");
  ValueRef x = b.input("x", {1000, 1000}), w = b.weight("w", {1000, 1000});
  ValueRef y = b.apply("matmul", {}, {x, w});
  Pcg pcg = std::move(b).finish({b.apply("mean_squared_error", {}, {y, b.input("t", {1000, 1000})}, "loss")});
  StubCostModel one(uniform_topology(1)), four(uniform_topology(4));
  // 2 steps of 2e9 FLOPs, at 1e12 FLOPs a second: 4 ms, and 4 tasks' overheads, of the loss and its gradient, too.
  CHECK(lower_bound(pcg, one, {})->seconds() == Approx(4e-3).epsilon(1e-3));
  CHECK(lower_bound(pcg, four, {})->seconds() == Approx(1e-3).epsilon(0.1));
}

TEST_CASE("products that a sum can share, or that are summed afterwards, are not necessary") {
  Builder b("shared");
  ValueRef x = b.input("x", {8, 4});
  auto product = [&](ValueRef v, const char* name) {
    return b.apply("matmul", {}, {v, b.weight(name, {b.dims(v)[1], 6})});
  };
  ValueRef sum = b.apply("add", {}, {product(x, "w1"), product(x, "w2")});  // x (w1 + w2)
  ValueRef one = product(b.apply("gelu", {}, {sum}), "w3");                 // 2 * 8 * 6 * 6 FLOPs, read by gelu
  ValueRef two = product(one, "w4");                                        // or gelu(sum) (w3 w4)
  ValueRef mean = b.apply("reduce_mean", {Dims{0, 1}}, {two});              // or with the mean of rows
  CHECK(necessary_flops(std::move(b).finish({b.apply(
            "add", {}, {mean, b.apply("reduce_mean", {Dims{0, 1}}, {b.apply("gelu", {}, {one})})})})) == 2 * 8 * 6 * 6);
}

TEST_CASE("a product of what is multiplied element by element is necessary, unless a sum can share it") {
  Builder b("gated");
  ValueRef x = b.input("x", {8, 4}), y = b.input("y", {8, 4}), z = b.input("z", {8, 4});
  ValueRef w = b.weight("w", {4, 6}), v = b.weight("v", {6, 10}), u = b.weight("u", {4, 2});
  ValueRef inner = b.apply("matmul", {}, {x, w});  // 2 * 8 * 4 * 6 = 384 FLOPs
  ValueRef gated = b.apply("mul", {}, {inner, b.apply("sigmoid", {}, {inner})});
  ValueRef outer = b.apply("matmul", {}, {gated, v});  // 2 * 8 * 6 * 10 = 960
  // x z u + y z u is (x + y) z u: either of the two could be the sum's.
  auto shared = [&](ValueRef of) { return b.apply("matmul", {}, {b.apply("mul", {}, {of, z}), u}); };
  ValueRef sum = b.apply("add", {}, {shared(x), shared(y)});
  auto mean = [&](ValueRef of) { return b.apply("reduce_mean", {Dims{0, 1}}, {b.apply("gelu", {}, {of})}); };
  Pcg pcg = std::move(b).finish({b.apply("mul", {}, {mean(outer), mean(sum)})});
  double products = 0;
  for (const WorkItem& item : necessary_work(pcg, {}, {}, 2))
    if (pcg[item.node].op->name() == "matmul") products += item.alternatives.at(0).at(0).steps.at(0).flops;
  CHECK(products == 384 + 960);
}

TEST_CASE("a product may be joined with all that others it may be joined with may be joined with") {
  Builder b("joined");
  ValueRef x = b.input("x", {8, 4}), y = b.input("y", {8, 4});
  std::vector<ValueRef> w;
  for (const char* name : {"w0", "w1", "w2"}) w.push_back(b.weight(name, {4, 6}));
  std::optional<ValueRef> sum;
  // The last has an operand in common with the first alone, which has one with the others.
  for (auto [left, right] : {std::pair(x, w[0]), std::pair(x, w[1]), std::pair(x, w[2]), std::pair(y, w[0])}) {
    ValueRef seen = b.apply("gelu", {}, {b.apply("matmul", {}, {left, right})});
    sum = sum ? b.apply("add", {}, {*sum, seen}) : seen;
  }
  Pcg pcg = std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1}}, {*sum})});
  int products = 0;
  for (const WorkItem& item : necessary_work(pcg, {}, {}, 2)) {
    if (pcg[item.node].op->name() != "matmul") continue;
    CHECK(item.alternatives.at(0).at(0).joined == 4);
    ++products;
  }
  CHECK(products == 4);
}

TEST_CASE("on one device what is added to no product is added by an operator of its own") {
  Builder b("sums");
  ValueRef x = b.input("x", {8, 4}), y = b.input("y", {8, 4}), w = b.weight("w", {4, 4});
  auto gelu = [&](ValueRef v) { return b.apply("gelu", {}, {v}); };
  auto add = [&](ValueRef l, ValueRef r) { return b.apply("add", {}, {l, r}); };
  ValueRef counts = add(gelu(x), gelu(y));
  ValueRef again = add(gelu(y), gelu(x));                             // equal
  ValueRef of_product = add(gelu(x), b.apply("matmul", {}, {y, w}));  // may be a product of joined operands
  ValueRef of_row = add(gelu(x), gelu(b.input("row", {4})));          // no sum of two of that size
  ValueRef passed = b.apply("matmul", {}, {add(gelu(x), b.apply("relu", {}, {y})), w});  // or a sum of products
  std::optional<ValueRef> all;
  for (ValueRef v : {counts, again, of_product, of_row, passed}) {
    ValueRef mean = b.apply("reduce_mean", {Dims{0, 1}}, {gelu(v)});
    all = all ? b.apply("mul", {}, {*all, mean}) : mean;
  }
  Pcg pcg = std::move(b).finish({*all});
  auto sums = [&](int devices) {
    std::vector<NodeId> found;
    for (const WorkItem& item : necessary_work(pcg, {}, {}, devices))
      if (pcg[item.node].op->name() == "add") {
        CHECK(item.alternatives.at(0).at(0).steps.at(0).bytes == 3 * 8 * 4 * 4);
        CHECK(item.alternatives.at(0).at(0).steps.size() == 1);
        found.push_back(item.node);
      }
    return found;
  };
  CHECK(sums(1) == std::vector<NodeId>{counts.node});
  CHECK(sums(2).empty());
}

TEST_CASE("exhaustive search says which graph it is at, of how many") {
  ModelSpec spec{"mlp-tiny", {{"batch", 16}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  std::vector<SearchProgress> said;
  SearchOptions options;
  options.strategy = "exhaustive";
  options.progress = [&](const SearchProgress& p) { said.push_back(p); };
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  REQUIRE(said.size() > 10);
  for (std::size_t g = 0; g < said.size(); ++g) {
    CHECK(said[g].stage == fmt::format("graph {} of {}", g + 1, said.size()));
    CHECK(said[g].fraction == Approx(static_cast<double>(g) / static_cast<double>(said.size())));
    CHECK((g == 0 ? said[g].candidates == 0 : said[g].candidates > said[g - 1].candidates));
    CHECK((g == 0 ? said[g].best.count == 0 : said[g].best.count > 0));
  }
  // A few of all these plans need not be scored.
  const std::string& why = plan.search.stopped_because;
  REQUIRE(why.starts_with("all "));
  CHECK(std::stoll(why.substr(4)) > said.back().candidates);
  CHECK(plan.search.candidates < std::stoll(why.substr(4)));
}

TEST_CASE("exhaustive search refuses what is too large with the number and the limit") {
  ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  options.strategy = "exhaustive";
  options.budget = 20;
  auto plan = find_plan(spec, build_model(spec), cost, options);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("operators on 4 devices have more than 20 graphs, expected at most so many") !=
        std::string::npos);
}

}  // namespace unity::test
