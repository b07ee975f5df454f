// Losses on a scalar and their gradients. Losses are summed in double; means divide by the sizes of the whole tensor.
#include "core/ops/rows.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/math.h"
#include "runtime/cuda/reduction.h"

namespace unity::cuda {

namespace {

// y = the sum of f(i) for i in [0, n), over `divisor`. `scratch` holds as many doubles as the reduction asks for.
template <class R, class F>
void mean_of(const Call& c, const Reduction& how, void* scratch, F f, std::int64_t divisor) {
  auto y = reals<R>(c.outputs[0]);
  auto count = static_cast<double>(divisor);
  reduce<SumOf<double>>(
      c.stream, how, scratch, UNITY_LAMBDA(std::int64_t, std::int64_t i) { return static_cast<double>(f(i)); },
      UNITY_LAMBDA(std::int64_t, double sum) { y.store(0, static_cast<typename R::Value>(sum / count)); });
}
template <class R, class F>
void mean_of_elements(const Call& c, F f) {
  Reduction how(c.inputs[0].elements());
  void* scratch = how.scratch() ? c.scratch(how.scratch() * static_cast<std::int64_t>(sizeof(double))) : nullptr;
  mean_of<R>(c, how, scratch, f, element_count(c.inputs[0].global));
}

// dx = f(x, target, dy / the elements of the whole tensor).
template <class R, class F>
void mean_gradient(const Call& c, F f) {
  using T = typename R::Value;
  auto dy = reals<R>(c.inputs[2]);
  auto count = static_cast<T>(element_count(c.inputs[0].global));
  map_dense(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(T x, T target) { return f(x, target, dy.load(0) / count); },
      reals<R>(c.outputs[0]), reals<R>(c.inputs[0]), reals<R>(c.inputs[1]));
}

// The largest logit of a row and the sum of exp(x - largest), in one pass: each thread keeps both of what it has seen
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
template <class T>
struct Normalizer {
  T largest, sum;
};
template <class T, class A>
UNITY_OF_GROUP Normalizer<T> normalizer(const A& x, std::int64_t begin, std::int64_t n, const Group& group) {
  T largest = std::numeric_limits<T>::lowest(), sum = 0;
  for (std::int64_t j = group.rank(); j < n; j += group.size()) {
    T v = x.load(begin + j);
    if (v > largest) {
      sum = sum * exp(largest - v) + 1;
      largest = v;
    } else {
      sum += exp(v - largest);
    }
  }
  T of_row = group.max(largest);
  return {of_row, group.sum(sum * exp(largest - of_row))};
}

}  // namespace

template <class R>
void mean_squared_error_of(const Call& c) {
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.inputs[1]);
  mean_of_elements<R>(
      c, UNITY_LAMBDA(std::int64_t i) {
        double difference = static_cast<double>(x.load(i)) - static_cast<double>(y.load(i));
        return difference * difference;
      });
}
UNITY_CUDA_KERNEL(mean_squared_error)

template <class R>
void mean_squared_error_gradient_of(const Call& c) {
  using T = typename R::Value;
  mean_gradient<R>(
      c, UNITY_LAMBDA(T x, T y, T dy) { return (x - y) * (2 * dy); });
}
UNITY_CUDA_KERNEL(mean_squared_error_gradient)

template <class R>
void binary_cross_entropy_of(const Call& c) {
  auto logits = reals<R>(c.inputs[0]), targets = reals<R>(c.inputs[1]);
  mean_of_elements<R>(
      c, UNITY_LAMBDA(std::int64_t i) {
        auto x = static_cast<double>(logits.load(i));
        return fmax(x, 0.0) - x * static_cast<double>(targets.load(i)) + log1p(exp(-fabs(x)));
      });
}
UNITY_CUDA_KERNEL(binary_cross_entropy)

template <class R>
void binary_cross_entropy_gradient_of(const Call& c) {
  using T = typename R::Value;
  mean_gradient<R>(
      c, UNITY_LAMBDA(T x, T target, T dy) { return (sigmoid(x) - target) * dy; });
}
UNITY_CUDA_KERNEL(binary_cross_entropy_gradient)

// Kernels cannot throw: a label outside [0, c) makes the loss, and its row of the gradient, NaN.
template <class R>
void cross_entropy_of(const Call& c) {
  using T = typename R::Value;
  const Operand& logits = c.inputs[0];
  std::int64_t classes = logits.extent.back(), rows = row_count(logits);
  Reduction how(rows);
  auto* scratch = static_cast<double*>(c.scratch((rows + how.scratch()) * static_cast<std::int64_t>(sizeof(double))));
  auto x = reals<R>(logits);
  auto labels = indices(c.inputs[1]);
  for_each_group(
      c.stream, rows, classes, UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Normalizer<T> of_row = normalizer<T>(x, r * classes, classes, group);
        if (group.rank() != 0) return;
        std::int32_t label = labels.load(r);
        T of_label = label >= 0 && label < classes ? x.load(r * classes + label) : std::numeric_limits<T>::quiet_NaN();
        scratch[r] = static_cast<double>(log(of_row.sum) + of_row.largest - of_label);
      });
  mean_of<R>(
      c, how, scratch + rows, UNITY_LAMBDA(std::int64_t r) { return scratch[r]; }, global_rows(logits));
}
UNITY_CUDA_KERNEL(cross_entropy)

template <class R>
void cross_entropy_gradient_of(const Call& c) {
  using T = typename R::Value;
  const Operand& logits = c.inputs[0];
  std::int64_t classes = logits.extent.back();
  auto x = reals<R>(logits), dy = reals<R>(c.inputs[2]), dx = reals<R>(c.outputs[0]);
  auto labels = indices(c.inputs[1]);
  auto rows = static_cast<T>(global_rows(logits));
  for_each_group(
      c.stream, row_count(logits), classes, UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Normalizer<T> of_row = normalizer<T>(x, r * classes, classes, group);
        std::int32_t label = labels.load(r);
        bool known = label >= 0 && label < classes;
        T factor = known ? dy.load(0) / rows : std::numeric_limits<T>::quiet_NaN(), inverse = 1 / of_row.sum;
        for (std::int64_t j = group.rank(); j < classes; j += group.size()) {
          T probability = exp(x.load(r * classes + j) - of_row.largest) * inverse;
          dx.store(r * classes + j, (probability - T(j == label ? 1 : 0)) * factor);
        }
      });
}
UNITY_CUDA_KERNEL(cross_entropy_gradient)

}  // namespace unity::cuda
