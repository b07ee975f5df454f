// matmul, batch_matmul, gradients of weights, and convolutions that are products, by cublasLtMatmul; cublas_shapes.h
// has the mapping.
#include "runtime/cuda/library/convert.h"
#include "runtime/cuda/library/cublas_shapes.h"
#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/staging.h"

namespace unity::cuda {
namespace {

cudaDataType_t cuda_type(DType type) {
  return type == DType::f64 ? CUDA_R_64F : type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

// A descriptor of cuBLASLt, with its attributes.
template <class Handle, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_) kDestroy(handle_);
  }
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using MatmulDesc = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const MatmulDesc& d, cublasLtMatmulDescAttributes_t attribute, T value) {
  UNITY_LIBRARY_CHECK(cublasLtMatmulDescSetAttribute(d.get(), attribute, &value, sizeof value));
}
template <class T>
void set(const Layout& d, cublasLtMatrixLayoutAttribute_t attribute, T value) {
  UNITY_LIBRARY_CHECK(cublasLtMatrixLayoutSetAttribute(d.get(), attribute, &value, sizeof value));
}
template <class T>
void set(const Preference& d, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  UNITY_LIBRARY_CHECK(cublasLtMatmulPreferenceSetAttribute(d.get(), attribute, &value, sizeof value));
}

// Column-major, as is the default. Batches: one matrix after the other.
void describe(Layout& layout, DType type, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t batch,
              std::int64_t stride) {
  UNITY_LIBRARY_CHECK(cublasLtMatrixLayoutCreate(layout.out(), cuda_type(type), static_cast<std::uint64_t>(rows),
                                                 static_cast<std::uint64_t>(columns), ld));
  if (batch == 1) return;
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
}

struct MatmulPlan {
  GemmShape shape;
  bool doubles = false, relu_after = false, bias = false;
  MatmulDesc matmul;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm{};

  // `pc`: what is added; where nothing is, beta is 0 and it is not read. `bias`: read where the plan has one.
  void run(Libraries& libraries, const void* pa, const void* pb, const void* pc, void* pd, const void* pbias,
           Stream stream) const {
    if (bias) set(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pbias);
    const float one = 1, beta = shape.add ? 1 : 0;
    const double one64 = 1, beta64 = beta;
    UNITY_LIBRARY_CHECK(cublasLtMatmul(
        libraries.handles().cublas(), matmul.get(), doubles ? static_cast<const void*>(&one64) : &one, pa, a.get(), pb,
        b.get(), doubles ? static_cast<const void*>(&beta64) : &beta, pc, d.get(), pd, d.get(), &algorithm,
        libraries.workspace(), static_cast<std::size_t>(libraries.options().workspace), stream));
  }
};

// `type` of a and b; none when cuBLASLt knows no algorithm.
Result<std::shared_ptr<MatmulPlan>> make_plan(Libraries& libraries, const GemmShape& g, DType type, DType result,
                                              bool fuse_relu, bool bias) {
  auto plan = std::make_shared<MatmulPlan>();
  plan->shape = g, plan->doubles = type == DType::f64, plan->relu_after = g.relu && !fuse_relu;
  plan->bias = bias;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  if (type == DType::f64)
    compute = CUBLAS_COMPUTE_64F;
  else if (type == DType::f32 && libraries.options().math != Math::f32)
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  UNITY_LIBRARY_CHECK(
      cublasLtMatmulDescCreate(plan->matmul.out(), compute, type == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
  set(plan->matmul, CUBLASLT_MATMUL_DESC_TRANSA, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan->matmul, CUBLASLT_MATMUL_DESC_TRANSB, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE,
      bias ? (fuse_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
           : (fuse_relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT));
  // In the type of the result: a column of the row-major result is a row of cuBLAS's, for each of which it has one.
  if (bias) set(plan->matmul, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(result)));
  describe(plan->a, type, g.rows_a(), g.columns_a(), g.lda, g.batch, g.stride_a);
  describe(plan->b, type, g.rows_b(), g.columns_b(), g.ldb, g.batch, g.stride_b);
  describe(plan->d, result, g.m, g.n, g.ldd, g.batch, g.stride_d);

  Preference preference;
  UNITY_LIBRARY_CHECK(cublasLtMatmulPreferenceCreate(preference.out()));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(libraries.options().workspace));
  // Sums over parts of k stay in the compute type and are added up in a fixed order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (auto alignment : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, alignment, std::uint32_t{16});
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(libraries.handles().cublas(), plan->matmul.get(), plan->a.get(), plan->b.get(),
                                     plan->d.get(), plan->d.get(), preference.get(), 1, &found, &count);
  bool none = count == 0 || found.state != CUBLAS_STATUS_SUCCESS;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && none))
    return fail("no algorithm for {} {} into {}", to_string(g), to_string(type), to_string(result));
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  plan->algorithm = found.algo;
  return plan;
}

// `wanted`: the operands' types for the library; `sum` is what is added, or the bias.
Result<LibraryPlan> plan_of(Libraries& libraries, const LibraryCall& call, const GemmShape& g, DType type,
                            std::span<const DType> wanted, std::size_t sum, bool bias) {
  Staging staging(call, wanted);
  const DType result = wanted.back();
  return libraries.once(
      fmt::format("cublaslt {}{}{}", to_string(g), bias ? " bias" : "", staging.key()), [&]() -> Result<LibraryPlan> {
        Result<std::shared_ptr<MatmulPlan>> plan = make_plan(libraries, g, type, result, g.relu, bias);
        if (!plan && g.relu) plan = make_plan(libraries, g, type, result, false, bias);
        if (!plan) return plan.error();
        std::string description = fmt::format("{} {} into {}{}{}", to_string(g), to_string(type), to_string(result),
                                              bias ? ", with bias" : "", (*plan)->relu_after ? ", then relu" : "");
        auto run = [&libraries, plan = *plan, staging, result, sum, out = wanted.size() - 1](const Call& c) {
          Pointers at = staging.begin(c);
          plan->run(libraries, at[plan->shape.a], at[plan->shape.b], at[sum], at[out], at[sum], c.stream);
          if (plan->relu_after) relu_in_place(c.stream, at[out], result, c.outputs[0].elements());
          staging.end(c, at);
        };
        return LibraryPlan{run, description, staging.scratch()};
      });
}

}  // namespace

Result<LibraryPlan> cublaslt_matmul(Libraries& libraries, const LibraryCall& call) {
  GemmShape g = UNITY_TRY(gemm_shape(call.op.name(), call.attributes, call.inputs, call.outputs));
  DType type = UNITY_TRY(Staging::product_type(libraries.options().math, call));
  // Results of bf16 products may be f32 as well; those of others are of their type.
  DType result = type == DType::bf16 ? call.outputs[0].dtype : type;
  const bool bias = call.epilogue.bias;
  if (bias && type == DType::f64) return fail("a bias in f64");
  g.relu = g.relu || call.epilogue.relu;
  std::vector<DType> wanted = {type, type, result};
  if (g.add || bias) wanted.push_back(result);
  return plan_of(libraries, call, g, type, wanted, 2, bias);  // the third is what is added or the bias, or the result
}

Result<LibraryPlan> cublaslt_conv(Libraries& libraries, const LibraryCall& call) {
  GemmShape g =
      UNITY_TRY(conv_gemm_shape(call.op.name(), call.attributes, call.inputs, call.outputs, call.channels_last));
  DType type = UNITY_TRY(Staging::product_type(libraries.options().math, call));
  DType result = type == DType::bf16 ? call.outputs[0].dtype : type;
  std::vector<DType> wanted;
  for (const Operand& o : call.inputs) wanted.push_back(o.dtype);
  wanted[g.a] = wanted[g.b] = type;
  if (g.add) wanted.back() = result;
  wanted.push_back(result);
  return plan_of(libraries, call, g, type, wanted, g.add ? call.inputs.size() - 1 : call.inputs.size(), false);
}

}  // namespace unity::cuda
