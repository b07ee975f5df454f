// Kernels that go through planes in vectors of sixteen bytes: planes that begin and end within vectors, blocks that
// begin or end where no vector does, channels that several groups share.
#include <cmath>
#include <limits>

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

TEST_CASE("batch norm takes channels that lie side by side, in vectors or not, in one tile of columns or several") {
  // Channels: less than a vector, odd, one vector, columns that are no power of two, several tiles; rows: one, fewer
  // than threads, more than several groups take.
  for (Held held : ways()) {
    held.channels_last = true;
    for (const Dims& x :
         {Dims{3, 3, 4, 5}, Dims{2, 9, 3, 3}, Dims{1, 8, 1, 1}, Dims{2, 8, 5, 7}, Dims{3, 24, 7, 7}, Dims{2, 80, 3, 5},
          Dims{1, 288, 2, 3}, Dims{2, 520, 3, 1}, Dims{5, 16, 31, 33}, Dims{0, 8, 7, 7}}) {
      INFO(to_string(held.type) << " at " << held.shift << ", " << x[1] << " channels of " << element_count(x));
      Dims c{x[1]};
      if (x[0] > 0) CHECK(error_as_held(held, "moments", {}, {x}) <= 1);
      CHECK(error_as_held(held, "moments_gradient", {}, {x, c, c}) <= 1);
      CHECK(error_as_held(held, "moments_gradient_accumulate", {}, {x, c, c, x}) <= 1);
      CHECK(error_as_held(held, "batch_norm", {2.0}, {x, c, c, c, c}) <= 1);
      CHECK(error_as_held(held, "batch_norm", {2.0, std::string("relu")}, {x, c, c, c, c}) <= 1);
      CHECK(error_as_held(held, "batch_norm_gradient", {2.0}, {x, c, c, c, x}) <= 1);
      CHECK(error_as_held(held, "batch_norm_gradient", {2.0}, {x, c, c, c, x, x}) <= 1);
    }
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

TEST_CASE("pooling takes rows of any length, four neighbours at a time") {
  struct Geometry {
    Dims kernel, stride, padding, dilation;
  };
  const Dims none{0, 0, 0, 0}, one{1, 1, 1, 1};
  const std::vector<Geometry> geometries = {
      {{3, 3}, {2, 2}, one, {1, 1}},          {{3, 3}, {2, 2}, none, {1, 1}}, {{3, 3}, {1, 1}, one, {1, 1}},
      {{3, 3}, {1, 1}, none, {1, 1}},         {{2, 2}, {2, 2}, none, {1, 1}}, {{1, 1}, {3, 3}, none, {1, 1}},
      {{2, 5}, {1, 3}, {0, 2, 1, 3}, {1, 1}}, {{3, 3}, {1, 2}, one, {2, 2}},  {{5, 3}, {2, 1}, {4, 2, 4, 2}, {1, 1}},
      {{9, 2}, {1, 1}, {8, 1, 8, 1}, {2, 1}}};
  for (Held held : ways())
    for (const Geometry& g : geometries)
      for (const Dims& image : {Dims{16, 16}, Dims{17, 9}, Dims{19, 6}, Dims{20, 13}}) {
        Dims x{2, 3, image[0], image[1]}, y{2, 3, 0, 0};
        for (std::size_t d : {0, 1})
          y[d + 2] =
              (image[d] + g.padding[d] + g.padding[d + 2] - (g.kernel[d] - 1) * g.dilation[d] - 1) / g.stride[d] + 1;
        INFO(to_string(held.type) << " at " << held.shift << ", images of " << image[0] << " x " << image[1]
                                  << ", windows of " << g.kernel[0] << " x " << g.kernel[1] << " by " << g.stride[0]
                                  << " x " << g.stride[1]);
        Attributes max{g.kernel, g.stride, g.padding, g.dilation};
        CHECK(error_as_held(held, "max_pool2d", max, {x}) <= 1);
        CHECK(error_as_held(held, "max_pool2d_gradient", max, {x, y}) <= 1);
        if (g.dilation != Dims{1, 1}) continue;
        for (std::int64_t include_pad : {0, 1}) {
          Attributes average{g.kernel, g.stride, g.padding, include_pad};
          CHECK(error_as_held(held, "avg_pool2d", average, {x}) <= 1);
          CHECK(error_as_held(held, "avg_pool2d_gradient", average, {y, x}) <= 1);
        }
      }
}

TEST_CASE("the gradient of max pooling goes to the first of equal elements, of minus infinities, too") {
  const Attributes by_two{Dims{3, 3}, Dims{2, 2}, Dims{1, 1, 1, 1}}, by_one{Dims{3, 3}, Dims{1, 1}, Dims{1, 1, 1, 1}},
      others{Dims{2, 4}, Dims{2, 3}, Dims{0, 2, 0, 2}};
  auto steps = [](double v) { return std::round(v); };
  auto infinite = [](double v) { return v < 0.6 ? -std::numeric_limits<double>::infinity() : 1.0; };
  for (Held held : ways())
    for (double (*first)(double) : {+steps, +infinite}) {
      Dims x{2, 3, 16, 16};
      CHECK(error_as_held(held, "max_pool2d_gradient", by_two, {x, {2, 3, 8, 8}}, first) <= 1);
      CHECK(error_as_held(held, "max_pool2d_gradient", by_one, {x, {2, 3, 16, 16}}, first) <= 1);
      CHECK(error_as_held(held, "max_pool2d_gradient", others, {x, {2, 3, 8, 6}}, first) <= 1);
      CHECK(error_as_held(held, "max_pool2d_gradient", by_two, {{2, 3, 15, 9}, {2, 3, 8, 5}}, first) <= 1);
    }
}
