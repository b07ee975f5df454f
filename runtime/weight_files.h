// Safetensors files with a tensor for each weight, by its name.
#pragma once

#include <string>

#include "runtime/executor.h"

namespace unity {

// Sets what training starts from: each weight from the tensor of its name, and each state that the file has (others
// start as their `init` says). InputError when a weight is missing in the safetensors file or of another shape.
void set_initial_values(Executor& executor, const Program& program, const std::string& path);

// Writes the gradient of each trained weight in the step just done, in the precision of the run. The executor must not
// share memory between buffers, or they are gone by now. InputError when the file cannot be written.
void save_gradients(const Executor& executor, const Program& program, const std::string& path);

}  // namespace unity
