// The check of what proofs start from: every axiom, stated or derived from a table, evaluated exactly (modulo a prime;
// where a stand-in keeps no identity of its own, in 64-bit integers) on all small shapes; in each direction in which
// proofs use it, the other side must be well-typed too (terms.h says why that is enough).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/verify/schemas.h"

namespace unity {

struct AxiomCheck {
  std::string name;            // "matmul_associative", "shard(matmul.n)", "shape(concat)"
  std::string text;            // of the axiom, or what was looked at
  std::int64_t shapes = 0;     // choices of shapes and attributes that were tried
  std::int64_t typed = 0;      // of which the side that matches is well-typed and the conditions hold
  std::int64_t evaluated = 0;  // of those, by value; all up to the limit, then every so many
  std::string fault;           // empty: it holds on all
};

struct AxiomCheckOptions {
  std::int64_t shapes = 1024;    // for each choice of ranks (small_shapes.h); 64 times as many for one or two operands
  std::int64_t evaluated = 500;  // for each axiom and direction
};

// All stated axioms; all schemas and facts about shapes of all operators' examples. A schema whose call is well-typed
// at no small shape (four groups of channels) has `evaluated` 0: it held at the sizes of the example.
std::vector<AxiomCheck> check_axioms(const AxiomCheckOptions& options = {});

AxiomCheck check_axiom(const std::string& name, const Rule& axiom,
                       const std::vector<std::optional<AttributeValue>>& bound, const AxiomCheckOptions& options = {});

// Equations that tables suggest and evaluation refuted, which are hence no axioms: "shard(reduce_mean.d0)".
std::vector<std::string> refuted_schemas();

// Ranks at which two arbitrary tensors of one shape are proved equal when every stated axiom, and every schema of the
// operators' examples, is set off once: none, or the axioms contradict each other. It can only find contradictions that
// e-matching finds within the limit.
std::vector<int> inconsistent_ranks(double seconds = 2);

// Stated axioms that follow from the others and the schemas within the limit.
std::vector<std::string> redundant_axioms(double seconds = 0.5);

}  // namespace unity
