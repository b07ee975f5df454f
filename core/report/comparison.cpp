#include "core/report/comparison.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/report/provenance.h"

namespace unity::report {
namespace {

bool above(double now, double before, double tolerance) { return now > before + tolerance * std::abs(before); }

Change change_of(const ResultRow& before, const ResultRow& now, const ComparisonOptions& options) {
  std::optional<double> old = before.number("iteration_seconds"), time = now.number("iteration_seconds");
  if (before.find("error")) old.reset();
  if (now.find("error")) time.reset();
  if (!old || !time) {
    if (old) return Change::lost;
    if (time) return Change::found;
    return before.text("error") == now.text("error") ? Change::same : Change::plan;
  }
  bool slower = above(*time, *old, options.tolerance), faster = above(*old, *time, options.tolerance);
  if ((slower || faster) && (stopped_for_time(before) || stopped_for_time(now))) return Change::other_time;
  if (slower) return Change::slower;
  std::optional<double> old_search = before.number("search_seconds"), search = now.number("search_seconds");
  if (options.search_tolerance && old_search && search && above(*search, *old_search, *options.search_tolerance))
    return Change::slow_search;
  if (faster) return Change::faster;
  auto differs = [&](const char* column) {
    const std::string *a = before.find(column), *b = now.find(column);
    return a && b && *a != *b;
  };
  return differs("plan_hash") || differs("peak_memory_bytes") ? Change::plan : Change::same;
}

std::string percent(double now, double before) {
  if (!(before > 0) || now == before) return "";
  double change = 100 * (now / before - 1);
  return fmt::format(" ({}{})", change > 0 ? "+" : "",
                     std::abs(change) < 0.005 ? fmt::format("{:.1e}%", change) : fmt::format("{:.2f}%", change));
}

// "12.5 ms to 13 ms (+4.00%)", or one of them where they are equal.
std::string before_and_now(const PointChange& p, const char* column) {
  auto number = [&](const ResultRow* row) {
    return row && !row->find("error") ? row->number(column) : std::optional<double>();
  };
  std::optional<double> before = number(p.before), now = number(p.now);
  if (!before && !now) return "-";
  auto in_words = [&](const std::optional<double>& value) { return value ? value_text(column, *value) : "-"; };
  if (before == now) return in_words(now);
  return fmt::format("{} to {}{}", in_words(before), in_words(now), before && now ? percent(*now, *before) : "");
}

std::string plans_of(const PointChange& p) {
  std::string before = p.before ? p.before->text("plan_hash") : "", now = p.now ? p.now->text("plan_hash") : "";
  if (before.empty() && now.empty()) return "-";
  if (before == now) return "the same";
  constexpr std::size_t kDigits = 8;
  auto short_of = [](const std::string& hash) { return hash.empty() ? "-" : hash.substr(0, kDigits); };
  return fmt::format("{} to {}", short_of(before), short_of(now));
}

}  // namespace

std::string value_text(const std::string& column, double value) {
  constexpr double kMostSeconds = 9e6, kMostBytes = 9e18;  // that fit into picoseconds, and into bytes
  if (column == "gap") return fmt::format("{:.1f}%", 100 * value);
  if (column == "candidates") return fmt::format("{:.0f}", value);
  bool time = column.ends_with("_seconds") && !column.starts_with("search_");
  if (time && std::abs(value) < kMostSeconds) return to_string(from_seconds(value));
  if (column.ends_with("_seconds")) return fmt::format("{:.3g} s", value);
  if (column.ends_with("_bytes") && std::abs(value) < kMostBytes)
    return to_string(Bytes{static_cast<std::int64_t>(value)});
  return fmt::format("{:.5g}", value);
}

double parse_tolerance(const std::string& option, const std::string& text) {
  double value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (error != std::errc() || !(unit.empty() || unit == "%") || !std::isfinite(value) || value < 0)
    throw_input_error("{}: found '{}', expected a share such as 1% or 0.01", option, text);
  return unit.empty() ? value : value / 100;
}

bool is_regression(Change change) { return change >= Change::slower; }

std::string in_words(Change change) {
  constexpr const char* kWords[] = {"the same",         "another plan", "faster",        "plan found", "new",
                                    "stopped for time", "slower",       "search slower", "plan lost",  "missing"};
  return kWords[static_cast<std::size_t>(change)];
}

std::size_t Comparison::count(Change change) const {
  return static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [&](const PointChange& p) { return p.change == change; }));
}

std::size_t Comparison::regressions() const {
  return static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [](const PointChange& p) { return is_regression(p.change); }));
}

Comparison compare(const Results& before, const Results& now, const ComparisonOptions& options) {
  std::map<std::string, const ResultRow*> old, current;
  for (const ResultRow& row : before.rows) old[row.text("point")] = &row;
  for (const ResultRow& row : now.rows) current[row.text("point")] = &row;
  Comparison result;
  for (const ResultRow& row : now.rows) {
    std::string point = row.text("point");
    if (current.at(point) != &row) continue;
    auto at = old.find(point);
    if (at == old.end()) {
      result.points.push_back({point, Change::added, nullptr, &row});
      continue;
    }
    ++result.both;
    result.points.push_back({point, change_of(*at->second, row, options), at->second, &row});
  }
  for (const ResultRow& row : before.rows)
    if (std::string point = row.text("point"); old.at(point) == &row && !current.contains(point))
      result.points.push_back({point, Change::missing, &row, nullptr});
  for (const std::string& column : input_columns()) {
    ProvenanceChange change{column, {}, {}, 0};
    for (const PointChange& p : result.points) {
      if (!p.before || !p.now || p.before->text(column) == p.now->text(column)) continue;
      if (change.points++ == 0) change.before = p.before->text(column), change.now = p.now->text(column);
    }
    if (change.points) result.provenance.push_back(std::move(change));
  }
  return result;
}

TextTable changes_table(const Comparison& comparison) {
  TextTable table{{"point", "change", "iteration", "peak memory", "search", "plan"}, {}, 2};
  for (bool regressions : {true, false})
    for (const PointChange& p : comparison.points) {
      if (p.change == Change::same || is_regression(p.change) != regressions) continue;
      std::string what = in_words(p.change);
      if (p.change == Change::lost) what += ": " + p.now->text("error");
      table.rows.push_back({p.point, what, before_and_now(p, "iteration_seconds"),
                            before_and_now(p, "peak_memory_bytes"), before_and_now(p, "search_seconds"), plans_of(p)});
    }
  return table;
}

std::vector<std::string> provenance_lines(const Comparison& comparison) {
  std::vector<std::string> lines;
  auto value = [](const std::string& text) { return text.empty() ? "not written down" : text; };
  for (const ProvenanceChange& c : comparison.provenance)
    lines.push_back(fmt::format("{} differs in {} of {} points: {} before, {} now", c.column, c.points, comparison.both,
                                value(c.before), value(c.now)));
  return lines;
}

std::string verdict(const Comparison& comparison) {
  std::vector<std::string> parts = {fmt::format("{} points", comparison.points.size())};
  for (int c = static_cast<int>(Change::missing); c >= 0; --c)
    if (std::size_t n = comparison.count(static_cast<Change>(c)))
      parts.push_back(fmt::format("{} {}", n, in_words(static_cast<Change>(c))));
  std::size_t bad = comparison.regressions();
  std::string head = bad == 0 ? "no regression" : bad == 1 ? "1 regression" : fmt::format("{} regressions", bad);
  return head + ": " + join(parts);
}

}  // namespace unity::report
