#include "core/plan/search_log.h"

#include "core/plan/json_reader.h"

namespace unity {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kLeftOutReasons> kReasons = {
    "not_allowed", "refused",       "too_many_tasks", "long_path",   "much_work",
    "duplicate",   "given_up",      "over_budget",    "interrupted", "not_runnable",
    "not_told",    "slow_estimate", "above_alpha",    "rejected",    "does_not_fit"};
constexpr std::array<std::string_view, kSearchLevels> kLevels = {"split", "substitution", "mapping", "lowering",
                                                                 "simulation"};

}  // namespace

std::string_view to_string(LeftOut reason) { return kReasons.at(static_cast<std::size_t>(reason)); }

std::string_view to_string(SearchLevel level) { return kLevels.at(static_cast<std::size_t>(level)); }

std::int64_t SearchLog::left_out_unscored() const {
  std::int64_t sum = 0;
  for (std::size_t r = 0; r < kLeftOutReasons; ++r)
    if (!is_scored(static_cast<LeftOut>(r))) sum += left_out[r];
  return sum;
}

json search_log_json(const SearchLog& log) {
  json left_out = json::object(), levels = json::object(), best = json::array();
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) left_out[std::string(kReasons[r])] = log.left_out[r];
  for (std::size_t l = 0; l < kSearchLevels; ++l) levels[std::string(kLevels[l])] = log.seconds.level[l];
  for (const BestSoFar& b : log.best_so_far)
    best.push_back({{"candidates", b.candidates}, {"iteration_picoseconds", b.iteration.count}});
  return {{"interrupted", log.interrupted},
          {"left_out", left_out},
          {"best_so_far", best},
          {"parts", {{"solved", log.parts_solved}, {"reused", log.parts_reused}}},
          {"seconds", {{"best_so_far", log.seconds.best_so_far}, {"levels", levels}}}};
}

SearchLog search_log_from_json(const json& object, const std::string& file) {
  JsonReader reader(object, file, "plan.search.log");
  reader.expect_only({"interrupted", "left_out", "best_so_far", "parts", "seconds"});
  SearchLog log;
  log.interrupted = reader.get<bool>("interrupted");
  JsonReader left_out = reader.child("left_out"), parts = reader.child("parts"), seconds = reader.child("seconds"),
             levels = seconds.child("levels");
  left_out.expect_only({kReasons.begin(), kReasons.end()});
  levels.expect_only({kLevels.begin(), kLevels.end()});
  parts.expect_only({"solved", "reused"});
  seconds.expect_only({"best_so_far", "levels"});
  for (std::size_t r = 0; r < kLeftOutReasons; ++r)
    log.left_out[r] = left_out.get_or<std::int64_t>(kReasons[r].data(), 0);
  for (std::size_t l = 0; l < kSearchLevels; ++l) log.seconds.level[l] = levels.get_or<double>(kLevels[l].data(), 0);
  for (const json& point : reader.list("best_so_far")) {
    JsonReader p(point, file, "plan.search.log.best_so_far");
    p.expect_only({"candidates", "iteration_picoseconds"});
    log.best_so_far.push_back({p.get<std::int64_t>("candidates"), {p.get<std::int64_t>("iteration_picoseconds")}});
  }
  log.parts_solved = parts.get<std::int64_t>("solved"), log.parts_reused = parts.get<std::int64_t>("reused");
  log.seconds.best_so_far = seconds.get<std::vector<double>>("best_so_far");
  if (log.seconds.best_so_far.size() != log.best_so_far.size())
    throw_input_error("{}: plan.search.log.seconds.best_so_far: found {}, expected {} (one for each of best_so_far)",
                      file, log.seconds.best_so_far.size(), log.best_so_far.size());
  return log;
}

}  // namespace unity
