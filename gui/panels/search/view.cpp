#include "gui/panels/search/view.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/report/search_charts.h"

namespace unity::gui {
namespace {

constexpr double kRateOver = 1;  // seconds over which candidates are counted
constexpr std::size_t kMostPoints = 300;

}  // namespace

report::Chart rate_chart(const std::vector<std::pair<double, double>>& scored) {
  report::Chart chart{.kind = report::Chart::Kind::lines,
                      .title = "candidates a second",
                      .x_label = "seconds",
                      .y_label = "candidates/s"};
  report::ChartSeries rate;
  rate.color = 2;
  std::size_t step = std::max<std::size_t>(1, scored.size() / kMostPoints), before = 0;
  for (std::size_t i = 1; i < scored.size(); i += step) {
    while (before + 1 < i && scored[i].first - scored[before].first > kRateOver) ++before;
    double seconds = scored[i].first - scored[before].first;
    if (seconds <= 0) continue;
    double value = (scored[i].second - scored[before].second) / seconds;
    rate.points.push_back({scored[i].first, value, value});
  }
  if (!rate.points.empty()) chart.series.push_back(std::move(rate));
  return chart;
}

SearchView search_view(const SearchRun::Status& status, const std::vector<Snapshot>& found) {
  SearchView view;
  const SearchState& state = status.state;
  const SearchLog& log = state.log;
  std::string best = "none yet";
  if (!log.best_so_far.empty())
    best =
        fmt::format("{} after {:.1f} s", to_string(log.best_so_far.back().iteration), log.seconds.best_so_far.back());
  view.facts.emplace_back("best so far", best);
  view.facts.emplace_back("candidates", fmt::format("{} scored in {:.1f} s, {} left out unscored", state.candidates,
                                                    state.seconds, log.left_out_unscored()));
  if (log.parts_solved + log.parts_reused > 0)
    view.facts.emplace_back("parts", fmt::format("{} solved, {} times reused", log.parts_solved, log.parts_reused));
  if (!status.done) {
    view.facts.emplace_back(
        "queue", fmt::format("{} to be scored, {} to be expanded", state.queue.to_score, state.queue.to_expand));
    view.facts.emplace_back("now", fmt::format("{:.0f}%  {}", 100 * status.progress.fraction, status.progress.stage));
  } else if (!found.empty() && !found.front()->plan->search.stopped_because.empty()) {
    view.facts.emplace_back("stopped", found.front()->plan->search.stopped_because);
  }
  view.charts = {report::best_so_far_chart(state, true), rate_chart(status.scored), report::reasons_chart(state),
                 report::levels_chart(state)};
  view.charts[0].close = true;
  view.front = {.kind = report::Chart::Kind::steps,
                .title = "plans found: time and memory (click to open)",
                .x_label = "iteration (ms)",
                .y_label = "peak memory (GB)",
                .close = true};
  report::ChartSeries plans;
  for (const Snapshot& document : found) {
    double ms = document->plan->prediction.iteration.seconds() * 1e3;
    double gb = static_cast<double>(document->plan->prediction.peak_memory.count) * 1e-9;
    plans.points.push_back({ms, gb, gb});
  }
  if (!plans.points.empty()) view.front.series.push_back(std::move(plans));
  return view;
}

}  // namespace unity::gui
