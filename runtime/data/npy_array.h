// Arrays in NumPy's .npy format, versions 1.0 to 3.0: float32, float64, int32, int64, uint8 and bool, little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/host_tensor.h"

namespace unity {

enum class NpyType : std::uint8_t { f4, f8, i4, i8, u1, b1 };

struct NpyArray {
  std::string name;  // for messages: "x.npy", "data.npz:x"
  NpyType type = NpyType::f4;
  Dims dims;
  std::span<const std::uint8_t> data;  // in C order; owned by `owner`
  std::shared_ptr<const void> owner;

  bool real() const { return type == NpyType::f4 || type == NpyType::f8; }
  std::int64_t rows() const { return dims[0]; }
  Dims row_dims() const { return {dims.begin() + 1, dims.end()}; }
  std::int64_t row_elements() const;

  void read_reals(std::int64_t row, double* out) const;
  // Of arrays of whole numbers. Returns whether all fit.
  bool read_indices(std::int64_t row, std::int32_t* out) const;
  // Arrays of whole numbers: one more than the largest, at least 1; 0 when it does not fit an i32.
  std::int64_t bound() const;
};

// The array in these bytes, which `owner` keeps. Fortran order is changed to C order, in memory. InputError with the
// name when it is damaged, of another type, has no rows, or its data are longer or shorter than its shape says.
NpyArray parse_npy(std::string name, std::span<const std::uint8_t> bytes, std::shared_ptr<const void> owner);

}  // namespace unity
