#include <catch2/catch.hpp>

#include "core/graph/text.h"

using namespace unity;

namespace {

Hash hash_of(const std::string& body) { return canonical_hash(parse_pcg("pcg g { " + body + " }")); }

const Hash kHash =
    hash_of("x = input([4, 6]) w = weight([6, 6]) a = matmul(x, w) b = relu(x) y = matmul(a, w) return y, b");

}  // namespace

TEST_CASE("the hash of a graph ignores the order of its nodes, their labels and origins") {
  CHECK(kHash == hash_of("v @ 9 = weight([6, 6]) z = input([4, 6]) b = relu(z) return matmul(matmul(z, v), v), b"));
}

TEST_CASE("attributes, sizes, ties of weights, parallelism and the order of outputs change the hash") {
  CHECK(kHash !=
        hash_of("x = input([4, 6]) w = weight([6, 6], init=\"zeros\") return matmul(matmul(x, w), w), relu(x)"));
  CHECK(kHash != hash_of("x = input([8, 6]) w = weight([6, 6]) return matmul(matmul(x, w), w), relu(x)"));
  CHECK(kHash !=
        hash_of("x = input([4, 6]) w = weight([6, 6]) v = weight([6, 6]) return matmul(matmul(x, w), v), relu(x)"));
  CHECK(kHash != hash_of("x = input([4, 6]) w = weight([6, 6]) return relu(x), matmul(matmul(x, w), w)"));
  CHECK(hash_of("return partition(0, 2, input([4]))") != hash_of("return partition(0, 4, input([4]))"));
}
