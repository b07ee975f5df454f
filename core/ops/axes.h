// The axis table: the loops of an operator's computation, and which of them each dimension of each operand walks.
// MLIR's linalg calls these iterator types and indexing maps. Everything generic about an operator derives from this
// one table: result shape, parallel shapes, task grid, shard regions, FLOPs, and the sharding rules.
//
// The table on the hardest operators (worked out before any was written):
//  * attention heads in a reshape [b, s, h*e] -> [b, s, h, e]: axes b, s, h (parallel) and e; dimension 2 of the
//    operand walks (h, e), major to minor, so splitting it splits h; e is minor there, hence whole.
//  * grouped convolution: channels of x walk (g, ci), of w (g, co), ci; of the result (g, co): splitting channels
//    splits groups; with g = 1 the major axis of size above 1 is ci or co: reduction or output-channel parallelism.
//  * halo: a spatial dimension of x walks `oh` through a Window (stride, dilation, padding, kernel): the region read
//    for [a, b) of oh is [a*stride - pad, (b-1)*stride + (kernel-1)*dilation - pad + 1), clipped. Overlaps: the halo.
//    The first and the last part reach to the border, so that rows which no window reads belong to them.
//  * embedding(ids, table[v, h]): v is a reduction (rows outside a shard contribute zero), ids does not walk it.
//  * batch norm: a composite (moments: reduction over the batch; combine; normalise), no axis of its own.
//  * concat: every operand walks an axis of its own size, role `whole`; with g interleaved groups the dimension walks
//    (group, own), and the group axis can be split (fused QKV keeps head parallelism).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ops/shape.h"

namespace unity {

enum class AxisRole : std::uint8_t {
  parallel,   // appears in a result: splitting it shards the result (one that does not walk it gets partial sums)
  reduction,  // summed away: splitting it makes the result partial sums
  window,     // parallel in the result, reads a neighbourhood of the input: shards, with a halo
  whole,      // must not be split
};
std::string_view to_string(AxisRole role);

// How partial values combine.
enum class Monoid : std::uint8_t { sum, max };

struct Axis {
  std::string name;
  std::int64_t size = 0;
  AxisRole role = AxisRole::parallel;
  Monoid monoid = Monoid::sum;  // of a reduction
};

// Input index = stride * output index + dilation * kernel index - padding.
struct Window {
  std::int64_t kernel = 1, stride = 1, dilation = 1, pad_before = 0, pad_after = 0;
};

// The axes that one dimension walks, major to minor. None: a dimension of size 1 that is broadcast.
struct DimAxes {
  std::vector<int> axes;
  std::optional<Window> window;
  std::int64_t window_size = 0;  // with a window: the dimension's size, which the axis does not give
};

struct OperandAxes {
  std::vector<DimAxes> dims;
  bool linear = false;      // inputs: the operator is linear in this operand, so partial sums may pass through it
  bool shape_only = false;  // inputs: only the shape is used (broadcast back to the shape of x); the data are not read
  DType dtype = DType::f32;
};

enum class Linearity : std::uint8_t {
  none,
  joint,        // linear in all linear operands together (add, concat): all of these are partial, or none
  multilinear,  // linear in each alone (matmul, mul): at most one is partial
};

struct AxisTable {
  std::vector<Axis> axes;
  std::vector<OperandAxes> inputs;
  std::vector<OperandAxes> outputs;
  Linearity linearity = Linearity::none;
  double flops_per_point = 1;  // FLOPs for each point of the iteration space (the product of the sizes of `flop_axes`)
  std::vector<int> flop_axes;  // empty: all axes
};

// The axis that is split when a dimension is split: the first one of size above 1 (else the last); -1 when it walks
// none.
int split_axis(const AxisTable& table, const DimAxes& dim);

// Whether an axis is a minor one in some dimension, where it lies in strips within each part of the major one.
bool is_minor(const AxisTable& table, int axis);

// Whether an axis can be split: it is not whole, has several elements, and is not minor anywhere.
bool can_split(const AxisTable& table, int axis);

Shape operand_shape(const AxisTable& table, const OperandAxes& operand);

struct Range {
  std::int64_t offset = 0;
  std::int64_t extent = 0;
  bool operator==(const Range&) const = default;
};
std::vector<Range> full_ranges(const AxisTable& table);

// The region of an operand that the given ranges of the axes touch (with halo, for windows).
Box operand_box(const AxisTable& table, const OperandAxes& operand, const std::vector<Range>& axes);

// The inverse: the ranges of the axes, read off the regions of the inputs (where null: not known). Axes that no given
// operand splits have their full range. Error when the regions contradict each other.
Result<std::vector<Range>> axis_ranges(const AxisTable& table, const std::vector<const Box*>& inputs);

// FLOPs of the given ranges. Additive over shards, but for declared redundancy (copies).
double flops(const AxisTable& table, const std::vector<Range>& axes);

// Building tables: walks(0, 1) is a two-dimensional operand whose dimensions walk axis 0 and axis 1.
template <class... D>
OperandAxes walks(D... dims) {
  OperandAxes operand;
  (operand.dims.push_back(DimAxes{std::vector<int>{dims}, std::nullopt, 0}), ...);
  return operand;
}

}  // namespace unity
