#include <cmath>

#include "core/ops/cross_entropy.h"
#include "core/ops/rows.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

template <class T>
T row_max(const T* x, std::int64_t c) {
  return lane_max<T>(c, [&](std::int64_t j) { return x[j]; });
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
    for_each_row(row_count(call.inputs[0]), c, [&](std::int64_t r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T* y = call.outputs[0].as<T>() + r * c;
      T inverse = 1 / exponential_row(x, c, row_max(x, c), y);
      for (std::int64_t j = 0; j < c; ++j) y[j] *= inverse;
    });
  });
}

void softmax_gradient_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    for_each_row(row_count(call.inputs[0]), c, [&](std::int64_t r) {
      const T *y = call.inputs[0].as<T>() + r * c, *dy = call.inputs[1].as<T>() + r * c;
      T* dx = call.outputs[0].as<T>() + r * c;
      T sum = lane_sum<T>(c, [&](std::int64_t j) { return y[j] * dy[j]; });
      for (std::int64_t j = 0; j < c; ++j) dx[j] = y[j] * (dy[j] - sum);
    });
  });
}

void layer_norm_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    const T *gamma = call.inputs[1].as<T>(), *beta = call.inputs[2].as<T>();
    for_each_row(row_count(call.inputs[0]), c, [&](std::int64_t r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T* y = call.outputs[0].as<T>() + r * c;
      auto [mean, inverse] = row_moments(x, c, real_attribute(call.attributes, 0));
      for (std::int64_t j = 0; j < c; ++j) y[j] = gamma[j] * ((x[j] - mean) * inverse) + beta[j];
    });
  });
}

void layer_norm_gradient_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    std::int64_t rows = row_count(call.inputs[0]);
    std::vector<Moments<T>> moments(static_cast<std::size_t>(rows));
    for_each_row(rows, c, [&](std::int64_t r) {
      const T *x = call.inputs[0].as<T>() + r * c, *dy = call.inputs[2].as<T>() + r * c;
      T* __restrict dx = call.outputs[0].as<T>() + r * c;
      auto [mean, inverse] = moments[static_cast<std::size_t>(r)] =
          row_moments(x, c, real_attribute(call.attributes, 0));
      T mean_q = lane_sum<T>(c, [&](std::int64_t j) { return gamma[j] * dy[j]; }) / static_cast<T>(c);
      T mean_qh = lane_sum<T>(c, [&, mean = mean, inverse = inverse](
                                     std::int64_t j) { return gamma[j] * dy[j] * ((x[j] - mean) * inverse); }) /
                  static_cast<T>(c);
      for (std::int64_t j = 0; j < c; ++j) {
        T h = (x[j] - mean) * inverse;
        dx[j] = (gamma[j] * dy[j] - mean_q - h * mean_qh) * inverse;
      }
    });
    // Sums over rows: threads share the columns, so that each sum is one thread's.
    parallel_for(c, std::max<std::int64_t>(64, kGrain / rows), [&](std::int64_t begin, std::int64_t end) {
      T* __restrict dgamma = call.outputs[1].as<T>(), * __restrict dbeta = call.outputs[2].as<T>();
      std::fill_n(dgamma + begin, end - begin, T(0));
      std::fill_n(dbeta + begin, end - begin, T(0));
      for (std::int64_t r = 0; r < rows; ++r) {
        const T *x = call.inputs[0].as<T>() + r * c, *dy = call.inputs[2].as<T>() + r * c;
        auto [mean, inverse] = moments[static_cast<std::size_t>(r)];
        for (std::int64_t j = begin; j < end; ++j) {
          dgamma[j] += dy[j] * ((x[j] - mean) * inverse);
          dbeta[j] += dy[j];
        }
      }
    });
  });
}

void cross_entropy_kernel(const OpCall& call) {
  const Operand& logits = call.inputs[0];
  std::int64_t c = logits.extent.back();
  dispatch(call, [&]<class T>() {
    std::vector<T> losses(static_cast<std::size_t>(row_count(logits)));
    for_each_row(row_count(logits), c, [&](std::int64_t r) {
      const T* x = logits.as<T>() + r * c;
      T max = row_max(x, c), sum = lane_sum<T>(c, [&](std::int64_t j) { return exponential(x[j] - max); });
      losses[static_cast<std::size_t>(r)] = std::log(sum) + max - x[checked_label(call.inputs[1], r, c)];
    });
    double loss = 0;
    for (T l : losses) loss += static_cast<double>(l);
    *call.outputs[0].as<T>() = static_cast<T>(loss / static_cast<double>(global_rows(logits)));
  });
}

void cross_entropy_gradient_kernel(const OpCall& call) {
  const Operand& logits = call.inputs[0];
  std::int64_t c = logits.extent.back();
  dispatch(call, [&]<class T>() {
    T factor = *call.inputs[2].as<T>() / static_cast<T>(global_rows(logits));
    for_each_row(row_count(logits), c, [&](std::int64_t r) {
      const T* x = logits.as<T>() + r * c;
      T* dx = call.outputs[0].as<T>() + r * c;
      T scaled = factor / exponential_row(x, c, row_max(x, c), dx);
      for (std::int64_t j = 0; j < c; ++j) dx[j] *= scaled;
      dx[checked_label(call.inputs[1], r, c)] -= factor;
    });
  });
}

}  // namespace unity::cpu
