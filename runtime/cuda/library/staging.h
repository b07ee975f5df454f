// Operands that a library wants in another element type than they are held in: converted before, or after, its kernel.
#pragma once

#include <array>

#include "runtime/cuda/alignment.h"
#include "runtime/cuda/library/library.h"

namespace unity::cuda {

constexpr std::size_t kMostOperands = 8;
using Pointers = std::array<void*, kMostOperands>;  // of a call's inputs, then its results

class Staging {
 public:
  // The element type in which the operands are multiplied. Declines when that is none of f32, f64 and bf16, or when
  // operands held in f32 would have to be rounded without leave.
  static Result<DType> product_type(Math math, const LibraryCall& call);

  // Operands in which `wanted` differs from what they are held in go through scratch memory.
  Staging(const LibraryCall& call, std::span<const DType> wanted);
  // Asks for as many bytes more, for the library to work in.
  void reserve(std::int64_t bytes);

  std::int64_t scratch() const { return bytes_; }
  DType wanted(std::size_t operand) const { return operands_[operand].wanted; }
  // Where the library reads and writes; inputs are converted. `reserved`: where the bytes of reserve() begin.
  Pointers begin(const Call& call, void** reserved = nullptr) const;
  // Converts results.
  void end(const Call& call, const Pointers& pointers) const;
  std::string key() const;  // differs when element types do

 private:
  struct Staged {
    DType held, wanted;
    std::int64_t elements, at;  // in scratch memory
  };
  std::vector<Staged> operands_;
  std::size_t inputs_;
  std::int64_t bytes_ = 0, reserved_at_ = 0;
};

}  // namespace unity::cuda
