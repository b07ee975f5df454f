#include "core/ops/minimum.h"

#include "core/ops/define.h"
#include "core/ops/maximum.h"

namespace unity {

void Minimum::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue x = g.input(0), y = g.input(1);
  gradient_of_choice(g, g.apply("greater", {}, {y, x}), g.apply("greater", {}, {x, y}));
}

void Minimum::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return takes_place_of(x, y, false) ? x : y; });
}

std::string_view Minimum::axioms() const {
  return R"(
axiom minimum_commutative
  minimum(x, y) = minimum(y, x)
axiom minimum_associative
  minimum(minimum(x, y), z) = minimum(x, minimum(y, z))
axiom minimum_idempotent
  minimum(x, x) = x
axiom minimum_of_maximum
  minimum(x, maximum(y, z)) = maximum(minimum(x, y), minimum(x, z))
axiom minimum_absorbs_0
  let m = maximum(x, y)
  minimum(x, m) = x
  where rank(x) == 0, rank(m) == 0
axiom minimum_absorbs_1
  let m = maximum(x, y)
  minimum(x, m) = x
  where rank(x) == 1, rank(m) == 1, dim(m, 0) == dim(x, 0)
axiom minimum_absorbs_2
  let m = maximum(x, y)
  minimum(x, m) = x
  where rank(x) == 2, rank(m) == 2, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1)
axiom minimum_absorbs_3
  let m = maximum(x, y)
  minimum(x, m) = x
  where rank(x) == 3, rank(m) == 3, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2)
axiom minimum_absorbs_4
  let m = maximum(x, y)
  minimum(x, m) = x
  where rank(x) == 4, rank(m) == 4, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2), dim(m, 3) == dim(x, 3)
)";
}
UNITY_DEFINE_OPERATOR(minimum, Minimum)

}  // namespace unity
