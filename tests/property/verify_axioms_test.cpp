// Every axiom holds on all small shapes, and together they prove no nonsense.
#include <catch2/catch.hpp>

#include "core/verify/check_axioms.h"

namespace unity {
namespace {

TEST_CASE("every axiom and schema holds exactly on all small shapes") {
  std::int64_t typed = 0, evaluated = 0;
  std::vector<AxiomCheck> checks = check_axioms();
  for (const AxiomCheck& check : checks) {
    INFO(check.name << "\n" << check.text << check.fault);
    CHECK(check.fault.empty());
    typed += check.typed, evaluated += check.evaluated;
  }
  WARN(fmt::format("{} axioms, {} well-typed instances, {} evaluated", checks.size(), typed, evaluated));
}

TEST_CASE("the axioms do not prove that two tensors are equal, at any rank") { CHECK(inconsistent_ranks().empty()); }

}  // namespace
}  // namespace unity
