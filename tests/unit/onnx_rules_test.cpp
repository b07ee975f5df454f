// Exporters' decompositions become one operator again, with the same values.
#include <cmath>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "core/graph/text.h"
#include "core/models/onnx/simplify.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/onnx_file.h"
#include "tests/support/rewrite_check.h"

using namespace unity;
using namespace unity::test;

namespace {

std::string operators(const Pcg& pcg) {
  std::string text;
  for (const Node& node : pcg.nodes())
    if (!node.is_leaf()) text += (text.empty() ? "" : " ") + node.op->name();
  return text;
}

// The graph after the import rules, checked to compute in double precision what it did before.
Pcg simplified(const std::string& text, const std::vector<Rule>& rules = import_rules()) {
  Pcg before = parse_pcg("pcg g { " + text + " }"), after = simplify(before, rules);
  LeafValues leaves = random_leaves(before, {DType::f64, 3, 0});
  LogicalTensor x = evaluate_outputs(before, leaves)[0], y = evaluate_outputs(after, leaves)[0];
  INFO(print(after));
  REQUIRE(x.shape() == y.shape());
  for (std::int64_t i = 0; i < x.elements(); ++i) CHECK(y.number(i) == Approx(x.number(i)).epsilon(1e-5).margin(1e-7));
  return after;
}

}  // namespace

TEST_CASE("every rule of imports is applied to one of these, and keeps the values") {
  const std::string norm =
      "x = input([2, 4]) g = weight([4]) b = weight([4]) m = reshape([2, 1], reduce_mean([1], x)) ";
  const std::string heads = "q = input([2, 2, 3, 4]) k = input([2, 2, 3, 4]) v = input([2, 2, 3, 4]) ";
  const std::string apart = "q = input([2, 2, 3, 4]) k = input([2, 3, 2, 4]) v = input([2, 2, 3, 4]) ";
  const std::string root = "0.7071067690849304";  // as a float holds it
  std::vector<std::pair<std::string, std::string>> cases = {
      {"x = input([2, 4]) return scale(0.5, mul(x, shift(1.0, erf(scale(" + root + ", x)))))", "gelu"},
      {"x = input([2, 4]) return mul(shift(1.0, erf(scale(" + root + ", x))), scale(0.5, x))", "gelu"},
      {"x = input([2, 4]) return mul(x, scale(0.5, shift(1.0, erf(scale(" + root + ", x)))))", "gelu"},
      {"x = input([2, 4]) return mul(sigmoid(x), x)", "silu"},
      {norm + "c = sub(x, m) return add(mul(g, div(c, sqrt(shift(0.00001, reshape([2, 1], reduce_mean([1], power(2.0, "
              "c))))))), b)",
       "layer_norm"},
      {norm + "c = sub(x, m) return add(b, mul(div(c, sqrt(shift(0.00001, reshape([2, 1], reduce_mean([1], mul(c, "
              "c)))))), g))",
       "layer_norm"},
      {"x = input([2, 4]) g = weight([4]) m = reshape([2, 1], reduce_mean([1], power(2.0, x)))\n"
       "return mul(g, div(x, sqrt(shift(0.000001, m))))",
       "rms_norm"},
      {"x = input([2, 4]) g = weight([4]) m = reshape([2, 1], reduce_mean([1], power(2.0, x)))\n"
       "return mul(mul(x, power(-1.0, sqrt(shift(0.000001, m)))), g)",
       "rms_norm"},
      {heads + "return batch_matmul(softmax(scale(0.5, batch_matmul(q, transpose([0, 1, 3, 2], k)))), v)", "attention"},
      {heads + "return batch_matmul(softmax(batch_matmul(scale(0.7, q), scale(0.7, transpose([0, 1, 3, 2], k)))), v)",
       "attention"},
      {heads + "return batch_matmul(softmax(batch_matmul(scale(0.7, q), scale(0.7, k), transpose_b=1)), v)",
       "attention"},
      {heads + "t = reshape([2, 2, 4, 3], transpose([0, 2, 1], reshape([4, 3, 4], k)))\n"
               "return batch_matmul(softmax(scale(0.5, batch_matmul(q, t))), v)",
       "attention"},
      {apart + "return batch_matmul(softmax(scale(0.5, batch_matmul(q, transpose([0, 2, 3, 1], k)))), v)",
       "transpose attention"},
      {apart + "return batch_matmul(softmax(batch_matmul(scale(0.7, q), transpose([0, 2, 3, 1], scale(0.7, k)))), v)",
       "transpose attention"},
  };
  for (const auto& [text, left] : cases) {
    INFO(text);
    CHECK(operators(simplified(text)) == left);
  }
  // Without any one of the rules some case stays as it was.
  for (std::size_t leave = 0; leave < import_rules().size(); ++leave) {
    std::vector<Rule> rules = import_rules();
    rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(leave));
    bool needed = false;
    for (const auto& [text, left] : cases)
      needed |= operators(simplify(parse_pcg("pcg g { " + text + " }"), rules)) != left;
    INFO(import_rules()[leave].name);
    CHECK(needed);
  }
}

TEST_CASE("what only looks like a decomposition stays") {
  for (const char* text : {
           "x = input([2, 4]) return scale(0.5, mul(x, shift(1.0, erf(scale(0.7, x)))))",
           "x = input([2, 4]) y = input([2, 4]) return scale(0.5, mul(x, shift(1.0, erf(scale(0.7071067690849304, "
           "y)))))",
           // The mean over the other dimension.
           "x = input([4, 4]) g = weight([4]) b = weight([4]) m = reshape([1, 4], reduce_mean([0], x)) c = sub(x, m)\n"
           "return add(mul(div(c, sqrt(shift(0.1, reshape([1, 4], reduce_mean([0], power(2.0, c)))))), g), b)",
       })
    CHECK(operators(simplified(text)) == operators(parse_pcg("pcg g { " + std::string(text) + " }")));
}

TEST_CASE("the import rules print and parse") {
  for (const Rule& rule : import_rules()) CHECK(print(parse_rules(print(rule))[0]) == print(rule));
}

TEST_CASE("a layer norm, a gelu and an attention of a file become those operators") {
  OnnxFile file(13);
  file.input("x", Dims{2, 3, 4}).weight("g", {4}, {1, 2, 3, 4}).weight("b", {4}, {4, 3, 2, 1});
  file.weight("two", {}, {2}).weight("eps", {}, {1e-5f}).weight("root", {}, {1.41421354f}).weight("one", {}, {1});
  file.weight("half", {}, {0.5f});
  file.node("ReduceMean", {"x"}, {"mean"}, {{"axes", Dims{-1}}}).node("Sub", {"x", "mean"}, {"centred"});
  file.node("Pow", {"centred", "two"}, {"square"}).node("ReduceMean", {"square"}, {"variance"}, {{"axes", Dims{-1}}});
  file.node("Add", {"variance", "eps"}, {"safe"}).node("Sqrt", {"safe"}, {"deviation"});
  file.node("Div", {"centred", "deviation"}, {"normal"}).node("Mul", {"normal", "g"}, {"scaled"});
  file.node("Add", {"scaled", "b"}, {"h"});
  file.node("Div", {"h", "root"}, {"i"}).node("Erf", {"i"}, {"j"}).node("Add", {"j", "one"}, {"k"});
  file.node("Mul", {"h", "k"}, {"l"}).node("Mul", {"l", "half"}, {"m"});
  file.integers("heads", {4}, {0, 0, 2, 2}).weight("quarter", {}, {0.84089642f});
  file.node("Reshape", {"m", "heads"}, {"n"}).node("Transpose", {"n"}, {"q"}, {{"perm", Dims{0, 2, 1, 3}}});
  file.node("Transpose", {"n"}, {"kt"}, {{"perm", Dims{0, 2, 3, 1}}});
  file.node("Mul", {"q", "quarter"}, {"qs"}).node("Mul", {"kt", "quarter"}, {"ks"});
  file.node("MatMul", {"qs", "ks"}, {"scores"}).node("Softmax", {"scores"}, {"p"}, {{"axis", std::int64_t{-1}}});
  file.node("MatMul", {"p", "q"}, {"y"}).output("y");
  OnnxImport import = import_file(file);
  CHECK(operators(import.model.pcg) == "layer_norm gelu reshape transpose transpose attention");
  const Node& attention = import.model.pcg[import.model.pcg.outputs()[0].node];
  CHECK(real_attribute(attention.attributes, 0) == Approx(1 / std::sqrt(2.0)));
  CHECK(real_attribute(import.model.pcg[find_node(import.model.pcg, "layer_norm")].attributes, 0) == 1e-5);
}
