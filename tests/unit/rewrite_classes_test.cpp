#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/normalize.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

const char* kMlp = R"(pcg mlp {
  x = input([8, 4])
  w1 = weight([4, 16])
  w2 = weight([16, 4])
  fc1 = matmul(x, w1)
  act = relu(fc1)
  fc2 = matmul(act, w2)
  return fc2
})";

// The operators with their operands, without labels, origins and shapes: "fc1 = matmul(x, v4)".
std::vector<std::string> lines(const Pcg& pcg) {
  std::vector<std::string> result;
  std::string text = print(pcg);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    std::size_t head = line.find_first_of(" ", 2), equals = line.find(" = "), comment = line.find("  #");
    if (equals != std::string::npos) result.push_back(line.substr(2, head - 2) + line.substr(equals, comment - equals));
    at = end + 1;
  }
  return result;
}

const AxisClass& class_named(const std::vector<AxisClass>& classes, const std::string& name) {
  for (const AxisClass& c : classes)
    if (c.name == name) return c;
  FAIL("there is no class " << name);
  return classes[0];
}

TEST_CASE("Megatron's split of a two-layer perceptron is three rule applications") {
  // First product by columns, activation by columns, second product by rows: one reduction, nothing in between.
  Pcg pcg = parse_pcg(kMlp);
  Pcg step1 = apply_shard(pcg, test::find_node(pcg, "matmul"), 1, 2).value();
  Pcg step2 = apply_shard(step1, test::find_node(step1, "relu"), 1, 2).value();
  NodeId fc2;
  for (std::size_t i = 0; i < step2.size(); ++i)
    if (step2.nodes()[i].name == "fc2" && step2.nodes()[i].is_compute()) fc2 = NodeId(static_cast<std::int64_t>(i));
  Pcg step3 = apply_shard(step2, fc2, 2, 2).value();
  test::check_same_function(pcg, step3);
  CHECK(lines(step3) == std::vector<std::string>{"x = input([8, 4])", "w1 = weight([4, 16])", "w2 = weight([16, 4])",
                                                 "v3 = replicate(2, x)", "v4 = partition(1, 2, w1)",
                                                 "fc1 = matmul(v3, v4)", "act = relu(fc1)", "v7 = partition(0, 2, w2)",
                                                 "fc2 = matmul(act, v7)", "v9 = reduce(2, fc2)"});
}

TEST_CASE("the classes of a perceptron are batch, hidden units, inputs and outputs") {
  Pcg pcg = parse_pcg(kMlp);
  std::vector<AxisClass> classes = axis_classes(pcg);
  std::vector<std::string> names;
  for (const AxisClass& c : classes) names.push_back(fmt::format("{}: {}", c.name, c.members.size()));
  CHECK(names == std::vector<std::string>{"m of fc1: 3", "n of fc1: 3", "k of fc1: 1", "n of fc2: 1"});
  // Axes of matmul: m, n, k. The hidden units are columns of fc1, elements of act, rows of fc2.
  CHECK(classes[1].members == std::vector<AxisClassMember>{{NodeId(3), 1}, {NodeId(4), 1}, {NodeId(5), 2}});
  CHECK(class_of_dimension(pcg, classes, {NodeId(0), 0}, 0) == std::optional<std::size_t>(0));
  CHECK(class_of_dimension(pcg, classes, {NodeId(2), 0}, 0) == std::optional<std::size_t>(1));
  CHECK(class_of_dimension(pcg, classes, {NodeId(5), 0}, 1) == std::optional<std::size_t>(3));
}

TEST_CASE("sharding the class of hidden units is Megatron's split, and is logged") {
  Pcg pcg = parse_pcg(kMlp);
  std::vector<DerivationEvent> log;
  Pcg sharded = shard_class(pcg, axis_classes(pcg)[1], 2, &log).value();
  test::check_same_function(pcg, sharded);
  CHECK(log == std::vector<DerivationEvent>{
                   {"shard_matmul_n", "fc1", 2}, {"shard_relu_d1", "act", 2}, {"shard_matmul_k", "fc2", 2}});
  CHECK(test::count_nodes(sharded, "combine") == 0);
  CHECK(test::count_nodes(sharded, "reduce") == 1);
}

TEST_CASE("classes compose: data and tensor parallelism in a grid") {
  Pcg pcg = parse_pcg(kMlp);
  Pcg data = shard_class(pcg, axis_classes(pcg)[0], 2).value();
  Pcg both = shard_class(data, axis_classes(data)[1], 4).value();
  test::check_same_function(pcg, both);
  CHECK(node_sharding(both, test::find_node(both, "matmul")).tasks() == 8);
  // Weights: a quarter of the columns each, on the two halves of the batch.
  NodeId fc1 = test::find_node(both, "matmul");
  CHECK(to_string(both.shape(both[fc1].inputs[1])) == "f32[4, 16/4] copies 2");
  CHECK(to_string(both.shape(both[fc1].inputs[0])) == "f32[8/2, 4] copies 4");
}

TEST_CASE("where a computation is done on several devices, a class spreads it over them") {
  Pcg pcg = parse_pcg(kMlp);
  Pcg copied = apply_replicate_everywhere(pcg, 2).value();
  CHECK(copied.shape(copied.outputs()[0]).copies == 2);
  std::vector<DerivationEvent> log;
  Pcg spread = shard_class(copied, axis_classes(copied)[1], 2, &log).value();
  test::check_same_function(pcg, spread);
  CHECK(log[0] == DerivationEvent{"spread_matmul_n", "fc1", 2});
  CHECK(log[2] == DerivationEvent{"spread_matmul_k", "fc2", 2});
  // Still two devices, and an all-reduce at the end: reduce, then replicate.
  CHECK(node_sharding(spread, test::find_node(spread, "matmul")).tasks() == 2);
  CHECK(test::count_nodes(spread, "reduce") == 1);
  CHECK(spread.shape(spread.outputs()[0]) == copied.shape(copied.outputs()[0]));
}

TEST_CASE("a class that cannot be split by a degree says where and why") {
  Pcg pcg = parse_pcg(kMlp);
  auto failed = shard_class(pcg, axis_classes(pcg)[1], 3);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message == "shard_matmul: 3 parts do not divide axis n of fc1, of size 16");
}

TEST_CASE("the heads of attention are one class, from the query's columns to the rows of the output projection") {
  Pcg pcg = build_model({"bert-tiny", {}});
  std::vector<AxisClass> classes = axis_classes(pcg);
  const AxisClass& heads = class_named(classes, "n of encoder.0.attention.query.matmul");
  std::vector<std::string> of_query;
  for (AxisClassMember m : heads.members) {
    const Node& node = pcg[m.node];
    std::string name = node.name.substr(std::string("encoder.0.attention.").size());
    if (name.starts_with("key") || name.starts_with("value")) continue;
    of_query.push_back(fmt::format("{} {}", name, node.table->axes[static_cast<std::size_t>(m.axis)].name));
  }
  CHECK(of_query == std::vector<std::string>{"query.matmul n", "query.add_bias d2", "query.split_heads d2",
                                             "query.transpose d2", "scores b1", "scale d1", "softmax d1", "context b1",
                                             "context.transpose d1", "merge_heads d2", "output.matmul k"});
  CHECK(heads.others.empty());
  Pcg sharded = shard_class(pcg, heads, 2).value();
  test::check_same_function(pcg, sharded);
  CHECK(test::count_nodes(sharded, "combine") == 0);
  CHECK(test::count_nodes(sharded, "reduce") == 1);
}

TEST_CASE("the batch is one class that reaches the loss, and splitting it moves no activations") {
  Pcg pcg = build_model({"bert-tiny", {}});
  std::vector<AxisClass> classes = axis_classes(pcg);
  NodeId tokens = test::find_node(pcg, "input");
  auto batch = class_of_dimension(pcg, classes, {tokens, 0}, 0);
  REQUIRE(batch);
  Pcg sharded = shard_class(pcg, classes[*batch], 2).value();
  test::check_same_function(pcg, sharded);
  CHECK(test::count_nodes(sharded, "combine") == 1);  // of the logits, an output
  CHECK(test::count_nodes(sharded, "reduce") == 1);   // of the loss
  // Query and key positions are in one class; the scores are split by queries, keys are gathered.
  auto sequence = class_of_dimension(pcg, classes, {tokens, 0}, 1);
  REQUIRE(sequence);
  CHECK_FALSE(classes[*sequence].others.empty());
  Pcg by_sequence = shard_class(pcg, classes[*sequence], 2).value();
  test::check_same_function(pcg, by_sequence);
}

}  // namespace
}  // namespace unity
