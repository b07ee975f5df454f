// Row-major matrix products: c[m, n] = op(a) op(b) + beta c, where op transposes when asked; ld is the length of a
// stored row. f32 is oneDNN's dnnl_sgemm, f64 is OpenBLAS's cblas_dgemm. All dimensions must be positive.
#pragma once

#include <cstdint>

namespace unity::cpu {

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc);

}  // namespace unity::cpu
