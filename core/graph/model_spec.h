// How a model was asked for, so that the same one can be made again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace unity {

struct ModelSpec {
  std::string name;  // built-in name, or path of a model file
  std::map<std::string, std::int64_t>
      options;  // "batch" (global), "seq-len", "layers", ...; absent: the model's default
  bool operator==(const ModelSpec&) const = default;
};

}  // namespace unity
