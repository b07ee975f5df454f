// The log of a search in words and as a drawing.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace unity::cli {

// Two lines for the end of `unity search`: candidates and where they went; parts and where the time went. None for
// plans without a log.
std::vector<std::string> search_log_lines(const Plan& plan);

// All of it: why it stopped, the candidates by reason, the best so far, levels, the rules of the plan.
std::string search_log_text(const Plan& plan);

// SVG: the best so far over candidates and over seconds, reasons and levels as bars.
std::string search_log_svg(const Plan& plan, const std::string& title);

}  // namespace unity::cli
