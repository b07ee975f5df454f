// Chains of element-wise operators: chain.h says how.
#include <string_view>

#include "runtime/cuda/chain.h"
#include "runtime/cuda/functions.h"
#include "runtime/cuda/vectors.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {
namespace {

#define UNITY_LEAF(name, Class)
#define UNITY_PARALLELIZATION(name, Class)
#define UNITY_OPERATOR(name, Class)

enum class Code : std::uint8_t {
#define UNITY_ELEMENTWISE(name, Class) Class,
#include "core/ops/operators.def"
};

Code code_of(const Operator& op) {
  static constexpr std::string_view kNames[] = {
#define UNITY_ELEMENTWISE(name, Class) #name,
#include "core/ops/operators.def"
  };
  const auto* found = std::find(std::begin(kNames), std::end(kNames), op.name());
  UNITY_CHECK(found != std::end(kNames), "cuda: {} is not element-wise", op.name());
  return static_cast<Code>(found - std::begin(kNames));
}

// Of the neighbours that a thread takes, as many as a vector has: four, or eight where there are bf16 blocks.
enum class Access : std::uint8_t {
  dense,     // element i of the result is element i
  rows,      // they are neighbours, at a multiple of their number
  repeated,  // they are one
  any,
};

// An operand, and where element i of the result is in it.
struct Block {
  void* data = nullptr;
  DType held = DType::f32;
  Access access = Access::dense;
  Walk<1> walk;
};

struct Step {
  Code code{};
  bool half = false;  // rounded to bf16
  std::int8_t operands[3] = {};
  std::int8_t count = 0;  // of operands
  std::int8_t kept = -1;
  double parameter = 0;
};

constexpr int kBefore = ChainStep::kBefore;
constexpr std::size_t kMostBlocks = Chain::kMostOperands + 1;

// What the kernel gets: below 4 KB, which every GPU passes as arguments.
struct ChainCode {
  std::int64_t elements = 0;
  int steps = 0;
  int before = kBefore;  // the block that the first step reads as what was written before it
  Step step[Chain::kMostSteps];
  Block block[kMostBlocks];
};
static_assert(sizeof(ChainCode) < 4000);

// Neighbouring elements, sixteen bytes at a time where they are held in this type.
template <class T, int kWide>
struct Neighbours;
template <class T>
struct Neighbours<T, 4> {
  UNITY_DEVICE static void read(const T* from, T (&v)[4]) {
    Four<T> four = *reinterpret_cast<const Four<T>*>(from);
    for (int k = 0; k < 4; ++k) v[k] = four.v[k];
  }
  UNITY_DEVICE static void write(T* to, const T (&v)[4]) {
    Four<T> four;
    for (int k = 0; k < 4; ++k) four.v[k] = v[k];
    *reinterpret_cast<Four<T>*>(to) = four;
  }
};
template <class T>
struct Neighbours<T, 8> {
  UNITY_DEVICE static void read(const T* from, T (&v)[8]) {
    Four<T> four[] = {reinterpret_cast<const Four<T>*>(from)[0], reinterpret_cast<const Four<T>*>(from)[1]};
    for (int k = 0; k < 8; ++k) v[k] = four[k / 4].v[k % 4];
  }
  UNITY_DEVICE static void write(T* to, const T (&v)[8]) {
    Four<T> four[2];
    for (int k = 0; k < 8; ++k) four[k / 4].v[k % 4] = v[k];
    for (int k = 0; k < 2; ++k) reinterpret_cast<Four<T>*>(to)[k] = four[k];
  }
};

// One element of the result, or kMost neighbours.
template <class T, int kMost>
struct RunChain {
  ChainCode code;

  UNITY_DEVICE void operator()(std::int64_t i) const {
    if constexpr (kMost == 1) return run<1>(i);
    i *= kMost;
    if (i + kMost <= code.elements) return run<kMost>(i);
    for (; i < code.elements; ++i) run<1>(i);
  }

 private:
  template <int kWide>
  struct Values {
    T v[kWide];
  };

  UNITY_DEVICE static T load(const Block& b, std::int64_t at) {
    if (b.held == DType::i32) return static_cast<T>(static_cast<const std::int32_t*>(b.data)[at]);
    if constexpr (sizeof(T) == sizeof(float))
      if (b.held == DType::bf16) return to_float(static_cast<const BFloat16*>(b.data)[at]);
    return static_cast<const T*>(b.data)[at];
  }

  template <int kWide>
  UNITY_DEVICE static Values<kWide> read(const Block& b, std::int64_t i) {
    Values<kWide> x;
    if constexpr (kWide > 1) {
      if (b.access == Access::any) {
        for (int k = 0; k < kWide; ++k) x.v[k] = load(b, b.walk.locate(i + k)[0]);
        return x;
      }
      std::int64_t at = b.access == Access::dense ? i : b.walk.locate(i)[0];
      if (b.access == Access::repeated) {
        T one = load(b, at);
        for (int k = 0; k < kWide; ++k) x.v[k] = one;
      } else if (b.held == DType::i32) {
        std::int32_t v[kWide];
        Neighbours<std::int32_t, kWide>::read(static_cast<const std::int32_t*>(b.data) + at, v);
        for (int k = 0; k < kWide; ++k) x.v[k] = static_cast<T>(v[k]);
      } else if (sizeof(T) == sizeof(float) && b.held == DType::bf16) {
        // Eight always (launcher()).
        using Halves = Vectors<BFloat16>;
        Halves::Held held = Halves{static_cast<BFloat16*>(b.data)}.read(at);
        for (int k = 0; k < kWide; ++k) x.v[k] = static_cast<T>(Halves::value(held, k));
      } else {
        Neighbours<T, kWide>::read(static_cast<const T*>(b.data) + at, x.v);
      }
    } else {
      x.v[0] = load(b, b.access == Access::dense ? i : b.walk.locate(i)[0]);
    }
    return x;
  }

  // A result, so dense.
  template <int kWide>
  UNITY_DEVICE static void write(const Block& b, std::int64_t i, const Values<kWide>& x) {
    if constexpr (kWide > 1) {
      if (b.held == DType::i32) {
        std::int32_t v[kWide];
        for (int k = 0; k < kWide; ++k) v[k] = static_cast<std::int32_t>(x.v[k]);
        Neighbours<std::int32_t, kWide>::write(static_cast<std::int32_t*>(b.data) + i, v);
      } else if (sizeof(T) == sizeof(float) && b.held == DType::bf16) {
        if constexpr (kWide == Vectors<BFloat16>::kWidth) {
          float v[kWide];
          for (int k = 0; k < kWide; ++k) v[k] = static_cast<float>(x.v[k]);
          Vectors<BFloat16>{static_cast<BFloat16*>(b.data)}.write(i, v);
        }
      } else {
        Neighbours<T, kWide>::write(static_cast<T*>(b.data) + i, x.v);
      }
    } else if (b.held == DType::i32) {
      static_cast<std::int32_t*>(b.data)[i] = static_cast<std::int32_t>(x.v[0]);
    } else if (sizeof(T) == sizeof(float) && b.held == DType::bf16) {
      static_cast<BFloat16*>(b.data)[i] = to_bfloat16(static_cast<float>(x.v[0]));
    } else {
      static_cast<T*>(b.data)[i] = x.v[0];
    }
  }

  template <int kWide, class F>
  UNITY_DEVICE static Values<kWide> apply(F f, const Values<kWide>& a, const Values<kWide>& b, const Values<kWide>& c) {
    Values<kWide> result;
    for (int k = 0; k < kWide; ++k)
      if constexpr (F::kOperands == 1)
        result.v[k] = f(a.v[k]);
      else if constexpr (F::kOperands == 2)
        result.v[k] = f(a.v[k], b.v[k]);
      else
        result.v[k] = f(a.v[k], b.v[k], c.v[k]);
    return result;
  }

  // Operands are read before the choice of the function, or the code would hold the ways to read them for each.
  template <int kWide>
  UNITY_DEVICE void run(std::int64_t i) const {
    Values<kWide> last{};
    if (code.before != kBefore) last = read<kWide>(code.block[code.before], i);
    for (int s = 0; s < code.steps; ++s) {
      const Step& step = code.step[s];
      auto operand = [&](int n) {
        return step.operands[n] == kBefore ? last : read<kWide>(code.block[step.operands[n]], i);
      };
      Values<kWide> a = operand(0), b{}, c{};
      if (step.count > 1) b = operand(1);
      if (step.count > 2) c = operand(2);
      switch (step.code) {
#define UNITY_ELEMENTWISE(name, Class)                                                 \
  case Code::Class:                                                                    \
    last = apply<kWide>(functions::Class<T>{static_cast<T>(step.parameter)}, a, b, c); \
    break;
#include "core/ops/operators.def"
      }
      if constexpr (sizeof(T) == sizeof(float))
        if (step.half)
          for (int k = 0; k < kWide; ++k) last.v[k] = to_float(to_bfloat16(last.v[k]));
      if (step.kept >= 0) write<kWide>(code.block[step.kept], i, last);
    }
  }
};

#undef UNITY_LEAF
#undef UNITY_PARALLELIZATION
#undef UNITY_OPERATOR

// Vectors are read sixteen bytes at a time.
bool aligned(const Operand& o) { return reinterpret_cast<std::uintptr_t>(o.data) % 16 == 0; }

// `width`: elements of a vector.
Block block_of(const Operand& o, const Dims& result, int width) {
  std::vector<Loop<1>> loops;
  const Dims own = broadcast_strides(o, result);
  for (std::size_t d = 0; d < result.size(); ++d) loops.push_back({result[d], {own[d]}});
  Block block{o.data, o.dtype, Access::any, Walk<1>(loops)};
  const Walk<1>& walk = block.walk;
  if (walk.rank() == 1 && walk.inner_stride(0) == 1) {
    block.access = Access::dense;
    return block;
  }
  const bool whole = walk.rank() == 1 || walk.length(walk.rank() - 1) % width == 0;
  bool rows = whole && walk.inner_stride(0) == 1 && aligned(o);
  for (int d = 0; d + 1 < walk.rank(); ++d) rows = rows && walk.stride(d, 0) % width == 0;
  if (rows) block.access = Access::rows;
  if (whole && walk.inner_stride(0) == 0) block.access = Access::repeated;
  return block;
}

template <class T, int kWide>
std::function<void(Stream)> launcher(const ChainCode& code) {
  return [code, threads = (code.elements + kWide - 1) / kWide](Stream stream) {
    for_each(stream, threads, RunChain<T, kWide>{code});
  };
}

}  // namespace

std::function<void(Stream)> chain_kernel(const Chain& chain, std::span<const Operand> operands,
                                         std::span<const DType> held, const ChainEntry& entry) {
  ChainCode code;
  const Dims& result = operands.back().extent;
  code.elements = operands.back().elements();
  std::vector<Operand> blocks(operands.begin(), operands.end());
  if (entry.step > 0) {
    code.before = static_cast<int>(blocks.size());
    blocks.push_back(entry.before);
  }
  auto some = [&](DType type) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const Operand& o) { return o.dtype == type; });
  };
  const bool doubles = some(DType::f64), halves = some(DType::bf16);
  UNITY_CHECK(!doubles || !halves, "cuda: a chain of f64 beside bf16");
  bool wide = true;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    code.block[i] = block_of(blocks[i], result, halves ? 8 : 4);
    wide = wide && (code.block[i].access != Access::dense || aligned(blocks[i]));
  }
  for (std::size_t s = entry.step; s < chain.steps().size(); ++s) {
    const ChainStep& of = chain.steps()[s];
    Step& step = code.step[code.steps++];
    step = {code_of(*of.op),
            held[s] == DType::bf16,
            {},
            static_cast<std::int8_t>(of.operands.size()),
            static_cast<std::int8_t>(of.kept),
            parameter_of(of.attributes)};
    for (std::size_t i = 0; i < of.operands.size(); ++i) step.operands[i] = static_cast<std::int8_t>(of.operands[i]);
  }
  if (doubles) return wide ? launcher<double, 4>(code) : launcher<double, 1>(code);
  if (!wide) return launcher<float, 1>(code);
  return halves ? launcher<float, 8>(code) : launcher<float, 4>(code);
}

}  // namespace unity::cuda
