#include "runtime/initial_values.h"

#include "core/base/safetensors.h"

namespace unity {

void set_initial_values(Executor& executor, const std::string& path) {
  SafetensorsFile file(path);
  for (const std::string& name : executor.weight_names()) {
    const TensorInfo& info = file.at(name);
    HostTensor value;
    value.dims = executor.weight(name).dims;
    if (info.dims != value.dims)
      throw_input_error("{}: tensor '{}': found shape [{}], expected [{}] as in the model", path, name,
                        fmt::join(info.dims, ", "), fmt::join(value.dims, ", "));
    value.reals = file.reals(info);
    executor.set_weight(name, value);
  }
}

}  // namespace unity
