#include "core/models/onnx/context.h"

#include <algorithm>
#include <numeric>

#include "core/models/onnx/fold.h"

namespace unity {

namespace {

bool is_uniform(const OnnxTensor& t) {
  return !t.integral && t.dims.size() == 1 &&
         std::all_of(t.reals.begin(), t.reals.end(), [&](float x) { return x == t.reals[0]; });
}

}  // namespace

std::string onnx_label(const std::string& name) {
  std::string label;
  for (char c : name) {
    bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    char put = plain ? c : '.';
    if (put == '.' && (label.empty() || label.back() == '.')) continue;
    label += put;
  }
  while (!label.empty() && label.back() == '.') label.pop_back();
  return label;
}

OnnxContext::OnnxContext(OnnxTranslation& translation, const OnnxNode& node) : all_(translation), node_(node) {
  label_ = onnx_label(node.name);
  if (label_.empty() && !node.outputs.empty()) label_ = onnx_label(node.outputs[0]);
  if (label_.empty()) label_ = node.op;
}

const OnnxValue& OnnxContext::value(std::size_t i) const {
  if (!given(i)) wrong("operand {} is missing", i);
  auto found = all_.values.find(node_.inputs[i]);
  if (found == all_.values.end()) wrong("value '{}' is used before it is defined", node_.inputs[i]);
  return found->second;
}

Dims OnnxContext::dims(std::size_t i) const {
  const OnnxValue& v = value(i);
  return v.ref.node.valid() ? dims_of(v.ref) : v.tensor->dims;
}

bool OnnxContext::integral(std::size_t i) const {
  const OnnxValue& v = value(i);
  return v.ref.node.valid() ? integral_of(v.ref) : v.tensor->integral;
}

OnnxTensorRef OnnxContext::constant(std::size_t i) const {
  const OnnxValue& v = value(i);
  return v.parameter ? nullptr : v.tensor;
}

std::optional<double> OnnxContext::scalar(std::size_t i) const {
  OnnxTensorRef t = constant(i);
  if (!t || t->elements() != 1) return std::nullopt;
  return t->number(0);
}

Dims OnnxContext::integers(std::size_t i, const std::string& what) const {
  OnnxTensorRef t = constant(i);
  if (!t) unsupported("{} that is computed from data", what);
  if (!t->integral) wrong("{}: found real numbers, expected integers", what);
  return t->integers;
}

std::string OnnxContext::leaf_name(std::size_t i) const {
  const std::string& name = node_.inputs[i];
  // Exporters that rename a weight call it after nothing: "onnx::MatMul_12".
  if (name.starts_with("onnx::") || onnx_label(name).empty()) return label_ + (i > 1 ? ".bias" : ".weight");
  return onnx_label(name);
}

ValueRef OnnxContext::make_leaf(const OnnxTensorRef& tensor, const std::string& kind, const Dims& dims,
                                const std::string& name) {
  auto key = std::make_pair(tensor.get(), fmt::format("{} {}", kind, fmt::join(dims, ",")));
  if (auto found = all_.leaves.find(key); found != all_.leaves.end()) return found->second;
  if (!find_operator(kind)) unsupported("needs Unity's operator {}, which is not in this build", kind);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) unsupported("an empty tensor");
  ValueRef leaf;
  // One leaf for one tensor: another shape of it is a reshape.
  for (const auto& [known, ref] : all_.leaves)
    if (known.first == tensor.get() && known.second.starts_with(kind)) leaf = ref;
  if (leaf.node.valid()) {
    leaf = all_.builder.apply("reshape", {dims}, {leaf}, name + ".reshape");
  } else {
    leaf = all_.builder.apply(kind, {dims}, {}, name);
    all_.tensors[leaf] = tensor;
  }
  return all_.leaves[key] = leaf;
}

ValueRef OnnxContext::tensor(std::size_t i) {
  const OnnxValue& v = value(i);
  return v.ref.node.valid() ? v.ref : leaf(i, v.parameter ? "weight" : "state", v.tensor->dims);
}

ValueRef OnnxContext::leaf(std::size_t i, const std::string& kind, const Dims& dims) {
  const OnnxValue& v = value(i);
  if (v.ref.node.valid()) return reshape(v.ref, dims);
  OnnxTensorRef tensor = v.tensor;
  std::string name = leaf_name(i);
  // Exporters write equal tensors once, as the scales and biases of all norms of a model that is not trained yet. A
  // vector of one number that was used before is taken for another weight, not for the same.
  if (v.parameter && all_.taken.contains(tensor.get()) && is_uniform(*tensor)) {
    tensor = std::make_shared<const OnnxTensor>(*tensor);
    if (node_.inputs[i] == all_.taken[v.tensor.get()]) name = label_ + (i > 1 ? ".bias" : ".weight");
  }
  all_.taken.emplace(tensor.get(), node_.inputs[i]);
  ValueRef made = make_leaf(tensor, kind, dims, name);
  // Leaves hold real numbers; those of an integer tensor are exact up to 2^24.
  return v.tensor->integral ? emit("cast", {{"dtype", std::string("i32")}}, {made}) : made;
}

ValueRef OnnxContext::state(OnnxTensorRef values) {
  return make_leaf(values, "state", values->dims, label_ + ".constant");
}

OnnxTensorRef OnnxContext::scalar_tensor(double value) { return filled_tensor({}, static_cast<float>(value)); }

template <class T>
T OnnxContext::attribute(const std::string& name, T fallback) const {
  auto found = node_.attributes.find(name);
  if (found == node_.attributes.end()) return fallback;
  const T* value = std::get_if<T>(&found->second);
  if (!value) wrong("attribute '{}' is of another kind than expected", name);
  return *value;
}
std::int64_t OnnxContext::integer(const std::string& name, std::int64_t fallback) const {
  return attribute<std::int64_t>(name, fallback);
}
double OnnxContext::real(const std::string& name, double fallback) const { return attribute<double>(name, fallback); }
std::string OnnxContext::text(const std::string& name, const std::string& fallback) const {
  return attribute<std::string>(name, fallback);
}
Dims OnnxContext::list(const std::string& name, Dims fallback) const {
  return attribute<Dims>(name, std::move(fallback));
}
Dims OnnxContext::list(std::size_t operand, const std::string& name, Dims fallback) const {
  return given(operand) ? integers(operand, name) : list(name, std::move(fallback));
}

std::vector<ValueRef> OnnxContext::emit_all(const std::string& op, const NamedAttributes& attributes,
                                            std::vector<ValueRef> inputs) {
  const Operator* found = find_operator(op);
  if (!found) unsupported("needs Unity's operator {}, which is not in this build", op);
  Attributes values;
  for (const AttributeSpec& spec : found->attributes()) values.push_back(spec.fallback);
  for (const auto& [name, value] : attributes) {
    auto specs = found->attributes();
    auto spec = std::find_if(specs.begin(), specs.end(), [&](const AttributeSpec& s) { return s.name == name; });
    if (spec == specs.end()) unsupported("needs attribute {} of Unity's operator {}", name, op);
    values[static_cast<std::size_t>(spec - specs.begin())] = value;
  }
  std::string name = named_ ? label_ + "." + op : label_;
  named_ = true;
  return all_.builder.results(op, std::move(values), std::move(inputs), name);
}

ValueRef OnnxContext::emit(const std::string& op, const NamedAttributes& attributes, std::vector<ValueRef> inputs) {
  return emit_all(op, attributes, std::move(inputs))[0];
}

ValueRef OnnxContext::reshape(ValueRef x, const Dims& dims) {
  return dims_of(x) == dims ? x : emit("reshape", {{"shape", dims}}, {x});
}

ValueRef OnnxContext::shift(double amount, ValueRef x) {
  return amount == 0 ? x : emit("shift", {{"amount", amount}}, {x});
}

ValueRef OnnxContext::scale(double factor, ValueRef x) {
  return factor == 1 ? x : emit("scale", {{"factor", factor}}, {x});
}

ValueRef OnnxContext::transpose(ValueRef x, Dims permutation) {
  Dims same(dims_of(x).size());
  std::iota(same.begin(), same.end(), 0);
  return permutation == same ? x : emit("transpose", {{"perm", std::move(permutation)}}, {x});
}

ValueRef OnnxContext::expand(ValueRef x, const Dims& dims) {
  Dims from = dims_of(x);
  if (from == dims) return x;
  // A product with ones, which are 1 long wherever x has its full size.
  Dims ones = dims;
  for (std::size_t d = 0; d < from.size(); ++d) {
    std::size_t at = dims.size() - from.size() + d;
    if (from[d] == dims[at]) ones[at] = 1;
  }
  if (integral_of(x)) unsupported("integers that are repeated");
  if (!find_operator("state")) unsupported("needs Unity's operator state, which is not in this build");
  ValueRef leaf = all_.builder.apply("state", {ones, std::string("ones")}, {}, label_ + ".ones");
  return emit("mul", {}, {x, leaf});
}

bool OnnxContext::wanted(std::size_t i) const {
  if (i >= node_.outputs.size() || node_.outputs[i].empty()) return false;
  auto uses = all_.uses.find(node_.outputs[i]);
  return uses != all_.uses.end() && uses->second > 0;
}

void OnnxContext::result(std::size_t i, OnnxValue v) {
  if (i < node_.outputs.size() && !node_.outputs[i].empty()) all_.values[node_.outputs[i]] = std::move(v);
}
void OnnxContext::result(std::size_t i, ValueRef v) { result(i, OnnxValue{v, nullptr}); }
void OnnxContext::results(const std::vector<ValueRef>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) result(i, values[i]);
}

}  // namespace unity
