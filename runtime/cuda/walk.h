// From the index of an iteration to the positions of a nest's blocks, on the device.
#pragma once

#include "runtime/cuda/launch.h"
#include "runtime/cuda/rows.h"
#include "runtime/strided.h"

namespace unity::cuda {

// The quotient of numbers below 2^31 by one multiplication (Granlund and Montgomery, "Division by invariant integers
// using multiplication", PLDI 1994, figure 4.1); divisions of 64 bits cost more than the memory traffic of an element.
struct Divider {
  std::int64_t divisor = 1;
  std::uint32_t factor = 1, shift = 0;

  Divider() = default;
  explicit Divider(std::int64_t d) : divisor(d) {
    if (d < 1 || d > INT32_MAX) return;  // an empty loop has no iterations to locate
    while ((std::int64_t{1} << shift) < d) ++shift;
    auto ud = static_cast<std::uint64_t>(d);
    factor = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - ud) << 32) / ud + 1);
  }
  UNITY_DEVICE std::int64_t quotient_of_small(std::int64_t n) const {
    auto un = static_cast<std::uint64_t>(n);
    return static_cast<std::int64_t>((((un * factor) >> 32) + un) >> shift);
  }
  // The same in 32 bits throughout, of numbers and by divisors below 2^31, so that nothing overflows.
  UNITY_DEVICE std::uint32_t narrow_quotient(std::uint32_t n) const {
    return (static_cast<std::uint32_t>((std::uint64_t{n} * factor) >> 32) + n) >> shift;
  }
  UNITY_DEVICE int narrow_quotient(int n) const {
    return static_cast<int>(narrow_quotient(static_cast<std::uint32_t>(n)));
  }
};

// By a divisor of numbers up to `most`.
class Quotient {
 public:
  Quotient(std::int64_t divisor, std::int64_t most)
      : by_(divisor), narrow_(most <= INT32_MAX && divisor <= INT32_MAX) {}
  UNITY_DEVICE int of(int n) const { return by_.narrow_quotient(n); }
  UNITY_DEVICE std::int64_t of(std::int64_t n) const {
    return narrow_ ? by_.narrow_quotient(static_cast<int>(n)) : n / by_.divisor;
  }

 private:
  Divider by_;
  bool narrow_;
};

template <std::size_t N>
struct Positions {
  std::int64_t at[N];
  UNITY_DEVICE std::int64_t operator[](std::size_t n) const { return at[n]; }
};

// A collapsed nest of loops over N blocks.
template <std::size_t N>
class Walk {
 public:
  Walk() = default;
  explicit Walk(const std::vector<Loop<N>>& loops) {
    std::vector<Loop<N>> joined = collapse(loops);
    UNITY_CHECK(joined.size() <= kLoops, "cuda: a nest of {} loops, expected at most {}", joined.size(), kLoops);
    rank_ = static_cast<int>(joined.size());
    for (std::size_t d = 0; d < joined.size(); ++d) {
      length_[d] = Divider(joined[d].length);
      std::copy(joined[d].stride.begin(), joined[d].stride.end(), stride_[d]);
      iterations_ *= joined[d].length;
    }
    small_ = iterations_ <= INT32_MAX;
  }
  UNITY_DEVICE std::int64_t iterations() const { return iterations_; }
  UNITY_DEVICE int rank() const { return rank_; }
  std::int64_t length(int d) const { return length_[d].divisor; }
  UNITY_DEVICE std::int64_t stride(int d, std::size_t n) const { return stride_[d][n]; }
  UNITY_DEVICE std::int64_t inner_stride(std::size_t n) const { return stride_[rank_ - 1][n]; }

  // Where iteration i, in row-major order, is in each block.
  UNITY_DEVICE Positions<N> locate(std::int64_t i) const {
    Positions<N> p{};
    UNITY_NO_UNROLL  // the way of long divisions is long
        for (int d = rank_ - 1; d > 0; --d) {
      std::int64_t q = small_ ? length_[d].quotient_of_small(i) : i / length_[d].divisor;
      std::int64_t index = i - q * length_[d].divisor;
      for (std::size_t n = 0; n < N; ++n) p.at[n] += index * stride_[d][n];
      i = q;
    }
    for (std::size_t n = 0; n < N; ++n) p.at[n] += i * stride_[0][n];
    return p;
  }

  bool small() const { return small_; }  // no more than 2^31 - 1 iterations
  // Where K iterations of a small walk are, in arithmetic of 32 bits as far as it goes.
  template <int K>
  UNITY_DEVICE void locate_small(std::uint32_t (&i)[K], Positions<N> (&p)[K]) const {
    UNITY_UNROLL
    for (int k = 0; k < K; ++k) p[k] = {};
    UNITY_NO_UNROLL
    for (int d = rank_ - 1; d > 0; --d) {
      const auto divisor = static_cast<std::uint32_t>(length_[d].divisor);
      UNITY_UNROLL
      for (int k = 0; k < K; ++k) {
        std::uint32_t q = length_[d].narrow_quotient(i[k]), index = i[k] - q * divisor;
        for (std::size_t n = 0; n < N; ++n) p[k].at[n] += std::int64_t{index} * stride_[d][n];
        i[k] = q;
      }
    }
    UNITY_UNROLL
    for (int k = 0; k < K; ++k)
      for (std::size_t n = 0; n < N; ++n) p[k].at[n] += std::int64_t{i[k]} * stride_[0][n];
  }

 private:
  static constexpr int kLoops = 8;
  int rank_ = 1;
  bool small_ = true;
  std::int64_t iterations_ = 1;
  Divider length_[kLoops];
  std::int64_t stride_[kLoops][N] = {};
};

}  // namespace unity::cuda
