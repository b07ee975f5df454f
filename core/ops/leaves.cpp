#include "core/ops/leaves.h"

#include <cmath>

#include "core/ops/define.h"

namespace unity {
namespace {

Result<AxisTable> leaf_table(std::string_view op, const Dims& dims, DType dtype) {
  AxisTable table;
  OperandAxes out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1) return fail("{}: dimension {} has size {}, expected at least 1", op, i, dims[i]);
    table.axes.push_back({fmt::format("d{}", i), dims[i], AxisRole::parallel});
    out.dims.push_back({{static_cast<int>(i)}, std::nullopt, 0});
  }
  out.dtype = dtype;
  table.outputs.push_back(out);
  table.flops_per_point = 0;
  return table;
}

Result<void> expect_initialiser(std::string_view op, const Attributes& a) {
  const std::string& init = text_attribute(a, 1);
  if (init != "uniform" && init != "normal" && init != "zeros" && init != "ones")
    return fail("{}: init is '{}', expected uniform, normal, zeros or ones", op, init);
  return {};
}

}  // namespace

std::vector<AttributeSpec> Input::attributes() const {
  return {{"shape", AttributeKind::integers, true, {}}, {"dtype", AttributeKind::text, false, std::string("f32")}};
}
Result<AxisTable> Input::axes(const Attributes& a, std::span<const Shape>) const {
  return leaf_table(name(), ints_attribute(a, 0), UNITY_TRY(parse_dtype(text_attribute(a, 1))));
}
void Input::reference(const OpCall&) const { UNITY_CHECK(false, "an input has no value of its own"); }
UNITY_DEFINE_OPERATOR(input, Input)

std::vector<AttributeSpec> Weight::attributes() const {
  return {{"shape", AttributeKind::integers, true, {}},
          {"init", AttributeKind::text, false, std::string("uniform")},
          {"scale", AttributeKind::real, false, 0.0}};
}
Result<AxisTable> Weight::axes(const Attributes& a, std::span<const Shape>) const {
  UNITY_TRY(expect_initialiser(name(), a));
  return leaf_table(name(), ints_attribute(a, 0), DType::f32);
}
double initial_weight(const Attributes& a, RandomKey key, std::int64_t index) {
  const std::string& init = text_attribute(a, 1);
  if (init == "zeros") return 0;
  if (init == "ones") return 1;
  double scale = real_attribute(a, 2);
  const Dims& dims = ints_attribute(a, 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dims.empty() ? 1 : dims[0]));
  auto i = static_cast<std::uint64_t>(index);
  return init == "normal" ? scale * random_normal(key, i) : scale * (2 * random_uniform(key, i) - 1);
}
void Weight::reference(const OpCall&) const { UNITY_CHECK(false, "a weight has no value of its own"); }
UNITY_DEFINE_OPERATOR(weight, Weight)

std::vector<AttributeSpec> StateLeaf::attributes() const {
  return {{"shape", AttributeKind::integers, true, {}},
          {"init", AttributeKind::text, false, std::string("zeros")},
          {"scale", AttributeKind::real, false, 0.0}};
}
Result<AxisTable> StateLeaf::axes(const Attributes& a, std::span<const Shape>) const {
  UNITY_TRY(expect_initialiser(name(), a));
  return leaf_table(name(), ints_attribute(a, 0), DType::f32);
}
void StateLeaf::reference(const OpCall&) const { UNITY_CHECK(false, "a state has no value of its own"); }
UNITY_DEFINE_OPERATOR(state, StateLeaf)

}  // namespace unity
