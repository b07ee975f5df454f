// A report as one HTML file: figures and tables of results, with nothing to load and no scripts. It is well-formed XML,
// too. What comes from files is escaped, and links lead to plans beside the results alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/report/comparison.h"
#include "core/report/experiment.h"
#include "core/report/results.h"

namespace unity::report {

struct HtmlSection {
  std::string title;
  std::string content;  // HTML, headings from h3 on
};
std::string html_page(const std::string& title, const std::vector<HtmlSection>& sections);

struct ResultsReport {
  std::string file;         // the results
  std::string page_folder;  // of the HTML file, from which links go
  Results results;
  std::optional<Experiment> experiment;  // with the figures; none: why says `note`
  std::string note;                      // or how far the grid of the experiment was run
};

// What was run, figures, best plans, all points, those without a plan, and what the searches did.
HtmlSection results_section(const ResultsReport& report);
// What has changed since other results.
HtmlSection comparison_section(const Comparison& comparison, const std::string& before, const std::string& now);
// A text as it is, and drawings (SVG documents).
HtmlSection text_section(const std::string& title, const std::string& text, const std::vector<std::string>& drawings);

// Tables of the rows, for Markdown, too. What was run: provenance, and how much there is.
TextTable run_table(const Results& results);
// For each place the fastest plan, and by how much the next one is slower. Links lead from `page_folder`.
TextTable best_plans_table(const ResultsReport& report);

}  // namespace unity::report
