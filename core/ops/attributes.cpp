#include "core/ops/attributes.h"

#include <algorithm>
#include <array>

namespace unity {

std::string to_string(const AttributeValue& value) {
  struct Printer {
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const {
      std::string text = fmt::format("{}", v);
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const Integers& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
    std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
  };
  return std::visit(Printer(), value);
}

Hash hash_attributes(const Attributes& attributes) {
  struct Hasher {
    Hash operator()(std::int64_t v) const { return mix(static_cast<Hash>(v)); }
    Hash operator()(double v) const { return hash_number(v); }
    Hash operator()(const Integers& v) const {
      Hash h = mix(v.size());
      for (std::int64_t x : v) h = combine(h, static_cast<Hash>(x));
      return h;
    }
    Hash operator()(const std::string& v) const { return hash_text(v); }
  };
  Hash h = mix(attributes.size());
  for (const AttributeValue& a : attributes) h = combine(h, std::visit(Hasher(), a));
  return h;
}

Result<Attributes> complete_attributes(std::string_view op, const std::vector<AttributeSpec>& specs, Attributes given) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 53;
  constexpr std::array<std::string_view, 4> kKinds = {"an integer", "a real number", "a list of integers", "a text"};
  if (given.size() > specs.size())
    return fail("{}: found {} attributes, expected at most {}", op, given.size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (i >= given.size()) {
      if (specs[i].required) return fail("{}: attribute '{}' is missing", op, specs[i].name);
      given.push_back(specs[i].fallback);
    }
    if (specs[i].kind == AttributeKind::real && given[i].index() == 0)
      given[i] = static_cast<double>(std::get<0>(given[i]));
    if (given[i].index() != static_cast<std::size_t>(specs[i].kind))
      return fail("{}: attribute '{}' is {}, expected {}", op, specs[i].name, to_string(given[i]),
                  kKinds[static_cast<std::size_t>(specs[i].kind)]);
    // Sizes are added and multiplied with one another.
    auto fits = [](std::int64_t v) { return v >= -kLargest && v <= kLargest; };
    const auto* integer = std::get_if<std::int64_t>(&given[i]);
    const auto* integers = std::get_if<Integers>(&given[i]);
    if ((integer && !fits(*integer)) || (integers && !std::all_of(integers->begin(), integers->end(), fits)))
      return fail("{}: attribute '{}' is {}, expected numbers of at most 2^53", op, specs[i].name, to_string(given[i]));
  }
  return given;
}

}  // namespace unity
