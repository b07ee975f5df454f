// A plan's derivation applied again, from the model on: what each of its steps does to the time of an iteration.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gui/session/prediction.h"

namespace unity::gui {

// Neighbouring steps [first, first + count) of a derivation that are looked at as one.
struct StepRange {
  int first = 0, count = 1;
};

struct ReplayedSteps {
  Picoseconds before, after;  // of an iteration, every operator from the first device on; 0: not known
  int applied = 0;            // of the steps
  std::string note;           // why the others were not
};

// Calls `done` after each range, in order, until `stop`. What shards operators the same way is done at once, as the
// search did it; rules are applied where the labels say. Steps that are neither (cuts, micro-batches) change nothing.
void replay(const Plan& plan, std::shared_ptr<const Topology> topology, const std::vector<StepRange>& ranges,
            const std::function<void(std::size_t, const ReplayedSteps&)>& done, const std::atomic<bool>* stop);

}  // namespace unity::gui
