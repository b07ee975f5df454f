#include "core/ops/add.h"

#include "core/ops/define.h"

namespace unity {

void Add::gradient(const Attributes&, GradientBuilder& g) const {
  for (int i : {0, 1})
    if (g.wanted(i)) g.set_input_gradient(i, g.sum_to_input(g.output_gradient(), i));
}

void Add::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return x + y; });
}

std::string_view Add::axioms() const {
  return R"(
axiom add_commutative
  add(x, y) = add(y, x)
axiom add_associative
  add(add(x, y), z) = add(x, add(y, z))
)";
}
UNITY_DEFINE_OPERATOR(add, Add)

}  // namespace unity
