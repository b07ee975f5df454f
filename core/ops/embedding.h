// embedding(ids, table):  y[.., h] = table[ids[..], h]    ids: i32, each in [0, v); table: [v, h]
//   v is a reduction axis: a shard of the table contributes zero for the rows it does not hold. Linear in the table.
// embedding_gradient(ids, dy, table) -> [v, h]: adds each row of dy to row ids[..]; only the table's shape is used.
//   Dimensions of ids are reduction axes; rows outside the block of the result are skipped. Linear in dy.
// InputError when an id is outside [0, v).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Embedding final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> elements_read(std::span<const Shape> inputs, const Shape& output,
                                            std::size_t operand) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

class EmbeddingGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<double> row_factor(const Attributes&, const Dims&) const override { return 1; }
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

// The row of a block of the table (or of its gradient) that holds row `id`; -1 when another shard holds it.
std::int64_t embedding_row(const Operand& table, std::int32_t id);

}  // namespace unity
