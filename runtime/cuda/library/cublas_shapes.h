// How cuBLAS, whose matrices are column-major, computes the products of row-major matrices of core/ops. Pure: no CUDA.
//
// Memory that holds a row-major [r, c] matrix X holds the column-major c x r matrix X^T, with leading dimension c. So
//   C[m, n] = op(A)[m, k] op(B)[k, n]   row-major   is   C^T[n, m] = op(B)^T op(A)^T   column-major:
// cuBLAS gets B as its first operand and A as its second, m and n change places, and
//   B stored as [k, n]: B^T is n x k with leading dimension n, and op(B)^T is that: not transposed;
//   B stored as [n, k]: it is k x n with leading dimension k, and op(B)^T its transpose: transposed.
// The same holds for A with (m, k) for (k, n): transposed exactly where the row-major product transposes.
#pragma once

#include <string>
#include <string_view>

#include "core/ops/chain.h"

namespace unity::cuda {

// In cuBLAS's terms: d[m, n] = op(a)[m, k] op(b)[k, n] for each of `batch` products, all column-major.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldd = 0;                 // of matrices as stored
  std::int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // elements from one product of the batch to the next
  std::size_t a = 1, b = 0;                               // which operands of the call
  bool relu = false;                                      // max(0, .) of the result
  bool add = false;                                       // the result and what the call's last operand holds
  // Rows and columns of a and b as stored.
  std::int64_t rows_a() const { return transpose_a ? k : m; }
  std::int64_t columns_a() const { return transpose_a ? m : k; }
  std::int64_t rows_b() const { return transpose_b ? n : k; }
  std::int64_t columns_b() const { return transpose_b ? k : n; }
};

// Of matmul and matmul_weight_gradient, both also with a sum (_accumulate), and batch_matmul. Declines (an Error says
// why) other operators, products without elements and sizes that do not fit in 32 bits.
Result<GemmShape> gemm_shape(std::string_view op, const Attributes& attributes, std::span<const Operand> inputs,
                             std::span<const Operand> outputs);
// Of a convolution whose windows are one element and that skips nothing, or of its gradients, also with a sum. With
// channels last it is one product of a matrix of positions and channels; in rows, for each sample, the product of w, or
// its transpose, and a matrix of channels and positions. Declines all others, in rows the gradient of filters, too,
// which is a sum over samples.
Result<GemmShape> conv_gemm_shape(std::string_view op, const Attributes& attributes, std::span<const Operand> inputs,
                                  std::span<const Operand> outputs, bool channels_last = false);
// The steps of a chain behind its product that cuBLASLt may compute with it: what is added to each row of the result,
// max(0, .) of that, or of the product. Its gelu is another than ours (with tanh), and stays a step of its own.
struct EpilogueSteps {
  int bias = -1;  // operand of the task that is added: an element for each column
  bool relu = false;
  std::size_t steps = 1;  // of the chain that are done with it, the product among them
};
EpilogueSteps epilogue_of(const Chain& chain, std::span<const Operand> operands);

// The same for equal shapes and only for them.
std::string to_string(const GemmShape& shape);

}  // namespace unity::cuda
