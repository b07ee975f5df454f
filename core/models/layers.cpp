#include "core/models/family.h"

namespace unity {

ValueRef dense(Builder& b, const std::string& name, ValueRef x, std::int64_t units, const DenseOptions& options) {
  Builder::Scope scope(b, name);
  ValueRef weight = b.weight("weight", {b.dims(x).back(), units}, options.init, options.scale);
  ValueRef y = b.apply("matmul", {}, {x, weight});
  if (!options.bias) return y;
  return b.apply("add", {}, {y, b.weight("bias", {units}, "zeros")}, "add_bias");
}

ValueRef layer_norm(Builder& b, const std::string& name, ValueRef x, double epsilon) {
  Builder::Scope scope(b, name);
  Dims size = {b.dims(x).back()};
  return b.apply("layer_norm", {epsilon}, {x, b.weight("gamma", size, "ones"), b.weight("beta", size, "zeros")});
}

}  // namespace unity
