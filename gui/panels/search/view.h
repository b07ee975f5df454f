// What the search panel shows of a search.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/report/chart.h"
#include "gui/session/searching.h"

namespace unity::gui {

struct SearchView {
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<report::Chart> charts;  // best so far, candidates a second, candidates by reason, time by level
  // Time and memory of the plans that it found; no points: not yet. Its marks are those of `front`, in their order.
  report::Chart front;
};

SearchView search_view(const SearchRun::Status& status, const std::vector<Snapshot>& found);

// Candidates a second, from (seconds, candidates by then).
report::Chart rate_chart(const std::vector<std::pair<double, double>>& scored);

}  // namespace unity::gui
