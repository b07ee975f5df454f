#include <catch2/catch.hpp>

#include "core/rewrite/rule_dot.h"
#include "core/rewrite/rule_text.h"

using namespace unity;

TEST_CASE("a rule is drawn with both sides, each with variables of its own") {
  Rule rule =
      parse_rules("rule both\n  relu(partition(a, d, x)) => partition(a, d, relu(x))\n  where a == rank(x) - 1")[0];
  std::string dot = to_dot(rule);
  INFO(dot);
  auto has = [&](const char* text) { return dot.find(text) != std::string::npos; };
  CHECK(dot.starts_with("digraph \"both\" {\n"));
  CHECK(has("label=\"both\\nwhere "));
  CHECK(has("subgraph cluster_0 {\n    label=source;"));
  CHECK(has("subgraph cluster_1 {\n    label=target;"));
  for (std::string side : {"source", "target"}) {
    CHECK(has((side + "_x0 [label=\"x\", shape=ellipse").c_str()));
    CHECK(has((side + "_out0 [label=\"result 1\"").c_str()));
  }
  // x -> partition -> relu -> result on the left; the operators the other way round on the right.
  auto node = [&](const std::string& side, const std::string& label) {
    std::size_t at = dot.find("[label=\"" + label + "\"", dot.find("label=" + side + ";"));
    REQUIRE(at != std::string::npos);
    std::size_t begin = dot.rfind('\n', at) + 1;
    return dot.substr(begin + 4, at - begin - 5);
  };
  std::string cut = node("source", "partition(a, d)"), relu = node("source", "relu");
  CHECK(has((cut + " -> " + relu + ";").c_str()));
  CHECK(has(("source_x0 -> " + cut + ";").c_str()));
  CHECK(has((relu + " -> source_out0;").c_str()));
  cut = node("target", "partition(a, d)"), relu = node("target", "relu");
  CHECK(has((relu + " -> " + cut + ";").c_str()));
  CHECK(has(("target_x0 -> " + relu + ";").c_str()));
  CHECK(has((cut + " -> target_out0;").c_str()));
}

TEST_CASE("a value that a rule uses twice is drawn once") {
  Rule rule = parse_rules("rule twice\n  let a = relu(x)\n  (a, mul(a, a)) => (a, mul(a, a))")[0];
  std::string dot = to_dot(rule);
  INFO(dot);
  std::size_t drawn = 0;
  for (std::size_t at = dot.find("label=\"relu\""); at != std::string::npos; at = dot.find("label=\"relu\"", at + 1))
    ++drawn;
  CHECK(drawn == 2);  // once on each side
  CHECK(dot.find("source_out1 [label=\"result 2\"") != std::string::npos);
}
