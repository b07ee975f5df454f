// For loaders only: each file format has two functions, declared here from its line in loaders.def.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/source.h"

namespace unity {

// suits_X: whether an existing path is of format X, judged by its kind, name or first bytes.
// open_X: its rows; `test` is null where the format has no test rows of its own.
#define UNITY_DATA_LOADER(format, takes)        \
  bool suits_##format(const std::string& path); \
  DataSplit open_##format(const std::string& path, const std::vector<ModelInput>& inputs);
#include "runtime/data/loaders.def"
#undef UNITY_DATA_LOADER

// The digits that come with Unity.
DataSplit open_digits();

// The path ends in `ending`, in lower or upper case.
bool has_ending(const std::string& path, std::string_view ending);

}  // namespace unity
