#include "cli/search_log_text.h"

#include <algorithm>
#include <map>

#include "cli/table.h"
#include "core/base/text.h"
#include "core/report/search_charts.h"

namespace unity::cli {
namespace {

// "12 duplicate, 3 refused": most first, without zeros.
std::string reasons(const SearchLog& log, bool scored) {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) {
    auto reason = static_cast<LeftOut>(r);
    if (is_scored(reason) == scored && log.count(reason) > 0)
      counts.emplace_back(log.count(reason), report::in_words(reason));
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
  SearchState state = report::state_of(plan);
  std::vector<report::Chart> panels;
  if (!state.log.best_so_far.empty())
    panels = {report::best_so_far_chart(state, false), report::best_so_far_chart(state, true),
              report::reasons_chart(state), report::levels_chart(state)};
  return report::draw_charts(title, panels);
}

}  // namespace unity::cli
