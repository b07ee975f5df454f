#include "runtime/cuda/math.h"
#include "runtime/cuda/optimizers.h"

namespace unity::cuda {
namespace {

constexpr std::int64_t kChunk = 4096;  // elements that a group of threads takes at once

// base^n by squaring: a few multiplications in every thread cost less than a launch that would compute it once.
UNITY_DEVICE double power(double base, std::uint64_t n) {
  double result = 1;
  for (; n != 0; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return result;
}

// The shard that a chunk belongs to: the last that begins at it or before.
UNITY_DEVICE int shard_of(const ShardList& list, std::int64_t chunk) {
  int low = 0, high = list.count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (list.shards[middle].first_chunk <= chunk)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

template <class T>
UNITY_DEVICE T gradient_at(const ParameterShard& p, std::int64_t i) {
  return p.half_gradient ? static_cast<T>(to_float(static_cast<const BFloat16*>(p.gradient)[i]))
                         : static_cast<const T*>(p.gradient)[i];
}

// For each element of each shard: begin(step values) gives what is the same for all, and update(that, gradient, weight,
// pointers to the states' elements) the new weight.
template <class T, class Begin, class Update>
void for_each_parameter(Stream stream, const ShardList& list, const StepValues* step, Begin begin, Update update) {
  ShardList all = list;
  for_each_group(
      stream, list.chunks, kChunk, UNITY_LAMBDA(std::int64_t chunk, const Group& group) {
        const ParameterShard p = all.shards[shard_of(all, chunk)];
        auto common = begin(*step);
        std::int64_t first = (chunk - p.first_chunk) * kChunk;
        std::int64_t end = first + kChunk < p.elements ? first + kChunk : p.elements;
        T *weight = static_cast<T*>(p.weight), *a = static_cast<T*>(p.states[0]), *b = static_cast<T*>(p.states[1]);
        for (std::int64_t i = first + group.rank(); i < end; i += group.size()) {
          T w = update(common, gradient_at<T>(p, i), weight[i], a + i, b + i);
          weight[i] = w;
          if (p.rounded) p.rounded[i] = to_bfloat16(static_cast<float>(w));
        }
      });
}

template <class T>
struct SgdNumbers {
  T rate;
};
template <class T>
void sgd(Stream stream, const ShardList& list, const OptimizerSpec& how, const StepValues* step) {
  double learning_rate = how.learning_rate;
  T momentum = static_cast<T>(how.momentum), decay = static_cast<T>(how.weight_decay);
  bool nesterov = how.nesterov, heavy = how.momentum != 0;
  for_each_parameter<T>(
      stream, list, step,
      UNITY_LAMBDA(const StepValues& now) { return SgdNumbers<T>{static_cast<T>(learning_rate * now.rate_factor)}; },
      UNITY_LAMBDA(SgdNumbers<T> n, T gradient, T w, T * velocity, T*) {
        gradient += decay * w;
        if (!heavy) return w - n.rate * gradient;
        T v = momentum * *velocity + gradient;
        *velocity = v;
        return w - n.rate * (nesterov ? gradient + momentum * v : v);
      });
}

template <class T>
struct AdamNumbers {
  T scale, inverse, kept;  // rate and mean's correction; variance's correction; what weight decay leaves
};
template <class T>
void adam(Stream stream, const ShardList& list, const OptimizerSpec& how, const StepValues* step) {
  double learning_rate = how.learning_rate, beta1 = how.beta1, beta2 = how.beta2;
  double decoupled = how.name == "adamw" ? how.weight_decay : 0;
  T into_gradient = static_cast<T>(how.name == "adamw" ? 0 : how.weight_decay);
  T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2), epsilon = static_cast<T>(how.epsilon);
  T c1 = static_cast<T>(1 - beta1), c2 = static_cast<T>(1 - beta2);
  for_each_parameter<T>(
      stream, list, step,
      UNITY_LAMBDA(const StepValues& now) {
        double rate = learning_rate * now.rate_factor;
        return AdamNumbers<T>{static_cast<T>(rate / (1 - power(beta1, now.step + 1))),
                              static_cast<T>(1 / (1 - power(beta2, now.step + 1))),
                              static_cast<T>(1 - rate * decoupled)};
      },
      UNITY_LAMBDA(AdamNumbers<T> n, T gradient, T w, T * mean, T * variance) {
        gradient += into_gradient * w;
        T m = b1 * *mean + c1 * gradient, v = b2 * *variance + c2 * gradient * gradient;
        *mean = m, *variance = v;
        return n.kept * w - n.scale * m / (sqrt(v * n.inverse) + epsilon);
      });
}

void check_type(const char* what, DType dtype) {
  UNITY_CHECK(dtype == DType::f32 || dtype == DType::f64, "cuda {}: weights are {}, expected f32 or f64", what,
              to_string(dtype));
}

}  // namespace

std::int64_t number_chunks(std::span<ParameterShard> shards) {
  std::int64_t chunks = 0;
  for (ParameterShard& shard : shards) {
    shard.first_chunk = chunks;
    chunks += (shard.elements + kChunk - 1) / kChunk;
  }
  return chunks;
}

void sgd_step(Stream stream, const ShardList& list, const OptimizerSpec& how, const StepValues* step, DType dtype) {
  check_type("sgd_step", dtype);
  if (dtype == DType::f64)
    sgd<double>(stream, list, how, step);
  else
    sgd<float>(stream, list, how, step);
}

void adam_step(Stream stream, const ShardList& list, const OptimizerSpec& how, const StepValues* step, DType dtype) {
  check_type("adam_step", dtype);
  if (dtype == DType::f64)
    adam<double>(stream, list, how, step);
  else
    adam<float>(stream, list, how, step);
}

}  // namespace unity::cuda
