// Layer norm and RMS norm: one group to a row. Their gradients are shared out to fewer groups than there are rows; each
// sums gamma's and beta's gradient over its rows, and the groups' sums are added up in a second step. Where rows allow
// it, an item of a row is four elements.
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vector_access.h"

namespace unity::cuda {
namespace {

// Rows as they are read and written: X is an array of the elements of x, dy, y and dx, of which kCount are an item, and
// R those of the vectors.
template <class R, class X, int kCount>
struct NormRows {
  using V = typename R::Value;
  using Vectors = typename R::Array;
  static constexpr int kItem = kCount;
  // What a thread holds in registers: of rows alone, and where it holds the sums of its columns, too.
  static constexpr int kAlone = kHeld, kBesideSums = kCount == 1 ? kHeld : kHeld / 4;

  using Item = Four<typename X::Value>;
  UNITY_DEVICE static Item read(const X& from, std::int64_t i) { return load_some<kCount>(from, i); }
  UNITY_DEVICE static void write(const X& to, std::int64_t i, const Four<V>& x) {
    if constexpr (std::is_same_v<X, Dense<BFloat16>>)
      store_vector(FloatOrBFloat16{to.data, true}, i, x);
    else
      store_some<kCount>(to, i, x);
  }
  UNITY_DEVICE static Four<V> vector(const Vectors& from, std::int64_t i) {
    if constexpr (kCount == 4) return from.load_four(i);
    return {{from.load(i)}};
  }
};

// Threads enough to hold rows of up to 4096 items, or 1024 of four elements beside their sums; few to a row, so that
// what they wait for one another is little.
template <class Rows>
std::int64_t work_alone(std::int64_t items) {
  return Rows::kItem == 1 || items > 1024 ? 2 * items : items;
}
template <class Rows>
std::int64_t work_beside_sums(std::int64_t items) {
  return Rows::kItem == 1 ? 2 * items : items <= 512 ? 4 * items : 8 * items;
}

// use(NormRows) of what all of these operands allow; the rows are of one type, or one by one of their own.
template <class R, class Use>
void with_rows(std::initializer_list<const Operand*> rows, std::initializer_list<const Operand*> vectors, Use use) {
  if constexpr (!std::is_same_v<R, Doubles>) {
    const Operand& x = **rows.begin();
    bool four = x.extent.back() % 4 == 0;
    for (const Operand* o : rows) four = four && o->dtype == x.dtype && reals<R>(*o).aligned();
    for (const Operand* o : vectors) four = four && reals<R>(*o).aligned();
    if (four && x.dtype == DType::bf16) return use(NormRows<R, Dense<BFloat16>, 4>());
    if (four) return use(NormRows<R, Dense<float>, 4>());
  }
  use(NormRows<R, typename R::Array, 1>());
}
template <class X>
X array_of(const Operand& o) {
  if constexpr (std::is_same_v<X, FloatOrBFloat16>)
    return {o.data, o.dtype == DType::bf16};
  else
    return {static_cast<typename X::Value*>(o.data)};
}
// Floats as Mixed, which has them too.
template <class R>
using Taken = std::conditional_t<std::is_same_v<R, Floats>, Mixed, R>;

// Sums over rows of kSums values for each column, of the columns that one thread of a group has: in registers where the
// rows are held there, else in memory.
template <class V, int kSums, int kItems, int kCount>
class ColumnSums {
 public:
  UNITY_OF_GROUP ColumnSums(const Group& group, std::int64_t items, bool held, V* memory, std::int64_t stride)
      : group_(group), items_(items), held_(held), memory_(memory), stride_(stride) {
    UNITY_UNROLL
    for (int i = 0; i < kItems * kSums * kCount; ++i) sums_[i] = 0;
    for (std::int64_t j = group.rank(); !held && j < items; j += group.size())
      for (int s = 0; s < kSums; ++s)
        for (int c = 0; c < kCount; ++c) memory_[s * stride_ + j * kCount + c] = 0;
  }
  // Of element c of item j.
  UNITY_OF_GROUP void add(int s, std::int64_t j, int slot, int c, V x) {
    if (held_)
      sums_[(slot * kSums + s) * kCount + c] += x;
    else
      memory_[s * stride_ + j * kCount + c] += x;
  }
  UNITY_OF_GROUP void store() {
    if (!held_) return;
    UNITY_UNROLL
    for (int i = 0; i < kItems; ++i) {
      std::int64_t j = group_.rank() + i * static_cast<std::int64_t>(group_.size());
      if (j >= items_) continue;
      UNITY_UNROLL
      for (int s = 0; s < kSums; ++s) UNITY_UNROLL
      for (int c = 0; c < kCount; ++c) memory_[s * stride_ + j * kCount + c] = sums_[(i * kSums + s) * kCount + c];
    }
  }

 private:
  const Group& group_;
  std::int64_t items_;
  bool held_;
  V* memory_;
  std::int64_t stride_;
  V sums_[kItems * kSums * kCount];
};

// out[s][j] = sum over p < parts of partial[(s * parts + p) * columns + j], in a fixed order. A group takes a few
// neighbouring columns, so that it reads whole sectors of memory.
template <class V, class Array>
void sum_parts_of(Stream stream, const V* partial, std::int64_t parts, std::int64_t columns, int sums, Array first,
                  Array second) {
  constexpr int kColumns = 8;
  const std::int64_t tiles = (columns + kColumns - 1) / kColumns;
  for_each_group(
      stream, sums * tiles, 4096, UNITY_LAMBDA(std::int64_t g, const Group& group) {
        const std::int64_t s = g / tiles, begin = g % tiles * kColumns;
        const bool shared = group.size() >= kColumns;  // a column to a thread, else all to each
        const int step = shared ? group.size() / kColumns : group.size();
        auto sum_of = [&](int column, int from) {
          const std::int64_t j = begin + column < columns ? begin + column : columns - 1;
          V sum = 0;
          for (std::int64_t p = from; p < parts; p += kBatch * step) {
            V items[kBatch];
            UNITY_UNROLL
            for (int b = 0; b < kBatch; ++b) {
              const std::int64_t q = p + b * step < parts ? p + b * step : parts - 1;
              items[b] = partial[(s * parts + q) * columns + j];
            }
            UNITY_UNROLL
            for (int b = 0; b < kBatch; ++b)
              if (p + b * step < parts) sum += items[b];
          }
          return sum;
        };
        const V own = shared ? sum_of(group.rank() % kColumns, group.rank() / kColumns) : V(0);
        for (int column = 0; column < kColumns; ++column) {
          V sum = !shared ? sum_of(column, group.rank()) : group.rank() % kColumns == column ? own : V(0);
          sum = group.sum(sum);
          if (group.rank() != 0 || begin + column >= columns) continue;
          if (s == 0)
            first.store(begin + column, sum);
          else
            second.store(begin + column, sum);
        }
      });
}

// Layer norm; without the mean and beta RMS norm.
template <bool kCentred, class Rows, class X, class Vectors>
void norm_rows(Stream stream, std::int64_t rows, std::int64_t n, double little, X x, X y, Vectors gamma, Vectors beta) {
  using V = typename Rows::V;
  constexpr int kCount = Rows::kItem;
  auto epsilon = static_cast<V>(little);
  const std::int64_t items = n / kCount;
  for_each_group(
      stream, rows, work_alone<Rows>(items), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        auto row =
            row_of<Rows::kAlone>(group, items, [&](std::int64_t j) { return Rows::read(x, r * n + j * kCount); });
        auto sum_of = [&](auto f) {
          return row.sum([&](const typename Rows::Item& i) {
            V s = 0;
            for (int c = 0; c < kCount; ++c) s += f(static_cast<V>(to_real(i.v[c])));
            return s;
          });
        };
        V mean = kCentred ? sum_of([](V v) { return v; }) / static_cast<V>(n) : V(0);
        V variance = sum_of([&](V v) { return (v - mean) * (v - mean); }) / static_cast<V>(n);
        V inverse = inverse_root(variance + epsilon);
        row.each([&](std::int64_t j, const typename Rows::Item& i, int) {
          Four<V> g = Rows::vector(gamma, j * kCount), b = {}, result = {};
          if (kCentred) b = Rows::vector(beta, j * kCount);
          for (int c = 0; c < kCount; ++c)
            result.v[c] = g.v[c] * ((static_cast<V>(to_real(i.v[c])) - mean) * inverse) + b.v[c];
          Rows::write(y, r * n + j * kCount, result);
        });
      });
}

template <class Item>
struct RowAndSlope {
  Item x, dy;
};

// Of layer norm, with h the normalised row and q = gamma dy:
//   dx = (q - mean(q) - h mean(q h)) / sqrt(variance + epsilon), dgamma = sum of dy h, dbeta = sum of dy;
// of RMS norm the same without mean(q), and with h = x / sqrt(mean(x^2) + epsilon).
template <bool kCentred, class Rows, class X, class Vectors>
void norm_rows_gradient(Stream stream, std::int64_t rows, std::int64_t n, double little, X x, X dy, X dx, Vectors gamma,
                        std::int64_t workers, typename Rows::V* partial) {
  using V = typename Rows::V;
  using Pair = RowAndSlope<typename Rows::Item>;
  constexpr int kCount = Rows::kItem, kItems = Rows::kBesideSums, kSums = kCentred ? 2 : 1;
  auto epsilon = static_cast<V>(little);
  const std::int64_t items = n / kCount;
  for_each_group(
      stream, workers, work_beside_sums<Rows>(items), UNITY_LAMBDA(std::int64_t w, const Group& group) {
        bool held = items <= static_cast<std::int64_t>(kItems) * group.size();
        ColumnSums<V, kSums, kItems, kCount> sums(group, items, held, partial + w * n, workers * n);
        V over_n = 1 / static_cast<V>(n);
        for (std::int64_t r = w; r < rows; r += workers) {
          auto row = row_of<kItems>(group, items, [&](std::int64_t j) {
            return Pair{Rows::read(x, r * n + j * kCount), Rows::read(dy, r * n + j * kCount)};
          });
          auto sum_of = [&](auto f) {
            return row.sum([&](const Pair& i) {
              V s = 0;
              for (int c = 0; c < kCount; ++c) s += f(static_cast<V>(to_real(i.x.v[c])));
              return s;
            });
          };
          V mean = kCentred ? sum_of([](V v) { return v; }) * over_n : V(0);
          V variance = sum_of([&](V v) { return (v - mean) * (v - mean); }) * over_n;
          V inverse = inverse_root(variance + epsilon), mean_q = 0, mean_qh = 0;
          row.each([&](std::int64_t j, const Pair& i, int slot) {
            Four<V> g = Rows::vector(gamma, j * kCount);
            for (int c = 0; c < kCount; ++c) {
              V slope = static_cast<V>(to_real(i.dy.v[c])), h = (static_cast<V>(to_real(i.x.v[c])) - mean) * inverse;
              V q = g.v[c] * slope;
              mean_q += q, mean_qh += q * h;
              sums.add(0, j, slot, c, slope * h);
              if (kCentred) sums.add(kSums - 1, j, slot, c, slope);
            }
          });
          mean_q = kCentred ? group.sum(mean_q) * over_n : V(0), mean_qh = group.sum(mean_qh) * over_n;
          row.each([&](std::int64_t j, const Pair& i, int) {
            Four<V> g = Rows::vector(gamma, j * kCount), result = {};
            for (int c = 0; c < kCount; ++c)
              result.v[c] = (g.v[c] * static_cast<V>(to_real(i.dy.v[c])) - mean_q -
                             (static_cast<V>(to_real(i.x.v[c])) - mean) * inverse * mean_qh) *
                            inverse;
            Rows::write(dx, r * n + j * kCount, result);
          });
        }
        sums.store();
      });
}

template <bool kCentred, class R>
void norm_of(const Call& c) {
  const Operand &x = c.inputs[0], &gamma = c.inputs[1], &beta = c.inputs[kCentred ? 2 : 1], &y = c.outputs[0];
  with_rows<R>({&x, &y}, {&gamma, &beta}, [&]<class X, int kCount>(NormRows<R, X, kCount>) {
    norm_rows<kCentred, NormRows<R, X, kCount>>(c.stream, rows_of(x), x.extent.back(), real_attribute(c.attributes, 0),
                                                array_of<X>(x), array_of<X>(y), reals<R>(gamma), reals<R>(beta));
  });
}

template <bool kCentred, class R>
void norm_gradient_of(const Call& c) {
  using V = typename R::Value;
  const Operand &x = c.inputs[0], &gamma = c.inputs[1], &dy = c.inputs[2], &dx = c.outputs[0];
  const Operand &dgamma = c.outputs[1], &dbeta = c.outputs[kCentred ? 2 : 1];
  constexpr int kSums = kCentred ? 2 : 1;
  with_rows<R>({&x, &dy, &dx}, {&gamma}, [&]<class X, int kCount>(NormRows<R, X, kCount>) {
    using Rows = NormRows<R, X, kCount>;
    std::int64_t n = x.extent.back(), rows = rows_of(x);
    std::int64_t workers = row_workers(rows, work_beside_sums<Rows>(n / kCount));
    if (kCount == 4) workers = (workers + 1) / 2;  // as many as are there at once, by the registers that they take
    auto* partial = static_cast<V*>(c.scratch(workers * n * kSums * static_cast<std::int64_t>(sizeof(V))));
    norm_rows_gradient<kCentred, Rows>(c.stream, rows, n, real_attribute(c.attributes, 0), array_of<X>(x),
                                       array_of<X>(dy), array_of<X>(dx), reals<R>(gamma), workers, partial);
    sum_parts_of(c.stream, partial, workers, n, kSums, reals<R>(dgamma), reals<R>(dbeta));
  });
}

}  // namespace

template <class R>
void layer_norm_of(const Call& c) {
  norm_of<true, Taken<R>>(c);
}
UNITY_CUDA_KERNEL(layer_norm)

template <class R>
void layer_norm_gradient_of(const Call& c) {
  norm_gradient_of<true, Taken<R>>(c);
}
UNITY_CUDA_KERNEL(layer_norm_gradient)

template <class R>
void rms_norm_of(const Call& c) {
  norm_of<false, Taken<R>>(c);
}
UNITY_CUDA_KERNEL(rms_norm)

template <class R>
void rms_norm_gradient_of(const Call& c) {
  norm_gradient_of<false, Taken<R>>(c);
}
UNITY_CUDA_KERNEL(rms_norm_gradient)

}  // namespace unity::cuda
