#include "runtime/cuda/library/cublas_shapes.h"

#include <array>
#include <limits>

#include "core/ops/conv2d.h"
#include "runtime/cuda/library/conv_shapes.h"

namespace unity::cuda {
namespace {

// The row-major product y[m, n] = op(left)[m, k] op(right)[k, n], said to cuBLAS.
GemmShape row_major(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_left, bool transpose_right) {
  GemmShape g;
  g.m = n, g.n = m, g.k = k;
  g.a = 1, g.b = 0;
  g.transpose_a = transpose_right, g.transpose_b = transpose_left;
  g.lda = transpose_right ? k : n, g.ldb = transpose_left ? m : k, g.ldd = n;
  g.stride_a = k * n, g.stride_b = m * k, g.stride_d = m * n;
  return g;
}

}  // namespace

Result<GemmShape> gemm_shape(std::string_view op, const Attributes& attributes, std::span<const Operand> in,
                             std::span<const Operand> out) {
  GemmShape g;
  for (std::span<const Operand> operands : {in, out})
    for (const Operand& o : operands)
      if (o.elements() == 0) return fail("{}: an operand has no elements", op);
  if (op == "matmul" || op == "matmul_accumulate") {
    std::int64_t k = in[0].extent.back();
    g = row_major(in[0].elements() / k, out[0].extent.back(), k, false, int_attribute(attributes, 1) != 0);
    g.relu = text_attribute(attributes, 0) == "relu";
    g.add = op != "matmul";
  } else if (op == "matmul_weight_gradient" || op == "matmul_weight_gradient_accumulate") {
    std::int64_t k = out[0].extent[0];
    g = row_major(k, out[0].extent[1], in[0].elements() / k, true, false);
    g.add = op != "matmul_weight_gradient";
  } else if (op == "batch_matmul") {
    bool transpose_left = int_attribute(attributes, 0) != 0, transpose_right = int_attribute(attributes, 1) != 0;
    const Dims &a = in[0].extent, &y = out[0].extent;
    std::int64_t m = y[y.size() - 2], n = y.back(), k = a[a.size() - (transpose_left ? 2 : 1)];
    g = row_major(m, n, k, transpose_left, transpose_right);
    g.batch = out[0].elements() / (m * n);
  } else {
    return fail("{}: is no product of matrices", op);
  }
  for (std::int64_t size : {g.m, g.n, g.k, g.batch})
    if (size > std::numeric_limits<std::int32_t>::max()) return fail("{}: a size of {} is over 32 bits", op, size);
  return g;
}

Result<GemmShape> conv_gemm_shape(std::string_view op, const Attributes& attributes, std::span<const Operand> in,
                                  std::span<const Operand> out, bool channels_last) {
  const bool forward = op == "conv2d", to_weight = op.starts_with("conv2d_weight_gradient");
  if (to_weight && !channels_last) return fail("{}: is a sum over samples", op);
  ConvOperands at = conv_operands(op);
  ConvShape s = UNITY_TRY(
      conv_shape(attributes, operand(in, out, at.x), operand(in, out, at.w), operand(in, out, at.y), channels_last));
  const std::array<std::int64_t, 2> ones = {1, 1}, none = {0, 0};
  if (s.w[2] != 1 || s.w[3] != 1 || s.stride != ones || s.pre != none || s.post != none || s.crops)
    return fail("{}: windows of {}x{} in strides of {}, {}", op, s.w[2], s.w[3], s.stride[0], s.stride[1]);
  if (s.groups() != 1) return fail("{}: {} groups", op, s.groups());
  const std::int64_t co = s.w[0], ci = s.w[1], area = s.x[2] * s.x[3], positions = s.x[0] * area;
  GemmShape g;
  if (channels_last) {
    g = forward     ? row_major(positions, co, ci, false, true)
        : to_weight ? row_major(co, ci, positions, true, false)
                    : row_major(positions, ci, co, false, false);
    g.a = to_weight ? at.x : at.w, g.b = forward ? at.x : at.y;
  } else {
    g = forward ? row_major(co, area, ci, false, false) : row_major(ci, area, co, true, false);
    g.a = forward ? at.x : at.y, g.b = at.w;
    g.batch = s.x[0], g.stride_b = 0;
  }
  if (positions > std::numeric_limits<std::int32_t>::max())
    return fail("{}: {} positions are over 32 bits", op, positions);
  g.add = op.ends_with("_accumulate");
  g.relu = forward && conv2d_relu(attributes);
  return g;
}

EpilogueSteps epilogue_of(const Chain& chain, std::span<const Operand> operands) {
  EpilogueSteps found;
  const std::vector<ChainStep>& steps = chain.steps();
  const std::int64_t columns = operands.back().extent.back();
  // A value that is kept must be written as it is.
  auto next_is = [&](std::string_view name) {
    return found.steps < steps.size() && steps[found.steps - 1].kept == ChainStep::kNotKept &&
           steps[found.steps].op->name() == name;
  };
  if (steps[0].op->name() == "matmul" && text_attribute(steps[0].attributes, 0) != "none") return found;
  if (next_is("add"))
    for (int i : steps[1].operands) {
      if (i == ChainStep::kBefore || i >= static_cast<int>(chain.inputs())) continue;
      const Operand& o = operands[static_cast<std::size_t>(i)];
      if (o.elements() != columns || o.extent.empty() || o.extent.back() != columns) continue;
      found.bias = i, found.steps = 2;
    }
  if (next_is("relu")) found.relu = true, ++found.steps;
  return found;
}

std::string to_string(const GemmShape& g) {
  return fmt::format("m{} n{} k{} batch{} {}{} ld {},{},{} stride {},{},{} of {},{}{}", g.m, g.n, g.k, g.batch,
                     g.transpose_a ? 't' : 'n', g.transpose_b ? 't' : 'n', g.lda, g.ldb, g.ldd, g.stride_a, g.stride_b,
                     g.stride_d, g.a, g.b,
                     g.add    ? " add"
                     : g.relu ? " relu"
                              : "");
}

}  // namespace unity::cuda
