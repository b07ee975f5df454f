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
  std::string experiment;             // the file of which it is, as it was named
  std::string shard;                  // "2/8", of a file that has a part of the rows; else empty
  std::string grid;                   // hash of the experiment's points; empty: older
  std::vector<std::string> measured;  // columns that differ from run to run
  std::vector<ResultRow> rows;
};

std::optional<double> number_of(const std::string& text);  // none where it is no number, or more than one

// Whether a file says that it is one.
bool is_results(const std::string& text);
// InputError: it is none, a newer one, or cut off.
Results results_from_json(const std::string& text, const std::string& file);

// The columns that `unity sweep` writes to its CSV file.
const std::vector<std::string>& result_columns();
// Those of them that differ from run to run, as results say themselves: all others repeat, but where a search stopped
// for time.
const std::vector<std::string>& measured_columns();
// Whether the row is of a search that stopped for time, or was interrupted: others may find something else.
bool stopped_for_time(const ResultRow& row);
// What a row is about apart from its variant: the same text for rows that can be compared.
std::string place_of(const ResultRow& row);
// The file of a row's plan beside the results of this file: in the folder plans/ there, whatever folder the row names.
// Empty: there is none.
std::string plan_beside(const ResultRow& row, const std::string& results_file);
// With a header; fields with commas, quotes or line ends are quoted.
std::string to_csv(const std::vector<std::string>& columns, const std::vector<ResultRow>& rows);

}  // namespace unity::report
