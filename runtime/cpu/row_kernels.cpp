#include <cmath>

#include "core/ops/cross_entropy.h"
#include "core/ops/rows.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

template <class T>
T row_max(const T* x, std::int64_t c) {
  T m = x[0];
  for (std::int64_t j = 1; j < c; ++j) m = x[j] > m ? x[j] : m;
  return m;
}

// e[j] = exp(x[j] - max) and their sum.
template <class T>
T exponential_row(const T* x, std::int64_t c, T max, T* e) {
  for (std::int64_t j = 0; j < c; ++j) e[j] = exponential(x[j] - max);
  return lane_sum<T>(c, [&](std::int64_t j) { return e[j]; });
}

template <class T>
struct Moments {
  T mean, inverse;  // inverse = 1 / sqrt(variance + epsilon)
};
template <class T>
Moments<T> row_moments(const T* x, std::int64_t c, double epsilon) {
  T mean = lane_sum<T>(c, [&](std::int64_t j) { return x[j]; }) / static_cast<T>(c);
  T variance = lane_sum<T>(c, [&](std::int64_t j) { return (x[j] - mean) * (x[j] - mean); }) / static_cast<T>(c);
  return {mean, 1 / std::sqrt(variance + static_cast<T>(epsilon))};
}

}  // namespace

void softmax_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T* y = call.outputs[0].as<T>() + r * c;
      T inverse = 1 / exponential_row(x, c, row_max(x, c), y);
      for (std::int64_t j = 0; j < c; ++j) y[j] *= inverse;
    }
  });
}

void softmax_gradient_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T *y = call.inputs[0].as<T>() + r * c, *dy = call.inputs[1].as<T>() + r * c;
      T* dx = call.outputs[0].as<T>() + r * c;
      T sum = lane_sum<T>(c, [&](std::int64_t j) { return y[j] * dy[j]; });
      for (std::int64_t j = 0; j < c; ++j) dx[j] = y[j] * (dy[j] - sum);
    }
  });
}

void layer_norm_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    const T *gamma = call.inputs[1].as<T>(), *beta = call.inputs[2].as<T>();
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T* y = call.outputs[0].as<T>() + r * c;
      auto [mean, inverse] = row_moments(x, c, real_attribute(call.attributes, 0));
      for (std::int64_t j = 0; j < c; ++j) y[j] = gamma[j] * ((x[j] - mean) * inverse) + beta[j];
    }
  });
}

void layer_norm_gradient_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    T* __restrict dgamma = call.outputs[1].as<T>(), * __restrict dbeta = call.outputs[2].as<T>();
    std::fill_n(dgamma, c, T(0));
    std::fill_n(dbeta, c, T(0));
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T *x = call.inputs[0].as<T>() + r * c, *dy = call.inputs[2].as<T>() + r * c;
      T* __restrict dx = call.outputs[0].as<T>() + r * c;
      auto [mean, inverse] = row_moments(x, c, real_attribute(call.attributes, 0));
      T mean_q = lane_sum<T>(c, [&](std::int64_t j) { return gamma[j] * dy[j]; }) / static_cast<T>(c);
      T mean_qh = lane_sum<T>(c, [&, mean = mean, inverse = inverse](
                                     std::int64_t j) { return gamma[j] * dy[j] * ((x[j] - mean) * inverse); }) /
                  static_cast<T>(c);
      for (std::int64_t j = 0; j < c; ++j) {
        T h = (x[j] - mean) * inverse;
        dgamma[j] += dy[j] * h;
        dbeta[j] += dy[j];
        dx[j] = (gamma[j] * dy[j] - mean_q - h * mean_qh) * inverse;
      }
    }
  });
}

void cross_entropy_kernel(const OpCall& call) {
  const Operand& logits = call.inputs[0];
  std::int64_t c = logits.extent.back();
  dispatch(call, [&]<class T>() {
    double loss = 0;
    std::vector<T> e(static_cast<std::size_t>(c));
    for (std::int64_t r = 0; r < row_count(logits); ++r) {
      const T* x = logits.as<T>() + r * c;
      T max = row_max(x, c), sum = exponential_row(x, c, max, e.data());
      loss += static_cast<double>(std::log(sum) + max - x[checked_label(call.inputs[1], r, c)]);
    }
    *call.outputs[0].as<T>() = static_cast<T>(loss / static_cast<double>(global_rows(logits)));
  });
}

void cross_entropy_gradient_kernel(const OpCall& call) {
  const Operand& logits = call.inputs[0];
  std::int64_t c = logits.extent.back();
  dispatch(call, [&]<class T>() {
    T factor = *call.inputs[2].as<T>() / static_cast<T>(global_rows(logits));
    for (std::int64_t r = 0; r < row_count(logits); ++r) {
      const T* x = logits.as<T>() + r * c;
      T* dx = call.outputs[0].as<T>() + r * c;
      T scaled = factor / exponential_row(x, c, row_max(x, c), dx);
      for (std::int64_t j = 0; j < c; ++j) dx[j] *= scaled;
      dx[checked_label(call.inputs[1], r, c)] -= factor;
    }
  });
}

}  // namespace unity::cpu
