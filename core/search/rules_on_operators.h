// What rules do to the kinds of operators of a graph: which of them stay, whatever rules rewrite it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/ops/operator.h"
#include "core/rewrite/rule.h"

namespace unity {

using Names = std::set<std::string, std::less<>>;

// matmul, conv2d, batch_matmul: linear in each of two operands.
bool is_product(const Operator& op);

// Of what the rules rewrite.
Names kinds_in_sources(const std::vector<Rule>& rules);

// What the library's rules that rewrite computations do to the kinds of operators. Those that are written by hand
// (definitions, named) are accounted for one by one, see necessary_work.h.
struct Algebra {
  Names rewritten;     // of which a rule makes more or fewer
  Names seen_through;  // whose result a generated rule sees through, in the operand of a product
  Names consumers;     // through which a generated rule sees the product that they read
};

const Algebra& library_algebra();

}  // namespace unity
