// Kernels that go through planes in vectors of sixteen bytes: planes that begin and end within vectors, blocks that
// begin or end where no vector does, channels that several groups share.
#include <catch2/catch.hpp>

#include "tests/support/held_evaluator.h"

using namespace unity;
using namespace unity::testing;

namespace {

// In vectors; element by element.
std::vector<Held> ways() {
  return {{DType::bf16, 0}, {DType::bf16, 1}, {DType::bf16, 4}, {DType::f32, 0}, {DType::f32, 1}};
}

}  // namespace

TEST_CASE("batch norm takes planes that begin and end within vectors") {
  for (Held held : ways())
    for (const Dims& x : {Dims{3, 8, 7, 7}, Dims{2, 16, 3, 5}, Dims{2, 3, 4, 8}, Dims{4, 6, 14, 14}, Dims{2, 4, 1, 9},
                          Dims{3, 5, 3, 3}, Dims{8, 16, 8}, Dims{64, 8, 2}, Dims{0, 8, 7, 7}, Dims{1, 8, 4, 4}}) {
      INFO(to_string(held.type) << " at " << held.shift << ", planes of " << x[0] << " x " << x[1] << ", "
                                << element_count(x) << " elements");
      Dims c{x[1]};
      if (x[0] > 0) CHECK(error_as_held(held, "moments", {}, {x}) <= 1);  // no mean of nothing
      CHECK(error_as_held(held, "moments_gradient", {}, {x, c, c}) <= 1);
      CHECK(error_as_held(held, "moments_gradient_accumulate", {}, {x, c, c, x}) <= 1);
      CHECK(error_as_held(held, "batch_norm", {2.0}, {x, c, c, c, c}) <= 1);
      CHECK(error_as_held(held, "batch_norm", {2.0, std::string("relu")}, {x, c, c, c, c}) <= 1);
      CHECK(error_as_held(held, "batch_norm_gradient", {2.0}, {x, c, c, c, x}) <= 1);
      CHECK(error_as_held(held, "batch_norm_gradient", {2.0}, {x, c, c, c, x, x}) <= 1);
    }
}

TEST_CASE("several groups share a channel, and the last of them gets less") {
  // One channel of 41 x 1000 vectors of bf16 is shared by 20 groups of 512 threads.
  for (Held held : {Held{DType::bf16, 0}, Held{DType::f32, 0}, Held{DType::f32, 1}}) {
    Dims x{41, 1, 8000}, c{1};
    CHECK(error_as_held(held, "moments", {}, {x}) <= 1);
    CHECK(error_as_held(held, "batch_norm_gradient", {2.0}, {x, c, c, c, x, x}) <= 1);
  }
}
