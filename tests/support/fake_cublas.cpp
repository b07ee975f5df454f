// cuBLASLt played on the host (fake_cuda.h): column-major products, as its documentation defines them, of what the
// descriptors say.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include <cublasLt.h>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_elements.h"

using namespace unity;

namespace {

// A descriptor of any kind.
struct Described {
  std::map<int, std::vector<std::byte>> values;
  cudaDataType_t type = CUDA_R_32F;  // of a layout
  std::int64_t ld = 0;

  template <class T>
  T get(int name, T otherwise) const {
    auto found = values.find(name);
    if (found != values.end()) std::memcpy(&otherwise, found->second.data(), sizeof otherwise);
    return otherwise;
  }
};
Described& at(void* handle) { return *static_cast<Described*>(handle); }

cublasStatus_t set(void* handle, int name, const void* value, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(value);
  at(handle).values[name] = {begin, begin + bytes};
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t create(T** handle) {
  *handle = reinterpret_cast<T*>(new Described);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(void* handle) { return delete static_cast<Described*>(handle), CUBLAS_STATUS_SUCCESS; }

struct Matrix {
  FakeElements elements;
  std::int64_t ld = 0, stride = 0;
  bool transposed = false;

  Matrix(const void* data, void* layout, bool turned) : ld(at(layout).ld), transposed(turned) {
    cudaDataType_t type = at(layout).type;
    elements = {const_cast<void*>(data), type == CUDA_R_64F    ? DType::f64
                                         : type == CUDA_R_16BF ? DType::bf16
                                                               : DType::f32};
    stride = at(layout).get<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  }
  std::int64_t where(std::int64_t batch, std::int64_t i, std::int64_t j) const {
    return batch * stride + (transposed ? j + i * ld : i + j * ld);
  }
};

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return delete reinterpret_cast<char*>(handle), CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 1; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "an error of the fake"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "no more is known"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t, cudaDataType_t) {
  return create(d);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return destroy(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  return set(d, name, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* d, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  create(d);
  at(*d).type = type, at(*d).ld = ld;
  set(*d, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows);
  return set(*d, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d) { return destroy(d); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  return set(d, name, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* d) { return create(d); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d) { return destroy(d); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t d,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    std::size_t bytes) {
  return set(d, name, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
  *count = 1;
  found->state = fake_cuda_libraries_on() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* /*alpha, 1*/, const void* pa,
                              cublasLtMatrixLayout_t la, const void* pb, cublasLtMatrixLayout_t lb, const void* beta,
                              const void* pc, cublasLtMatrixLayout_t lc, void* pd, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t*, void* workspace, std::size_t bytes, cudaStream_t stream) {
  for (const void* p : {pa, pb, pc, static_cast<const void*>(pd)})
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  auto turned = [&](cublasLtMatmulDescAttributes_t name) { return at(how).get(name, CUBLAS_OP_N) == CUBLAS_OP_T; };
  Matrix a(pa, la, turned(CUBLASLT_MATMUL_DESC_TRANSA)), b(pb, lb, turned(CUBLASLT_MATMUL_DESC_TRANSB));
  Matrix c(pc, lc, false), d(pd, ld, false);
  auto m = at(ld).get<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_ROWS, 0),
       n = at(ld).get<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_COLS, 0),
       k = at(la).get<std::int64_t>(a.transposed ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS, 0);
  std::int64_t batch = at(ld).get<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  const auto epilogue = at(how).get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const bool relu = epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS,
             has_bias = epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  // One for each row of the result, of the type that is said, or the result's.
  FakeElements bias{const_cast<void*>(at(how).get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr)),
                    d.elements.type};
  if (has_bias) {
    if (!bias.data) return CUBLAS_STATUS_INVALID_VALUE;
    auto type = at(how).get<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, at(ld).type);
    if (type != at(ld).type) return CUBLAS_STATUS_NOT_SUPPORTED;
    fake_cuda_count(&FakeLibraryCalls::biases);
  }
  double keep = d.elements.type == DType::f64 ? *static_cast<const double*>(beta)
                                              : static_cast<double>(*static_cast<const float*>(beta));
  fake_cuda_count(&FakeLibraryCalls::products);
  cuda::emulate(stream, [=] {
    std::memset(workspace, 0xff, std::min<std::size_t>(bytes, 4096));
    for (std::int64_t p = 0; p < batch; ++p)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t i = 0; i < m; ++i) {
          double sum = keep == 0 ? 0 : keep * c.elements.get(c.where(p, i, j));
          for (std::int64_t l = 0; l < k; ++l)
            sum += a.elements.get(a.where(p, i, l)) * b.elements.get(b.where(p, l, j));
          if (has_bias) sum += bias.get(i);
          d.elements.put(d.where(p, i, j), relu && sum < 0 ? 0 : sum);
        }
  });
  return CUBLAS_STATUS_SUCCESS;
}
}
