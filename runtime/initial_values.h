// Initial values from a file.
#pragma once

#include <string>

#include "runtime/executor.h"

namespace unity {

// Sets what training starts from: each weight from the tensor of its name, and each state that the file has (others
// start as their `init` says). InputError when a weight is missing in the safetensors file or of another shape.
void set_initial_values(Executor& executor, const Program& program, const std::string& path);

}  // namespace unity
