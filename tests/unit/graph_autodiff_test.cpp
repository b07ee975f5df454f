#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "tests/support/graph_gradients.h"

using namespace unity;

TEST_CASE("gradients of a small MLP equal central differences") {
  check_gradients(parse_pcg(R"(pcg mlp {
    x = input([3, 4])  labels = input([3], dtype="i32")
    h = relu(matmul(x, weight([4, 5])))
    return cross_entropy(matmul(h, weight([5, 3])), labels)
  })"),
                  1);
}

TEST_CASE("a value or weight that is used twice receives the sum of its gradients") {
  check_gradients(parse_pcg(R"(pcg tied {
    x = input([3, 4])  labels = input([3], dtype="i32")  w = weight([4, 4])
    h = matmul(x, w)
    return cross_entropy(add(matmul(h, w), relu(h)), labels)
  })"),
                  2);
}

TEST_CASE("only what lies between a weight and the loss needs a gradient") {
  Pcg pcg = parse_pcg(R"(pcg g {
    x = input([3, 4])  labels = input([3], dtype="i32")  w = weight([4, 4])
    a = relu(x)
    h = matmul(a, w)
    metric = relu(h)
    return cross_entropy(h, labels), metric
  })");
  //                                               x      labels  w     a      h     metric loss
  CHECK(needs_gradient(pcg) == std::vector<bool>{false, false, true, false, true, false, true});
  CHECK_FALSE(gradient_program(pcg, NodeId(4), needs_gradient(pcg)).input_gradients[0]);
  CHECK(gradient_program(pcg, NodeId(3), needs_gradient(pcg)).steps.empty());
}

TEST_CASE("a parallel graph, a loss that is no scalar and an unused weight are refused") {
  auto error = [](const std::string& body) {
    return differentiate(parse_pcg("pcg g { " + body + " }")).error().message;
  };
  CHECK(error("return matmul(input([3, 4]), weight([4, 4]))") ==
        "differentiate: output 0 of 'g' is f32[3, 4], expected a scalar loss");
  CHECK(error("x = input([4, 4]) p = partition(0, 2, x) return p") ==
        "differentiate: partition 'p' is parallel, expected a graph without parallelism");
  CHECK(
      error("w = weight([2]) return cross_entropy(matmul(input([3, 4]), weight([4, 4])), input([3], dtype=\"i32\"))") ==
      "differentiate: the loss does not depend on weight 'w'");
}
