#include "core/ops/axes.h"

#include <algorithm>
#include <array>

namespace unity {
namespace {

std::int64_t minor_size(const AxisTable& table, const DimAxes& dim, int major) {
  std::int64_t size = 1;
  bool minor = false;
  for (int axis : dim.axes) {
    if (minor) size *= table.axes[static_cast<std::size_t>(axis)].size;
    if (axis == major) minor = true;
  }
  return size;
}

std::int64_t dim_size(const AxisTable& table, const DimAxes& dim) {
  if (dim.window) return dim.window_size;
  std::int64_t size = 1;
  for (int axis : dim.axes) size *= table.axes[static_cast<std::size_t>(axis)].size;
  return size;
}

}  // namespace

std::string_view to_string(AxisRole role) {
  constexpr std::array<std::string_view, 4> kNames = {"parallel", "reduction", "window", "whole"};
  return kNames[static_cast<std::size_t>(role)];
}

int split_axis(const AxisTable& table, const DimAxes& dim) {
  if (dim.axes.empty()) return -1;
  for (int axis : dim.axes)
    if (table.axes[static_cast<std::size_t>(axis)].size > 1) return axis;
  return dim.axes.back();
}

bool is_minor(const AxisTable& table, int axis) {
  auto minor_in = [&](const OperandAxes& operand) {
    return std::any_of(operand.dims.begin(), operand.dims.end(), [&](const DimAxes& dim) {
      return split_axis(table, dim) != axis && std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
    });
  };
  return std::any_of(table.inputs.begin(), table.inputs.end(), minor_in) ||
         std::any_of(table.outputs.begin(), table.outputs.end(), minor_in);
}

bool can_split(const AxisTable& table, int axis) {
  const Axis& a = table.axes[static_cast<std::size_t>(axis)];
  return a.role != AxisRole::whole && a.size > 1 && !is_minor(table, axis);
}

Shape operand_shape(const AxisTable& table, const OperandAxes& operand) {
  Shape shape{{}, operand.dtype};
  for (const DimAxes& dim : operand.dims) shape.dims.push_back(dim_size(table, dim));
  return shape;
}

std::vector<Range> full_ranges(const AxisTable& table) {
  std::vector<Range> ranges;
  for (const Axis& axis : table.axes) ranges.push_back({0, axis.size});
  return ranges;
}

Box operand_box(const AxisTable& table, const OperandAxes& operand, const std::vector<Range>& axes) {
  Box box;
  for (const DimAxes& dim : operand.dims) {
    int major = split_axis(table, dim);
    if (major < 0) {
      box.offset.push_back(0), box.extent.push_back(1);
      continue;
    }
    Range range = axes[static_cast<std::size_t>(major)];
    if (dim.window) {
      // The parts at the borders include what no window reads, so that all parts together cover the dimension.
      const Window& w = *dim.window;
      std::int64_t size = table.axes[static_cast<std::size_t>(major)].size;
      std::int64_t first = range.offset * w.stride - w.pad_before;
      std::int64_t last = (range.offset + range.extent - 1) * w.stride + (w.kernel - 1) * w.dilation - w.pad_before + 1;
      if (range.offset == 0) first = 0;
      if (range.offset + range.extent == size) last = dim.window_size;
      first = std::clamp<std::int64_t>(first, 0, dim.window_size);
      last = std::clamp<std::int64_t>(last, first, dim.window_size);
      box.offset.push_back(first), box.extent.push_back(last - first);
    } else {
      std::int64_t minor = minor_size(table, dim, major);
      box.offset.push_back(range.offset * minor), box.extent.push_back(range.extent * minor);
    }
  }
  return box;
}

Result<std::vector<Range>> axis_ranges(const AxisTable& table, const std::vector<const Box*>& inputs) {
  std::vector<Range> ranges = full_ranges(table);
  std::vector<bool> known(ranges.size(), false);
  for (std::size_t i = 0; i < inputs.size() && i < table.inputs.size(); ++i) {
    if (!inputs[i]) continue;
    for (std::size_t j = 0; j < table.inputs[i].dims.size(); ++j) {
      const DimAxes& dim = table.inputs[i].dims[j];
      int major = split_axis(table, dim);
      if (major < 0 || dim.window) continue;
      auto m = static_cast<std::size_t>(major);
      std::int64_t minor = minor_size(table, dim, major);
      Range r{inputs[i]->offset[j] / minor, inputs[i]->extent[j] / minor};
      if (r.offset * minor != inputs[i]->offset[j] || r.extent * minor != inputs[i]->extent[j])
        return fail("region {} of operand {} cuts a minor axis of dimension {}", to_string(*inputs[i]), i, j);
      if (known[m] && !(ranges[m] == r))
        return fail("axis {} has range [{}, +{}) in one operand and [{}, +{}) in operand {}", table.axes[m].name,
                    ranges[m].offset, ranges[m].extent, r.offset, r.extent, i);
      ranges[m] = r;
      known[m] = true;
    }
  }
  return ranges;
}

double flops(const AxisTable& table, const std::vector<Range>& axes) {
  double points = 1;
  if (table.flop_axes.empty()) {
    for (const Range& r : axes) points *= static_cast<double>(r.extent);
  } else {
    for (int a : table.flop_axes) points *= static_cast<double>(axes[static_cast<std::size_t>(a)].extent);
  }
  return points * table.flops_per_point;
}

}  // namespace unity
