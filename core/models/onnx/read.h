// Reading .onnx files.
#pragma once

#include <string>

#include "core/models/onnx/graph.h"

namespace unity {

inline constexpr std::int64_t kOldestOpset = 9, kNewestOpset = 20;

// The model of a file, with its external data (which must lie in the model's folder). InputError "file: subject:
// found, expected": not ONNX, truncated, an opset out of range, missing or short external data, an element type that
// Unity lacks, a tensor whose data do not fit its shape.
OnnxGraph read_onnx(const std::string& path);

}  // namespace unity
