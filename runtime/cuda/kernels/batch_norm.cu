// Batch norm and its moments. Sums over a channel go in two steps: groups of threads sum parts of it, shares of the
// outer dimension, and these are added up, always in the same order.
#include "core/ops/batch_norm.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {
namespace {

template <class V>
struct Two {
  V first, second;
};

template <class V>
struct Line {
  V mean, slope, shift;
};

double elements_per_channel(const Operand& x) {
  return static_cast<double>(element_count(x.global)) / static_cast<double>(x.global[1]);
}

// For every channel: finish(channel, sums over its elements i of use(prepare(channel), i, load(i))).
template <class V, class Prepare, class Load, class Use, class Finish>
void sum_channels(const Call& c, const ChannelLoops& l, Prepare prepare, Load load, Use use, Finish finish) {
  // Enough groups to fill a large GPU; where planes are too short for a warp, 64 of them to a thread.
  bool long_planes = l.inner >= 32;
  std::int64_t groups = row_workers(l.outer * l.channels, l.inner);
  std::int64_t wanted = long_planes ? (groups + l.channels - 1) / l.channels : std::min(l.outer / 64, groups);
  std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(l.outer, 1));
  std::int64_t share = (l.outer + parts - 1) / parts;
  auto* partial = static_cast<Two<V>*>(c.scratch(parts * l.channels * static_cast<std::int64_t>(sizeof(Two<V>))));
  if (long_planes)
    for_each_group(
        c.stream, parts * l.channels, l.inner, UNITY_LAMBDA(std::int64_t g, const Group& group) {
          std::int64_t channel = g % l.channels, begin = g / l.channels * share, end = begin + share;
          Two<V> sum{0, 0};
          auto state = prepare(channel);
          for (std::int64_t o = begin; o < end && o < l.outer; ++o) {
            std::int64_t first = (o * l.channels + channel) * l.inner;
            each_item(
                group, l.inner, [&](std::int64_t k) { return load(first + k); },
                [&](std::int64_t k, auto item) {
                  Two<V> x = use(state, first + k, item);
                  sum.first += x.first, sum.second += x.second;
                });
          }
          sum = {group.sum(sum.first), group.sum(sum.second)};
          if (group.rank() == 0) partial[g] = sum;
        });
  else  // one thread to a channel's part, neighbouring channels side by side
    for_each(
        c.stream, parts * l.channels, UNITY_LAMBDA(std::int64_t g) {
          std::int64_t channel = g % l.channels, begin = g / l.channels * share, end = begin + share;
          Two<V> sum{0, 0};
          auto state = prepare(channel);
          for (std::int64_t o = begin; o < end && o < l.outer; ++o)
            for (std::int64_t k = 0; k < l.inner; ++k) {
              std::int64_t i = (o * l.channels + channel) * l.inner + k;
              Two<V> x = use(state, i, load(i));
              sum.first += x.first, sum.second += x.second;
            }
          partial[g] = sum;
        });
  for_each_group(
      c.stream, l.channels, parts, UNITY_LAMBDA(std::int64_t channel, const Group& group) {
        Two<V> sum{0, 0};
        for (std::int64_t p = group.rank(); p < parts; p += group.size()) {
          Two<V> x = partial[p * l.channels + channel];
          sum.first += x.first, sum.second += x.second;
        }
        sum = {group.sum(sum.first), group.sum(sum.second)};
        if (group.rank() == 0) finish(channel, sum);
      });
}

// Rounding can leave a variance a little below zero; it counts as zero.
template <class V>
UNITY_DEVICE V inverse_deviation(V variance, V epsilon) {
  return inverse_root((variance > 0 ? variance : 0) + epsilon);
}

}  // namespace

template <class R>
void moments_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), mean = reals<R>(c.outputs[0]), square = reals<R>(c.outputs[1]);
  auto over_count = static_cast<V>(1 / elements_per_channel(c.inputs[0]));
  sum_channels<V>(
      c, channel_loops(c.inputs[0].extent), UNITY_LAMBDA(std::int64_t) { return 0; },
      UNITY_LAMBDA(std::int64_t i) { return x.load(i); },
      UNITY_LAMBDA(int, std::int64_t, V v) {
        return Two<V>{v, v * v};
      },
      UNITY_LAMBDA(std::int64_t channel, Two<V> sum) {
        mean.store(channel, sum.first * over_count);
        square.store(channel, sum.second * over_count);
      });
}
UNITY_CUDA_KERNEL(moments)

// `sum`: what is added, which may be where the result is; null: nothing.
template <class R>
void moments_gradient(const Call& c, const Operand* sum) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), dmean = reals<R>(c.inputs[1]), dsquare = reals<R>(c.inputs[2]),
       dx = reals<R>(c.outputs[0]);
  const bool add = sum != nullptr;
  auto addend = reals<R>(add ? *sum : c.outputs[0]);
  auto over_count = static_cast<V>(1 / elements_per_channel(c.inputs[0]));
  ChannelLoops l = channel_loops(c.inputs[0].extent);
  for_each_in_rows(
      c.stream, l.outer * l.channels, l.inner,
      UNITY_LAMBDA(std::int64_t r) {
        std::int64_t channel = r % l.channels;
        return Two<V>{dmean.load(channel) * over_count, 2 * dsquare.load(channel) * over_count};
      },
      UNITY_LAMBDA(const Two<V>&, std::int64_t r, std::int64_t j) {
        std::int64_t at = r * l.inner + j;
        return Two<V>{x.load(at), add ? addend.load(at) : V(0)};
      },
      UNITY_LAMBDA(const Two<V>& d, std::int64_t r, std::int64_t j, Two<V> v) {
        dx.store(r * l.inner + j, v.second + (d.first + d.second * v.first));
      });
}

template <class R>
void moments_gradient_of(const Call& c) {
  moments_gradient<R>(c, nullptr);
}
UNITY_CUDA_KERNEL(moments_gradient)

template <class R>
void moments_gradient_accumulate_of(const Call& c) {
  moments_gradient<R>(c, &c.inputs[3]);
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
        V m = mean.load(i), variance = square.load(i) - m * m;
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
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), mean = reals<R>(c.inputs[1]), variance = reals<R>(c.inputs[2]),
       gamma = reals<R>(c.inputs[3]), beta = reals<R>(c.inputs[4]), y = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 0));
  bool relu = text_attribute(c.attributes, 1) == "relu";
  ChannelLoops l = channel_loops(c.inputs[0].extent);
  for_each_in_rows(
      c.stream, l.outer * l.channels, l.inner,
      UNITY_LAMBDA(std::int64_t r) {
        std::int64_t k = r % l.channels;
        return Line<V>{mean.load(k), gamma.load(k) * inverse_deviation(variance.load(k), epsilon), beta.load(k)};
      },
      UNITY_LAMBDA(const Line<V>&, std::int64_t r, std::int64_t j) { return x.load(r * l.inner + j); },
      UNITY_LAMBDA(const Line<V>& line, std::int64_t r, std::int64_t j, V v) {
        V value = (v - line.mean) * line.slope + line.shift;
        y.store(r * l.inner + j, relu && !(value > 0) ? 0 : value);
      });
}
UNITY_CUDA_KERNEL(batch_norm)

// With r = 1 / sqrt(variance + epsilon) and h = (x - mean) r:  dx = dy gamma r, dbeta = sum dy, dgamma = sum dy h,
// dmean = -gamma r sum dy, dvariance = -gamma r^2 / 2 sum dy h. dx is written while the sums are formed.
template <class R>
void batch_norm_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), mean = reals<R>(c.inputs[1]), variance = reals<R>(c.inputs[2]),
       gamma = reals<R>(c.inputs[3]), dy = reals<R>(c.inputs[4]);
  bool relu = c.inputs.size() > 5;
  auto y = reals<R>(c.inputs[relu ? 5 : 4]), dx = reals<R>(c.outputs[0]), dmean = reals<R>(c.outputs[1]),
       dvariance = reals<R>(c.outputs[2]), dgamma = reals<R>(c.outputs[3]), dbeta = reals<R>(c.outputs[4]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 0));
  sum_channels<V>(
      c, channel_loops(c.inputs[0].extent),
      UNITY_LAMBDA(std::int64_t k) {
        return Two<V>{mean.load(k), gamma.load(k) * inverse_deviation(variance.load(k), epsilon)};
      },
      UNITY_LAMBDA(std::int64_t i) {
        V d = dy.load(i);
        if (relu && !(y.load(i) > 0)) d = 0;
        return NormItem<V>{x.load(i), d};
      },
      UNITY_LAMBDA(const Two<V>& of, std::int64_t i, const NormItem<V>& item) {
        dx.store(i, item.dy * of.second);
        return Two<V>{item.dy, item.dy * (item.x - of.first)};
      },
      UNITY_LAMBDA(std::int64_t k, const Two<V>& sum) {
        V inverse = inverse_deviation(variance.load(k), epsilon), slope = gamma.load(k) * inverse;
        V product = sum.second * inverse;
        dmean.store(k, -slope * sum.first);
        dvariance.store(k, variance.load(k) > 0 ? V(-0.5) * slope * inverse * product : 0);
        dgamma.store(k, product);
        dbeta.store(k, sum.first);
      });
}
UNITY_CUDA_KERNEL(batch_norm_gradient)

}  // namespace unity::cuda
