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
  bool about = false;         // the times lie on the line between those of the first and last of many alike
};

struct ReplayWatch {
  std::function<void(std::size_t, const ReplayedSteps&)> known;  // of a range, in any order, once
  std::function<void(double, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;
};

// All steps are applied, then simulated: first the model and the end, then what lies between. What shards operators the
// same way is done at once, as the search did it; rules are applied where the labels say. Steps that are neither (cuts,
// micro-batches) change nothing. Where ranges do in one layer after another the same, those of the first and the last
// are simulated alone.
void replay(const Plan& plan, std::shared_ptr<const Topology> topology, const std::vector<StepRange>& ranges,
            const ReplayWatch& watch);

}  // namespace unity::gui
