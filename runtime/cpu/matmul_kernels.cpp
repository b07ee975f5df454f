#include <algorithm>

#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {

void matmul_kernel(const OpCall& call) {
  bool relu = text_attribute(call.attributes, 0) == "relu", transposed = int_attribute(call.attributes, 1) != 0;
  std::int64_t k = call.inputs[0].extent.back(), n = call.outputs[0].extent.back();
  std::int64_t rows = call.inputs[0].elements() / k;
  dispatch(call, [&]<class T>() {
    T* y = call.outputs[0].as<T>();
    gemm(false, transposed, rows, n, k, call.inputs[0].as<T>(), k, call.inputs[1].as<T>(), transposed ? k : n, T(0), y,
         n);
    if (relu) relu_in_place(y, rows * n);
  });
}

namespace {

// dw = x^T dy + beta dw
template <class T>
void weight_gradient(const OpCall& call, T beta) {
  std::int64_t k = call.outputs[0].extent[0], n = call.outputs[0].extent[1];
  std::int64_t rows = call.inputs[0].elements() / k;
  gemm(true, false, k, n, rows, call.inputs[0].as<T>(), k, call.inputs[1].as<T>(), n, beta, call.outputs[0].as<T>(), n);
}

}  // namespace

void matmul_weight_gradient_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { weight_gradient(call, T(0)); });
}

void matmul_weight_gradient_accumulate_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() {
    const T* sum = call.inputs[2].as<T>();
    if (T* dw = call.outputs[0].as<T>(); dw != sum) std::copy_n(sum, call.outputs[0].elements(), dw);
    weight_gradient(call, T(1));
  });
}

void batch_matmul_kernel(const OpCall& call) {
  bool ta = int_attribute(call.attributes, 0) != 0, tb = int_attribute(call.attributes, 1) != 0;
  const Dims &y = call.outputs[0].extent, &a = call.inputs[0].extent;
  std::int64_t m = y[y.size() - 2], n = y.back(), k = a[a.size() - (ta ? 2 : 1)];
  std::int64_t batches = call.outputs[0].elements() / (m * n);
  dispatch(call, [&]<class T>() {
    auto product = [&](std::int64_t p) {
      gemm(ta, tb, m, n, k, call.inputs[0].as<T>() + p * m * k, ta ? m : k, call.inputs[1].as<T>() + p * k * n,
           tb ? k : n, T(0), call.outputs[0].as<T>() + p * m * n, n);
    };
    // Many products: each on one thread. Few: each on all.
    if (batches >= 2 * threads())
      for_each_row(batches, m * n * k / 16 + 1, product);
    else
      for (std::int64_t p = 0; p < batches; ++p) product(p);
  });
}

}  // namespace unity::cpu
