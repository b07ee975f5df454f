// Rules of TASO and FlexFlow in our language.
#include <catch2/catch.hpp>

#include "core/rewrite/import/translate.h"
#include "tests/support/peer_files.h"

namespace unity {
namespace {

using namespace test;
using Kind = Translation::Kind;

// The rule's text without its name.
std::string taso(const PeerRule& rule) {
  Translation t = translate(rule, PeerNumbering::taso, "r");
  INFO(t.why);
  REQUIRE(t.kind == Kind::rule);
  CHECK(t.rule.name == "r");
  return t.text.substr(t.text.find('\n') + 1);
}
std::string flexflow(const PeerRule& rule) {
  Translation t = translate(rule, PeerNumbering::flexflow, "r");
  INFO(t.why);
  REQUIRE(t.kind == Kind::rule);
  return t.text.substr(t.text.find('\n') + 1);
}
std::string refused(const PeerRule& rule, PeerNumbering numbering, Kind kind) {
  Translation t = translate(rule, numbering, "r");
  CHECK(t.kind == kind);
  return t.why;
}
std::string unsupported(const PeerRule& rule, PeerNumbering numbering = PeerNumbering::flexflow) {
  return refused(rule, numbering, Kind::unsupported);
}
std::string ill_typed(const PeerRule& rule, PeerNumbering numbering = PeerNumbering::taso) {
  return refused(rule, numbering, Kind::ill_typed);
}

TEST_CASE("FlexFlow's dimensions count that of the replicas, and LINEAR's weight is transposed") {
  CHECK(flexflow(peer_rule({linear({-1}, {-4}), partition(2, {0})},
                           {replicate(0, {-1}), partition(1, {-4}), linear({0}, {1})})) ==
        "  partition(1, 2, matmul(v1, v4, transpose_w=1)) => "
        "matmul(replicate(2, v1), partition(0, 2, v4), transpose_w=1)\n"
        "  where rank(v4) == 2, rank(v1) == 2\n");
}

TEST_CASE("a concat along the replicas is a tensor of summands") {
  CHECK(flexflow(peer_rule({add({-1}, {-2})}, {concat(0, 3, {-1}, {-2}), reduce(0, {0})})) ==
        "  add(v1, v2) => reduce(2, stack_partials(v1, v2))\n"
        "  where rank(v2) == 2, rank(v1) == 2, dim(v1, 0) == dim(v2, 0), dim(v1, 1) == dim(v2, 1)\n");
}

TEST_CASE("activations are fused where our operator can do that") {
  CHECK(taso(peer_rule({matmul({-1}, {-2}), relu({0})}, {matmul({-1}, {-2}, 2)})) ==
        "  relu(matmul(v1, v2)) => matmul(v1, v2, activation=\"relu\")\n  where rank(v2) == 2, rank(v1) == 2\n");
  CHECK(taso(peer_rule({matmul({-1}, {-2}, 1)}, {matmul({-1}, {-2}, 3)})) ==
        "  sigmoid(matmul(v1, v2)) => tanh(matmul(v1, v2))\n  where rank(v2) == 2, rank(v1) == 2\n");
}

TEST_CASE("convolutions infer their groups and pad by their kernel") {
  // As many as there are channels of x for one of w: the same on both sides.
  std::string conditions = "rank(v2) == 4, rank(v1) == 4, dim(v2, 2) == 3, dim(v2, 3) == 3\n";
  CHECK(taso(peer_rule({conv2d({-1}, {-2}), relu({0})}, {relu({-1}), conv2d({0}, {-2})})) ==
        "  relu(conv2d(v1, v2, padding=[1, 1, 1, 1], groups=g1)) => "
        "conv2d(relu(v1), v2, padding=[1, 1, 1, 1], groups=g1)\n  where " +
            conditions);
  // 'Valid' does not pad, at any stride; what 'same' pads with a stride depends on sizes.
  CHECK(taso(peer_rule({conv2d({-1}, {-2}, 1, 2)}, {conv2d({-1}, {-2}, 1, 2)})) ==
        "  conv2d(v1, v2, stride=[2, 2], groups=g1) => "
        "conv2d(v1, v2, stride=[2, 2], groups=g1)\n  where " +
            conditions);
  CHECK(unsupported(peer_rule({conv2d({-1}, {-2}, 0, 2)}, {relu({-1})}), PeerNumbering::taso) ==
        "source operator 0 (CONV2D): with stride 2, 'same' padding depends on sizes");
}

TEST_CASE("a split has the sizes of the concat that it undoes") {
  PeerRule rule =
      peer_rule({matmul({-1}, {-2}), matmul({-1}, {-3})}, {concat(1, 2, {-2}, {-3}), matmul({-1}, {0}), split(1, {1})});
  rule.outputs = {{{0}, {2, 0}}, {{1}, {2, 1}}};
  CHECK(taso(rule) ==
        "  let (y1, y2) = split(1, [dim(v2, 1), dim(v3, 1)], matmul(v1, concat(1, v2, v3)))\n"
        "  (matmul(v1, v2), matmul(v1, v3)) => (y1, y2)\n"
        "  where rank(v3) == 2, rank(v2) == 2, rank(v1) == 2, dim(v2, 0) == dim(v3, 0)\n");
  CHECK(unsupported(peer_rule({split(1, {-1}), add({0, 0}, {0, 1})}, {relu({-1})}), PeerNumbering::taso) ==
        "source operator 0 (SPLIT): it undoes no concat, which would say its sizes");
}

TEST_CASE("transposes, scalars, pooling and larger kernels are translated") {
  // 2 = 1 * 2 + 0: the permutation (1, 0).
  PeerOperator transpose{"TRANSPOSE", {{-1}}, {{"NUMDIM", 2}, {"PERM", 2}, {"OUTSHUFFLE", 1}}};
  CHECK(taso(peer_rule({transpose, relu({0})}, {relu({-1}), {"TRANSPOSE", {{0}}, {{"NUMDIM", 2}, {"PERM", 2}}}})) ==
        "  relu(transpose([1, 0], v1)) => transpose([1, 0], relu(v1))\n  where rank(v1) == 2\n");
  CHECK(taso(peer_rule({{"MUL", {{-1}, {-2}}, {}}, {"MUL", {{0}, {-3}}, {}}},
                       {{"MUL", {{-2}, {-3}}, {}}, {"MUL", {{-1}, {0}}, {}}})) ==
        "  mul(mul(v1, v2), v3) => mul(v1, mul(v2, v3))\n  where rank(v3) == 0, rank(v2) == 0, rank(v1) == 2\n");
  PeerOperator pool{"POOL2D_AVG", {{-1}}, {{"KERNEL_H", 3}, {"KERNEL_W", 2}, {"PAD", 0}}};
  CHECK(taso(peer_rule({pool}, {pool})) ==
        "  avg_pool2d([3, 2], v1, padding=[1, 0, 1, 1]) => avg_pool2d([3, 2], v1, padding=[1, 0, 1, 1])\n"
        "  where rank(v1) == 4\n");
  PeerOperator enlarge{"ENLARGE", {{-1}}, {{"KERNEL_H", 3}, {"KERNEL_W", 3}}};
  CHECK(taso(peer_rule({enlarge}, {enlarge}))
            .find("pad([0, 0, (3 - dim(v1, 2) + 1)/2, (3 - dim(v1, 3) + 1)/2], "
                  "[0, 0, (3 - dim(v1, 2))/2, (3 - dim(v1, 3))/2], v1)") != std::string::npos);
}

TEST_CASE("what has no meaning here is unsupported") {
  CHECK(unsupported(peer_rule({replicate(1, {-1})}, {relu({-9})})) ==
        "source operator 0 (REPLICATE): along dimension 1, which is not that of replicas");
  CHECK(unsupported(peer_rule({relu({-1})}, {reduce(2, {-1})})) ==
        "target operator 0 (REDUCE): along dimension 2, which is not that of replicas");
  CHECK(unsupported(peer_rule({combined(0, {-1})}, {relu({-1})})) ==
        "source operator 0 (COMBINE): along the dimension of replicas");
  CHECK(unsupported(peer_rule({relu({-1}), split(0, {0})}, {relu({-1}), split(0, {0})})) ==
        "source operator 1 (SPLIT): along the dimension of replicas");
  CHECK(unsupported(peer_rule({{"CONSTANT_IMM", {}, {}}, matmul({-1}, {0})}, {relu({-1})}), PeerNumbering::taso) ==
        "source operator 0 (CONSTANT_IMM): there is no such operator here");
}

TEST_CASE("a join of joins of joins has an end") {
  std::vector<PeerOperator> source = {concat(0, 2, {-1}, {-1})};
  for (int i = 0; i < 25; ++i) source.push_back(concat(0, 2, {i}, {i}));
  CHECK(unsupported(peer_rule(source, {relu({-1})}), PeerNumbering::taso) ==
        "source operator 9 (CONCAT): found 1024 joined pieces, expected at most 1000");
}

TEST_CASE("rules whose sides do not fit are ill-typed") {
  CHECK(ill_typed(peer_rule({{"TRANSPOSE", {{-1}}, {{"NUMDIM", 2}, {"PERM", -1}}}}, {relu({-1})})) ==
        "source operator 0 (TRANSPOSE): PERM is -1, which is no permutation");
  CHECK(ill_typed(peer_rule({relu({-1})}, {add({-1}, {-2})})) == "the target uses v2, which the source does not bind");
  CHECK(ill_typed(peer_rule({matmul({-1}, {-2}), conv2d({0}, {-3})}, {relu({-1})})) ==
        "source operator 1 (CONV2D): found an input of rank 2, expected 4");
  CHECK(ill_typed(peer_rule({concat(2, 2, {-1}, {-2})}, {relu({-1})})) ==
        "source operator 0 (CONCAT): there is no dimension 2 of 2");
  CHECK(ill_typed(peer_rule({{"RELU", {{-1}, {-2}}, {}}}, {relu({-1})})) ==
        "source operator 0 (RELU): found 2 inputs, expected 1");
  CHECK(ill_typed(peer_rule({{"PARTITION", {{-1}}, {{"PARALLEL_DIM", 1}}}}, {relu({-1})}), PeerNumbering::flexflow) ==
        "source operator 0 (PARTITION): there is no PARALLEL_DEGREE");
}

}  // namespace
}  // namespace unity
