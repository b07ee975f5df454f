#include "core/graph/builder.h"

namespace unity {

Builder::Builder(std::string name) { pcg_.set_name(std::move(name)); }

Builder::Scope::Scope(Builder& builder, const std::string& name) : builder_(builder), length_(builder.prefix_.size()) {
  builder_.prefix_ += name + ".";
}
Builder::Scope::~Scope() { builder_.prefix_.resize(length_); }

ValueRef Builder::input(const std::string& name, Dims shape, DType dtype) {
  return apply("input", {std::move(shape), std::string(to_string(dtype))}, {}, name);
}

ValueRef Builder::weight(const std::string& name, Dims shape, const std::string& init, double scale) {
  return apply("weight", {std::move(shape), init, scale}, {}, name);
}

ValueRef Builder::apply(std::string_view op, Attributes attributes, std::vector<ValueRef> inputs,
                        const std::string& name) {
  return results(op, std::move(attributes), std::move(inputs), name)[0];
}

std::vector<ValueRef> Builder::results(std::string_view op, Attributes attributes, std::vector<ValueRef> inputs,
                                       const std::string& name) {
  std::string label = prefix_ + (name.empty() ? std::string(op) : name);
  if (int& count = used_[label]; count++ > 0) {
    std::string wanted = label;
    while (used_.contains(label = fmt::format("{}_{}", wanted, count))) ++count;
    used_[label] = 1;
  }
  auto added =
      pcg_.try_add(get_operator(op), std::move(attributes), std::move(inputs), OriginId(next_origin_++), label);
  if (!added.ok()) throw InputError(fmt::format("model {}: {}: {}", pcg_.name(), label, added.error().message));
  std::vector<ValueRef> values;
  for (std::size_t i = 0; i < pcg_[*added].outputs.size(); ++i) values.push_back({*added, static_cast<int>(i)});
  return values;
}

ValueRef Builder::dropout(double rate, ValueRef x, const std::string& name) {
  ValueRef mask = apply("dropout_mask", {dims(x), rate}, {}, name + "_mask");
  return apply("mul", {}, {x, mask}, name);
}

Pcg Builder::finish(std::vector<ValueRef> outputs) && {
  pcg_.set_outputs(std::move(outputs));
  check_well_formed(pcg_).value();
  return std::move(pcg_);
}

}  // namespace unity
