#include "runtime/cpu/optimizers.h"

#include <cmath>

#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

template <class T>
void sgd(T* __restrict w, const T* __restrict g, T* __restrict v, std::int64_t n, T rate, T momentum) {
  if (momentum == 0) {
    parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) w[i] -= rate * g[i];
    });
    return;
  }
  parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      v[i] = momentum * v[i] + g[i];
      w[i] -= rate * v[i];
    }
  });
}

template <class T>
void adam(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v, std::int64_t n, double rate,
          double beta1, double beta2, double epsilon, std::int64_t step) {
  // Corrections are computed in double, once: 1 - beta2^step loses digits in float.
  const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2), eps = static_cast<T>(epsilon);
  const T c1 = static_cast<T>(1 - beta1), c2 = static_cast<T>(1 - beta2);
  const T scale = static_cast<T>(rate / (1 - std::pow(beta1, static_cast<double>(step))));
  const T inverse = static_cast<T>(1 / (1 - std::pow(beta2, static_cast<double>(step))));
  parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      m[i] = b1 * m[i] + c1 * g[i];
      v[i] = b2 * v[i] + c2 * g[i] * g[i];
      w[i] -= scale * m[i] / (std::sqrt(v[i] * inverse) + eps);
    }
  });
}

}  // namespace

void sgd_step(void* weight, const void* gradient, void* velocity, std::int64_t elements, double learning_rate,
              double momentum, DType dtype) {
  UNITY_CHECK(momentum == 0 || velocity, "sgd with momentum needs its velocity");
  if (dtype == DType::f64)
    return sgd(static_cast<double*>(weight), static_cast<const double*>(gradient), static_cast<double*>(velocity),
               elements, learning_rate, momentum);
  UNITY_CHECK(dtype == DType::f32, "sgd: element type is {}, expected f32 or f64", to_string(dtype));
  sgd(static_cast<float*>(weight), static_cast<const float*>(gradient), static_cast<float*>(velocity), elements,
      static_cast<float>(learning_rate), static_cast<float>(momentum));
}

void adam_step(void* weight, const void* gradient, void* mean, void* variance, std::int64_t elements,
               double learning_rate, double beta1, double beta2, double epsilon, std::int64_t step, DType dtype) {
  UNITY_CHECK(step >= 1, "adam: step is {}, expected at least 1", step);
  if (dtype == DType::f64)
    return adam(static_cast<double*>(weight), static_cast<const double*>(gradient), static_cast<double*>(mean),
                static_cast<double*>(variance), elements, learning_rate, beta1, beta2, epsilon, step);
  UNITY_CHECK(dtype == DType::f32, "adam: element type is {}, expected f32 or f64", to_string(dtype));
  adam(static_cast<float*>(weight), static_cast<const float*>(gradient), static_cast<float*>(mean),
       static_cast<float*>(variance), elements, learning_rate, beta1, beta2, epsilon, step);
}

}  // namespace unity::cpu
