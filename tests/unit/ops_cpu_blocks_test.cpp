#include <cmath>

#include <catch2/catch.hpp>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/optimizers.h"

using namespace unity;

TEST_CASE("copy_block moves the box between blocks at different offsets") {
  // Source: rows 1..2 and columns 2..4 of a 4x6 tensor; element (r, c) holds 10 r + c.
  std::vector<double> source = {12, 13, 14, 22, 23, 24}, target(4, -1);
  Box from{{1, 2}, {2, 3}}, to{{2, 3}, {2, 2}}, box{{2, 3}, {1, 2}};
  cpu::copy_block(target.data(), to, source.data(), from, box, DType::f64);
  CHECK(target == std::vector<double>{23, 24, -1, -1});
}

TEST_CASE("copy_block moves whole blocks, scalars and nothing") {
  std::vector<std::int32_t> source = {1, 2, 3, 4, 5, 6, 7, 8}, target(8, 0);
  Box all{{0, 0, 0}, {2, 2, 2}};
  cpu::copy_block(target.data(), all, source.data(), all, all, DType::i32);
  CHECK(target == source);
  cpu::copy_block(target.data(), Box{}, source.data() + 4, Box{}, Box{}, DType::i32);
  CHECK(target[0] == 5);
  cpu::copy_block(target.data(), all, source.data(), all, Box{{0, 0, 0}, {2, 0, 2}}, DType::i32);
  CHECK(target[1] == 2);
  CHECK_THROWS_AS(cpu::copy_block(target.data(), all, source.data(), all, Box{{1, 0, 0}, {2, 2, 2}}, DType::i32),
                  InternalError);
}

TEST_CASE("accumulate_block adds the middle dimension's slice") {
  std::vector<float> source = {1, 2, 3, 4}, target(8, 10);
  Box from{{0, 1, 0}, {2, 1, 2}}, to{{0, 0, 0}, {2, 2, 2}};
  cpu::accumulate_block(target.data(), to, source.data(), from, from, DType::f32);
  CHECK(target == std::vector<float>{10, 10, 11, 12, 10, 10, 13, 14});
  cpu::zero_block(target.data() + 1, 2, DType::f32);
  CHECK(target == std::vector<float>{10, 0, 0, 12, 10, 10, 13, 14});
}

TEST_CASE("sgd with momentum follows the hand-computed second step") {
  // v1 = 1, w1 = 2 - 0.1; v2 = 0.5 * 1 + 1 = 1.5, w2 = 1.9 - 0.15.
  double w = 2, g = 1, v = 0;
  for (int i = 0; i < 2; ++i) cpu::sgd_step(&w, &g, &v, 1, {0.1, 0.5}, DType::f64);
  CHECK(w == Approx(1.75).epsilon(1e-14));
  float wf = 2, gf = 3;
  cpu::sgd_step(&wf, &gf, nullptr, 1, {0.5}, DType::f32);
  CHECK(wf == 0.5f);
}

TEST_CASE("adam's first step has the size of the learning rate, whatever the gradient") {
  // Bias correction makes m/(1-b1) = g and sqrt(v/(1-b2)) = |g| in step 1.
  double w = 1, g = -40, m = 0, v = 0;
  cpu::adam_step(&w, &g, &m, &v, 1, {0.01}, DType::f64);
  CHECK(w == Approx(1.01).epsilon(1e-9));
  CHECK(m == Approx(-4).epsilon(1e-12));
  CHECK(v == Approx(1.6).epsilon(1e-12));
  // Step 2 with gradient 0: m = -3.6, v = 1.5984; w += 0.01 * (3.6 / 0.19) / sqrt(1.5984 / 0.001999).
  g = 0;
  cpu::adam_step(&w, &g, &m, &v, 1, {.rate = 0.01, .step = 2}, DType::f64);
  CHECK(w == Approx(1.01 + 0.01 * (3.6 / 0.19) / std::sqrt(1.5984 / 0.001999)).epsilon(1e-9));
}

TEST_CASE("two steps of Nesterov's SGD with weight decay, by hand") {
  // g = 0.5 + 0.1 * 1 = 0.6, v = 0.6, w = 1 - 0.1 (0.6 + 0.9 * 0.6) = 0.886; then g = 0.5886, v = 0.54 + 0.5886 =
  // 1.1286, w = 0.886 - 0.1 (0.5886 + 0.9 * 1.1286) = 0.725566.
  double w = 1, g = 0.5, v = 0;
  for (double expected : {0.886, 0.725566}) {
    cpu::sgd_step(&w, &g, &v, 1, {0.1, 0.9, 0.1, true}, DType::f64);
    CHECK(w == Approx(expected).epsilon(1e-12));
  }
  double plain = 1;
  cpu::sgd_step(&plain, &g, nullptr, 1, {.rate = 0.1, .weight_decay = 0.1}, DType::f64);
  CHECK(plain == Approx(1 - 0.1 * 0.6));
}

TEST_CASE("weight decay enters Adam's gradient, and shrinks AdamW's weight by itself") {
  // The first step of Adam moves by the rate. Adam: g = 0.5 + 0.1 = 0.6, so m = 0.06 and v = 0.00036; AdamW: w = 1 -
  // 0.01 * 0.1 before it, m = 0.05.
  double w = 1, g = 0.5, m = 0, v = 0;
  cpu::adam_step(&w, &g, &m, &v, 1, {.rate = 0.01, .weight_decay = 0.1}, DType::f64);
  CHECK(w == Approx(0.99));
  CHECK(m == Approx(0.06));
  CHECK(v == Approx(0.00036));
  w = 1, m = 0, v = 0;
  cpu::adam_step(&w, &g, &m, &v, 1, {.rate = 0.01, .weight_decay = 0.1, .decoupled = true}, DType::f64);
  CHECK(w == Approx(0.989));
  CHECK(m == Approx(0.05));
}
