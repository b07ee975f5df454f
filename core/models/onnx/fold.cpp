#include "core/models/onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/ops/reference.h"

namespace unity {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 26;

// Tensors are evaluated in double, which holds shapes and indices exactly.
struct Array {
  Dims dims;
  bool integral = false;
  std::vector<double> values;

  Array() = default;
  Array(Dims d, bool whole) : dims(std::move(d)), integral(whole) {
    std::int64_t elements = 1;
    for (std::int64_t size : dims)
      if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) elements = INT64_MAX;
    if (elements > kMostElements)
      throw_input_error("found a constant of shape [{}], expected at most {} elements", fmt::join(dims, ", "),
                        kMostElements);
    values.resize(static_cast<std::size_t>(elements));
  }
  explicit Array(const OnnxTensor& t) : Array(t.dims, t.integral) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = t.number(static_cast<std::int64_t>(i));
  }
  OnnxTensorRef tensor() const {
    OnnxTensor t{dims, integral, {}, {}};
    for (double v : values)
      if (integral)
        t.integers.push_back(v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : static_cast<std::int64_t>(v));
      else
        t.reals.push_back(static_cast<float>(v));
    return std::make_shared<const OnnxTensor>(std::move(t));
  }
};

// What an operator sees of its node.
struct Call {
  const OnnxNode& node;
  const std::vector<OnnxTensorRef>& tensors;
  std::int64_t opset;

  bool has(std::size_t i) const { return i < tensors.size() && tensors[i]; }
  Array in(std::size_t i) const {
    if (!has(i)) throw_input_error("operand {} is missing", i);
    return Array(*tensors[i]);
  }
  template <class T>
  T attribute(const std::string& name, T fallback) const {
    auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return fallback;
    const T* value = std::get_if<T>(&found->second);
    return value ? *value : fallback;
  }
  // An operand or, in older opsets, an attribute of whole numbers.
  Dims integers(std::size_t operand, const std::string& name, Dims fallback) const {
    if (!has(operand)) return attribute<Dims>(name, std::move(fallback));
    if (tensors[operand]->integral) return tensors[operand]->integers;
    Dims values;
    for (double v : in(operand).values) values.push_back(static_cast<std::int64_t>(v));
    return values;
  }
};

using Rule = std::function<Array(const Call&)>;

// result[i] = x[source(index i)]
template <class F>
Array gather_from(const Array& x, Dims dims, F&& source) {
  Array r(std::move(dims), x.integral);
  for_each_index(r.dims, [&](const Dims& index, std::int64_t i) {
    r.values[static_cast<std::size_t>(i)] = x.values[static_cast<std::size_t>(source(index))];
  });
  return r;
}

std::int64_t broadcast_source(const Dims& operand, const Dims& index) {
  std::int64_t p = 0;
  std::size_t missing = index.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) p = p * operand[d] + (operand[d] == 1 ? 0 : index[missing + d]);
  return p;
}

Array broadcast(const Array& x, const Dims& dims) {
  return gather_from(x, dims, [&](const Dims& index) { return broadcast_source(x.dims, index); });
}

enum class Kind : std::uint8_t { as_operands, truth };

Rule binary(Kind kind, double (*f)(double, double, bool)) {
  return [kind, f](const Call& c) {
    Array r = c.in(0);
    for (std::size_t k = 1; k < std::max<std::size_t>(2, c.tensors.size()); ++k) {
      Array y = c.in(k);
      Dims dims = broadcast_dims(r.dims, y.dims);
      Array a = broadcast(r, dims), b = broadcast(y, dims);
      for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] = f(a.values[i], b.values[i], a.integral);
      a.integral |= kind == Kind::truth;
      r = std::move(a);
    }
    return r;
  };
}

Rule unary(double (*f)(double)) {
  return [f](const Call& c) {
    Array x = c.in(0);
    std::transform(x.values.begin(), x.values.end(), x.values.begin(), f);
    return x;
  };
}

Array constant(const Call& c) {
  for (const auto& [name, value] : c.node.attributes) {
    if (auto t = std::get_if<OnnxTensorRef>(&value)) return Array(**t);
    Array r;
    if (auto integer = std::get_if<std::int64_t>(&value)) {
      r = Array({}, true);
      r.values[0] = static_cast<double>(*integer);
    } else if (auto real = std::get_if<double>(&value)) {
      r = Array({}, false);
      r.values[0] = *real;
    } else if (auto integers = std::get_if<Dims>(&value)) {
      r = Array({static_cast<std::int64_t>(integers->size())}, true);
      r.values.assign(integers->begin(), integers->end());
    } else if (auto reals = std::get_if<std::vector<double>>(&value)) {
      r = Array({static_cast<std::int64_t>(reals->size())}, false);
      r.values = *reals;
    } else {
      continue;
    }
    return r;
  }
  throw_input_error("found no value of numbers");
}

Array constant_of_shape(const Call& c) {
  OnnxTensorRef value = c.attribute<OnnxTensorRef>("value", nullptr);
  Array r(c.integers(0, "", {}), value && value->integral);
  std::fill(r.values.begin(), r.values.end(), value && value->elements() > 0 ? value->number(0) : 0.0);
  return r;
}

Array cast(const Call& c) {
  Array x = c.in(0);
  std::int64_t to = c.attribute<std::int64_t>("to", 1);
  x.integral = to != 1 && to != 10 && to != 11 && to != 16;  // FLOAT, FLOAT16, DOUBLE, BFLOAT16
  for (double& v : x.values)
    if (to == 9)  // BOOL
      v = v != 0;
    else if (x.integral)
      v = std::trunc(v);
  return x;
}

Array gather(const Call& c) {
  Array x = c.in(0), indices = c.in(1);
  std::size_t axis = normal_axis(c.attribute<std::int64_t>("axis", 0), x.dims.size());
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  return gather_from(x, dims, [&](const Dims& index) {
    auto first = index.begin() + static_cast<std::ptrdiff_t>(axis);
    auto last = first + static_cast<std::ptrdiff_t>(indices.dims.size());
    auto i =
        static_cast<std::int64_t>(indices.values[static_cast<std::size_t>(position(indices.dims, Dims(first, last)))]);
    i += i < 0 ? x.dims[axis] : 0;
    if (i < 0 || i >= x.dims[axis]) throw_input_error("found index {}, expected below {}", i, x.dims[axis]);
    Dims from(index.begin(), first);
    from.push_back(i);
    from.insert(from.end(), last, index.end());
    return position(x.dims, from);
  });
}

Array concat(const Call& c) {
  Array r = c.in(0);
  std::size_t axis = normal_axis(c.attribute<std::int64_t>("axis", 0), r.dims.size());
  for (std::size_t k = 1; k < c.tensors.size(); ++k) {
    Array y = c.in(k);
    Dims dims = r.dims;
    if (y.dims.size() != dims.size()) throw_input_error("found operands of different ranks");
    dims[axis] += y.dims[axis];
    std::int64_t before = r.dims[axis];
    Array joined(dims, r.integral && y.integral);
    for_each_index(dims, [&](const Dims& index, std::int64_t i) {
      Dims from = index;
      bool first = index[axis] < before;
      if (!first) from[axis] -= before;
      const Array& source = first ? r : y;
      joined.values[static_cast<std::size_t>(i)] =
          source.values.at(static_cast<std::size_t>(position(source.dims, from)));
    });
    r = std::move(joined);
  }
  return r;
}

Array with_dims(Array x, Dims dims) {
  x.dims = std::move(dims);
  return x;
}

Array unsqueeze(const Call& c) {
  Array x = c.in(0);
  Dims axes = c.integers(1, "axes", {});
  std::size_t rank = x.dims.size() + axes.size();
  Dims dims(rank, 0);
  for (std::int64_t axis : axes) dims[normal_axis(axis, rank)] = 1;
  auto next = x.dims.begin();
  for (std::int64_t& d : dims)
    if (d == 0) d = next == x.dims.end() ? throw InputError("found an axis twice") : *next++;
  return with_dims(std::move(x), dims);
}

Array squeeze(const Call& c) {
  Array x = c.in(0);
  std::vector<bool> drop(x.dims.size());
  Dims axes = c.integers(1, "axes", {}), dims;
  for (std::int64_t axis : axes) drop[normal_axis(axis, drop.size())] = true;
  for (std::size_t d = 0; d < drop.size(); ++d)
    if (axes.empty() ? x.dims[d] != 1 : !drop[d]) dims.push_back(x.dims[d]);
  if (element_count(dims) != element_count(x.dims)) throw_input_error("found an axis whose size is not 1");
  return with_dims(std::move(x), dims);
}

Array reshape(const Call& c) {
  Array x = c.in(0);
  Dims dims = reshape_dims(x.dims, c.integers(1, "shape", {}), c.attribute<std::int64_t>("allowzero", 0) != 0);
  return with_dims(std::move(x), dims);
}

Array slice(const Call& c) {
  Array x = c.in(0);
  Dims starts = c.integers(1, "starts", {}), ends = c.integers(2, "ends", {}), axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.integers(3, "axes", axes);
  Dims steps = c.integers(4, "steps", Dims(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw_input_error("found starts, ends, axes and steps of different lengths");
  std::vector<SliceRange> ranges;
  for (std::int64_t d : x.dims) ranges.push_back({0, d, 1});
  for (std::size_t i = 0; i < starts.size(); ++i) {
    std::size_t axis = normal_axis(axes[i], x.dims.size());
    ranges[axis] = slice_range(starts[i], ends[i], steps[i], x.dims[axis]);
  }
  Dims dims;
  for (const SliceRange& r : ranges) dims.push_back(r.count);
  return gather_from(x, dims, [&](Dims index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] = ranges[d].start + index[d] * ranges[d].step;
    return position(x.dims, index);
  });
}

Array range(const Call& c) {
  Array start = c.in(0), limit = c.in(1), step = c.in(2);
  if (step.values.at(0) == 0) throw_input_error("found step 0, expected another");
  double n = std::max(0.0, std::ceil((limit.values.at(0) - start.values.at(0)) / step.values[0]));
  if (!(n <= static_cast<double>(kMostElements))) throw_input_error("found a range of {} elements", n);
  Array r({static_cast<std::int64_t>(n)}, start.integral);
  for (std::size_t i = 0; i < r.values.size(); ++i)
    r.values[i] = start.values[0] + static_cast<double>(i) * step.values[0];
  return r;
}

Array expand(const Call& c) {
  Array x = c.in(0);
  return broadcast(x, broadcast_dims(x.dims, c.integers(1, "", {})));
}

Array transpose(const Call& c) {
  Array x = c.in(0);
  Dims order(x.dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = c.attribute<Dims>("perm", order);
  Dims dims;
  for (std::int64_t d : order) dims.push_back(x.dims.at(static_cast<std::size_t>(d)));
  return gather_from(x, dims, [&](const Dims& index) {
    Dims from(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) from[static_cast<std::size_t>(order[d])] = index[d];
    return position(x.dims, from);
  });
}

Array where(const Call& c) {
  Array condition = c.in(0), x = c.in(1), y = c.in(2);
  Dims dims = broadcast_dims(condition.dims, broadcast_dims(x.dims, y.dims));
  condition = broadcast(condition, dims), x = broadcast(x, dims), y = broadcast(y, dims);
  for (std::size_t i = 0; i < x.values.size(); ++i)
    if (condition.values[i] == 0) x.values[i] = y.values[i];
  return x;
}

// The upper or lower triangle of the last two dimensions; the rest is 0.
Array triangle(const Call& c) {
  Array x = c.in(0);
  std::int64_t k = c.has(1) ? static_cast<std::int64_t>(c.in(1).values.at(0)) : 0;
  bool upper = c.attribute<std::int64_t>("upper", 1) != 0;
  if (x.dims.size() < 2) throw_input_error("found {} dimensions, expected at least 2", x.dims.size());
  for_each_index(x.dims, [&](const Dims& index, std::int64_t i) {
    std::int64_t above = index.back() - index[index.size() - 2];
    if (upper ? above < k : above > k) x.values[static_cast<std::size_t>(i)] = 0;
  });
  return x;
}

Array product(const Call& c) {
  Array x = c.in(0), r({}, x.integral);
  if (x.dims.size() != 1) throw_input_error("found a constant of {} dimensions, expected 1", x.dims.size());
  r.values[0] = std::accumulate(x.values.begin(), x.values.end(), 1.0, std::multiplies<>());
  return c.attribute<std::int64_t>("keepdims", 1) ? with_dims(std::move(r), {1}) : r;
}

double divided(double a, double b, bool integral) {
  if (integral && b == 0) throw_input_error("found a division by 0");
  return integral ? std::trunc(a / b) : a / b;
}
double remainder(double a, double b, bool) {
  if (b == 0) throw_input_error("found a division by 0");
  return a - b * std::floor(a / b);
}

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> table = {
      {"Abs", unary([](double x) { return std::abs(x); })},
      {"Add", binary(Kind::as_operands, [](double a, double b, bool) { return a + b; })},
      {"And", binary(Kind::truth, [](double a, double b, bool) { return double(a != 0 && b != 0); })},
      {"Cast", cast},
      {"Ceil", unary([](double x) { return std::ceil(x); })},
      {"Concat", concat},
      {"Constant", constant},
      {"ConstantOfShape", constant_of_shape},
      {"Div", binary(Kind::as_operands, divided)},
      {"Equal", binary(Kind::truth, [](double a, double b, bool) { return double(a == b); })},
      {"Exp", unary([](double x) { return std::exp(x); })},
      {"Expand", expand},
      {"Floor", unary([](double x) { return std::floor(x); })},
      {"Gather", gather},
      {"Greater", binary(Kind::truth, [](double a, double b, bool) { return double(a > b); })},
      {"GreaterOrEqual", binary(Kind::truth, [](double a, double b, bool) { return double(a >= b); })},
      {"Identity", [](const Call& c) { return c.in(0); }},
      {"Less", binary(Kind::truth, [](double a, double b, bool) { return double(a < b); })},
      {"LessOrEqual", binary(Kind::truth, [](double a, double b, bool) { return double(a <= b); })},
      {"Log", unary([](double x) { return std::log(x); })},
      {"Max", binary(Kind::as_operands, [](double a, double b, bool) { return std::max(a, b); })},
      {"Min", binary(Kind::as_operands, [](double a, double b, bool) { return std::min(a, b); })},
      {"Mod", binary(Kind::as_operands, remainder)},
      {"Mul", binary(Kind::as_operands, [](double a, double b, bool) { return a * b; })},
      {"Neg", unary([](double x) { return -x; })},
      {"Not", unary([](double x) { return double(x == 0); })},
      {"Or", binary(Kind::truth, [](double a, double b, bool) { return double(a != 0 || b != 0); })},
      {"Pow", binary(Kind::as_operands, [](double a, double b, bool) { return std::pow(a, b); })},
      {"Range", range},
      {"ReduceProd", product},
      {"Reshape", reshape},
      {"Slice", slice},
      {"Sqrt", unary([](double x) { return std::sqrt(x); })},
      {"Squeeze", squeeze},
      {"Sub", binary(Kind::as_operands, [](double a, double b, bool) { return a - b; })},
      {"Transpose", transpose},
      {"Trilu", triangle},
      {"Unsqueeze", unsqueeze},
      {"Where", where},
  };
  return table;
}

}  // namespace

std::optional<std::vector<OnnxTensorRef>> fold(const OnnxNode& node, const std::vector<OnnxTensorRef>& inputs,
                                               std::int64_t opset) {
  auto found = rules().find(node.op);
  if (found == rules().end() || !node.domain.empty()) return std::nullopt;
  return std::vector<OnnxTensorRef>{found->second(Call{node, inputs, opset}).tensor()};
}

}  // namespace unity
