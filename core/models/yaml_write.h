// Writing graphs as model files (see yaml_model.h for the form).
#pragma once

#include <string>

#include "core/graph/pcg.h"

namespace unity {

struct ModelFileText {
  std::string description;
  std::int64_t batch = 1;
  // The same graph at twice the batch: sizes that differ are written as multiples of the option `batch`. Null: all
  // sizes are fixed, but for dimension 0 of inputs.
  const Pcg* doubled = nullptr;
  std::string weights_file;  // relative to the model file; empty: none
};

// Error unless the graphs differ only in whole numbers that are multiples of `batch` in the first and twice as large in
// the second.
Result<void> scales_with_batch(const Pcg& once, const Pcg& twice, std::int64_t batch);

// The model file of a forward graph without parallelism. Labels stay where they are unique.
std::string write_model(const Pcg& pcg, const ModelFileText& text);

}  // namespace unity
