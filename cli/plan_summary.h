// How plans and their predictions are reported: the keys of search, compare and sweep.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/table.h"
#include "core/plan/plan.h"

namespace unity::cli {

// model, topology, nodes, devices, strategy, global_batch, iteration_seconds, samples_per_second, communication_bytes,
// peak_memory_bytes, search_seconds, candidates, stopped_because, lower_bound_seconds and gap (null: none), plan
// (`path`, null where it was not written).
nlohmann::ordered_json plan_summary(const Plan& plan, const std::string& path = {});

Table plan_table(const std::vector<Plan>& plans);
Table empty_plan_table();
std::vector<std::string> plan_row(const Plan& plan);
// "certificate: no plan is faster than 251.3 ms; this one is within 19.4%"
std::string certificate_text(const Plan& plan);

// Bytes by BufferCategory: {"weight": 400, ..}; "weight 400 B, gradient 400 B", largest first, without zeros.
nlohmann::ordered_json by_category_json(const std::array<Bytes, 5>& bytes);
std::string by_category_text(const std::array<Bytes, 5>& bytes);

}  // namespace unity::cli
