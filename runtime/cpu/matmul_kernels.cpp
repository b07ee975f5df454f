#include <algorithm>

#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {

namespace {

// What an operator adds its result to, in the place of that result.
template <class T>
void begin_with_sum(const OpCall& call) {
  const T* sum = call.inputs.back().as<T>();
  if (T* result = call.outputs[0].as<T>(); result != sum) std::copy_n(sum, call.outputs[0].elements(), result);
}

// y = x w + beta y
template <class T>
void product(const OpCall& call, T beta) {
  bool transposed = int_attribute(call.attributes, 1) != 0;
  std::int64_t k = call.inputs[0].extent.back(), n = call.outputs[0].extent.back();
  gemm(false, transposed, call.inputs[0].elements() / k, n, k, call.inputs[0].as<T>(), k, call.inputs[1].as<T>(),
       transposed ? k : n, beta, call.outputs[0].as<T>(), n);
}

// dw = x^T dy + beta dw
template <class T>
void weight_gradient(const OpCall& call, T beta) {
  std::int64_t k = call.outputs[0].extent[0], n = call.outputs[0].extent[1];
  std::int64_t rows = call.inputs[0].elements() / k;
  gemm(true, false, k, n, rows, call.inputs[0].as<T>(), k, call.inputs[1].as<T>(), n, beta, call.outputs[0].as<T>(), n);
}

}  // namespace

void matmul_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() {
    product(call, T(0));
    if (text_attribute(call.attributes, 0) == "relu")
      relu_in_place(call.outputs[0].as<T>(), call.outputs[0].elements());
  });
}

void matmul_accumulate_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { begin_with_sum<T>(call), product(call, T(1)); });
}

void matmul_weight_gradient_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { weight_gradient(call, T(0)); });
}

void matmul_weight_gradient_accumulate_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { begin_with_sum<T>(call), weight_gradient(call, T(1)); });
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
