#include "cli/search_log_text.h"

#include <algorithm>
#include <map>

#include "cli/chart.h"
#include "cli/table.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// "12 duplicate, 3 refused": most first, without zeros.
std::string reasons(const SearchLog& log, bool scored) {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) {
    auto reason = static_cast<LeftOut>(r);
    if (is_scored(reason) == scored && log.count(reason) > 0)
      counts.emplace_back(log.count(reason), words(to_string(reason)));
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [count, name] : counts) texts.push_back(fmt::format("{} {}", count, name));
  return join(texts);
}

std::string in_parentheses(const std::string& text) { return text.empty() ? "" : " (" + text + ")"; }

// Rules of the derivation with how often they were applied, most first.
std::vector<std::pair<std::string, int>> applied_rules(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const DerivationStep& step : plan.derivation) ++counts[step.rule];
  std::vector<std::pair<std::string, int>> rules(counts.begin(), counts.end());
  std::stable_sort(rules.begin(), rules.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return rules;
}

Chart curve(const Plan& plan, bool over_seconds) {
  const SearchLog& log = plan.search.log;
  Chart chart{.kind = Chart::Kind::steps,
              .title = "best so far",
              .x_label = over_seconds ? "seconds" : "candidates scored",
              .y_label = "iteration (ms)"};
  ChartSeries best;
  for (std::size_t i = 0; i < log.best_so_far.size(); ++i) {
    double ms = log.best_so_far[i].iteration.seconds() * 1e3;
    double x = over_seconds ? log.seconds.best_so_far[i] : static_cast<double>(log.best_so_far[i].candidates);
    best.points.push_back({x, ms, ms});
  }
  // The curve goes on to the end of the search.
  double ms = log.best_so_far.back().iteration.seconds() * 1e3;
  best.points.push_back({over_seconds ? plan.search.seconds : static_cast<double>(plan.search.candidates), ms, ms});
  chart.series.push_back(std::move(best));
  return chart;
}

}  // namespace

std::vector<std::string> search_log_lines(const Plan& plan) {
  const SearchLog& log = plan.search.log;
  if (log.best_so_far.empty()) return {};
  std::vector<std::string> levels;
  for (std::size_t l = 0; l < kSearchLevels; ++l)
    if (log.seconds.level[l] >= 0.005)
      levels.push_back(fmt::format("{} {:.2f} s", to_string(static_cast<SearchLevel>(l)), log.seconds.level[l]));
  std::string first =
      fmt::format("candidates: {} scored{}, {} left out unscored{}", plan.search.candidates,
                  in_parentheses(reasons(log, true)), log.left_out_unscored(), in_parentheses(reasons(log, false)));
  std::string second = fmt::format("processors: {}", levels.empty() ? "less than 0.01 s" : join(levels));
  if (log.parts_solved + log.parts_reused > 0)
    second = fmt::format("parts: {} solved, {} times reused; {}", log.parts_solved, log.parts_reused, second);
  return {first, second};
}

std::string search_log_text(const Plan& plan) {
  const SearchLog& log = plan.search.log;
  std::string text =
      fmt::format("{} on {} ({} devices), strategy {}\niteration {}, search {:.2f} s\nstopped: {}\n", plan.model.name,
                  plan.topology, plan.devices, plan.search.strategy, to_string(plan.prediction.iteration),
                  plan.search.seconds, plan.search.stopped_because);
  if (log.best_so_far.empty())
    return text + "the plan has no log of its search: it was written before there were any\n";
  for (const std::string& line : search_log_lines(plan)) text += line + "\n";
  Table best({"best so far", "candidates", "seconds"});
  for (std::size_t i = 0; i < log.best_so_far.size(); ++i)
    best.add({fmt::format("{:.6g} ms", log.best_so_far[i].iteration.seconds() * 1e3),
              std::to_string(log.best_so_far[i].candidates), fmt::format("{:.2f}", log.seconds.best_so_far[i])});
  text += "\n" + best.text();
  if (plan.derivation.empty()) return text;
  Table rules({"rule of the plan", "times"});
  for (const auto& [rule, times] : applied_rules(plan)) rules.add({rule, std::to_string(times)});
  return text + "\n" + rules.text();
}

std::string search_log_svg(const Plan& plan, const std::string& title) {
  const SearchLog& log = plan.search.log;
  Chart reasons{.kind = Chart::Kind::rows, .title = "candidates", .x_label = "number"};
  ChartSeries scored{"scored", 0, false, {}}, unscored{"left out unscored", 1, false, {}},
      dropped{"of the scored", 5, false, {}};
  auto add = [&](ChartSeries& to, const std::string& name, std::int64_t count) {
    auto value = static_cast<double>(count);
    to.points.push_back({static_cast<double>(reasons.categories.size()), value, value});
    reasons.categories.push_back(name);
  };
  add(scored, "scored", plan.search.candidates);
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) {
    auto reason = static_cast<LeftOut>(r);
    if (log.count(reason) > 0) add(is_scored(reason) ? dropped : unscored, words(to_string(reason)), log.count(reason));
  }
  for (ChartSeries* s : {&scored, &unscored, &dropped})
    if (!s->points.empty()) reasons.series.push_back(std::move(*s));
  Chart levels{.kind = Chart::Kind::rows, .title = "time by level", .x_label = "seconds of processors"};
  ChartSeries seconds;
  for (std::size_t l = 0; l < kSearchLevels; ++l) {
    levels.categories.emplace_back(to_string(static_cast<SearchLevel>(l)));
    seconds.points.push_back({static_cast<double>(l), log.seconds.level[l], log.seconds.level[l]});
  }
  levels.series.push_back(std::move(seconds));
  std::vector<Chart> panels;
  if (!log.best_so_far.empty()) panels = {curve(plan, false), curve(plan, true), std::move(reasons), std::move(levels)};
  return draw_charts(title, panels);
}

}  // namespace unity::cli
