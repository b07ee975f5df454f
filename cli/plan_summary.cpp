#include "cli/plan_summary.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/text.h"

namespace unity::cli {
namespace {

double samples_per_second(const Plan& plan) {
  double seconds = plan.prediction.iteration.seconds();
  return seconds > 0 ? static_cast<double>(plan.global_batch) / seconds : 0;
}

}  // namespace

nlohmann::ordered_json plan_summary(const Plan& plan, const std::string& path) {
  nlohmann::ordered_json result = {{"model", plan.model.name},
                                   {"topology", plan.topology},
                                   {"nodes", plan.nodes},
                                   {"devices", plan.devices},
                                   {"strategy", plan.search.strategy},
                                   {"global_batch", plan.global_batch},
                                   {"iteration_seconds", plan.prediction.iteration.seconds()},
                                   {"samples_per_second", samples_per_second(plan)},
                                   {"communication_bytes", plan.prediction.communicated.count},
                                   {"peak_memory_bytes", plan.prediction.peak_memory.count},
                                   {"search_seconds", plan.search.seconds},
                                   {"candidates", plan.search.candidates},
                                   {"stopped_because", plan.search.stopped_because},
                                   {"lower_bound_seconds", nullptr},
                                   {"gap", nullptr},
                                   {"plan", nullptr}};
  if (auto gap = plan.optimality_gap())
    result["lower_bound_seconds"] = plan.search.lower_bound.seconds(), result["gap"] = *gap;
  if (!path.empty()) result["plan"] = path;
  return result;
}

Table empty_plan_table() {
  return Table({"strategy", "iteration", "samples/s", "communication", "peak memory", "search", "candidates", "gap"});
}

std::vector<std::string> plan_row(const Plan& plan) {
  return {plan.search.strategy,
          to_string(plan.prediction.iteration),
          fmt::format("{:.1f}", samples_per_second(plan)),
          to_string(plan.prediction.communicated),
          to_string(plan.prediction.peak_memory),
          fmt::format("{:.2f} s", plan.search.seconds),
          std::to_string(plan.search.candidates),
          plan.optimality_gap() ? fmt::format("{:.1f}%", 100 * *plan.optimality_gap()) : "-"};
}

std::string certificate_text(const Plan& plan) {
  auto gap = plan.optimality_gap();
  if (!gap && plan.schedule.fuse != Fuse::none) return "certificate: none, it is of tasks one by one, without --fuse";
  if (!gap) return "certificate: none, times on this machine are measured";
  return fmt::format("certificate: no plan is faster than {}; this one is within {:.1f}%",
                     to_string(plan.search.lower_bound), 100 * *gap);
}

Table plan_table(const std::vector<Plan>& plans) {
  Table table = empty_plan_table();
  for (const Plan& plan : plans) table.add(plan_row(plan));
  return table;
}

nlohmann::ordered_json by_category_json(const std::array<Bytes, 5>& bytes) {
  nlohmann::ordered_json result;
  for (std::size_t c = 0; c < bytes.size(); ++c)
    result[std::string(to_string(static_cast<BufferCategory>(c)))] = bytes[c].count;
  return result;
}

std::string by_category_text(const std::array<Bytes, 5>& bytes) {
  std::vector<std::pair<Bytes, std::string>> parts;
  for (std::size_t c = 0; c < bytes.size(); ++c)
    if (bytes[c].count > 0) parts.emplace_back(bytes[c], to_string(static_cast<BufferCategory>(c)));
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [count, name] : parts) texts.push_back(fmt::format("{} {}", name, to_string(count)));
  return join(texts);
}

}  // namespace unity::cli
