#include "core/verify/shape_facts.h"

#include <algorithm>

namespace unity {
namespace {

// The axis that a dimension walks alone, but for axes of one element; -1: none, or several.
int sole_axis(const AxisTable& table, const DimAxes& dim) {
  auto larger = [&](int axis) { return table.axes[static_cast<std::size_t>(axis)].size > 1; };
  bool sole = !dim.window && (dim.axes.size() == 1 || std::count_if(dim.axes.begin(), dim.axes.end(), larger) <= 1);
  return sole ? split_axis(table, dim) : -1;
}

class Finder {
 public:
  Finder(const Operator& op, const Attributes& attributes, std::span<const Shape> inputs, const AxisTable& table)
      : op_(op), attributes_(attributes), inputs_(inputs.begin(), inputs.end()), table_(table) {}

  ShapeFacts run() {
    ShapeFacts facts;
    std::vector<std::vector<OperandDim>> walkers(table_.axes.size());
    for (std::size_t i = 0; i < table_.inputs.size(); ++i)
      for (std::size_t j = 0; j < table_.inputs[i].dims.size(); ++j) {
        const DimAxes& dim = table_.inputs[i].dims[j];
        OperandDim at{static_cast<int>(i), static_cast<int>(j)};
        if (dim.axes.empty()) facts.ones.push_back(at);
        if (int axis = sole_axis(table_, dim); axis >= 0) walkers[static_cast<std::size_t>(axis)].push_back(at);
      }
    for (const auto& dims : walkers)
      for (std::size_t k = 1; k < dims.size(); ++k)
        (always_equal(dims[0], dims[k]) ? facts.required : facts.aligned).emplace_back(dims[0], dims[k]);
    for (std::size_t o = 0; o < table_.outputs.size(); ++o) {
      facts.outputs.emplace_back();
      for (std::size_t j = 0; j < table_.outputs[o].dims.size(); ++j)
        facts.outputs.back().push_back(source(o, j, walkers));
    }
    return facts;
  }

 private:
  std::int64_t& size(std::vector<Shape>& shapes, OperandDim at) const {
    return shapes[static_cast<std::size_t>(at.operand)].dims[static_cast<std::size_t>(at.dim)];
  }

  // No call that differs in one of the two sizes is well-typed.
  bool always_equal(OperandDim a, OperandDim b) const {
    for (OperandDim changed : {a, b})
      for (std::int64_t other : {std::int64_t{1}, size_at(changed) + 1, 2 * size_at(changed)}) {
        if (other == size_at(changed)) continue;
        std::vector<Shape> shapes = inputs_;
        size(shapes, changed) = other;
        if (op_.axes(attributes_, shapes).ok()) return false;
      }
    return true;
  }
  std::int64_t size_at(OperandDim at) const {
    return inputs_[static_cast<std::size_t>(at.operand)].dims[static_cast<std::size_t>(at.dim)];
  }

  SizeSource source(std::size_t o, std::size_t j, const std::vector<std::vector<OperandDim>>& walkers) const {
    const DimAxes& dim = table_.outputs[o].dims[j];
    // First what the attributes say: the same list with other operands (a reshape) walks other axes.
    for (std::size_t a = 0; a < attributes_.size(); ++a)
      for (bool by_output : {false, true}) {
        std::size_t index = by_output ? o : j;
        if (is_element(a, index, o, j, by_output))
          return {SizeSource::Kind::element, {}, static_cast<int>(a), static_cast<int>(index)};
      }
    if (dim.axes.empty()) return {SizeSource::Kind::one};
    if (int axis = sole_axis(table_, dim); axis >= 0 && !walkers[static_cast<std::size_t>(axis)].empty())
      return {SizeSource::Kind::operand, {walkers[static_cast<std::size_t>(axis)][0]}};
    // A dimension of the same axes as one of an operand.
    for (std::size_t i = 0; i < table_.inputs.size(); ++i)
      for (std::size_t k = 0; k < table_.inputs[i].dims.size(); ++k)
        if (table_.inputs[i].dims[k].axes == dim.axes && !table_.inputs[i].dims[k].window && !dim.window)
          return {SizeSource::Kind::operand, {{static_cast<int>(i), static_cast<int>(k)}}};
    if (is_sum(o, j)) {
      SizeSource sum{SizeSource::Kind::sum};
      for (std::size_t i = 0; i < inputs_.size(); ++i) sum.dims.push_back({static_cast<int>(i), static_cast<int>(j)});
      return sum;
    }
    return {};
  }

  bool is_sum(std::size_t o, std::size_t j) const {
    std::size_t rank = table_.outputs[o].dims.size();
    std::int64_t total = 0;
    for (const Shape& in : inputs_) {
      if (in.dims.size() != rank) return false;
      total += in.dims[j];
    }
    if (inputs_.size() < 2 || total != operand_shape(table_, table_.outputs[o]).dims[j]) return false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<Shape> shapes = inputs_;
      shapes[i].dims[j] *= 2;
      auto table = op_.axes(attributes_, shapes);
      if (!table.ok() || operand_shape(*table, table->outputs[o]).dims[j] != total + inputs_[i].dims[j]) return false;
    }
    return true;
  }

  static bool element_is(const Attributes& attributes, const AxisTable& table, std::size_t a, std::size_t index,
                         std::size_t o, std::size_t j) {
    const auto* list = a < attributes.size() ? std::get_if<Integers>(&attributes[a]) : nullptr;
    return list && index < list->size() && o < table.outputs.size() && j < table.outputs[o].dims.size() &&
           (*list)[index] == operand_shape(table, table.outputs[o]).dims[j];
  }

  // Here and in all of the operator's examples: for a dimension of the same place (a reshape), or, of an element for
  // each result, for the dimension that the operator splits.
  // Not by chance: also where an operand's size is another one.
  bool is_element(std::size_t a, std::size_t index, std::size_t o, std::size_t j, bool by_output) const {
    if (!element_is(attributes_, table_, a, index, o, j)) return false;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      for (std::size_t d = 0; d < inputs_[i].dims.size(); ++d)
        for (std::int64_t other : {inputs_[i].dims[d] + 1, 2 * inputs_[i].dims[d]}) {
          std::vector<Shape> shapes = inputs_;
          shapes[i].dims[d] = other;
          auto table = op_.axes(attributes_, shapes);
          if (table.ok() && !element_is(attributes_, *table, a, index, o, j)) return false;
        }
    const auto& list = std::get<Integers>(attributes_[a]);
    if (by_output ? list.size() != table_.outputs.size() : list.size() != table_.outputs[o].dims.size()) return false;
    int checked = 0;
    for (const Example& e : op_.examples()) {
      Attributes attributes = complete_attributes(op_.name(), op_.attributes(), e.attributes).value();
      auto table = op_.axes(attributes, e.inputs);
      if (!table.ok()) continue;
      const auto& elements = std::get<Integers>(attributes[a]);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        bool fits = false;
        if (!by_output) fits = element_is(attributes, *table, a, i, 0, i);
        for (std::size_t d = 0; by_output && i < table->outputs.size() && d < table->outputs[i].dims.size(); ++d)
          fits = fits || element_is(attributes, *table, a, i, i, d);
        if (!fits) return false;
      }
      ++checked;
    }
    return checked > 1;
  }

  const Operator& op_;
  const Attributes& attributes_;
  std::vector<Shape> inputs_;
  const AxisTable& table_;
};

}  // namespace

ShapeFacts shape_facts(const Operator& op, const Attributes& attributes, std::span<const Shape> inputs,
                       const AxisTable& table) {
  return Finder(op, attributes, inputs, table).run();
}

}  // namespace unity
