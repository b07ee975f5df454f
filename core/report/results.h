// What `unity sweep` writes: a row for each point of an experiment (format: unity-results).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace unity::report {

// Cells by column, in their order; those without a value are not there. Numbers are written so that they read back as
// they were.
struct ResultRow {
  std::vector<std::pair<std::string, std::string>> cells;
  const std::string* find(const std::string& column) const;
  std::string text(const std::string& column) const;  // empty: not there
  std::optional<double> number(const std::string& column) const;
};

struct Results {
  static constexpr int kVersion = 1;
  std::string experiment;  // the file of which it is, as it was named
  std::vector<ResultRow> rows;
};

std::optional<double> number_of(const std::string& text);  // none where it is no number, or more than one

// Whether a file says that it is one.
bool is_results(const std::string& text);
// InputError: it is none, a newer one, or cut off.
Results results_from_json(const std::string& text, const std::string& file);

// The columns that `unity sweep` writes to its CSV file.
const std::vector<std::string>& result_columns();
// With a header; fields with commas, quotes or line ends are quoted.
std::string to_csv(const std::vector<std::string>& columns, const std::vector<ResultRow>& rows);

}  // namespace unity::report
