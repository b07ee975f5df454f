#include "runtime/cuda/math.h"
#include "runtime/cuda/optimizers.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vector_access.h"

namespace unity::cuda {
namespace {

constexpr std::int64_t kChunk = 2048;  // elements that a group of threads takes at once
constexpr int kFours = 2;              // fours of each operand that a thread asks for before it uses the first

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

// What a thread updates at once, as it lies in memory: four neighbours, or a single element in each v[0]. Gradients are
// of type G.
template <class T, class G, int kStates>
struct Elements {
  Four<T> weight;
  Four<G> gradient;
  Four<T> states[kStates > 0 ? kStates : 1];
};

// The elements of a shard that a group takes. Gradients and states are next used a step later, and so are weights that
// have a rounded copy: they should not drive from the caches what is used sooner.
template <class T, class G, int kStates>
class Chunk {
 public:
  using Some = Elements<T, G, kStates>;

  UNITY_DEVICE Chunk(const ParameterShard& p, std::int64_t first)
      : weight_(static_cast<T*>(p.weight) + first),
        gradient_(static_cast<const G*>(p.gradient) + first),
        rounded_(p.rounded ? p.rounded + first : nullptr),
        size_(static_cast<int>(first + kChunk < p.elements ? kChunk : p.elements - first)),
        fours_(p.four ? size_ / 4 : 0) {
    for (int s = 0; s < kStates; ++s) states_[s] = static_cast<T*>(p.states[s]) + first;
  }
  UNITY_DEVICE int size() const { return size_; }
  UNITY_DEVICE int fours() const { return fours_; }  // at the beginning; elements behind them go one by one

  UNITY_DEVICE Some load_four(int i) const {
    Some x;
    x.weight = load_streaming(weight_ + i), x.gradient = load_streaming(gradient_ + i);
    for (int s = 0; s < kStates; ++s) x.states[s] = load_streaming(states_[s] + i);
    return x;
  }
  UNITY_DEVICE void store_four(int i, const Some& x) const {
    for (int s = 0; s < kStates; ++s) store_streaming(states_[s] + i, x.states[s]);
    if (!rounded_) return store_vector(weight_ + i, x.weight);
    store_streaming(weight_ + i, x.weight);
    Four<BFloat16> half;
    for (int k = 0; k < 4; ++k) half.v[k] = to_bfloat16(static_cast<float>(x.weight.v[k]));
    store_vector(rounded_ + i, half);
  }
  UNITY_DEVICE Some load_one(int i) const {
    Some x;
    x.weight.v[0] = weight_[i], x.gradient.v[0] = gradient_[i];
    for (int s = 0; s < kStates; ++s) x.states[s].v[0] = states_[s][i];
    return x;
  }
  UNITY_DEVICE void store_one(int i, const Some& x) const {
    for (int s = 0; s < kStates; ++s) states_[s][i] = x.states[s].v[0];
    weight_[i] = x.weight.v[0];
    if (rounded_) rounded_[i] = to_bfloat16(static_cast<float>(x.weight.v[0]));
  }

 private:
  T* weight_;
  const G* gradient_;
  T* states_[kStates > 0 ? kStates : 1];
  BFloat16* rounded_;
  int size_, fours_;
};

template <int kCount, class T, class G, int kStates, class Numbers, class Update>
UNITY_DEVICE void update_elements(Elements<T, G, kStates>& x, const Numbers& numbers, const Update& update) {
  for (int k = 0; k < kCount; ++k) {
    T states[kStates > 0 ? kStates : 1];
    for (int s = 0; s < kStates; ++s) states[s] = x.states[s].v[k];
    x.weight.v[k] = update(numbers, static_cast<T>(to_real(x.gradient.v[k])), x.weight.v[k], states);
    for (int s = 0; s < kStates; ++s) x.states[s].v[k] = states[s];
  }
}

template <class T, class G, int kStates, class Begin, class Update>
UNITY_OF_GROUP void step_chunk(const Group& group, const ParameterShard& p, std::int64_t first, const StepValues* step,
                               const Begin& begin, const Update& update) {
  const Chunk<T, G, kStates> chunk(p, first);
  for (int i = group.rank(); i < chunk.fours(); i += kFours * group.size()) {
    Elements<T, G, kStates> x[kFours];
    UNITY_UNROLL
    for (int b = 0; b < kFours; ++b) {
      int j = i + b * group.size();
      x[b] = chunk.load_four(4 * (j < chunk.fours() ? j : chunk.fours() - 1));
    }
    auto numbers = begin(*step);  // while the reads are under way
    UNITY_UNROLL
    for (int b = 0; b < kFours; ++b) {
      int j = i + b * group.size();
      if (j >= chunk.fours()) continue;
      update_elements<4>(x[b], numbers, update);
      chunk.store_four(4 * j, x[b]);
    }
  }
  int i = 4 * chunk.fours() + group.rank();
  if (i >= chunk.size()) return;
  auto numbers = begin(*step);
  for (; i < chunk.size(); i += group.size()) {
    Elements<T, G, kStates> x = chunk.load_one(i);
    update_elements<1>(x, numbers, update);
    chunk.store_one(i, x);
  }
}

// For each element of each shard: begin(step values) gives what is the same for all, and update(that, gradient, weight,
// states) the new weight; it puts the new states in place of the old ones.
template <class T, int kStates, class Begin, class Update>
void for_each_parameter(Stream stream, const ShardList& list, const StepValues* step, Begin begin, Update update) {
  ShardList all = list;
  for_each_group(
      stream, list.chunks, kChunk, UNITY_LAMBDA(std::int64_t chunk, const Group& group) {
        const ParameterShard p = all.shards[shard_of(all, chunk)];
        std::int64_t first = (chunk - p.first_chunk) * kChunk;
        if (p.half_gradient)
          step_chunk<T, BFloat16, kStates>(group, p, first, step, begin, update);
        else
          step_chunk<T, T, kStates>(group, p, first, step, begin, update);
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
  bool nesterov = how.nesterov;
  auto begin = UNITY_LAMBDA(const StepValues& now) {
    return SgdNumbers<T>{static_cast<T>(learning_rate * now.rate_factor)};
  };
  if (how.momentum == 0)
    return for_each_parameter<T, 0>(
        stream, list, step, begin,
        UNITY_LAMBDA(SgdNumbers<T> n, T gradient, T w, T*) { return w - n.rate * (gradient + decay * w); });
  for_each_parameter<T, 1>(
      stream, list, step, begin, UNITY_LAMBDA(SgdNumbers<T> n, T gradient, T w, T * velocity) {
        gradient += decay * w;
        T v = momentum * velocity[0] + gradient;
        velocity[0] = v;
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
  for_each_parameter<T, 2>(
      stream, list, step,
      UNITY_LAMBDA(const StepValues& now) {
        double rate = learning_rate * now.rate_factor;
        return AdamNumbers<T>{static_cast<T>(rate / (1 - power(beta1, now.step + 1))),
                              static_cast<T>(1 / (1 - power(beta2, now.step + 1))),
                              static_cast<T>(1 - rate * decoupled)};
      },
      UNITY_LAMBDA(AdamNumbers<T> n, T gradient, T w, T * states) {
        gradient += into_gradient * w;
        T m = b1 * states[0] + c1 * gradient, v = b2 * states[1] + c2 * gradient * gradient;
        states[0] = m, states[1] = v;
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
    shard.four =
        aligned_for_four<float>(shard.weight) && aligned_for_four<float>(shard.states[0]) &&
        aligned_for_four<float>(shard.states[1]) && aligned_for_four<BFloat16>(shard.rounded) &&
        (shard.half_gradient ? aligned_for_four<BFloat16>(shard.gradient) : aligned_for_four<float>(shard.gradient));
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
