// What proofs start from: facts about sizes, schemas from axis tables, and the check that finds a false axiom.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/rewrite/rule_text.h"
#include "core/verify/check_axioms.h"
#include "core/verify/layouts.h"
#include "core/verify/shape_facts.h"

namespace unity {
namespace {

ShapeFacts facts_of(const std::string& name, const Attributes& attributes, const std::vector<Dims>& dims) {
  const Operator& op = get_operator(name);
  std::vector<Shape> inputs;
  for (const Dims& d : dims) inputs.push_back({d, DType::f32});
  Attributes all = complete_attributes(name, op.attributes(), attributes).value();
  return shape_facts(op, all, inputs, op.axes(all, inputs).value());
}

TEST_CASE("the sizes of a product are those of its operands, and k is equal in both") {
  ShapeFacts f = facts_of("matmul", {}, {{4, 6}, {6, 8}});
  REQUIRE(f.required.size() == 1);
  CHECK(f.required[0] == std::pair(OperandDim{0, 1}, OperandDim{1, 0}));
  CHECK(f.outputs[0][0].dims == std::vector{OperandDim{0, 0}});
  CHECK(f.outputs[0][1].dims == std::vector{OperandDim{1, 1}});
}

TEST_CASE("equal sizes of a sum are not required, since others broadcast") {
  ShapeFacts f = facts_of("add", {}, {{4, 6}, {4, 6}});
  CHECK(f.required.empty());
  CHECK(f.aligned.size() == 2);
  CHECK(facts_of("add", {}, {{4, 1}, {4, 6}}).ones == std::vector{OperandDim{0, 1}});
}

TEST_CASE("a join's size is the sum, a part's is its element of the list") {
  ShapeFacts joined = facts_of("concat", {std::int64_t{1}}, {{4, 6}, {4, 2}});
  CHECK(joined.outputs[0][1].kind == SizeSource::Kind::sum);
  ShapeFacts parts = facts_of("split", {std::int64_t{1}, Dims{6, 2}}, {{4, 8}});
  REQUIRE(parts.outputs.size() == 2);
  CHECK(parts.outputs[1][1].kind == SizeSource::Kind::element);
  CHECK(parts.outputs[1][1].index == 1);
}

TEST_CASE("an axiom of one direction holds where its right side is defined, and not of wider indices") {
  // Indices below the rows of t read the same rows of a longer table; in the other direction some are out of range.
  auto check = [](const std::string& text) { return check_axiom("a", parse_axioms(text).front(), {}).fault; };
  CHECK(check("axiom a embedding(i, concat(0, t, u)) <= embedding(i, t)").empty());
  CHECK(check("axiom a embedding(i, concat(0, t, u)) = embedding(i, t)") != "");
}

TEST_CASE("a sum commutes with a transposition where an operand has one element or no dimensions") {
  for (const Dims& y : {Dims{4, 1}, Dims{}}) {
    std::vector<std::string> names;
    for (const Schema& s : schemas_of(get_operator("add"), {}, {{{4, 6}, DType::f32}, {y, DType::f32}}))
      names.push_back(s.name);
    CHECK(std::count(names.begin(), names.end(), "pointwise(add)") == (y.empty() ? 3 : 1));
  }
}

TEST_CASE("the schemas of a product are its shardings and its linearity") {
  std::vector<std::string> names;
  std::string text;
  for (const Schema& s : schemas_of(get_operator("matmul"), {std::string("none"), std::int64_t{0}},
                                    {{{4, 6}, DType::f32}, {{6, 8}, DType::f32}})) {
    names.push_back(s.name);
    if (s.name == "shard(matmul.k)") text = print(s.axiom);
  }
  CHECK(names == std::vector<std::string>{"shard(matmul.m)", "shard(matmul.n)", "shard(matmul.k)", "linear(matmul.0)",
                                          "linear(matmul.0)", "linear(matmul.1)", "linear(matmul.1)"});
  CHECK(text.find("matmul(concat(1, x0a, x0b, groups=g), concat(0, x1a, x1b, groups=g)") != std::string::npos);
  CHECK(text.find("add(matmul(x0a, x1a") != std::string::npos);
}

TEST_CASE("with an activation only the axes that it leaves parallel have schemas") {
  std::vector<std::string> names;
  for (const Schema& s : schemas_of(get_operator("matmul"), {std::string("relu"), std::int64_t{0}},
                                    {{{4, 6}, DType::f32}, {{6, 8}, DType::f32}}))
    names.push_back(s.name);
  CHECK(names == std::vector<std::string>{"shard(matmul.m)", "shard(matmul.n)"});
}

TEST_CASE("what depends on where an element stands, or on how many there are, has no schema there") {
  std::vector<std::string> refuted = refuted_schemas();
  for (const char* name :
       {"shard(reduce_mean.d0)", "shard(causal_softmax.d1)", "shard(embedding.v)", "shard(conv2d.g)"})
    CHECK(std::find(refuted.begin(), refuted.end(), name) != refuted.end());
  CHECK(std::find(refuted.begin(), refuted.end(), "shard(matmul.k)") == refuted.end());
}

TEST_CASE("a false axiom is found on small shapes") {
  for (const char* text : {
           "axiom f relu(add(x, y)) = add(relu(x), relu(y))",
           "axiom f sub(x, y) = sub(y, x)",
           "axiom f concat(1, conv2d(x, w, groups=g), conv2d(x, v, groups=g)) = conv2d(x, concat(0, w, v), groups=g)",
           // One side is well-typed where the other is not: x and y of sizes 1 and 2.
           "axiom f matmul(add(x, y), w) = add(matmul(x, w), matmul(y, w))",
       }) {
    AxiomCheck check = check_axiom("f", parse_axioms(text).front(), {});
    INFO(text);
    CHECK_FALSE(check.fault.empty());
  }
  CHECK(check_axiom("t", parse_axioms("axiom t add(x, y) = add(y, x)").front(), {}).fault.empty());
}

TEST_CASE("monomials are products of symbols and primes") {
  CHECK(to_string(monomial_of(12)) == "2^2 3");
  CHECK(to_string(monomial_of(12) / monomial_of(6)) == "2");
  CHECK(to_string(Monomial{{"d", 1}} * Monomial{{"d", -1}}) == "1");
}

}  // namespace
}  // namespace unity
