// oneDNN's convolutions, with the threads that OpenMP gives to the caller. For convolution sources only; see dnn.h for
// the arguments.
#pragma once

#include "runtime/cpu/dnn.h"

namespace unity::cpu {

void primitive_forward(const ConvGeometry& g, const float* x, const float* w, float* y);
void primitive_input_gradient(const ConvGeometry& g, const float* dy, const float* w, float* dx);
void primitive_weight_gradient(const ConvGeometry& g, const float* x, const float* dy, float* dw);

}  // namespace unity::cpu
