// All that is known of what is selected, and of the document.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gui/session/prediction.h"
#include "gui/session/selection.h"

namespace unity::gui {

struct Facts {
  std::string title;
  std::vector<std::pair<std::string, std::string>> lines;  // label, value
};

Facts document_facts(const Document& document, const PlanPrediction* prediction);
// Of the selection: what it is, then what it takes. Empty where nothing is selected.
std::vector<Facts> selection_facts(const Document& document, const Selection& selection,
                                   const PlanPrediction* prediction);

}  // namespace unity::gui
