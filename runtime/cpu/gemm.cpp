#include "runtime/cpu/gemm.h"

#include <atomic>
#include <mutex>

#include <cblas.h>
#include <dnnl.h>
#include <omp.h>

#include "core/base/error.h"
#include "runtime/cpu/kernels.h"

namespace unity::cpu {
namespace {

std::atomic<int> threads_wanted{1};

// oneDNN takes the number of OpenMP threads of the calling thread, OpenBLAS that of the process.
void use_wanted_threads() {
  thread_local int mine = 0;
  static std::mutex mutex;
  int wanted = threads_wanted.load(std::memory_order_relaxed);
  if (mine == wanted) return;
  omp_set_num_threads(wanted);
  std::lock_guard lock(mutex);
  if (openblas_get_num_threads() != wanted) openblas_set_num_threads(wanted);
  mine = wanted;
}

}  // namespace

void set_threads(int threads) {
  UNITY_CHECK(threads >= 1, "set_threads: found {}, expected at least 1", threads);
  threads_wanted = threads;
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  use_wanted_threads();
  dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  UNITY_CHECK(status == dnnl_success, "dnnl_sgemm failed with status {} for m {}, n {}, k {}", static_cast<int>(status),
              m, n, k);
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  use_wanted_threads();
  auto i = [](std::int64_t v) { return static_cast<blasint>(v); };
  cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, i(m),
              i(n), i(k), 1.0, a, i(lda), b, i(ldb), beta, c, i(ldc));
}

}  // namespace unity::cpu
