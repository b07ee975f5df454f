// Every kind of model, at reduced size, trains under random plans as on one device: f64 and f32, loss and all
// gradients, and the running states that inference will use.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/axis_classes.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// y = ReLU of batch norm of a convolution; sizes 15 and 7, which no small degree divides.
ValueRef block(Builder& b, const std::string& name, ValueRef x, Dims weight, Dims stride, Dims padding,
               std::int64_t groups = 1) {
  Builder::Scope scope(b, name);
  std::int64_t c = weight[0];
  ValueRef y = b.apply("conv2d", {stride, padding, Dims{1, 1}, groups}, {x, b.weight("conv", weight, "uniform", 0.3)});
  Dims d = b.dims(y);
  std::vector<ValueRef> m = b.results("moments", {}, {y});
  ValueRef mean = b.apply("state", {Dims{c}}, {}, "running_mean");
  ValueRef variance = b.apply("state", {Dims{c}, std::string("ones")}, {}, "running_var");
  m = b.results("combine_moments", {d[0] * d[2] * d[3]}, {m[0], m[1], mean, variance});
  y = b.apply("batch_norm", {}, {y, m[0], m[1], b.weight("gamma", {c}, "ones"), b.weight("beta", {c}, "zeros")});
  return b.apply("relu", {}, {y});
}

// Convolutions with and without groups and strides, batch norm, both poolings, a residual and a concatenation.
Pcg small_image_model() {
  Builder b("small-image");
  ValueRef x = b.input("image", {6, 3, 15, 15}), labels = b.input("labels", {6}, DType::i32);
  x = block(b, "stem", x, {8, 3, 3, 3}, {1, 1}, {1, 1, 1, 1});
  ValueRef left = block(b, "left", x, {8, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, 4);
  x = b.apply("add", {}, {x, left}, "residual");
  x = b.apply("max_pool2d", {Dims{3, 3}, Dims{2, 2}}, {x});
  ValueRef narrow = block(b, "narrow", x, {4, 8, 1, 7}, {1, 1}, {0, 3, 0, 3});
  ValueRef pooled = b.apply("avg_pool2d", {Dims{3, 3}, Dims{1, 1}, Dims{1, 1, 1, 1}, std::int64_t{0}}, {x});
  x = b.apply("concat", {std::int64_t{1}}, {narrow, pooled});
  x = block(b, "reduce", x, {8, 12, 3, 3}, {2, 2}, {0, 0, 1, 1});
  x = b.apply("reduce_mean", {Dims{2, 3}}, {x});
  ValueRef logits = b.apply("matmul", {}, {x, b.weight("head", {8, 6})}, "logits");
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

struct Case {
  std::string name;
  Pcg pcg;
};

// Compares each tensor within 1e-10 in f64 and 3e-5 in f32 (the most in thousands of plans: 1.25e-5). In f32 deep
// networks with thousands of ReLUs and maxima do not have the same gradient twice: a rounding of 1e-6 puts some values
// on the other side of a kink, each of which changes the gradient by a jump. For those (`kinks`) all gradients together
// are compared, within 0.1.
void check_random_plans(const Case& c, int plans, bool kinks = false) {
  constexpr double exact_within = 1e-10;
  std::uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  auto inputs = random_inputs(c.pcg, seed);
  Program serial = lower(c.pcg, std::vector<MachineMapping>(c.pcg.size()), uniform_topology(1)).value();
  Run exact = run(serial, inputs, Precision::f64), rounded = run(serial, inputs, Precision::f32);
  auto scale = scales(exact);
  for (int done = 0, tried = 0; done < plans && tried < 50 * plans; ++tried) {
    int devices = 2 + static_cast<int>(random() % 7);
    Topology topology = uniform_topology(devices);
    State state = random_state(c.pcg, devices, random);
    if (state.moves.empty()) continue;
    ++done;
    auto where = random_mappings(state.pcg, topology, random);
    std::string story;
    for (const DerivationStep& s : state.steps) story += fmt::format("{} {} at {}\n", s.rule, s.degree, s.where);
    INFO("UNITY_TEST_SEED=" << seed << ", " << c.name << ", plan " << done << " on " << devices << " devices:\n"
                            << story << print(state.pcg));
    Program program = lower(state.pcg, where, topology).value();
    check_program(program).value();
    Run found = run(program, inputs, Precision::f64);
    REQUIRE(distance(found, exact, scale, exact_within) <= exact_within);
    for (const auto& [name, expected] : exact.states) {
      HostTensor difference = found.states.at(name);
      for (std::size_t i = 0; i < expected.reals.size(); ++i) difference.reals[i] -= expected.reals[i];
      INFO("state " << name);
      CHECK(norm(difference) <= exact_within * std::max(norm(expected), 1e-3));
    }
    Run single = run(program, inputs, Precision::f32);
    if (kinks)
      REQUIRE(overall_distance(single, rounded) <= 0.1);
    else
      REQUIRE(distance(single, rounded, scale) <= 3e-5);
  }
}

}  // namespace

TEST_CASE("a convolutional model trains under random plans, spatial ones with halos among them, as on one device") {
  check_random_plans({"small-image", small_image_model()}, 60);
}

TEST_CASE("the paper's models train under random plans as on one device") {
  const ModelSpec models[] = {
      {"bert@artifact", {{"batch", 12}, {"seq-len", 6}, {"layers", 2}, {"hidden", 12}, {"heads", 6}}},
      {"candle-uno", {{"batch", 12}, {"layers", 2}, {"top-layers", 2}, {"hidden", 12}, {"features", 24}}},
      {"dlrm", {{"batch", 12}, {"hidden", 48}, {"width", 12}, {"rows", 24}}},
      {"dlrm@artifact", {{"batch", 12}, {"hidden", 12}, {"width", 12}, {"rows", 24}}},
      {"mlp@artifact", {{"batch", 12}, {"layers", 3}, {"hidden", 12}, {"input", 12}}},
      {"resnext-50@artifact",
       {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
      {"xdl", {{"batch", 12}, {"rows", 24}, {"width", 12}, {"hidden", 12}}}};
  for (const ModelSpec& spec : models) check_random_plans({spec.name, build_model(spec)}, 10);
}

TEST_CASE("language and vision models train under random plans as on one device") {
  std::map<std::string, std::int64_t> gpt = {{"batch", 12},  {"seq-len", 6}, {"layers", 1},
                                             {"hidden", 12}, {"heads", 6},   {"vocab", 24}};
  ModelSpec fused{"gpt2-small", gpt}, mixture{"moe-transformer", gpt};
  fused.options["fused"] = 1;
  mixture.options.insert({{"experts", 6}, {"balance", 1}});
  mixture.options["layers"] = 2;
  const ModelSpec models[] = {
      {"gpt2-small", gpt},
      fused,
      mixture,
      {"t5-small",
       {{"batch", 12},
        {"seq-len", 6},
        {"target-len", 6},
        {"layers", 1},
        {"hidden", 12},
        {"heads", 6},
        {"head-size", 2},
        {"ffn", 12},
        {"vocab", 24}}},
      {"vit-b16",
       {{"batch", 12}, {"image", 12}, {"patch", 4}, {"layers", 1}, {"hidden", 12}, {"heads", 6}, {"classes", 6}}},
      {"vgg-16", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"hidden", 12}, {"divisor", 16}}}};
  for (const ModelSpec& spec : models) check_random_plans({spec.name, build_model(spec)}, 10);
}

TEST_CASE("image models with batch norm train under random plans as on one device") {
  const ModelSpec models[] = {
      {"resnext-50", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
      {"inception-v3", {{"batch", 12}, {"image", 75}, {"classes", 6}, {"divisor", 16}}},
      {"resnet-50", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"blocks", 1}}},
      {"nasnet-a-mobile", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"filters", 4}, {"cells", 1}, {"stem", 4}}}};
  for (const ModelSpec& spec : models)
    check_random_plans({spec.name, build_model(spec)}, 10,
                       spec.name == "inception-v3" || spec.name == "nasnet-a-mobile");
}

TEST_CASE("splitting rows of images unevenly moves halos and keeps loss, gradients and running moments") {
  Pcg pcg = small_image_model();
  std::vector<AxisClass> classes = axis_classes(pcg);
  auto inputs = random_inputs(pcg, 3);
  Run exact =
      run(lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value(), inputs, Precision::f64);
  int spatial = 0;
  for (const AxisClass& c : classes)
    for (int degree : {2, 3}) {
      bool windowed = std::any_of(c.members.begin(), c.members.end(), [&](AxisClassMember m) {
        return pcg[m.node].table->axes[static_cast<std::size_t>(m.axis)].role == AxisRole::window;
      });
      if (!windowed) continue;
      INFO(c.name << " by " << degree);
      auto split = shard_class(pcg, c, degree);
      if (!split.ok()) FAIL(split.error().message);
      Topology topology = uniform_topology(degree);
      std::vector<MachineMapping> where;
      for (std::size_t i = 0; i < split->size(); ++i)
        where.push_back(natural_mapping(node_grid(*split, NodeId(static_cast<std::int64_t>(i)))));
      Program program = lower(*split, where, topology).value();
      CHECK(distance(run(program, inputs, Precision::f64), exact, scales(exact), 1e-12) <= 1e-12);
      ++spatial;
    }
  CHECK(spatial == 4);  // rows and columns
}

namespace {

// Two convolutions with a nonlinear function between them, so that gradients pass back through the second one's
// windows.
Pcg two_convolutions(std::int64_t rows, std::int64_t columns, std::int64_t kernel, std::int64_t stride,
                     std::int64_t pad) {
  Builder b("windows");
  ValueRef x = b.input("image", {1, 1, rows, columns}), labels = b.input("labels", {1}, DType::i32);
  x = b.apply("conv2d", {}, {x, b.weight("first", {1, 1, 1, 1})}, "first.conv");
  x = b.apply("tanh", {}, {x});
  x = b.apply("conv2d", {Dims{stride, stride}, Dims{pad, pad, pad, pad}},
              {x, b.weight("second", {4, 1, kernel, kernel}, "uniform", 0.5)}, "second.conv");
  x = b.apply("reduce_mean", {Dims{2, 3}}, {b.apply("tanh", {}, {x})});
  return std::move(b).finish({b.apply("cross_entropy", {}, {x, labels}, "loss"), x});
}

// Splits the class of the axis `name` (oh, ow) of the first convolution.
Result<Pcg> split_image(const Pcg& pcg, const std::string& name, int degree) {
  if (degree == 1) return pcg;
  for (const AxisClass& c : axis_classes(pcg))
    for (AxisClassMember m : c.members)
      if (pcg[m.node].table->axes[static_cast<std::size_t>(m.axis)].name == name) return shard_class(pcg, c, degree);
  return fail("no axis {}", name);
}

}  // namespace

TEST_CASE("windows of every stride and size pass gradients through every split of rows and columns") {
  int tried = 0;
  for (std::int64_t rows : {3, 4, 5, 7, 8, 11, 14})
    for (std::int64_t kernel : {1, 2, 3, 5})
      for (std::int64_t stride : {1, 2, 3})
        for (std::int64_t pad : {0, 1, 2}) {
          if (rows + 2 * pad < kernel || pad >= kernel) continue;
          Pcg pcg = two_convolutions(rows, 7, kernel, stride, pad);
          auto inputs = random_inputs(pcg, 3);
          Program serial = lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value();
          Run exact = run(serial, inputs, Precision::f64);
          for (int down = 1; down <= 5; ++down)
            for (int across = 1; across <= 3; ++across) {
              auto after = split_image(pcg, "oh", down);
              if (after.ok()) after = split_image(*after, "ow", across);
              if (!after.ok()) continue;
              INFO(rows << " rows, kernel " << kernel << ", stride " << stride << ", padding " << pad << ", split "
                        << down << " x " << across);
              std::vector<MachineMapping> where;
              for (std::size_t i = 0; i < after->size(); ++i)
                where.push_back(natural_mapping(node_grid(*after, NodeId(static_cast<std::int64_t>(i)))));
              Program program = lower(*after, where, uniform_topology(down * across)).value();
              REQUIRE(distance(run(program, inputs, Precision::f64), exact, scales(exact), 1e-12) <= 1e-12);
              ++tried;
            }
        }
  CHECK(tried > 500);
}
