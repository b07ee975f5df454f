// Parallel tensors (design: the paper's single replica dimension, kept apart as copies and partials), and how an
// operator's axis table turns the parallel shapes of its operands into a sharding of its computation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "core/ops/axes.h"

namespace unity {

// Part `index` of `size` elements cut into `parts`: equal where that divides, else the first parts have one more.
Range part_of(std::int64_t size, std::int64_t parts, std::int64_t index);

// A dimension of `size` elements in `degree` parts (see part_of), each on another device. Inside a pipeline region it
// is cut in `micro` equal micro-batches first, and each of those in `degree` parts (micro major, degree minor), so that
// micro-batches have the same samples whatever the degree; a device handles its parts of them one after the other.
struct ParallelDim {
  std::int64_t size = 0;
  int degree = 1;
  int micro = 1;
  bool operator==(const ParallelDim&) const = default;
};

struct ParallelShape {
  std::vector<ParallelDim> dims;
  int copies = 1;    // devices that hold the same data
  int partials = 1;  // devices that hold summands of the data
  Monoid monoid = Monoid::sum;
  DType dtype = DType::f32;

  bool operator==(const ParallelShape&) const = default;
  Shape shape() const;  // the logical tensor
  int shards() const;   // product of the degrees
  int parts() const;    // shards() * copies * partials
  bool parallel() const { return parts() != 1; }
};
ParallelShape serial(const Shape& shape);
std::string to_string(const ParallelShape& shape);  // "f32[64/2, 512] copies 2 partials 3"
Hash hash_shape(const ParallelShape& shape);

// How an operator's computation is cut: a degree for each axis; `passing`: number of summands of partial operands that
// pass through a linear operator; `copies`: redundant computations of the same result.
struct Sharding {
  std::vector<int> degrees;
  std::vector<int> micro;
  int passing = 1;
  int copies = 1;
  bool operator==(const Sharding&) const = default;
  int tasks() const;  // product of degrees, passing and copies (micro-batches are not tasks of their own device)
};

// The only way operands determine the computation. For every operand: the degree of a dimension is the degree of the
// axis it splits; an operand that does not walk a split axis must have copies for it; copies left over are redundancy;
// partial operands need linearity. Errors name operator, operand and dimension, with found and expected.
Result<Sharding> infer_sharding(std::string_view op, const AxisTable& table, const std::vector<ParallelShape>& inputs);

ParallelShape output_parallel_shape(const AxisTable& table, const Sharding& sharding, std::size_t output);

// What operand `input` must look like for the given sharding; partial when `partial` (only where passing > 1).
ParallelShape required_input_shape(const AxisTable& table, const Sharding& sharding, std::size_t input,
                                   bool partial = false);

// The task grid of a computation, in the fixed order: parallel (and window) axes in table order, reduction axes,
// passing partials, copies. Dimensions of degree 1 are left out.
struct GridDim {
  enum class Kind : std::uint8_t { axis, passing, copies } kind = Kind::axis;
  int axis = -1;
  int degree = 1;
};
using TaskGrid = std::vector<GridDim>;
TaskGrid task_grid(const AxisTable& table, const Sharding& sharding);
// The grid of a stored tensor (a leaf after its prefix): one dimension per split dimension (axis = dimension), then
// copies.
TaskGrid storage_grid(const ParallelShape& shape);
// The part of a stored tensor at the coordinates of its storage grid.
Box storage_box(const ParallelShape& shape, const TaskGrid& grid, const std::vector<int>& coordinates);
int task_count(const TaskGrid& grid);

// Coordinates of the i-th task; the first grid dimension is the major one.
std::vector<int> grid_coordinates(const TaskGrid& grid, int task);

// The ranges of the axes for one task (and micro-batch, counted over all micro axes, major first).
std::vector<Range> task_ranges(const AxisTable& table, const Sharding& sharding, const TaskGrid& grid,
                               const std::vector<int>& coordinates, int micro = 0);
int micro_count(const Sharding& sharding);

// Which summand of output `output` a task produces, and which summand of a partial input it consumes.
int output_partial(const AxisTable& table, const TaskGrid& grid, const std::vector<int>& coordinates,
                   std::size_t output);
int passing_partial(const TaskGrid& grid, const std::vector<int>& coordinates);
// Which of the identical copies of an output a task produces.
int output_copy(const TaskGrid& grid, const std::vector<int>& coordinates);

}  // namespace unity
