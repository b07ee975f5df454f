// Collectives among devices of one process: all buffers are at hand, so nothing is sent. Results are bit for bit those
// of collectives.h: every element is added up in the order in which the ring would have done it.
//
// The work is cut into parts that do not depend on one another. Whichever participant is there first starts with them,
// and the others help as soon as they have a core: nobody waits for a turn, as in the steps of a ring.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "runtime/comm/collectives.h"

namespace unity {

// One collective of a Program, run once in every step.
class SharedCollective {
 public:
  // `buffers` by part of the communication, by participant. `dtype` as in run_collective().
  SharedCollective(const Communication& communication, std::vector<std::vector<CollectiveBuffers>> buffers,
                   DType dtype);

  void reset();  // before a step; nobody is in help()
  // Takes parts until none is left. True for the one call that ended the last part, with which all is done. All that
  // the collective reads is there, and nothing else uses what it writes.
  bool help();

 private:
  using Part = std::function<void()>;
  using Buffers = std::vector<CollectiveBuffers>;  // of one of the communication's parts, by participant

  // Elements [begin, end) of a box, added up over `order` from the first on, or along the tree, or hierarchically: node
  // by node of `order`, then the sums of the nodes.
  struct Sum {
    std::vector<std::size_t> order;
    std::int64_t begin = 0, end = 0;
  };

  void add_missing(std::size_t participant);  // a part that says so when the step runs
  void add_copies(std::size_t part);          // of the communication
  void add_sums(const Buffers& buffers, const std::vector<Participant>& participants);
  // The sums of a box, which the participants `to` get.
  void add_sums(const Buffers& buffers, const Box& box, std::vector<Sum> sums, const std::vector<std::size_t>& to);
  // The order of a share that belongs to a place in a node: the ring's inside each node, and of the nodes.
  std::vector<std::size_t> hierarchical_order(std::size_t place, std::size_t node) const;
  void add_up(std::byte* sum, const std::vector<const std::byte*>& summands, std::int64_t elements) const;
  void add_in_turn(std::byte* sum, std::span<const std::byte* const> summands, std::int64_t elements) const;
  // `sum` becomes `theirs` + `sum`; `theirs` is lost.
  void add_before(std::byte* sum, std::byte* theirs, std::int64_t elements) const;
  // The binomial tree below a participant, of all of them or all but the root.
  void add_along_tree(std::byte* sum, std::size_t participant, const std::vector<const std::byte*>& summands,
                      std::int64_t elements) const;

  const Communication& c_;
  std::vector<Buffers> buffers_;  // by part of the communication
  DType dtype_;
  std::vector<Part> parts_;  // of the work
  std::atomic<std::size_t> next_{0}, ended_{0};
};

}  // namespace unity
