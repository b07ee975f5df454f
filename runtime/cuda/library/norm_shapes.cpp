#include "runtime/cuda/library/norm_shapes.h"

#include <limits>

namespace unity::cuda {
namespace {

// Which operands are rows; the others are vectors of as many elements as there are columns.
std::vector<bool> rows_among(const NormShape& s) {
  std::vector<bool> rows = {true, false};                        // x, gamma
  if (s.backward) rows.insert(rows.end(), {true, true, false});  // dy; dx, dgamma
  if (s.centred) rows.push_back(false);                          // beta or its gradient
  if (!s.backward) rows.push_back(true);                         // y
  return rows;
}

}  // namespace

Result<NormShape> norm_shape(std::string_view op, std::span<const Operand> inputs, std::span<const Operand> outputs) {
  NormShape s;
  s.centred = op == "layer_norm" || op == "layer_norm_gradient";
  s.backward = op == "layer_norm_gradient" || op == "rms_norm_gradient";
  UNITY_CHECK(s.centred || s.backward || op == "rms_norm", "{} is no norm of rows", op);
  const Operand& x = inputs[0];
  if (x.elements() == 0) return fail("an operand has no elements");
  if (x.elements() > std::numeric_limits<std::int32_t>::max())
    return fail("an operand of {} elements is over 32 bits", x.elements());
  s.columns = x.extent.back(), s.rows = x.elements() / s.columns, s.type = x.dtype;
  if (s.type != DType::f32 && s.type != DType::bf16) return fail("in {}: cuDNN norms rows in f32", to_string(s.type));
  std::vector<bool> rows = rows_among(s);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Operand& o = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (rows[i] && o.dtype != s.type)
      return fail("rows of {} beside rows of {}", to_string(s.type), to_string(o.dtype));
  }
  return s;
}

std::string to_string(const NormShape& s) {
  return fmt::format("{}{} {}x{} {}", s.centred ? "layer norm" : "rms norm", s.backward ? " gradient" : "", s.rows,
                     s.columns, to_string(s.type));
}

std::vector<DType> norm_types(const NormShape& s) {
  std::vector<DType> types;
  for (bool rows : rows_among(s)) types.push_back(rows ? s.type : DType::f32);
  return types;
}

}  // namespace unity::cuda
