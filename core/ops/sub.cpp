#include "core/ops/sub.h"

#include "core/ops/define.h"

namespace unity {

void Sub::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(0)) g.set_input_gradient(0, g.sum_to_input(g.output_gradient(), 0));
  if (g.wanted(1)) g.set_input_gradient(1, g.sum_to_input(g.apply("scale", {-1.0}, {g.output_gradient()}), 1));
}

void Sub::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return x - y; });
}

std::string_view Sub::axioms() const {
  return R"(
axiom sub_as_sum
  sub(x, y) = add(x, scale(-1.0, y))
axiom negative_of_difference
  scale(-1.0, sub(x, y)) = sub(y, x)
axiom difference_of_differences
  sub(x, sub(y, z)) = add(x, sub(z, y))
axiom difference_of_sums
  sub(add(x, y), z) = add(x, sub(y, z))
axiom difference_of_shifted
  sub(shift(a, x), y) = shift(a, sub(x, y))
axiom difference_from_shifted
  sub(x, shift(a, y)) = shift(-1.0 * a, sub(x, y))
axiom sum_of_difference_0
  let m = sub(x, y)
  add(m, y) = x
  where rank(x) == 0, rank(m) == 0
axiom sum_of_difference_1
  let m = sub(x, y)
  add(m, y) = x
  where rank(x) == 1, rank(m) == 1, dim(m, 0) == dim(x, 0)
axiom sum_of_difference_2
  let m = sub(x, y)
  add(m, y) = x
  where rank(x) == 2, rank(m) == 2, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1)
axiom sum_of_difference_3
  let m = sub(x, y)
  add(m, y) = x
  where rank(x) == 3, rank(m) == 3, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2)
axiom sum_of_difference_4
  let m = sub(x, y)
  add(m, y) = x
  where rank(x) == 4, rank(m) == 4, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2), dim(m, 3) == dim(x, 3)
axiom difference_of_sum_0
  let m = add(x, y)
  sub(m, y) = x
  where rank(x) == 0, rank(m) == 0
axiom difference_of_sum_1
  let m = add(x, y)
  sub(m, y) = x
  where rank(x) == 1, rank(m) == 1, dim(m, 0) == dim(x, 0)
axiom difference_of_sum_2
  let m = add(x, y)
  sub(m, y) = x
  where rank(x) == 2, rank(m) == 2, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1)
axiom difference_of_sum_3
  let m = add(x, y)
  sub(m, y) = x
  where rank(x) == 3, rank(m) == 3, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2)
axiom difference_of_sum_4
  let m = add(x, y)
  sub(m, y) = x
  where rank(x) == 4, rank(m) == 4, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2), dim(m, 3) == dim(x, 3)
)";
}
UNITY_DEFINE_OPERATOR(sub, Sub)

}  // namespace unity
