// Reads typed fields of a JSON object, naming file and place of what is missing or of another type. Only for sources:
// it brings in the whole JSON library.
#pragma once

#include <algorithm>
#include <string>
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
  template <class T>
  T get(const char* key) const {
    const json& value = at(key);
    try {
      return value.get<T>();
    } catch (const json::exception&) {
      throw_input_error("{}: {}.{}: found {}, expected another type", file_, place_, key, value.dump().substr(0, 60));
    }
  }
  template <class T>
  T get_or(const char* key, T otherwise) const {
    return object_.contains(key) ? get<T>(key) : otherwise;
  }
  // A key that none reads is a mistake in writing one that is.
  void expect_only(const std::vector<std::string>& keys) const {
    for (const auto& [key, value] : object_.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        throw_input_error("{}: {}: unknown key '{}'{}", file_, place_, key, suggestion(key, keys));
  }
  JsonReader child(const char* key) const { return {at(key), file_, place_ + "." + key}; }

 private:
  const json& object_;
  std::string file_, place_;
};

}  // namespace unity
