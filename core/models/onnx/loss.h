// What trains an imported model: a loss over its first output.
#pragma once

#include <string>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

// cross_entropy, mean_squared_error, binary_cross_entropy; "none" appends nothing.
const std::vector<std::string>& onnx_losses();

// Appends the loss, with an input `labels` for its second operand, and makes it the first output. Where the first
// output is a softmax (or its logarithm; for binary_cross_entropy a sigmoid), the loss takes the logits below it.
// InputError when the output does not suit the loss or the name is taken.
void append_onnx_loss(Pcg& pcg, const std::string& loss, const std::string& labels);

}  // namespace unity
