#include "runtime/cpu/gemm.h"

#include <algorithm>
#include <mutex>

#include <cblas.h>
#include <dnnl.h>

#include "core/base/error.h"
#include "runtime/cpu/threads.h"

namespace unity::cpu {

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  threads();  // tells OpenMP
  dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  UNITY_CHECK(status == dnnl_success, "dnnl_sgemm failed with status {} for m {}, n {}, k {}", static_cast<int>(status),
              m, n, k);
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  // OpenBLAS keeps one number of threads for the whole process: it gets 1, and the rows of c are shared out here.
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
  auto i = [](std::int64_t v) { return static_cast<blasint>(v); };
  std::int64_t grain = std::max<std::int64_t>(16, (1 << 16) / (n * k) + 1);
  parallel_for(m, grain, [&](std::int64_t begin, std::int64_t end) {
    cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                i(end - begin), i(n), i(k), 1.0, a + begin * (transpose_a ? 1 : lda), i(lda), b, i(ldb), beta,
                c + begin * ldc, i(ldc));
  });
}

}  // namespace unity::cpu
