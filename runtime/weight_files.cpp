#include "runtime/weight_files.h"

#include <algorithm>

#include "core/base/safetensors.h"

namespace unity {

void set_initial_values(Executor& executor, const Program& program, const std::string& path) {
  SafetensorsFile file(path);
  // Weights and states: what the executor holds and hands out.
  const std::vector<StateTensor> held = executor.state();
  for (const ProgramLeaf& leaf : program.leaves) {
    const std::string& name = leaf.name;
    if (std::none_of(held.begin(), held.end(), [&](const StateTensor& t) { return t.name == name; })) continue;
    if (!leaf.op->trainable() && !file.find(name)) continue;
    if (!executor.holds(name)) continue;
    const TensorInfo& info = file.at(name);
    HostTensor value;
    value.dims = ints_attribute(leaf.attributes, 0);
    if (info.dims != value.dims)
      throw_input_error("{}: tensor '{}': found shape [{}], expected [{}] as in the model", path, name,
                        fmt::join(info.dims, ", "), fmt::join(value.dims, ", "));
    value.reals = file.reals(info);
    if (leaf.op->trainable())
      executor.set_weight(name, value);
    else
      executor.set_state(name, value);
  }
}

void save_gradients(const Executor& executor, const Program& program, const std::string& path) {
  const std::vector<std::string> names = executor.weight_names();
  StoredType type = executor.options().precision == Precision::f64 ? StoredType::f64 : StoredType::f32;
  std::vector<TensorInfo> tensors;
  for (const ProgramLeaf& leaf : program.leaves)
    if (leaf.op->trainable() && std::find(names.begin(), names.end(), leaf.name) != names.end())
      tensors.push_back({leaf.name, type, ints_attribute(leaf.attributes, 0), 0});
  if (executor.processes().rank() != 0) {  // one process writes what all hand out
    for (const TensorInfo& info : tensors) executor.gradient(info.name, 0);
    return;
  }
  SafetensorsWriter writer(path, tensors, {{"format", "unity-gradients"}});
  for (const TensorInfo& info : tensors) {
    HostTensor value = executor.gradient(info.name, 0);
    if (type == StoredType::f64)
      writer.append(value.reals);
    else
      writer.append(std::vector<float>(value.reals.begin(), value.reals.end()));
  }
  writer.finish();
}

}  // namespace unity
