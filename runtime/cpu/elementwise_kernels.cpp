#include <cmath>

#include "core/ops/dropout_mask.h"
#include "runtime/cpu/elementwise_tools.h"
#include "runtime/cpu/exponential.h"

namespace unity::cpu {
void add_kernel(const OpCall& call) {
  binary(call, [](auto x, auto y) { return x + y; });
}

void mul_kernel(const OpCall& call) {
  binary(call, [](auto x, auto y) { return x * y; });
}

void scale_kernel(const OpCall& call) {
  double factor = real_attribute(call.attributes, 0);
  unary(call, [factor](auto x) { return static_cast<decltype(x)>(factor) * x; });
}

void relu_kernel(const OpCall& call) {
  unary(call, [](auto x) { return relu_of(x); });
}

void relu_gradient_kernel(const OpCall& call) {
  unary_gradient(call, [](auto y, auto dy) { return y <= 0 ? decltype(dy)(0) : dy; });
}

void gelu_kernel(const OpCall& call) {
  unary(call, [](auto x) {
    using T = decltype(x);
    return T(0.5) * x * (1 + error_function(x * static_cast<T>(M_SQRT1_2)));
  });
}

void gelu_gradient_kernel(const OpCall& call) {
  unary_gradient(call, [](auto x, auto dy) {
    using T = decltype(x);
    T cumulative = T(0.5) * (1 + error_function(x * static_cast<T>(M_SQRT1_2)));
    T density = exponential(T(-0.5) * x * x) * static_cast<T>(0.5 * M_SQRT1_2 * M_2_SQRTPI);
    return (cumulative + x * density) * dy;
  });
}

void tanh_kernel(const OpCall& call) {
  unary(call, [](auto x) { return hyperbolic_tangent(x); });
}

void tanh_gradient_kernel(const OpCall& call) {
  unary_gradient(call, [](auto y, auto dy) { return (1 - y * y) * dy; });
}

void sigmoid_kernel(const OpCall& call) {
  unary(call, [](auto x) { return 1 / (1 + exponential(-x)); });
}

void sigmoid_gradient_kernel(const OpCall& call) {
  unary_gradient(call, [](auto y, auto dy) { return y * (1 - y) * dy; });
}

void dropout_mask_kernel(const OpCall& call) {
  const Operand& y = call.outputs[0];
  double rate = real_attribute(call.attributes, 1);
  Dims local = strides(y.extent), logical = strides(y.global);
  std::vector<Loop<2>> loops;
  std::int64_t first = 0;
  for (std::size_t d = 0; d < y.extent.size(); ++d) {
    loops.push_back({y.extent[d], {local[d], logical[d]}});
    first += y.offset[d] * logical[d];
  }
  loops = collapse(loops);
  dispatch(call, [&]<class T>() {
    T kept = static_cast<T>(1 / (1 - rate));
    parallel_outer(loops, [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
      const auto& stride = loops.back().stride;
      for (std::int64_t i = 0; i < n; ++i)
        y.as<T>()[at[0] + i * stride[0]] =
            dropout_keeps(call.random, first + at[1] + i * stride[1], rate) ? kept : T(0);
    });
  });
}

void mean_squared_error_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() {
    const T *x = call.inputs[0].as<T>(), *y = call.inputs[1].as<T>();
    // Summed by blocks of a fixed size, so that threads do not change the sum.
    std::int64_t n = call.inputs[0].elements();
    std::vector<double> sums(static_cast<std::size_t>((n + kGrain - 1) / kGrain));
    for_each_row(static_cast<std::int64_t>(sums.size()), kGrain, [&](std::int64_t b) {
      std::int64_t begin = b * kGrain;
      sums[static_cast<std::size_t>(b)] = lane_sum<double>(std::min(kGrain, n - begin), [&](std::int64_t i) {
        double difference = static_cast<double>(x[begin + i]) - static_cast<double>(y[begin + i]);
        return difference * difference;
      });
    });
    double sum = lane_sum<double>(static_cast<std::int64_t>(sums.size()),
                                  [&](std::int64_t b) { return sums[static_cast<std::size_t>(b)]; });
    *call.outputs[0].as<T>() = static_cast<T>(sum / static_cast<double>(element_count(call.inputs[0].global)));
  });
}

void mean_squared_error_gradient_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() {
    const T *x = call.inputs[0].as<T>(), *y = call.inputs[1].as<T>();
    T* dx = call.outputs[0].as<T>();
    double n = static_cast<double>(element_count(call.inputs[0].global));
    T factor = static_cast<T>(static_cast<double>(*call.inputs[2].as<T>()) * 2 / n);
    parallel_for(call.outputs[0].elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) dx[i] = (x[i] - y[i]) * factor;
    });
  });
}

}  // namespace unity::cpu
