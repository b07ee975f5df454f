#include <cmath>

#include "core/models/family.h"

namespace unity {

ValueRef dense(Builder& b, const std::string& name, ValueRef x, std::int64_t units, const DenseOptions& options) {
  Builder::Scope scope(b, name);
  std::int64_t inputs = b.dims(x).back();
  bool glorot = options.init == "glorot";
  ValueRef weight = b.weight("weight", {inputs, units}, glorot ? "uniform" : options.init,
                             glorot ? std::sqrt(6 / static_cast<double>(inputs + units)) : options.scale);
  ValueRef y = b.apply("matmul", {}, {x, weight});
  if (!options.bias) return y;
  return b.apply("add", {}, {y, b.weight("bias", {units}, "zeros")}, "add_bias");
}

ValueRef dense_stack(Builder& b, const std::string& name, ValueRef x, const Dims& units, const DenseOptions& options,
                     bool relu_last) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::string layer = fmt::format("{}.{}", name, i);
    x = dense(b, layer, x, units[i], options);
    if (relu_last || i + 1 < units.size()) x = b.apply("relu", {}, {x}, layer + ".relu");
  }
  return x;
}

ValueRef layer_norm(Builder& b, const std::string& name, ValueRef x, double epsilon) {
  Builder::Scope scope(b, name);
  Dims size = {b.dims(x).back()};
  return b.apply("layer_norm", {epsilon}, {x, b.weight("gamma", size, "ones"), b.weight("beta", size, "zeros")});
}

}  // namespace unity
