#include "runtime/cpu/optimizers.h"

#include <cmath>

#include "core/ops/embedding.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

template <bool kNesterov, class T>
void sgd_with_momentum(T* __restrict w, const T* __restrict g, T* __restrict v, std::int64_t n, T rate, T momentum,
                       T decay) {
  for (std::int64_t i = 0; i < n; ++i) {
    T gradient = g[i] + decay * w[i];
    v[i] = momentum * v[i] + gradient;
    w[i] -= rate * (kNesterov ? gradient + momentum * v[i] : v[i]);
  }
}

template <class T>
void sgd(T* __restrict w, const T* __restrict g, T* __restrict v, std::int64_t n, const SgdStep& how) {
  const T rate = static_cast<T>(how.rate), momentum = static_cast<T>(how.momentum);
  const T decay = static_cast<T>(how.weight_decay);
  if (how.momentum == 0) {
    for (std::int64_t i = 0; i < n; ++i) w[i] -= rate * (g[i] + decay * w[i]);
  } else if (how.nesterov) {
    sgd_with_momentum<true>(w, g, v, n, rate, momentum, decay);
  } else {
    sgd_with_momentum<false>(w, g, v, n, rate, momentum, decay);
  }
}

template <class T>
void adam(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v, std::int64_t n,
          const AdamStep& how) {
  // Corrections are computed in double, once: 1 - beta2^step loses digits in float.
  const double step = static_cast<double>(how.step);
  const T b1 = static_cast<T>(how.beta1), b2 = static_cast<T>(how.beta2), epsilon = static_cast<T>(how.epsilon);
  const T c1 = static_cast<T>(1 - how.beta1), c2 = static_cast<T>(1 - how.beta2);
  const T scale = static_cast<T>(how.rate / (1 - std::pow(how.beta1, step)));
  const T inverse = static_cast<T>(1 / (1 - std::pow(how.beta2, step)));
  const T into_gradient = static_cast<T>(how.decoupled ? 0 : how.weight_decay);
  const T kept = static_cast<T>(how.decoupled ? 1 - how.rate * how.weight_decay : 1);
  for (std::int64_t i = 0; i < n; ++i) {
    T gradient = g[i] + into_gradient * w[i];
    m[i] = b1 * m[i] + c1 * gradient;
    v[i] = b2 * v[i] + c2 * gradient * gradient;
    w[i] = kept * w[i] - scale * m[i] / (std::sqrt(v[i] * inverse) + epsilon);
  }
}

// Steps are element-wise, so each thread takes a part. A state that the optimizer does not keep stays null.
template <class T>
T* part(void* all, std::int64_t begin) {
  return all ? static_cast<T*>(all) + begin : nullptr;
}

}  // namespace

void sgd_step(void* weight, const void* gradient, void* velocity, std::int64_t elements, const SgdStep& how,
              DType dtype) {
  UNITY_CHECK(how.momentum == 0 || velocity, "sgd with momentum needs its velocity");
  dispatch_type(dtype, [&]<class T>() {
    parallel_for(elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
      sgd(part<T>(weight, begin), static_cast<const T*>(gradient) + begin, part<T>(velocity, begin), end - begin, how);
    });
  });
}

void sgd_rows_step(const Operand& table, const Operand& ids, const Operand& dy, double rate) {
  const std::int64_t n = ids.elements(), h = table.extent[1], shares = threads();
  const std::int64_t ids_of_row = n * h / std::max<std::int64_t>(dy.elements(), 1);
  dispatch_type(table.dtype, [&]<class T>() {
    auto step = [&](std::int64_t share, std::int64_t of) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t row = embedding_row(table, ids.as<std::int32_t>()[i]);
        if (row < 0 || row % of != share) continue;
        const T* from = dy.as<T>() + i / ids_of_row * h;
        T* __restrict to = table.as<T>() + row * h;
        for (std::int64_t j = 0; j < h; ++j) to[j] -= static_cast<T>(rate) * from[j];
      }
    };
    if (shares == 1 || n * h < 4 * kGrain) return step(0, 1);
    parallel_for(
        shares, 1,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t s = begin; s < end; ++s) step(s, shares);
        },
        1);
  });
}

void adam_step(void* weight, const void* gradient, void* mean, void* variance, std::int64_t elements,
               const AdamStep& how, DType dtype) {
  UNITY_CHECK(how.step >= 1, "adam: step is {}, expected at least 1", how.step);
  dispatch_type(dtype, [&]<class T>() {
    parallel_for(elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
      adam(part<T>(weight, begin), static_cast<const T*>(gradient) + begin, part<T>(mean, begin),
           part<T>(variance, begin), end - begin, how);
    });
  });
}

}  // namespace unity::cpu
