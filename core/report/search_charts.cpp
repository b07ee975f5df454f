#include "core/report/search_charts.h"

#include <algorithm>

namespace unity::report {

namespace {

constexpr double kFarApart = 4;  // the first plan takes so many times as long as the last: by factors, all are seen

}  // namespace

SearchState state_of(const Plan& plan) { return {plan.search.log, plan.search.candidates, plan.search.seconds}; }

std::string in_words(LeftOut reason) {
  std::string text(to_string(reason));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

Chart best_so_far_chart(const SearchState& state, bool over_seconds) {
  const SearchLog& log = state.log;
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
  if (log.best_so_far.empty()) return chart;
  // The curve goes on to the end of the search.
  double ms = log.best_so_far.back().iteration.seconds() * 1e3;
  best.points.push_back({over_seconds ? state.seconds : static_cast<double>(state.candidates), ms, ms});
  chart.log_y = best.points.front().y > kFarApart * best.points.back().y;
  chart.series.push_back(std::move(best));
  return chart;
}

Chart reasons_chart(const SearchState& state) {
  const SearchLog& log = state.log;
  Chart reasons{.kind = Chart::Kind::rows, .title = "candidates", .x_label = "number"};
  ChartSeries scored{"scored", 0, false, {}}, unscored{"left out unscored", 1, false, {}},
      dropped{"of the scored", 5, false, {}};
  auto add = [&](ChartSeries& to, const std::string& name, std::int64_t count) {
    auto value = static_cast<double>(count);
    to.points.push_back({static_cast<double>(reasons.categories.size()), value, value});
    reasons.categories.push_back(name);
  };
  add(scored, "scored", state.candidates);
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) {
    auto reason = static_cast<LeftOut>(r);
    if (log.count(reason) > 0) add(is_scored(reason) ? dropped : unscored, in_words(reason), log.count(reason));
  }
  for (ChartSeries* s : {&scored, &unscored, &dropped})
    if (!s->points.empty()) reasons.series.push_back(std::move(*s));
  return reasons;
}

Chart levels_chart(const SearchState& state) {
  Chart levels{.kind = Chart::Kind::rows, .title = "time by level", .x_label = "seconds of processors"};
  ChartSeries seconds;
  for (std::size_t l = 0; l < kSearchLevels; ++l) {
    levels.categories.emplace_back(to_string(static_cast<SearchLevel>(l)));
    seconds.points.push_back({static_cast<double>(l), state.log.seconds.level[l], state.log.seconds.level[l]});
  }
  levels.series.push_back(std::move(seconds));
  return levels;
}

}  // namespace unity::report
