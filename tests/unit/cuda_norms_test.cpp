// Norms by cuDNN: what it is told about them, and what its gradients want to know of each row.
#include <cmath>

#include <catch2/catch.hpp>

#include "runtime/cuda/elements.h"
#include "runtime/cuda/library/norm_shapes.h"
#include "runtime/cuda/row_statistics.h"

using namespace unity;
using namespace unity::cuda;

namespace {

Operand of(const Dims& dims, DType type) { return {nullptr, type, dims, Dims(dims.size(), 0), dims}; }
using Operands = std::vector<Operand>;

}  // namespace

TEST_CASE("rows of a norm go to cuDNN as they are held, vectors in f32") {
  for (DType type : {DType::f32, DType::bf16}) {
    Operand x = of({2, 3, 8}, type), full = of({8}, DType::f32), rounded = of({8}, DType::bf16);
    NormShape s = norm_shape("layer_norm", Operands{x, rounded, full}, Operands{x}).value();
    CHECK((s.centred && !s.backward && s.rows == 6 && s.columns == 8 && s.type == type));
    CHECK(norm_types(s) == std::vector{type, DType::f32, DType::f32, type});
    s = norm_shape("layer_norm_gradient", Operands{x, full, x}, Operands{x, full, full}).value();
    CHECK((s.centred && s.backward && s.rows == 6 && s.columns == 8));
    CHECK(norm_types(s) == std::vector{type, DType::f32, type, type, DType::f32, DType::f32});
    s = norm_shape("rms_norm", Operands{x, full}, Operands{x}).value();
    CHECK((!s.centred && !s.backward));
    CHECK(norm_types(s) == std::vector{type, DType::f32, type});
    s = norm_shape("rms_norm_gradient", Operands{x, full, x}, Operands{x, full}).value();
    CHECK((!s.centred && s.backward));
    CHECK(norm_types(s) == std::vector{type, DType::f32, type, type, DType::f32});
  }
}

TEST_CASE("norms that cuDNN cannot take are declined with a reason") {
  auto declined = [](const Operand& x, const Operand& y) {
    Operand gamma = of({x.extent.back()}, DType::f32);
    return norm_shape("rms_norm", Operands{x, gamma}, Operands{y}).error().message;
  };
  Operand doubles = of({4, 8}, DType::f64), floats = of({4, 8}, DType::f32), halves = of({4, 8}, DType::bf16);
  Operand none = of({0, 8}, DType::f32), far = of({std::int64_t{1} << 30, 2}, DType::f32);
  CHECK(declined(doubles, doubles) == "in f64: cuDNN norms rows in f32");
  CHECK(declined(halves, floats) == "rows of bf16 beside rows of f32");
  CHECK(declined(none, none) == "an operand has no elements");
  CHECK(declined(far, far) == "an operand of 2147483648 elements is over 32 bits");
}

TEST_CASE("mean and deviation of rows of any length, and of such that begin anywhere") {
  // Ones and threes: mean 2 and variance 1, of an even number.
  for (std::int64_t columns : {6, 8, 100, 102, 6000})
    for (std::size_t shift : {0, 1}) {
      INFO(columns << " columns, from element " << shift);
      std::vector<float> x(shift + static_cast<std::size_t>(3 * columns));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = (i + shift) % 2 == 0 ? 1.0F : 3.0F;
      std::vector<BFloat16> halves;
      for (float v : x) halves.push_back(to_bfloat16(v));
      for (DType type : {DType::f32, DType::bf16}) {
        const void* data = type == DType::f32 ? static_cast<const void*>(x.data() + shift) : halves.data() + shift;
        std::vector<float> mean(3), inverse(3);
        row_statistics(nullptr, data, type, 3, columns, 3, mean.data(), inverse.data());
        CHECK(mean == std::vector<float>{2, 2, 2});
        CHECK(inverse == std::vector<float>{0.5F, 0.5F, 0.5F});
      }
    }
}

TEST_CASE("mean and deviation of each row, of elements in f32 and bf16") {
  // Means 2 and -1; squares of distances 1, 1, 1, 1 and 9, 9, 9, 9; with epsilon 3 the roots of 4 and 12.
  const std::vector<float> x = {1, 3, 1, 3, 2, -4, 2, -4};
  std::vector<BFloat16> halves;
  for (float v : x) halves.push_back(to_bfloat16(v));
  for (DType type : {DType::f32, DType::bf16}) {
    const void* data = type == DType::f32 ? static_cast<const void*>(x.data()) : halves.data();
    std::vector<float> mean(2), inverse(2);
    row_statistics(nullptr, data, type, 2, 4, 3, mean.data(), inverse.data());
    CHECK(mean == std::vector<float>{2, -1});
    CHECK(inverse[0] == 0.5F);
    CHECK(inverse[1] == Approx(1 / std::sqrt(12.0)));
    // About zero: squares 1, 9, 1, 9 and 4, 16, 4, 16, so means of 5 and 10; with epsilon 4 the roots of 9 and 14.
    row_statistics(nullptr, data, type, 2, 4, 4, nullptr, inverse.data());
    CHECK(inverse[0] == Approx(1 / 3.0));
    CHECK(inverse[1] == Approx(1 / std::sqrt(14.0)));
  }
}
