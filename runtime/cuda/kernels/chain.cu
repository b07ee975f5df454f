// Chains of element-wise operators: chain.h says how.
#include <string_view>

#include "runtime/cuda/chain.h"
#include "runtime/cuda/elements.h"
#include "runtime/cuda/functions.h"
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

enum class Access : std::uint8_t {
  dense,     // element i of the result is element i
  rows,      // four neighbours are neighbours, at a multiple of four
  repeated,  // four neighbours are one
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
  bool four = false;
  Step step[Chain::kMostSteps];
  Block block[kMostBlocks];
};
static_assert(sizeof(ChainCode) < 4000);

// One element of the result, or four neighbours.
template <class T>
struct RunChain {
  ChainCode code;

  UNITY_DEVICE void operator()(std::int64_t i) const {
    if (!code.four) return run<1>(i);
    i *= 4;
    if (i + 4 <= code.elements) return run<4>(i);
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
    if constexpr (kWide == 4) {
      if (b.access == Access::any) {
        for (int k = 0; k < 4; ++k) x.v[k] = load(b, b.walk.locate(i + k)[0]);
        return x;
      }
      std::int64_t at = b.access == Access::dense ? i : b.walk.locate(i)[0];
      if (b.access == Access::repeated) {
        T one = load(b, at);
        for (int k = 0; k < 4; ++k) x.v[k] = one;
      } else if (b.held == DType::i32) {
        Four<std::int32_t> four = Dense<std::int32_t>{static_cast<std::int32_t*>(b.data)}.load_four(at);
        for (int k = 0; k < 4; ++k) x.v[k] = static_cast<T>(four.v[k]);
      } else if (sizeof(T) == sizeof(float) && b.held == DType::bf16) {
        Four<float> four = FloatOrBFloat16{b.data, true}.load_four(at);
        for (int k = 0; k < 4; ++k) x.v[k] = four.v[k];
      } else {
        Four<T> four = Dense<T>{static_cast<T*>(b.data)}.load_four(at);
        for (int k = 0; k < 4; ++k) x.v[k] = four.v[k];
      }
    } else {
      x.v[0] = load(b, b.access == Access::dense ? i : b.walk.locate(i)[0]);
    }
    return x;
  }

  // A result, so dense.
  template <int kWide>
  UNITY_DEVICE static void write(const Block& b, std::int64_t i, const Values<kWide>& x) {
    if constexpr (kWide == 4) {
      if (b.held == DType::i32) {
        Four<std::int32_t> four;
        for (int k = 0; k < 4; ++k) four.v[k] = static_cast<std::int32_t>(x.v[k]);
        Dense<std::int32_t>{static_cast<std::int32_t*>(b.data)}.store_four(i, four);
      } else if (sizeof(T) == sizeof(float) && b.held == DType::bf16) {
        Four<float> four;
        for (int k = 0; k < 4; ++k) four.v[k] = static_cast<float>(x.v[k]);
        FloatOrBFloat16{b.data, true}.store_four(i, four);
      } else {
        Four<T> four;
        for (int k = 0; k < 4; ++k) four.v[k] = x.v[k];
        Dense<T>{static_cast<T*>(b.data)}.store_four(i, four);
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

bool aligned(const Operand& o) {
  switch (o.dtype) {
    case DType::i32:
      return aligned_for_four<std::int32_t>(o.data);
    case DType::bf16:
      return aligned_for_four<BFloat16>(o.data);
    case DType::f64:
      return aligned_for_four<double>(o.data);
    default:
      return aligned_for_four<float>(o.data);
  }
}

Block block_of(const Operand& o, const Dims& result) {
  std::vector<Loop<1>> loops;
  const Dims own = broadcast_strides(o, result);
  for (std::size_t d = 0; d < result.size(); ++d) loops.push_back({result[d], {own[d]}});
  Block block{o.data, o.dtype, Access::any, Walk<1>(loops)};
  const Walk<1>& walk = block.walk;
  if (walk.rank() == 1 && walk.inner_stride(0) == 1) {
    block.access = Access::dense;
    return block;
  }
  const bool fours = walk.rank() == 1 || walk.length(walk.rank() - 1) % 4 == 0;
  bool rows = fours && walk.inner_stride(0) == 1 && aligned(o);
  for (int d = 0; d + 1 < walk.rank(); ++d) rows = rows && walk.stride(d, 0) % 4 == 0;
  if (rows) block.access = Access::rows;
  if (fours && walk.inner_stride(0) == 0) block.access = Access::repeated;
  return block;
}

template <class T>
std::function<void(Stream)> launcher(const ChainCode& code) {
  const std::int64_t threads = code.four ? (code.elements + 3) / 4 : code.elements;
  return [code, threads](Stream stream) { for_each(stream, threads, RunChain<T>{code}); };
}

}  // namespace

std::function<void(Stream)> chain_kernel(const Chain& chain, std::span<const Operand> operands,
                                         std::span<const DType> held, const ChainEntry& entry) {
  ChainCode code;
  const Dims& result = operands.back().extent;
  code.elements = operands.back().elements();
  code.four = true;
  bool doubles = false;
  auto add = [&](std::size_t at, const Operand& o) {
    code.block[at] = block_of(o, result);
    doubles = doubles || o.dtype == DType::f64;
    code.four = code.four && (code.block[at].access != Access::dense || aligned(o));
  };
  for (std::size_t i = 0; i < operands.size(); ++i) add(i, operands[i]);
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
  if (entry.step > 0) add(static_cast<std::size_t>(code.before = static_cast<int>(operands.size())), entry.before);
  return doubles ? launcher<double>(code) : launcher<float>(code);
}

}  // namespace unity::cuda
