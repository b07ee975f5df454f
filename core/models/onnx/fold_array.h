// For fold*.cpp only: the arrays that folding computes with, and the evaluators that move elements.
#pragma once

#include "core/base/error.h"
#include "core/models/onnx/fold.h"
#include "core/ops/reference.h"

namespace unity::folding {

inline constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  // of one constant: a mask of 4096 x 4096

// The whole number nearest to zero, of those that fit; 0 for what is no number.
inline std::int64_t whole(double v) {
  return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : v == v ? static_cast<std::int64_t>(v) : 0;
}

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
        t.integers.push_back(whole(v));
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
  // The first element of an operand that has one.
  double first(std::size_t i) const {
    Array x = in(i);
    if (x.values.empty()) throw_input_error("operand {} is empty, expected one number", i);
    return x.values[0];
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
    for (double v : in(operand).values) values.push_back(whole(v));
    return values;
  }
};

inline Array with_dims(Array x, Dims dims) {
  x.dims = std::move(dims);
  return x;
}

// result[i] = x[source(index i)]
template <class F>
Array gather_from(const Array& x, Dims dims, F&& source) {
  Array r(std::move(dims), x.integral);
  for_each_index(r.dims, [&](const Dims& index, std::int64_t i) {
    r.values[static_cast<std::size_t>(i)] = x.values[static_cast<std::size_t>(source(index))];
  });
  return r;
}

inline std::int64_t broadcast_source(const Dims& operand, const Dims& index) {
  std::int64_t p = 0;
  std::size_t missing = index.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) p = p * operand[d] + (operand[d] == 1 ? 0 : index[missing + d]);
  return p;
}

inline Array broadcast(const Array& x, const Dims& dims) {
  return gather_from(x, dims, [&](const Dims& index) { return broadcast_source(x.dims, index); });
}

Array gather(const Call& c);
Array concat(const Call& c);
Array unsqueeze(const Call& c);
Array squeeze(const Call& c);
Array reshape(const Call& c);
Array slice(const Call& c);
Array range(const Call& c);
Array expand(const Call& c);
Array transpose(const Call& c);
Array triangle(const Call& c);

}  // namespace unity::folding
