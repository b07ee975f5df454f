// Attributes of an operator: the constants in its text form. They stand in the order of the operator's specification.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/integers.h"

namespace unity {

using AttributeValue = std::variant<std::int64_t, double, Integers, std::string>;
using Attributes = std::vector<AttributeValue>;

enum class AttributeKind : std::uint8_t { integer, real, integers, text };

// Required attributes come first and are written by position; optional ones follow the operands as name=value when they
// differ from their default:  softmax(x)   transpose([0, 2, 1], x)   matmul(x, w, activation="relu").
struct AttributeSpec {
  std::string name;
  AttributeKind kind = AttributeKind::integer;
  bool required = true;
  AttributeValue fallback = std::int64_t{0};
};

std::string to_string(const AttributeValue& value);  // 2   0.5   [1, 2]   "relu"
Hash hash_attributes(const Attributes& attributes);

inline std::int64_t int_attribute(const Attributes& a, std::size_t i) { return std::get<std::int64_t>(a.at(i)); }
inline double real_attribute(const Attributes& a, std::size_t i) { return std::get<double>(a.at(i)); }
inline const Integers& ints_attribute(const Attributes& a, std::size_t i) { return std::get<Integers>(a.at(i)); }
inline const std::string& text_attribute(const Attributes& a, std::size_t i) { return std::get<std::string>(a.at(i)); }

// The given values followed by the defaults of the attributes that were left out. Error on wrong kinds or too many.
Result<Attributes> complete_attributes(std::string_view op, const std::vector<AttributeSpec>& specs, Attributes given);

}  // namespace unity
