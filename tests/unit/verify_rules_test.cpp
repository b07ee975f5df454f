// Verdicts on rules by name: those of the literature, and wrong ones.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/rewrite/rule_text.h"
#include "core/verify/prover.h"
#include "core/verify/verify.h"

namespace unity {
namespace {

Verification verdict(const std::string& text, const VerifyOptions& options = {}) {
  return verify(parse_rules("rule r " + text).front(), options);
}

void check_proved(const std::string& text) {
  Verification v = verdict(text);
  INFO(text << ": " << to_string(v.verdict) << ": " << v.why);
  CHECK(v.verdict == Verdict::proved);
}

bool uses(const Verification& v, const std::string& axiom) {
  return std::find(v.record.axioms.begin(), v.record.axioms.end(), axiom) != v.record.axioms.end();
}

TEST_CASE("a value is detached only where the result does not depend on it") {
  // Equal as functions, but the second one has no gradient.
  Verification v = verdict("reduce_max([1], x) => reduce_max([1], x, detached=1)");
  CHECK(v.verdict == Verdict::refuted);
  CHECK(v.why == "a value that is detached changes the result: gradients would differ");
  check_proved("partition(0, d, reduce_max([1], x, detached=1)) => reduce_max([1], partition(0, d, x), detached=1)");
}

TEST_CASE("a detached value does no harm where both sides are undefined") {
  // The logarithm of what is below the maximum; random numbers in its place are no maximum.
  check_proved("let m = reduce_max([0], x, detached=1) add(log(sub(x, m)), y) => add(y, log(sub(x, m)))");
  check_proved("let m = reduce_max([0], x, detached=1) add(log(sub(x, m)), y) => add(log(sub(x, m)), y)");
}

TEST_CASE("what is a number on one side alone refutes a rule") {
  CHECK(verdict("log(mul(x, y)) => add(log(x), log(y))").verdict == Verdict::refuted);
}

TEST_CASE("what holds at some values, or of some sizes, is not proved for all") {
  auto proved = [](const std::string& text) {
    const Verdict sampled = verdict(text).verdict, alone = prove(parse_rules("rule r " + text).front()).verdict;
    return sampled == Verdict::proved || alone == Verdict::proved;
  };
  // Rows of attention can be joined, but not under a causal mask.
  const std::string rows =
      "concat(1, attention(f, q1, k, v, causal=c), attention(f, q2, k, v, causal=c)) "
      "=> attention(f, concat(1, q1, q2), k, v, causal=c)";
  CHECK(!proved(rows));
  CHECK(!proved(rows + " where c > 0"));
  check_proved(rows + " where c == 0");
  // Sizes of the parts of a split are sizes of the dimension that is split, though others be as large by chance.
  CHECK(
      !proved("let (a, b) = split(1, s, x) (reduce_sum([0, 1], slice(z, r, pad(z, c, a))), b) "
              "=> (reduce_sum([0, 1], a), b) "
              "where rank(x) == 2, r == [dim(a, 1), dim(a, 0)], (dim(a, 0) - dim(a, 1)) % 30 == 0"));
  // A slice moves no elements where it takes all, which it does not of a transposed operand.
  CHECK(
      !proved("let a = slice(b, s, transpose([1, 0], x)) reduce_sum([0, 1], slice(z, r, pad(z, c, a))) "
              "=> reduce_sum([0, 1], a) where rank(x) == 2, s == [dim(x, 1), dim(x, 0)], "
              "r == [dim(x, 0), dim(x, 1)], (dim(x, 0) - dim(x, 1)) % 30 == 0"));
  // The channels of a group lie in strips of the image's channels.
  CHECK(!proved("conv2d(x, w, groups=g) => reduce(d, conv2d(replicate(d, x), partition(1, d, w), groups=g))"));
}

TEST_CASE("powers whose exponents are beyond all bounds have no normal form") {
  std::string power = "x";
  for (int i = 0; i < 11; ++i) power = "power(8.0, " + power + ")";  // 8^11 is 2^33
  const std::string rule = power + " => shift(1.0, scale(0.0, x))";
  CHECK(prove(parse_rules("rule r " + rule).front(), {0.2, 1, 4}).verdict != Verdict::proved);
  CHECK(verdict(rule, {0.2, 1, 4}).verdict == Verdict::refuted);
  // Most random numbers are no operands of this logarithm; larger ones are.
  CHECK(verdict("add(" + power + ", log(shift(-50.0, z))) => add(shift(1.0, scale(0.0, x)), log(shift(-50.0, z)))",
                {0.2, 1, 4})
            .verdict == Verdict::refuted);
}

TEST_CASE("a limit of next to nothing is a limit") {
  CHECK(ProofLimit{1e-9, {}}.steps() == 1);
  CHECK(ProofLimit{5, {}}.steps() == 5'000'000);
  CHECK(ProofLimit{1e5, {}}.steps() == std::numeric_limits<unsigned>::max());
}

TEST_CASE("element-wise arithmetic has a normal form") {
  Verification v = verdict("sub(scale(5.0, x), add(x, x)) => scale(3.0, x)");
  CHECK(v.verdict == Verdict::proved);
  CHECK(uses(v, "elementwise"));
  check_proved(
      "add(sub(x, y), sub(y, z)) => sub(shift(a, x), shift(a, z)) where rank(x) == 1, rank(y) == 1, "
      "rank(z) == 1, dim(x, 0) == dim(y, 0), dim(y, 0) == dim(z, 0)");
  check_proved("mul(add(x, y), sub(x, y)) => sub(power(2.0, x), power(2.0, y))");
  check_proved("relu(mul(scale(f, x), y)) => relu(mul(y, scale(f, x)))");
  // y is not zero on either side.
  check_proved("div(x, div(y, div(y, y))) => div(x, y)");
}

TEST_CASE("what is undefined elsewhere, or larger, has another normal form") {
  auto proved = [](const std::string& text) { return prove(parse_rules("rule r " + text).front()).verdict; };
  const std::string alike = " where rank(x) == 1, rank(y) == 1, dim(x, 0) == dim(y, 0)";
  CHECK(proved("div(x, div(x, y)) => y" + alike) != Verdict::proved);
  CHECK(proved("mul(div(x, y), y) => x" + alike) != Verdict::proved);
  CHECK(proved("add(x, div(y, y)) => shift(1.0, x)" + alike) != Verdict::proved);
  CHECK(proved("mul(div(x, log(y)), log(y)) => add(x, sub(log(y), log(y)))" + alike) != Verdict::proved);
  CHECK(proved("sub(add(x, y), y) => x") != Verdict::proved);  // y may be larger
  CHECK(proved("scale(f, scale(g, x)) => scale(f + g, x)") != Verdict::proved);
}

TEST_CASE("the paper's substitutions are proved for every degree") {
  // Fig. 11a, both ways; 11b; a product's reduction axis; a sum that waits until after the product.
  check_proved("partition(a, d, relu(x)) => relu(partition(a, d, x))");
  check_proved("relu(partition(a, d, x)) => partition(a, d, relu(x))");
  check_proved("reduce(2, stack_partials(x, y)) => add(x, y)");
  check_proved(
      "matmul(x, w) => reduce(d, matmul(partition(1, d, x), partition(0, d, w))) where rank(x) == 2, divides(d, dim(x, "
      "1))");
  check_proved("matmul(reduce(d, x), w) => reduce(d, matmul(x, replicate(d, w)))");
  Verification v = verdict("matmul(reduce(d, x), w) => reduce(d, matmul(x, replicate(d, w)))");
  CHECK(v.record.degrees == "all");
  CHECK(v.record.instances > 0);
  CHECK(v.record.axioms == std::vector<std::string>{"typing"});
}

TEST_CASE("a stored shard that is gathered before use is proved (FSDP)") {
  check_proved("matmul(x, replicate(d, w)) => matmul(x, replicate(d, combine(0, d, partition(0, d, w))))");
}

TEST_CASE("layer norm between reduce-scatter and all-gather is proved (sequence parallelism)") {
  check_proved(
      "replicate(d, layer_norm(reduce(d, x), g, b)) => "
      "replicate(d, combine(1, d, layer_norm(partition(1, d, reduce(d, x)), replicate(d, g), replicate(d, b)))) "
      "where rank(x) == 3");
}

TEST_CASE("vocabulary-parallel embedding, expert parallelism and convolution with halo are proved") {
  check_proved("embedding(ids, t) => reduce(d, embedding(replicate(d, ids), partition(0, d, t)))");
  check_proved(
      "batch_matmul(combine(1, d, x), w) => "
      "combine(0, d, batch_matmul(partition(0, d, combine(1, d, x)), partition(0, d, w))) where rank(x) == 3");
  check_proved(
      "conv2d(x, w, stride=s, padding=p, dilation=k, groups=g) => "
      "combine(2, d, conv2d(partition(2, d, x), replicate(d, w), stride=s, padding=p, dilation=k, groups=g))");
}

TEST_CASE("batch norm folds into the convolution before it, at inference") {
  const std::string folded =
      "let s = div(gamma, sqrt(shift(e, v))) "
      "batch_norm(conv2d(x, w, stride=k, padding=p, dilation=l, groups=n), m, v, gamma, beta, epsilon=e) => "
      "add(conv2d(x, mul(w, reshape([dim(w, 0), 1, 1, 1], s)), stride=k, padding=p, dilation=l, groups=n), "
      "reshape([dim(w, 0), 1, 1], sub(beta, mul(m, s))))";
  Verification v = verdict(folded);
  INFO(v.why);
  CHECK(v.verdict == Verdict::proved);
  CHECK(uses(v, "batch_norm_definition"));
  CHECK(uses(v, "conv2d_of_scaled_filters"));
}

TEST_CASE("a sum of depthwise convolutions is one with the sum of their kernels") {
  check_proved(
      "add(conv2d(x, w, groups=g), conv2d(x, u, groups=g)) => conv2d(x, add(w, u), groups=g) "
      "where dim(w, 0) == dim(u, 0), dim(w, 2) == dim(u, 2), dim(w, 3) == dim(u, 3)");
}

TEST_CASE("products that share an operand merge, also by groups") {
  Verification v = verdict(
      "let y1 = matmul(x, w1), y2 = matmul(x, w2) "
      "(y1, y2) => split(rank(x) - 1, [dim(w1, 1), dim(w2, 1)], matmul(x, concat(1, w1, w2)))");
  INFO(v.why);
  CHECK(v.verdict == Verdict::proved);
  CHECK(uses(v, "shard(matmul.n)"));
  CHECK(uses(v, "split_of_concat"));
}

TEST_CASE("sums and joins move through linear and pointwise operators") {
  for (const char* text : {
           "add(conv2d(x, w, padding=p), conv2d(y, v, padding=p)) => conv2d(concat(1, x, y), concat(1, w, v), "
           "padding=p)",
           "add(matmul(x, y), matmul(z, v)) => matmul(concat(1, x, z), concat(0, y, v))",
           "transpose([1, 0], concat(0, x, y)) => concat(1, transpose([1, 0], x), transpose([1, 0], y))",
           "concat(1, max_pool2d(k, x), max_pool2d(k, y)) => max_pool2d(k, concat(1, x, y))",
           "slice(b, s, relu(x)) => relu(slice(b, s, x))",
           "let (a, b) = split(i, s, relu(x)), (p, q) = split(i, s, x) (a, b) => (relu(p), relu(q))",
           "concat(0, softmax(x), softmax(y)) => softmax(concat(0, x, y)) where rank(x) > 1",
       })
    check_proved(text);
  CHECK(verdict("concat(0, softmax(x), softmax(y)) => softmax(concat(0, x, y)) where rank(x) == 1").verdict ==
        Verdict::refuted);
}

TEST_CASE("a rule is total when every target is well-typed, and says what keeps it from that") {
  CHECK(verdict("partition(a, d, relu(x)) => relu(partition(a, d, x))").total);
  Verification v = verdict("relu(x) => combine(0, d, relu(partition(0, d, x)))");
  CHECK(v.verdict == Verdict::proved);
  CHECK_FALSE(v.total);  // a dimension of fewer than d elements
  CHECK(v.partial.find("too large") != std::string::npos);
  v = verdict("relu(x) => combine(0, d, relu(partition(0, d, x))) where d*degree(x, 0) <= dim(x, 0)");
  INFO(v.partial);
  CHECK(v.total);
}

TEST_CASE("wrong rules are refuted with an instance") {
  for (const char* text : {
           "relu(add(x, y)) => add(relu(x), relu(y))",
           "matmul(x, w) => matmul(w, x)",
           "matmul(x, w) => reduce(d, matmul(partition(1, d, x), partition(1, d, w))) where rank(x) == 2",
           "relu(reduce(d, x)) => reduce(d, relu(x))",
           "partition(a, d, x) => combine(a, d, x)",
           "sub(x, y) => sub(y, x)",
           "concat(a, x, y) => concat(a, y, x)",
           // TASO's axiom 24, which is false where there are several groups.
           "concat(1, conv2d(x, w, groups=2), conv2d(x, v, groups=2)) => conv2d(x, concat(0, w, v), groups=2)",
       }) {
    Verification v = verdict(text);
    INFO(text << ": " << v.why);
    CHECK((v.verdict == Verdict::refuted || v.verdict == Verdict::ill_typed));
    CHECK(v.counterexample.has_value());
    CHECK(prove(parse_rules(std::string("rule r ") + text).front(), {0.2, 1, 8}).verdict != Verdict::proved);
  }
}

TEST_CASE("a rule of which no side can be typed is ill-typed, with the reason") {
  Verification v = verdict("matmul(x, replicate(2, reduce(2, partition(5, 2, w)))) => matmul(x, w)");
  CHECK(v.verdict == Verdict::ill_typed);
  CHECK_FALSE(v.why.empty());
}

TEST_CASE("a rule that is right but not provable is unknown, and says where") {
  // The axioms do not know that a hyperbolic tangent is odd.
  Verification v = verdict("scale(-1.0, tanh(x)) => tanh(scale(-1.0, x))", {0.2, 1, 6});
  CHECK(v.verdict == Verdict::unknown);
  CHECK(v.why.find("equality at x:") != std::string::npos);
}

TEST_CASE("verdicts and axioms do not depend on the run") {
  Rule rule = parse_rules(
                  "rule r matmul(add(x, y), w) => add(matmul(x, w), matmul(y, w)) where rank(x) == 2, rank(y) == 2, "
                  "dim(x, 0) == dim(y, 0), dim(x, 1) == dim(y, 1)")
                  .front();
  Verification one = verify(rule), two = verify(rule);
  CHECK(one.verdict == Verdict::proved);
  CHECK(one.record.axioms == two.record.axioms);
  CHECK(one.record.shapes == two.record.shapes);
}

}  // namespace
}  // namespace unity
