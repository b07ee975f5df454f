// Batch norm and its moments, on channels.h: at the speed of memory, which is what they are bound by.
#include "core/ops/batch_norm.h"
#include "runtime/cuda/channels.h"
#include "runtime/cuda/norm_math.h"

namespace unity::cuda {
namespace {

double elements_per_channel(const Operand& x) {
  return static_cast<double>(element_count(x.global)) / static_cast<double>(x.global[1]);
}

template <class V>
UNITY_DEVICE V inverse_deviation(V variance, V epsilon) {
  return inverse_root(variance + epsilon);
}

// In what follows A is how x and blocks like it are read and written (vectors.h), S how those of a number for each
// channel are.

template <class A, class S>
struct MomentSums {
  using Value = typename A::Value;
  using Item = typename A::Held;
  static constexpr int kWidth = A::kWidth, kInFlight = kWidth == 1 ? 4 : 2;
  static constexpr int groups_at_once() { return 4; }
  A x;
  S mean, square;
  Value over_count;

  UNITY_DEVICE int prepare(std::int64_t) const { return 0; }
  UNITY_DEVICE Item load(std::int64_t at) const { return x.read(at); }
  // Of element j; what put() is to write goes to `result`.
  UNITY_DEVICE Two<Value> one(int, const Item& item, int j, Value&) const {
    Value v = A::value(item, j);
    return {v, v * v};
  }
  UNITY_DEVICE void put(std::int64_t, const Value (&)[kWidth]) const {}
  template <class Counts>
  UNITY_DEVICE Two<Value> use(int, std::int64_t, const Item& item, Counts counts) const {
    Two<Value> sum{0, 0};
    for (int j = 0; j < kWidth; ++j) {
      Value v = counts(j) ? A::value(item, j) : Value(0);
      sum.first += v, sum.second += v * v;
    }
    return sum;
  }
  UNITY_DEVICE void finish(std::int64_t channel, const Two<Value>& sum) const {
    mean.store(channel, sum.first * over_count);
    square.store(channel, sum.second * over_count);
  }
};

template <class A, class S, bool kAdd>
struct MomentsGradient {
  using Value = typename A::Value;
  using State = Two<Value>;
  struct Item {
    typename A::Held x, addend;
  };
  static constexpr int kWidth = A::kWidth;
  A x, addend, dx;
  S dmean, dsquare;
  Value over_count;

  UNITY_DEVICE State prepare(std::int64_t channel) const {
    return {dmean.load(channel) * over_count, 2 * dsquare.load(channel) * over_count};
  }
  UNITY_DEVICE Item load(std::int64_t at) const {
    Item item;
    item.x = x.read(at);
    if (kAdd) item.addend = addend.read(at);
    return item;
  }
  template <class Channels>
  UNITY_DEVICE void use(std::int64_t at, const Item& item, Channels channels) const {
    Value v[kWidth];
    for (int j = 0; j < kWidth; ++j) {
      const State& d = channels(j);
      v[j] = d.first + d.second * A::value(item.x, j);
      if (kAdd) v[j] += A::value(item.addend, j);
    }
    dx.write(at, v);
  }
};

template <class V>
struct Line {
  V mean, slope, shift;
};

template <class A, class S>
struct Normalize {
  using Value = typename A::Value;
  using State = Line<Value>;
  using Item = typename A::Held;
  static constexpr int kWidth = A::kWidth;
  A x, y;
  S mean, variance, gamma, beta;
  Value epsilon;
  bool relu;

  UNITY_DEVICE State prepare(std::int64_t k) const {
    return {mean.load(k), gamma.load(k) * inverse_deviation(variance.load(k), epsilon), beta.load(k)};
  }
  UNITY_DEVICE Item load(std::int64_t at) const { return x.read(at); }
  template <class Channels>
  UNITY_DEVICE void use(std::int64_t at, const Item& item, Channels channels) const {
    Value v[kWidth];
    for (int j = 0; j < kWidth; ++j) {
      const State& line = channels(j);
      Value value = (A::value(item, j) - line.mean) * line.slope + line.shift;
      v[j] = relu && value <= 0 ? 0 : value;
    }
    y.write(at, v);
  }
};

// With r = 1 / sqrt(variance + epsilon) and h = (x - mean) r:  dx = dy gamma r, dbeta = sum dy, dgamma = sum dy h,
// dmean = -gamma r sum dy, dvariance = -gamma r^2 / 2 sum dy h. dx is written while the sums are formed.
template <class A, class S, bool kRelu>
struct NormalizeGradient {
  using Value = typename A::Value;
  struct Item {
    typename A::Held x, dy, y;
  };
  static constexpr int kWidth = A::kWidth, kInFlight = kWidth == 1 ? 4 : 3;
  static constexpr int groups_at_once() { return 2; }
  A x, dy, y, dx;
  S mean, variance, gamma, dmean, dvariance, dgamma, dbeta;
  Value epsilon;

  UNITY_DEVICE Two<Value> prepare(std::int64_t k) const {
    return {mean.load(k), gamma.load(k) * inverse_deviation(variance.load(k), epsilon)};
  }
  UNITY_DEVICE Item load(std::int64_t at) const {
    Item item;
    item.x = x.read(at), item.dy = dy.read(at);
    if (kRelu) item.y = y.read(at);
    return item;
  }
  UNITY_DEVICE Two<Value> one(const Two<Value>& of, const Item& item, int j, Value& result) const {
    Value d = A::value(item.dy, j);
    if (kRelu && A::value(item.y, j) <= 0) d = 0;
    result = d * of.second;
    return {d, d * (A::value(item.x, j) - of.first)};
  }
  UNITY_DEVICE void put(std::int64_t at, const Value (&v)[kWidth]) const { dx.write(at, v); }
  template <class Counts>
  UNITY_DEVICE Two<Value> use(const Two<Value>& of, std::int64_t at, const Item& item, Counts counts) const {
    Two<Value> sum{0, 0};
    Value v[kWidth];
    for (int j = 0; j < kWidth; ++j) {
      Two<Value> x = one(of, item, j, v[j]);
      sum.first += counts(j) ? x.first : Value(0), sum.second += counts(j) ? x.second : Value(0);
    }
    if constexpr (Counts::kAll) {
      put(at, v);
    } else {
      for (int j = 0; j < kWidth; ++j)
        if (counts(j)) dx.store(at + j, v[j]);
    }
    return sum;
  }
  UNITY_DEVICE void finish(std::int64_t k, const Two<Value>& sum) const {
    Value inverse = inverse_deviation(variance.load(k), epsilon), slope = gamma.load(k) * inverse;
    Value product = sum.second * inverse;
    dmean.store(k, -slope * sum.first);
    dvariance.store(k, Value(-0.5) * slope * inverse * product);
    dgamma.store(k, product);
    dbeta.store(k, sum.first);
  }
};

}  // namespace

template <class R>
void moments_of(const Call& c) {
  const Operand& x = c.inputs[0];
  ChannelLoops l = channels_of(c, x);
  with_access<R>(in_vectors(l), {&x}, c.outputs, [&]<class A, class T>(A, T) {
    auto over_count = static_cast<typename A::Value>(1 / elements_per_channel(x));
    MomentSums<A, typename T::Array> op{A::of(x), reals<T>(c.outputs[0]), reals<T>(c.outputs[1]), over_count};
    sum_channels(c, l, op);
  });
}
UNITY_CUDA_KERNEL(moments)

template <class R, bool kAdd>
void moments_gradient(const Call& c, const Operand& addend) {
  const Operand &x = c.inputs[0], &dx = c.outputs[0];
  ChannelLoops l = channels_of(c, x);
  with_access<R>(in_vectors(l), {&x, &addend, &dx}, c.inputs.subspan(1, 2), [&]<class A, class T>(A, T) {
    auto over_count = static_cast<typename A::Value>(1 / elements_per_channel(x));
    MomentsGradient<A, typename T::Array, kAdd> op{
        A::of(x), A::of(addend), A::of(dx), reals<T>(c.inputs[1]), reals<T>(c.inputs[2]), over_count};
    for_each_of_channels(c.stream, l, op);
  });
}

template <class R>
void moments_gradient_of(const Call& c) {
  moments_gradient<R, false>(c, c.outputs[0]);
}
UNITY_CUDA_KERNEL(moments_gradient)

// What is added may be where the result is.
template <class R>
void moments_gradient_accumulate_of(const Call& c) {
  moments_gradient<R, true>(c, c.inputs[3]);
}
UNITY_CUDA_KERNEL(moments_gradient_accumulate)

template <class R>
void combine_moments_of(const Call& c) {
  using V = typename R::Value;
  auto mean = reals<R>(c.inputs[0]), square = reals<R>(c.inputs[1]), running_mean = reals<R>(c.inputs[2]),
       running_variance = reals<R>(c.inputs[3]);
  auto mean_out = reals<R>(c.outputs[0]), variance_out = reals<R>(c.outputs[1]), new_mean = reals<R>(c.outputs[2]),
       new_variance = reals<R>(c.outputs[3]);
  auto count = static_cast<double>(int_attribute(c.attributes, 0));
  double momentum = real_attribute(c.attributes, 1);
  auto keep = static_cast<V>(1 - momentum), take = static_cast<V>(momentum);
  auto unbiased = static_cast<V>(momentum * count / std::max(count - 1, 1.0));
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t i) {
        V m = mean.load(i), difference = square.load(i) - m * m;
        V variance = difference < 0 ? 0 : difference;  // below zero is rounding; NaN stays
        V kept_mean = keep * running_mean.load(i), kept_variance = keep * running_variance.load(i);
        mean_out.store(i, m);
        variance_out.store(i, variance);
        new_mean.store(i, kept_mean + take * m);
        new_variance.store(i, kept_variance + unbiased * variance);
      });
}
UNITY_CUDA_KERNEL(combine_moments)

template <class R>
void batch_norm_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  ChannelLoops l = channels_of(c, x);
  with_access<R>(in_vectors(l), {&x, &y}, c.inputs.subspan(1), [&]<class A, class T>(A, T) {
    Normalize<A, typename T::Array> op{A::of(x),
                                       A::of(y),
                                       reals<T>(c.inputs[1]),
                                       reals<T>(c.inputs[2]),
                                       reals<T>(c.inputs[3]),
                                       reals<T>(c.inputs[4]),
                                       static_cast<typename A::Value>(real_attribute(c.attributes, 0)),
                                       text_attribute(c.attributes, 1) == "relu"};
    for_each_of_channels(c.stream, l, op);
  });
}
UNITY_CUDA_KERNEL(batch_norm)

template <class R, bool kRelu>
void batch_norm_gradient(const Call& c, const Operand& y) {
  const Operand &x = c.inputs[0], &dy = c.inputs[4], &dx = c.outputs[0];
  std::vector<Operand> numbers(c.inputs.begin() + 1, c.inputs.begin() + 4);
  numbers.insert(numbers.end(), c.outputs.begin() + 1, c.outputs.end());
  ChannelLoops l = channels_of(c, x);
  with_access<R>(in_vectors(l), {&x, &dy, &y, &dx}, numbers, [&]<class A, class T>(A, T) {
    NormalizeGradient<A, typename T::Array, kRelu> op{A::of(x),
                                                      A::of(dy),
                                                      A::of(y),
                                                      A::of(dx),
                                                      reals<T>(c.inputs[1]),
                                                      reals<T>(c.inputs[2]),
                                                      reals<T>(c.inputs[3]),
                                                      reals<T>(c.outputs[1]),
                                                      reals<T>(c.outputs[2]),
                                                      reals<T>(c.outputs[3]),
                                                      reals<T>(c.outputs[4]),
                                                      static_cast<typename A::Value>(real_attribute(c.attributes, 0))};
    sum_channels(c, l, op);
  });
}

template <class R>
void batch_norm_gradient_of(const Call& c) {
  if (c.inputs.size() > 5)
    batch_norm_gradient<R, true>(c, c.inputs[5]);
  else
    batch_norm_gradient<R, false>(c, c.inputs[4]);
}
UNITY_CUDA_KERNEL(batch_norm_gradient)

}  // namespace unity::cuda
