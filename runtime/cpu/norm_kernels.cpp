// Normalisations over channels, groups and rows (layer norm: row_kernels.cpp). Threads share out channels, groups or
// rows; each sum is formed by one thread in one order.
#include <cmath>

#include "core/ops/batch_norm.h"
#include "core/ops/group_norm.h"
#include "core/ops/rows.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

// Calls f(channel, begin, n) for the runs of neighbouring elements of each channel, channels in parallel. With inner
// size 1 (a matrix) runs have one element.
template <class PerChannel>
void for_each_channel(const ChannelLoops& l, PerChannel&& f) {
  for_each_row(l.channels, l.outer * l.inner, f);
}

// Sum over the elements of a channel of f(index), formed in double.
template <class F>
double channel_sum(const ChannelLoops& l, std::int64_t c, F&& f) {
  double sum = 0;
  for (std::int64_t o = 0; o < l.outer; ++o) {
    std::int64_t first = (o * l.channels + c) * l.inner;
    sum += static_cast<double>(lane_sum<decltype(f(0))>(l.inner, [&](std::int64_t i) { return f(first + i); }));
  }
  return sum;
}

template <class T, class F>
void for_each_in_channel(const ChannelLoops& l, std::int64_t c, F&& f) {
  for (std::int64_t o = 0; o < l.outer; ++o) {
    std::int64_t first = (o * l.channels + c) * l.inner;
    for (std::int64_t i = first; i < first + l.inner; ++i) f(i);
  }
}

template <class T>
T inverse_deviation(T variance, double epsilon) {
  return 1 / std::sqrt(variance + static_cast<T>(epsilon));
}

template <class T>
struct RowMoments {
  T mean, inverse;
};
template <class T>
RowMoments<T> row_moments(const T* x, std::int64_t n, double epsilon) {
  T mean = lane_sum<T>(n, [&](std::int64_t j) { return x[j]; }) / static_cast<T>(n);
  T variance = lane_sum<T>(n, [&](std::int64_t j) { return (x[j] - mean) * (x[j] - mean); }) / static_cast<T>(n);
  return {mean, 1 / std::sqrt(variance + static_cast<T>(epsilon))};
}

}  // namespace

void moments_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  ChannelLoops l = channel_loops(x.extent);
  double count = static_cast<double>(element_count(x.global) / x.global[1]);
  dispatch(call, [&]<class T>() {
    const T* v = x.as<T>();
    for_each_channel(l, [&](std::int64_t c) {
      call.outputs[0].as<T>()[c] = static_cast<T>(channel_sum(l, c, [&](std::int64_t i) { return v[i]; }) / count);
      call.outputs[1].as<T>()[c] =
          static_cast<T>(channel_sum(l, c, [&](std::int64_t i) { return v[i] * v[i]; }) / count);
    });
  });
}

namespace {

// `sum`: what is added, which may be where the result is; null: nothing.
template <class T>
void moments_gradient(const OpCall& call, const T* sum) {
  const Operand& x = call.inputs[0];
  ChannelLoops l = channel_loops(x.extent);
  double count = static_cast<double>(element_count(x.global) / x.global[1]);
  const T* v = x.as<T>();
  T* dx = call.outputs[0].as<T>();
  for_each_channel(l, [&](std::int64_t c) {
    T a = static_cast<T>(static_cast<double>(call.inputs[1].as<T>()[c]) / count);
    T b = static_cast<T>(2 * static_cast<double>(call.inputs[2].as<T>()[c]) / count);
    if (sum)
      for_each_in_channel<T>(l, c, [=](std::int64_t i) { dx[i] = sum[i] + (a + b * v[i]); });
    else
      for_each_in_channel<T>(l, c, [=](std::int64_t i) { dx[i] = a + b * v[i]; });
  });
}

}  // namespace

void moments_gradient_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { moments_gradient<T>(call, nullptr); });
}

void moments_gradient_accumulate_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { moments_gradient(call, call.inputs[3].as<T>()); });
}

void combine_moments_kernel(const OpCall& call) {
  auto count = static_cast<double>(int_attribute(call.attributes, 0));
  double momentum = real_attribute(call.attributes, 1);
  dispatch(call, [&]<class T>() {
    auto in = [&](std::size_t i) { return call.inputs[i].as<T>(); };
    auto out = [&](std::size_t i) { return call.outputs[i].as<T>(); };
    T keep = static_cast<T>(1 - momentum), take = static_cast<T>(momentum);
    T unbiased = static_cast<T>(momentum * count / std::max(count - 1, 1.0));
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T mean = in(0)[i], difference = in(1)[i] - mean * mean;
      T variance = difference < 0 ? T(0) : difference;  // below zero is rounding; NaN stays
      out(0)[i] = mean, out(1)[i] = variance;
      out(2)[i] = keep * in(2)[i] + take * mean;
      out(3)[i] = keep * in(3)[i] + unbiased * variance;
    }
  });
}

void batch_norm_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  ChannelLoops l = channel_loops(x.extent);
  double epsilon = real_attribute(call.attributes, 0);
  bool relu = text_attribute(call.attributes, 1) == "relu";
  dispatch(call, [&]<class T>() {
    auto in = [&](std::size_t i) { return call.inputs[i].as<T>(); };
    const T* v = x.as<T>();
    T* y = call.outputs[0].as<T>();
    for_each_channel(l, [&](std::int64_t c) {
      T mean = in(1)[c], slope = in(3)[c] * inverse_deviation(in(2)[c], epsilon), shift = in(4)[c];
      if (relu)
        for_each_in_channel<T>(l, c, [=](std::int64_t i) { y[i] = relu_of((v[i] - mean) * slope + shift); });
      else
        for_each_in_channel<T>(l, c, [=](std::int64_t i) { y[i] = (v[i] - mean) * slope + shift; });
    });
  });
}

void batch_norm_gradient_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  ChannelLoops l = channel_loops(x.extent);
  double epsilon = real_attribute(call.attributes, 0);
  dispatch(call, [&]<class T>() {
    auto in = [&](std::size_t i) { return call.inputs[i].as<T>(); };
    auto out = [&](std::size_t i) { return call.outputs[i].as<T>(); };
    const T *v = x.as<T>(), *dy = in(4), *y = call.inputs.size() > 5 ? in(5) : nullptr;
    T* dx = out(0);
    for_each_channel(l, [&](std::int64_t c) {
      T mean = in(1)[c], r = inverse_deviation(in(2)[c], epsilon), slope = in(3)[c] * r;
      T sum = 0, product = 0;
      auto accumulate = [&](auto&& g) {
        sum = static_cast<T>(channel_sum(l, c, g));
        product = static_cast<T>(channel_sum(l, c, [&](std::int64_t i) { return g(i) * (v[i] - mean); })) * r;
        for_each_in_channel<T>(l, c, [&](std::int64_t i) { dx[i] = g(i) * slope; });
      };
      if (y)
        accumulate([=](std::int64_t i) { return y[i] <= 0 ? T(0) : dy[i]; });
      else
        accumulate([=](std::int64_t i) { return dy[i]; });
      out(1)[c] = -slope * sum;
      out(2)[c] = T(-0.5) * slope * r * product;
      out(3)[c] = product;
      out(4)[c] = sum;
    });
  });
}

void group_norm_kernel(const OpCall& call) {
  GroupLoops l = group_loops(call.attributes, call.inputs[0]);
  std::int64_t n = l.channels * l.inner;
  dispatch(call, [&]<class T>() {
    const T *gamma = call.inputs[1].as<T>(), *beta = call.inputs[2].as<T>();
    for_each_row(l.rows, n, [&](std::int64_t r) {
      const T* x = call.inputs[0].as<T>() + r * n;
      T* y = call.outputs[0].as<T>() + r * n;
      auto [mean, inverse] = row_moments(x, n, real_attribute(call.attributes, 1));
      for (std::int64_t k = 0; k < l.channels; ++k) {
        std::int64_t c = r % l.groups * l.channels + k;
        T slope = gamma[c] * inverse, shift = beta[c];
        for (std::int64_t i = k * l.inner; i < (k + 1) * l.inner; ++i) y[i] = (x[i] - mean) * slope + shift;
      }
    });
  });
}

// One thread for all samples of a group, since they share its sums of gamma and beta.
void group_norm_gradient_kernel(const OpCall& call) {
  GroupLoops l = group_loops(call.attributes, call.inputs[0]);
  std::int64_t n = l.channels * l.inner;
  dispatch(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    T *dgamma = call.outputs[1].as<T>(), *dbeta = call.outputs[2].as<T>();
    std::fill_n(dgamma, call.outputs[1].elements(), T(0));
    std::fill_n(dbeta, call.outputs[2].elements(), T(0));
    for_each_row(l.groups, n * l.rows / l.groups, [&](std::int64_t group) {
      for (std::int64_t r = group; r < l.rows; r += l.groups) {
        const T *x = call.inputs[0].as<T>() + r * n, *dy = call.inputs[2].as<T>() + r * n;
        T* dx = call.outputs[0].as<T>() + r * n;
        auto [mean, inverse] = row_moments(x, n, real_attribute(call.attributes, 1));
        T mean_q = 0, mean_qh = 0;
        for (std::int64_t k = 0; k < l.channels; ++k) {
          std::int64_t c = group * l.channels + k, first = k * l.inner;
          T sum = lane_sum<T>(l.inner, [&](std::int64_t i) { return dy[first + i]; });
          T product = lane_sum<T>(l.inner, [&, mean = mean, inverse = inverse](std::int64_t i) {
            return dy[first + i] * ((x[first + i] - mean) * inverse);
          });
          mean_q += gamma[c] * sum, mean_qh += gamma[c] * product;
          dgamma[c] += product, dbeta[c] += sum;
        }
        mean_q /= static_cast<T>(n), mean_qh /= static_cast<T>(n);
        for (std::int64_t k = 0; k < l.channels; ++k) {
          T weight = gamma[group * l.channels + k];
          for (std::int64_t i = k * l.inner; i < (k + 1) * l.inner; ++i)
            dx[i] = (weight * dy[i] - mean_q - (x[i] - mean) * inverse * mean_qh) * inverse;
        }
      }
    });
  });
}

void rms_norm_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    for_each_row(row_count(call.inputs[0]), c, [&](std::int64_t r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T* y = call.outputs[0].as<T>() + r * c;
      T square = lane_sum<T>(c, [&](std::int64_t j) { return x[j] * x[j]; }) / static_cast<T>(c);
      T inverse = 1 / std::sqrt(square + static_cast<T>(real_attribute(call.attributes, 0)));
      for (std::int64_t j = 0; j < c; ++j) y[j] = x[j] * inverse * gamma[j];
    });
  });
}

void rms_norm_gradient_kernel(const OpCall& call) {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    T* __restrict dgamma = call.outputs[1].as<T>();
    std::fill_n(dgamma, c, T(0));
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T *x = call.inputs[0].as<T>() + r * c, *dy = call.inputs[2].as<T>() + r * c;
      T* __restrict dx = call.outputs[0].as<T>() + r * c;
      T square = lane_sum<T>(c, [&](std::int64_t j) { return x[j] * x[j]; }) / static_cast<T>(c);
      T inverse = 1 / std::sqrt(square + static_cast<T>(real_attribute(call.attributes, 0)));
      T mean = lane_sum<T>(c, [&](std::int64_t j) { return gamma[j] * dy[j] * x[j]; }) / static_cast<T>(c) * inverse *
               inverse;
      for (std::int64_t j = 0; j < c; ++j) {
        dgamma[j] += dy[j] * x[j] * inverse;
        dx[j] = inverse * (gamma[j] * dy[j] - x[j] * mean);
      }
    }
  });
}

}  // namespace unity::cpu
