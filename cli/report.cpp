#include "cli/report.h"

#include <nlohmann/json.hpp>

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
                                   {"plan", nullptr}};
  if (!path.empty()) result["plan"] = path;
  return result;
}

Table empty_plan_table() {
  return Table({"strategy", "iteration", "samples/s", "communication", "peak memory", "search", "candidates"});
}

std::vector<std::string> plan_row(const Plan& plan) {
  return {plan.search.strategy,
          to_string(plan.prediction.iteration),
          fmt::format("{:.1f}", samples_per_second(plan)),
          to_string(plan.prediction.communicated),
          to_string(plan.prediction.peak_memory),
          fmt::format("{:.2f} s", plan.search.seconds),
          std::to_string(plan.search.candidates)};
}

Table plan_table(const std::vector<Plan>& plans) {
  Table table = empty_plan_table();
  for (const Plan& plan : plans) table.add(plan_row(plan));
  return table;
}

}  // namespace unity::cli
