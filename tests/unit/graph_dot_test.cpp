#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/graph/export_dot.h"
#include "core/graph/text.h"
#include "tests/support/paths.h"

using namespace unity;

TEST_CASE("the DOT text shows operators, attributes and parallel shapes") {
  Pcg pcg = parse_pcg(R"(pcg g {
    x = input([4, 6])
    layer.0.weight = weight([6, 8])
    layer.0.matmul = matmul(x, layer.0.weight, activation="relu")
    quote "a \"b\"" = partition(0, 2, layer.0.matmul)
    return quote
  })");
  CHECK(to_dot(pcg) == read_file(UNITY_SOURCE_DIR "/tests/golden/graph_dot.dot"));
  CHECK(to_dot(pcg, {.clusters = false, .leaves = false}).find("input") == std::string::npos);
}
