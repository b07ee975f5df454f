// embedding_bag(ids, table; mode="sum"):  y[b, h] = sum (or mean) over l of table[ids[b, l], h]
//   ids: i32 [b, l], each in [0, v); table: [v, h]. l and v are reduction axes: bags and tables can be split. Linear in
//   the table.
// embedding_bag_gradient(ids, dy, table; mode) -> [v, h]; only the table's shape is used. Linear in dy.
// InputError when an id is outside [0, v).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class EmbeddingBag final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  Arity arity() const override { return {2, 2}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> elements_read(std::span<const Shape> inputs, const Shape& output,
                                            std::size_t operand) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

class EmbeddingBagGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<double> row_factor(const Attributes& attributes, const Dims& ids) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

// What each row of a bag is multiplied with: 1, or 1 / l of the logical ids.
double embedding_bag_factor(const Attributes& attributes, const Operand& ids);

}  // namespace unity
