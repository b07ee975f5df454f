// Reads typed fields of a JSON object, naming file and place of what is missing or of another type. Only for sources:
// it brings in the whole JSON library.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/text.h"

namespace unity {

class JsonReader {
 public:
  using json = nlohmann::json;

  JsonReader(const json& object, std::string file, std::string place)
      : object_(object), file_(std::move(file)), place_(std::move(place)) {
    if (!object.is_object())
      throw_input_error("{}: {}: found {}, expected an object", file_, place_, object.type_name());
  }
  bool has(const char* key) const { return object_.contains(key); }
  const json& at(const char* key) const {
    auto it = object_.find(key);
    if (it == object_.end()) throw_input_error("{}: {}: key '{}' is missing", file_, place_, key);
    return *it;
  }
  // Whole numbers are written as such and fit their type.
  template <class T>
  T get(const char* key) const {
    const json& value = at(key);
    try {
      check_whole<T>(value);
      return value.get<T>();
    } catch (const json::exception&) {
      throw_input_error("{}: {}.{}: found {}, expected another type", file_, place_, key, value.dump().substr(0, 60));
    }
  }
  template <class T>
  T get_or(const char* key, T otherwise) const {
    return object_.contains(key) ? get<T>(key) : otherwise;
  }
  // Numbers that are never negative.
  template <class T>
  T get_from_zero(const char* key) const {
    const T value = get<T>(key);
    if (!(value >= 0)) throw_input_error("{}: {}.{}: found {}, expected at least 0", file_, place_, key, value);
    return value;
  }
  // Its elements; else an object would pass for the list of its values, and null for an empty one.
  const json& list(const char* key) const {
    const json& value = at(key);
    if (!value.is_array())
      throw_input_error("{}: {}.{}: found {}, expected a list", file_, place_, key, value.type_name());
    return value;
  }
  // A key that none reads is a mistake in writing one that is.
  void expect_only(const std::vector<std::string>& keys) const {
    for (const auto& [key, value] : object_.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        throw_input_error("{}: {}: unknown key '{}'{}", file_, place_, key, suggestion(key, keys));
  }
  JsonReader child(const char* key) const { return {at(key), file_, place_ + "." + key}; }

 private:
  // The library would cast 1e300, or 2^40, to any integer. Throws json::exception.
  template <class T>
  static void check_whole(const json& value) {
    if constexpr (requires { typename T::mapped_type; }) {
      if (value.is_object())
        for (const json& v : value) check_whole<typename T::mapped_type>(v);
    } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
      if (value.is_array())
        for (const json& v : value) check_whole<typename T::value_type>(v);
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<std::uint64_t>())
                  : value.is_number_integer() ? std::in_range<T>(value.get<std::int64_t>())
                                              : false;
      if (!fits) throw json::type_error::create(302, "no whole number of this type", &value);
    }
  }

  const json& object_;
  std::string file_, place_;
};

}  // namespace unity
