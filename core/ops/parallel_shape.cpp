#include "core/ops/parallel_shape.h"

#include <algorithm>

#include "core/base/hash.h"

namespace unity {
namespace {

bool walks_axis(const AxisTable& table, const OperandAxes& operand, int axis) {
  return std::any_of(operand.dims.begin(), operand.dims.end(),
                     [&](const DimAxes& dim) { return split_axis(table, dim) == axis; });
}

// Product of the degrees of the axes that the operand does not walk: the copies (of an input) or summands (of an
// output).
int unwalked_degree(const AxisTable& table, const Sharding& sharding, const OperandAxes& operand) {
  int product = 1;
  for (std::size_t a = 0; a < table.axes.size(); ++a)
    if (sharding.degrees[a] > 1 && !walks_axis(table, operand, static_cast<int>(a))) product *= sharding.degrees[a];
  return product;
}

std::string unwalked_axes(const AxisTable& table, const Sharding& sharding, const OperandAxes& operand) {
  std::string text;
  for (std::size_t a = 0; a < table.axes.size(); ++a)
    if (sharding.degrees[a] > 1 && !walks_axis(table, operand, static_cast<int>(a)))
      text +=
          fmt::format("{}axis {} is split {} ways", text.empty() ? "" : ", ", table.axes[a].name, sharding.degrees[a]);
  return text;
}

ParallelShape sharded_shape(const AxisTable& table, const Sharding& sharding, const OperandAxes& operand) {
  ParallelShape shape;
  shape.dtype = operand.dtype;
  Shape logical = operand_shape(table, operand);
  for (std::size_t j = 0; j < operand.dims.size(); ++j) {
    int axis = split_axis(table, operand.dims[j]);
    ParallelDim dim{logical.dims[j], 1, 1};
    if (axis >= 0) {
      dim.degree = sharding.degrees[static_cast<std::size_t>(axis)];
      dim.micro = sharding.micro[static_cast<std::size_t>(axis)];
    }
    shape.dims.push_back(dim);
  }
  return shape;
}

}  // namespace

Range part_of(std::int64_t size, std::int64_t parts, std::int64_t index) {
  std::int64_t small = size / parts, larger = size % parts;
  return {index * small + std::min(index, larger), small + (index < larger ? 1 : 0)};
}

Shape ParallelShape::shape() const {
  Shape s{{}, dtype};
  for (const ParallelDim& d : dims) s.dims.push_back(d.size);
  return s;
}

int ParallelShape::shards() const {
  int n = 1;
  for (const ParallelDim& d : dims) n *= d.degree;
  return n;
}

int ParallelShape::parts() const { return shards() * copies * partials; }

ParallelShape serial(const Shape& shape) {
  ParallelShape p;
  p.dtype = shape.dtype;
  for (std::int64_t size : shape.dims) p.dims.push_back({size, 1, 1});
  return p;
}

std::string to_string(const ParallelShape& shape) {
  std::string text = fmt::format("{}[", to_string(shape.dtype));
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    const ParallelDim& d = shape.dims[i];
    text += fmt::format("{}{}", i ? ", " : "", d.size);
    if (d.degree > 1) text += fmt::format("/{}", d.degree);
    if (d.micro > 1) text += fmt::format("~{}", d.micro);
  }
  text += "]";
  if (shape.copies > 1) text += fmt::format(" copies {}", shape.copies);
  if (shape.partials > 1)
    text += fmt::format(" partials {}{}", shape.partials, shape.monoid == Monoid::max ? " max" : "");
  return text;
}

Hash hash_shape(const ParallelShape& shape) {
  Hash h = combine(static_cast<Hash>(shape.copies) << 32 | static_cast<Hash>(shape.partials),
                   static_cast<Hash>(shape.monoid) << 8 | static_cast<Hash>(shape.dtype));
  for (const ParallelDim& d : shape.dims)
    h = combine(combine(h, static_cast<Hash>(d.size)), static_cast<Hash>(d.degree) << 32 | static_cast<Hash>(d.micro));
  return h;
}

int Sharding::tasks() const {
  int n = passing * copies;
  for (int d : degrees) n *= d;
  return n;
}

Result<Sharding> infer_sharding(std::string_view op, const AxisTable& table, const std::vector<ParallelShape>& inputs) {
  Sharding sharding;
  sharding.degrees.assign(table.axes.size(), 0);
  sharding.micro.assign(table.axes.size(), 1);
  if (inputs.size() != table.inputs.size())
    return fail("{}: found {} operands, expected {}", op, inputs.size(), table.inputs.size());

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t j = 0; j < inputs[i].dims.size(); ++j) {
      const ParallelDim& dim = inputs[i].dims[j];
      int axis = split_axis(table, table.inputs[i].dims[j]);
      if (axis < 0) {
        if (dim.degree > 1 || dim.micro > 1)
          return fail("{}: operand {} dimension {} is broadcast, found degree {}, expected 1", op, i, j, dim.degree);
        continue;
      }
      auto a = static_cast<std::size_t>(axis);
      const Axis& info = table.axes[a];
      if (info.role == AxisRole::whole && (dim.degree > 1 || dim.micro > 1))
        return fail("{}: operand {} dimension {} walks axis {}, which must not be split; found degree {}", op, i, j,
                    info.name, dim.degree * dim.micro);
      std::int64_t parts = static_cast<std::int64_t>(dim.degree) * dim.micro;
      if (parts > 1 && info.size > 1 && is_minor(table, axis))
        return fail(
            "{}: operand {} dimension {} walks axis {}, which lies in strips in another dimension; found "
            "degree {}, expected 1",
            op, i, j, info.name, parts);
      if (info.size < parts || (dim.micro > 1 && info.size % parts != 0))
        return fail("{}: operand {} dimension {} has degree {}, too large for axis {} of size {}", op, i, j,
                    dim.degree * dim.micro, info.name, info.size);
      if (sharding.degrees[a] != 0 && (sharding.degrees[a] != dim.degree || sharding.micro[a] != dim.micro))
        return fail("{}: axis {} has degree {} in operand {} dimension {}, expected {} as in the operands before it",
                    op, info.name, dim.degree * dim.micro, i, j, sharding.degrees[a] * sharding.micro[a]);
      sharding.degrees[a] = dim.degree;
      sharding.micro[a] = dim.micro;
    }
  }
  for (int& d : sharding.degrees) d = std::max(d, 1);

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ParallelShape& in = inputs[i];
    if (in.partials == 1 || table.inputs[i].shape_only) continue;
    if (in.monoid == Monoid::max)
      return fail("{}: operand {} holds partial maxima (partials {}), but {} takes no more than partial sums", op, i,
                  in.partials, op);
    if (!table.inputs[i].linear || table.linearity == Linearity::none)
      return fail("{}: operand {} holds partial sums (partials {}), but {} is not linear in it", op, i, in.partials,
                  op);
    if (table.linearity == Linearity::multilinear && sharding.passing > 1)
      return fail("{}: operand {} holds partial sums and so does an operand before it, expected at most one", op, i);
    sharding.passing = in.partials;
  }
  if (table.linearity == Linearity::joint && sharding.passing > 1)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (table.inputs[i].linear && !table.inputs[i].shape_only && inputs[i].partials != sharding.passing)
        return fail("{}: operand {} has partials {}, expected {} as the other operands ({} is jointly linear)", op, i,
                    inputs[i].partials, sharding.passing, op);

  int redundancy = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (table.inputs[i].shape_only) continue;
    int needed = unwalked_degree(table, sharding, table.inputs[i]) * (inputs[i].partials > 1 ? 1 : sharding.passing);
    if (inputs[i].copies % needed != 0) {
      std::string why = unwalked_axes(table, sharding, table.inputs[i]);
      if (sharding.passing > 1 && inputs[i].partials == 1)
        why += fmt::format("{}partial sums of another operand", why.empty() ? "" : ", ");
      return fail("{}: operand {} has copies {}, expected a multiple of {} ({}, which operand {} does not walk)", op, i,
                  inputs[i].copies, needed, why, i);
    }
    int left = inputs[i].copies / needed;
    if (redundancy != 0 && left != redundancy)
      return fail(
          "{}: operand {} has copies {}, expected {} ({} computations of the same result, as the operands before it)",
          op, i, inputs[i].copies, needed * redundancy, redundancy);
    redundancy = left;
  }
  sharding.copies = std::max(redundancy, 1);
  return sharding;
}

ParallelShape output_parallel_shape(const AxisTable& table, const Sharding& sharding, std::size_t output) {
  const OperandAxes& operand = table.outputs[output];
  ParallelShape shape = sharded_shape(table, sharding, operand);
  shape.partials = unwalked_degree(table, sharding, operand) * sharding.passing;
  shape.copies = sharding.copies;
  for (std::size_t a = 0; a < table.axes.size(); ++a)
    if (sharding.degrees[a] > 1 && !walks_axis(table, operand, static_cast<int>(a)))
      shape.monoid = table.axes[a].monoid;
  return shape;
}

ParallelShape required_input_shape(const AxisTable& table, const Sharding& sharding, std::size_t input, bool partial) {
  const OperandAxes& operand = table.inputs[input];
  ParallelShape shape = sharded_shape(table, sharding, operand);
  shape.partials = partial ? sharding.passing : 1;
  shape.copies = unwalked_degree(table, sharding, operand) * sharding.copies * (partial ? 1 : sharding.passing);
  return shape;
}

TaskGrid task_grid(const AxisTable& table, const Sharding& sharding) {
  TaskGrid grid;
  for (bool reductions : {false, true})
    for (std::size_t a = 0; a < table.axes.size(); ++a)
      if ((table.axes[a].role == AxisRole::reduction) == reductions && sharding.degrees[a] > 1)
        grid.push_back({GridDim::Kind::axis, static_cast<int>(a), sharding.degrees[a]});
  if (sharding.passing > 1) grid.push_back({GridDim::Kind::passing, -1, sharding.passing});
  if (sharding.copies > 1) grid.push_back({GridDim::Kind::copies, -1, sharding.copies});
  return grid;
}

TaskGrid storage_grid(const ParallelShape& shape) {
  TaskGrid grid;
  for (std::size_t j = 0; j < shape.dims.size(); ++j)
    if (shape.dims[j].degree > 1) grid.push_back({GridDim::Kind::axis, static_cast<int>(j), shape.dims[j].degree});
  if (shape.copies > 1) grid.push_back({GridDim::Kind::copies, -1, shape.copies});
  return grid;
}

Box storage_box(const ParallelShape& shape, const TaskGrid& grid, const std::vector<int>& coordinates) {
  Box box = whole_box(shape.shape().dims);
  for (std::size_t g = 0; g < grid.size(); ++g)
    if (grid[g].kind == GridDim::Kind::axis) {
      auto dim = static_cast<std::size_t>(grid[g].axis);
      Range part = part_of(shape.dims[dim].size, shape.dims[dim].degree, coordinates[g]);
      box.offset[dim] = part.offset, box.extent[dim] = part.extent;
    }
  return box;
}

int task_count(const TaskGrid& grid) {
  int n = 1;
  for (const GridDim& d : grid) n *= d.degree;
  return n;
}

std::vector<int> grid_coordinates(const TaskGrid& grid, int task) {
  std::vector<int> coordinates(grid.size());
  for (std::size_t i = grid.size(); i-- > 0;) {
    coordinates[i] = task % grid[i].degree;
    task /= grid[i].degree;
  }
  return coordinates;
}

int micro_count(const Sharding& sharding) {
  int n = 1;
  for (int m : sharding.micro) n *= m;
  return n;
}

std::vector<Range> task_ranges(const AxisTable& table, const Sharding& sharding, const TaskGrid& grid,
                               const std::vector<int>& coordinates, int micro) {
  std::vector<int> part(table.axes.size(), 0);
  for (std::size_t i = 0; i < grid.size(); ++i)
    if (grid[i].kind == GridDim::Kind::axis) part[static_cast<std::size_t>(grid[i].axis)] = coordinates[i];
  std::vector<Range> ranges(table.axes.size());
  for (std::size_t a = table.axes.size(); a-- > 0;) {
    std::int64_t pieces = static_cast<std::int64_t>(sharding.degrees[a]) * sharding.micro[a];
    std::int64_t index = static_cast<std::int64_t>(micro % sharding.micro[a]) * sharding.degrees[a] + part[a];
    micro /= sharding.micro[a];
    ranges[a] = part_of(table.axes[a].size, pieces, index);
  }
  return ranges;
}

int output_partial(const AxisTable& table, const TaskGrid& grid, const std::vector<int>& coordinates,
                   std::size_t output) {
  int index = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    bool summand = grid[i].kind == GridDim::Kind::passing ||
                   (grid[i].kind == GridDim::Kind::axis && !walks_axis(table, table.outputs[output], grid[i].axis));
    if (summand) index = index * grid[i].degree + coordinates[i];
  }
  return index;
}

int passing_partial(const TaskGrid& grid, const std::vector<int>& coordinates) {
  for (std::size_t i = 0; i < grid.size(); ++i)
    if (grid[i].kind == GridDim::Kind::passing) return coordinates[i];
  return 0;
}

int output_copy(const TaskGrid& grid, const std::vector<int>& coordinates) {
  for (std::size_t i = 0; i < grid.size(); ++i)
    if (grid[i].kind == GridDim::Kind::copies) return coordinates[i];
  return 0;
}

}  // namespace unity
