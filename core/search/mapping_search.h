// Level 3 of the search: the machine mapping of every operator of a parallelised graph, by dynamic programming (paper,
// section 5.2; the recursion is FlexFlow's and Unity's).
//
//   sequence split:  a node p that no edge jumps over: for each mapping of p, what is before and what is after it are
//                    independent given p's mapping.
//   parallel split:  what falls apart given the mappings of its neighbours runs one after the other on all devices, or
//                    at the same time on disjoint shares of them: min(sum, max). The shares are the halves of the
//                    machine; or, where the caller asks for all of them, those of mapping_shares.h, on which operators
//                    have mappings that begin there. All take several times as long, so they are for a few complete
//                    plans (map_on_shares.h). It is not looked at whether parts wait for one another through an
//                    operator whose mapping is given.
//   otherwise:       condition on the node with the most edges, then split again (exact; exponential in how far the
//                    graph is from series-parallel).
//
// Where that takes too long (as many visits of operators as no series-parallel graph needs), operators are eliminated
// instead (table_elimination.h), all one after the other on all devices: exact again as long as no operator is next to
// so many others that their choices are more than a million.
//
// Sub-results are memoised within a call, edge costs across calls (thread-safe). The cost is a sum of piece costs
// without overlap; ranking of candidates is left to simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"
#include "core/search/cost_model.h"

namespace unity {

struct MappingResult {
  std::vector<MachineMapping> mappings;  // by node
  Picoseconds estimate;                  // of the DP: sum of pieces
  bool in_shares = false;                // other than halves, as far as is known
};

// Of the machine, on which parts of a graph may run at the same time.
enum class Shares : std::uint8_t { halves, all };

class MappingSearch {
 public:
  // `keep`: costs of edges from one call to the next.
  explicit MappingSearch(const CostModel& cost, bool keep = true);
  ~MappingSearch();

  // Boundary leaves and deliver nodes get their natural mapping (last grid dimension innermost, from device 0): both
  // sides of a cut agree on it. Error when an operator has more tasks than there are devices (names it).
  Result<MappingResult> run(const Pcg& pcg, Shares shares = Shares::halves) const;

  // All that run() chooses from: every combination of the operators' mappings, with the stored leaves where they go
  // then, one for each set of combinations that differ in nothing but the names of devices. Devices can be renamed
  // where all are at one distance, else none can. Error also when there are more than `most` combinations.
  Result<std::vector<std::vector<MachineMapping>>> all(const Pcg& pcg, std::int64_t most) const;

  // Those of all() that differ from the given ones in the mapping of one operator, or in that all operators up to one
  // have the same place in their lists of choices (the first stage of two), and in the leaves that follow these. With
  // `pairs`, instead those that differ in the mappings of two operators, of which one takes what the other makes.
  Result<std::vector<std::vector<MachineMapping>>> neighbours(const Pcg& pcg,
                                                              const std::vector<MachineMapping>& mappings,
                                                              bool pairs = false) const;

  struct Cache;

 private:
  const CostModel& cost_;
  std::unique_ptr<Cache> cache_;
  bool keep_;
};

// The mapping with the last grid dimension innermost, packed from `start`.
MachineMapping natural_mapping(const TaskGrid& grid, int start = 0);

// For all nodes of a graph (parallelization operators have none), from device 0.
std::vector<MachineMapping> natural_mappings(const Pcg& pcg);

}  // namespace unity
