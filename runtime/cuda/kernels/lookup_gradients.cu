// Gradients of look-ups: every looked-up row of dy is added to its row of the table. The ids are sorted by row, and the
// runs of equal rows summed, so that the order of each sum is always the same and nothing is written by two threads: a
// group of threads to each run within a piece of the sorted ids, then one to each run that reaches over several pieces.
#include "core/ops/embedding_bag.h"
#include "core/ops/gather.h"
#include "runtime/cuda/alignment.h"
#include "runtime/cuda/block_ids.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {
namespace {

constexpr int kPiece = 64;

// dy is [outer, positions, inner], of which `per_row` neighbouring entries share a position; dx is [outer, n, inner].
struct Scatter {
  std::int64_t entries, per_row, outer, n, inner, offset;
  double factor;
};

// What both steps read: dy is of elements G, kCount elements of a row are taken at once.
template <class R, class G, int kCount>
struct Runs {
  using V = typename R::Value;
  SortedRows<kPiece> sorted;
  Dense<G> dy;
  typename R::Array dx;
  V factor;
  Dense<V> sums;                              // of the runs of pieces that are not whole
  std::int64_t columns, inner, in_dy, in_dx;  // of all slices, of one; elements of a slice of dy and of dx
  Divider per_row;

  UNITY_OF_GROUP void sum_run(const Group& group, std::int32_t i) const {
    const auto run = sorted.run(i);
    if (run.end == run.begin) return;
    each_column(group, [&](std::int64_t j, std::int64_t slice, std::int64_t column) {
      Four<V> sum = {};
      add_in_order<kCount>(sum, run.begin, run.end, [&](std::int32_t k) {
        return load_some<kCount>(dy, slice * in_dy + per_row.quotient_of_small(sorted.places[k]) * inner + column);
      });
      if (run.whole())
        store(sorted.rows[i], slice, column, sum);
      else
        store_some<kCount>(sums, run.slot() * columns + j, sum);
    });
  }
  UNITY_OF_GROUP void join_pieces(const Group& group, std::int32_t piece) const {
    const std::int32_t last = sorted.last_piece(piece);
    if (last == 0) return;
    each_column(group, [&](std::int64_t j, std::int64_t slice, std::int64_t column) {
      Four<V> sum = load_some<kCount>(sums, (2 * static_cast<std::int64_t>(piece) + 1) * columns + j);
      add_in_order<kCount>(sum, piece + 1, last + 1, [&](std::int32_t p) {
        return load_some<kCount>(sums, 2 * static_cast<std::int64_t>(p) * columns + j);
      });
      store(sorted.rows[last * kPiece], slice, column, sum);
    });
  }

 private:
  // use(j, slice, column in it)
  template <class Use>
  UNITY_OF_GROUP void each_column(const Group& group, Use use) const {
    for (std::int64_t j = kCount * group.rank(); j < columns; j += kCount * group.size()) {
      const std::int64_t slice = inner == columns ? 0 : j / inner;
      use(j, slice, j - slice * inner);
    }
  }
  UNITY_DEVICE void store(std::uint32_t row, std::int64_t slice, std::int64_t column, Four<V> sum) const {
    for (int c = 0; c < kCount; ++c) sum.v[c] *= factor;
    store_some<kCount>(dx, slice * in_dx + row * inner + column, sum);
  }
};

template <class Runs>
void sum_all(Stream stream, const Runs& runs, std::int64_t work) {
  const std::int32_t entries = runs.sorted.count, pieces = (entries + kPiece - 1) / kPiece;
  for_each_group(
      stream, entries, work,
      UNITY_LAMBDA(std::int64_t i, const Group& group) { runs.sum_run(group, static_cast<std::int32_t>(i)); });
  if (pieces == 1) return;
  for_each_group(
      stream, pieces, work, UNITY_LAMBDA(std::int64_t piece, const Group& group) {
        runs.join_pieces(group, static_cast<std::int32_t>(piece));
      });
}

// Floats as Mixed, which has them too.
template <class R>
using Taken = std::conditional_t<std::is_same_v<R, Floats>, Mixed, R>;

template <class R>
void scatter_rows(const Call& c, const Operand& index, const Operand& slopes, const Scatter& s) {
  using V = typename R::Value;
  const BlockIds ids(indices(index), s.entries, s.offset, s.n);
  const std::int64_t columns = s.outer * s.inner, list = bytes_of_list(s.entries),
                     kept = 2 * ((s.entries + kPiece - 1) / kPiece) * columns * static_cast<std::int64_t>(sizeof(V));
  auto* memory = static_cast<char*>(c.scratch(2 * list + aligned_bytes(kept) + sort_rows_bytes(ids)));
  auto* rows = reinterpret_cast<std::uint32_t*>(memory);
  auto* places = reinterpret_cast<std::int32_t*>(memory + list);
  auto* sums = reinterpret_cast<V*>(memory + 2 * list);
  sort_rows(c.stream, ids, rows, places, memory + 2 * list + aligned_bytes(kept));
  set_zero(c.stream, c.outputs[0]);

  auto sum = [&]<class G, int kCount>(Dense<G> dy, std::integral_constant<int, kCount>) {
    Runs<R, G, kCount> runs{{rows, places, ids.count, ids.rows},
                            dy,
                            reals<R>(c.outputs[0]),
                            static_cast<V>(s.factor),
                            {sums},
                            columns,
                            s.inner,
                            s.entries / s.per_row * s.inner,
                            s.n * s.inner,
                            Divider(s.per_row)};
    sum_all(c.stream, runs, 2 * columns / kCount);
  };
  const bool half = slopes.dtype == DType::bf16,
             four = s.inner % 4 == 0 && reals<R>(slopes).aligned() && reals<R>(c.outputs[0]).aligned();
  auto in_type = [&]<class G>(Dense<G> dy) {
    if constexpr (!std::is_same_v<G, double>)
      if (four) return sum(dy, std::integral_constant<int, 4>());
    sum(dy, std::integral_constant<int, 1>());
  };
  if constexpr (std::is_same_v<R, Mixed>)
    if (half) return in_type(Dense<BFloat16>{slopes.as<BFloat16>()});
  in_type(Dense<V>{slopes.as<V>()});
}

}  // namespace

template <class R>
void embedding_gradient_of(const Call& c) {
  const Operand &ids = c.inputs[0], &dx = c.outputs[0];
  scatter_rows<Taken<R>>(c, ids, c.inputs[1], {ids.elements(), 1, 1, dx.extent[0], dx.extent[1], dx.offset[0], 1});
}
UNITY_CUDA_KERNEL(embedding_gradient)

template <class R>
void embedding_bag_gradient_of(const Call& c) {
  const Operand &ids = c.inputs[0], &dx = c.outputs[0];
  scatter_rows<Taken<R>>(c, ids, c.inputs[1],
                         {ids.elements(), ids.extent[1], 1, dx.extent[0], dx.extent[1], dx.offset[0],
                          embedding_bag_factor(c.attributes, ids)});
}
UNITY_CUDA_KERNEL(embedding_bag_gradient)

template <class R>
void gather_gradient_of(const Call& c) {
  const Operand &ids = c.inputs[0], &dx = c.outputs[0];
  GatherLoops l = gather_loops(int_attribute(c.attributes, 0), dx);
  scatter_rows<Taken<R>>(c, ids, c.inputs[1], {ids.elements(), 1, l.outer, l.n, l.inner, l.offset, 1});
}
UNITY_CUDA_KERNEL(gather_gradient)

}  // namespace unity::cuda
