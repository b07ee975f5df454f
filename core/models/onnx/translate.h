// From an ONNX graph to a graph of Unity's operators, one node after the other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/graph/pcg.h"
#include "core/models/onnx/graph.h"

namespace unity {

struct OnnxTranslateOptions {
  std::map<std::string, std::int64_t> dims;  // sizes of dynamic dimensions
  std::string loss = "none";                 // what is appended over the first output: an operator, or "none"
  std::string labels = "labels";             // the name of the loss's second input, which is added
  // Dimension 0 of inputs that have `first` there becomes `second`.
  std::optional<std::pair<std::int64_t, std::int64_t>> batch;
};

struct OnnxTranslated {
  Pcg pcg;                                      // outputs: the loss, if there is one, then those of the file
  std::map<std::string, OnnxTensorRef> values;  // initial values, by leaf
};

// InputError naming the file: dynamic dimensions without a size (all of them), names of dimensions that don't occur,
// operators that Unity lacks (all, with their number), operands that don't fit.
OnnxTranslated translate_onnx(const OnnxGraph& graph, const OnnxTranslateOptions& options);

}  // namespace unity
