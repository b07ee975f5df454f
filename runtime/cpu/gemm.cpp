#include "runtime/cpu/gemm.h"

#include <algorithm>
#include <mutex>

#include <cblas.h>
#include <dnnl.h>

#include "core/base/error.h"
#include "runtime/cpu/threads.h"

namespace unity::cpu {
namespace {

void multiply(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
              std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  UNITY_CHECK(status == dnnl_success, "dnnl_sgemm failed with status {} for m {}, n {}, k {}", static_cast<int>(status),
              m, n, k);
}

void multiply(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
              std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  // OpenBLAS keeps one number of threads for the whole process.
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
  auto i = [](std::int64_t v) { return static_cast<blasint>(v); };
  cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, i(m),
              i(n), i(k), 1.0, a, i(lda), b, i(ldb), beta, c, i(ldc));
}

// Shares the rows or the columns of c out, whichever are more. The libraries' own threads would wait for one another in
// the middle of a product, actively, which costs dearly on a busy machine; and they may split k, so that sums depend on
// the number of threads.
template <class T>
void share_out(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
               std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  constexpr std::int64_t kUnit = 48;        // rows or columns: a multiple of the libraries' register blocks
  constexpr std::int64_t kSmall = 1 << 20;  // multiplications worth a thread
  bool rows = m > n;
  std::int64_t length = rows ? m : n, units = (length + kUnit - 1) / kUnit;
  std::int64_t grain = kSmall / std::max<std::int64_t>(kUnit * k * (rows ? n : m), 1) + 1;
  // Every chunk packs the other operand anew: one for each thread.
  parallel_for(
      units, grain,
      [&](std::int64_t begin, std::int64_t end) {
        begin *= kUnit, end = std::min(end * kUnit, length);
        if (rows)
          multiply(transpose_a, transpose_b, end - begin, n, k, a + begin * (transpose_a ? 1 : lda), lda, b, ldb, beta,
                   c + begin * ldc, ldc);
        else
          multiply(transpose_a, transpose_b, m, end - begin, k, a, lda, b + begin * (transpose_b ? ldb : 1), ldb, beta,
                   c + begin, ldc);
      },
      1);
}

}  // namespace

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  set_openmp_threads(1);  // oneDNN's own
  share_out(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
  set_openmp_threads(threads());
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  share_out(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace unity::cpu
