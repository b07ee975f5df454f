// Strategy `alpa-like`: as Alpa (Zheng et al., OSDI 2022), without algebra. Operators in order are clustered into
// layers; the intra-operator pass finds, for each range of layers and each submesh, the best plan inside; the
// inter-operator pass cuts the layers into stages on submeshes by dynamic programming (stage_dp.h), for several numbers
// of micro-batches. What differs:
//
//   * inside a stage the least sum over the shardings of all operators is found by elimination in place of an integer
//     program (exact_sharding.h), of the whole model on each kind of submesh rather than of each range of layers: a
//     stage follows it, or, layer by layer, one of a list of shardings of whole layers (data parallelism, columns and
//     rows, both; what is left whole by few devices, by batch or by positions), whichever is the fastest by an exact
//     choice; weights stored in parts are tried on the best plan, or where nothing else fits;
//   * costs are sums of single tasks and collectives, not profiles of compiled stages;
//   * layers are about equal in FLOPs with few bytes between them, by one pass instead of another dynamic program;
//   * devices may be left over;
//   * the best plans by estimate are simulated as a whole, and the fastest of them is the result.
#include <algorithm>

#include "core/search/stage_search.h"

namespace unity {

Result<Outcome> alpa_like(const StrategyInput& input) {
  Result<Outcome> found =
      search_stages(input, {.each_operator = input.options.templates, .budget = std::max(1, input.options.budget)});
  if (!found.ok()) return fail("strategy alpa-like: {}", found.error().message);
  return found;
}

}  // namespace unity
