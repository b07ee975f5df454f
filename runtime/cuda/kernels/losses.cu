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

// This thread's share of a row of `runs` runs of N elements from `begin`: use(position, elements, how many of these
// runs the row has) for eight runs at a time, which lie a group's size apart and are all asked for before the first is
// used.
constexpr int kRuns = 8;
template <int N, class A, class Use>
UNITY_OF_GROUP void each_runs(const Group& group, const A& x, std::int64_t begin, std::int64_t runs, Use use) {
  const std::int64_t step = group.size();
  decltype(x.template load_packed<N>(begin)) packed[kRuns];
  Several<typename A::Value, N> v[kRuns];
  std::int64_t first = group.rank();
  UNITY_NO_UNROLL
  for (; first + (kRuns - 1) * step < runs; first += kRuns * step) {
    UNITY_UNROLL
    for (int b = 0; b < kRuns; ++b) packed[b] = x.template load_packed<N>(begin + (first + b * step) * N);
    UNITY_UNROLL
    for (int b = 0; b < kRuns; ++b) v[b] = x.template unpack<N>(packed[b]);
    use(begin + first * N, v, kRuns);
  }
  if (first >= runs) return;
  int count = 0;
  UNITY_UNROLL
  for (int b = 0; b < kRuns; ++b) {
    std::int64_t j = first + b * step;
    count += j < runs ? 1 : 0;
    packed[b] = x.template load_packed<N>(begin + (j < runs ? j : runs - 1) * N);
  }
  UNITY_UNROLL
  for (int b = 0; b < kRuns; ++b) v[b] = x.template unpack<N>(packed[b]);
  use(begin + first * N, v, count);
}

// The largest logit of a row and the sum of exp(x - largest), in one pass: each thread keeps both of what it has seen
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
template <class T>
struct Normalizer {
  T largest, sum;
};
template <int N, class A, class T = typename A::Value>
UNITY_OF_GROUP Normalizer<T> normalizer(const Group& group, const A& x, std::int64_t begin, std::int64_t n) {
  T largest = std::numeric_limits<T>::lowest(), sum = 0;
  each_runs<N>(group, x, begin, n / N, [&](std::int64_t, Several<T, N>(&v)[kRuns], int count) {
    T next = largest;
    UNITY_UNROLL
    for (int b = 0; b < kRuns; ++b) UNITY_UNROLL
    for (int k = 0; k < N; ++k) {
      if (b >= count) v[b].v[k] = -std::numeric_limits<T>::infinity();
      next = v[b].v[k] > next ? v[b].v[k] : next;
    }
    sum *= exp_of_negative(largest - next);
    largest = next;
    UNITY_UNROLL
    for (int b = 0; b < kRuns; ++b) UNITY_UNROLL
    for (int k = 0; k < N; ++k) sum += exp_of_negative(v[b].v[k] - largest);
  });
  T of_row = group.max(largest);
  return {of_row, group.sum(sum * exp_of_negative(largest - of_row))};
}

// loss[r] = log(sum of exp(x)) - x[label] of row r.
template <int N, class A>
void cross_entropy_rows(Stream stream, A x, Dense<std::int32_t> labels, std::int64_t rows, std::int64_t classes,
                        double* loss) {
  using T = typename A::Value;
  for_each_group(
      stream, rows, classes, UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Normalizer<T> of_row = normalizer<N>(group, x, r * classes, classes);
        if (group.rank() != 0) return;
        std::int32_t label = labels.load(r);
        T of_label = label >= 0 && label < classes ? x.load(r * classes + label) : std::numeric_limits<T>::quiet_NaN();
        loss[r] = static_cast<double>(log(of_row.sum) + of_row.largest - of_label);
      });
}

// dx[r, j] = (softmax(x)[r, j] - (1 where j is the label)) dy / of.
template <int N, class A>
void cross_entropy_gradient_rows(Stream stream, A dx, A x, Dense<std::int32_t> labels, A dy, std::int64_t rows,
                                 std::int64_t classes, typename A::Value of) {
  using T = typename A::Value;
  for_each_group(
      stream, rows, classes, UNITY_LAMBDA(std::int64_t r, const Group& group) {
        const std::int64_t begin = r * classes;
        Normalizer<T> of_row = normalizer<N>(group, x, begin, classes);
        std::int32_t label = labels.load(r);
        bool known = label >= 0 && label < classes;
        const T factor = known ? dy.load(0) / of : std::numeric_limits<T>::quiet_NaN(), inverse = 1 / of_row.sum;
        // The thread that writes the label's element does so once more; x may be dx, so it is read before.
        const bool has_label = known && label / N % group.size() == group.rank();
        const T of_label = has_label ? x.load(begin + label) : T(0);
        each_runs<N>(group, x, begin, classes / N, [&](std::int64_t at, Several<T, N>(&v)[kRuns], int count) {
          UNITY_UNROLL
          for (int b = 0; b < kRuns; ++b) {
            if (b >= count) continue;
            UNITY_UNROLL
            for (int k = 0; k < N; ++k) v[b].v[k] = exp_of_negative(v[b].v[k] - of_row.largest) * inverse * factor;
            dx.store_several(at + b * group.size() * std::int64_t{N}, v[b]);
          }
        });
        if (has_label) dx.store(begin + label, (exp_of_negative(of_label - of_row.largest) * inverse - 1) * factor);
      });
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
  const Operand& logits = c.inputs[0];
  std::int64_t classes = logits.extent.back(), rows = row_count(logits);
  Reduction how(rows);
  auto* scratch = static_cast<double*>(c.scratch((rows + how.scratch()) * static_cast<std::int64_t>(sizeof(double))));
  auto x = reals<R>(logits);
  auto labels = indices(c.inputs[1]);
  if (classes % 2 == 0 && x.template aligned_for_several<2>())
    cross_entropy_rows<2>(c.stream, x, labels, rows, classes, scratch);
  else
    cross_entropy_rows<1>(c.stream, x, labels, rows, classes, scratch);
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
  if (classes % 2 == 0 && x.template aligned_for_several<2>() && dx.template aligned_for_several<2>())
    cross_entropy_gradient_rows<2>(c.stream, dx, x, labels, dy, row_count(logits), classes, rows);
  else
    cross_entropy_gradient_rows<1>(c.stream, dx, x, labels, dy, row_count(logits), classes, rows);
}
UNITY_CUDA_KERNEL(cross_entropy_gradient)

}  // namespace unity::cuda
