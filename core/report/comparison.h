// Two results of sweeps, point by point: what has become faster, slower, or has gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/report/results.h"
#include "core/report/text_table.h"

namespace unity::report {

struct ComparisonOptions {
  double tolerance = 1e-9;                 // of predicted times, a fraction: they repeat
  std::optional<double> search_tolerance;  // of seconds of search; none: they are not judged
};

// A number of a column in words: "12.5 ms", "1.2 GB"; seconds of search as such, the gap in percent.
std::string value_text(const std::string& column, double value);

// "1%" or "0.01"; InputError that names the option.
double parse_tolerance(const std::string& option, const std::string& text);

// What became of a point. Those from slower on are regressions.
enum class Change : std::uint8_t {
  same,
  plan,  // as fast, but another plan, other memory, or another reason for having none
  faster,
  found,       // has a plan now
  added,       // was not there
  other_time,  // slower or faster, but one of the two searches stopped for time, so that it does not tell
  slower,
  slow_search,  // its search takes longer than it may
  lost,         // has no plan any more
  missing       // is not there any more
};
bool is_regression(Change change);
std::string in_words(Change change);

struct PointChange {
  std::string point;
  Change change = Change::same;
  const ResultRow* before = nullptr;  // null: not there
  const ResultRow* now = nullptr;
};

// A column of provenance that differs: in how many of the points that both have, with the first such pair.
struct ProvenanceChange {
  std::string column, before, now;  // empty: not written down
  std::size_t points = 0;
};

struct Comparison {
  std::vector<PointChange> points;  // in the order of the rows of now, then what is missing
  std::vector<ProvenanceChange> provenance;
  std::size_t both = 0;  // points that both have

  std::size_t count(Change change) const;
  std::size_t regressions() const;
};

// Of rows with the same point; of several such rows in one result the last counts. The results must outlive it.
Comparison compare(const Results& before, const Results& now, const ComparisonOptions& options = {});

// The points that are not the same: iteration, memory and search before and now, regressions first.
TextTable changes_table(const Comparison& comparison);
// "topology_hash differs in 4 of 6 points: 0123.. before, 4567.. now"
std::vector<std::string> provenance_lines(const Comparison& comparison);
// "no regression: 4 points, 3 the same, 1 faster"; "2 regressions: 4 points, 1 slower, 1 lost, 2 the same".
std::string verdict(const Comparison& comparison);

}  // namespace unity::report
