#include "core/rewrite/normalize.h"

#include "core/rewrite/relayout.h"

namespace unity {

Pcg normalize(const Pcg& pcg) {
  auto relaid = relayout(pcg.without_dead_nodes(), {});
  UNITY_CHECK(relaid.ok(), "normalize: {}", relaid.error().message);
  return std::move(relaid->pcg);
}

}  // namespace unity
