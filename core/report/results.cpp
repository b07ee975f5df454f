#include "core/report/results.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/base/nesting.h"
#include "core/base/text.h"

namespace unity::report {

using nlohmann::ordered_json;

const std::string* ResultRow::find(const std::string& column) const {
  for (const auto& [name, value] : cells)
    if (name == column) return &value;
  return nullptr;
}

std::string ResultRow::text(const std::string& column) const {
  const std::string* value = find(column);
  return value ? *value : std::string();
}

std::optional<double> ResultRow::number(const std::string& column) const {
  const std::string* value = find(column);
  return value ? number_of(*value) : std::nullopt;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return {};
  return value;
}

bool is_results(const std::string& text) { return text.substr(0, 400).find("\"unity-results\"") != std::string::npos; }

Results results_from_json(const std::string& text, const std::string& file) {
  refuse_deep_json(text, file);
  refuse_no_json(text, file, "the results of a sweep (results.json)");
  Results results;
  try {
    ordered_json in = ordered_json::parse(text);
    if (!in.is_object() || in.value("format", "") != "unity-results")
      throw_input_error("{}: is not the result of a sweep", file);
    if (int version = in.value("version", 1); version > Results::kVersion)
      throw_input_error("{}: found version {}, expected at most {}: a newer unity wrote it", file, version,
                        Results::kVersion);
    results.experiment = in.value("experiment", "");
    results.shard = in.value("shard", "");
    results.grid = in.value("grid", "");
    if (in.contains("measured")) results.measured = in["measured"].get<std::vector<std::string>>();
    for (const ordered_json& from : in.at("rows")) {
      if (!from.is_object()) throw_input_error("{}: is not the result of a sweep: found a row that is none", file);
      ResultRow& row = results.rows.emplace_back();
      for (const auto& [column, value] : from.items())
        if (!value.is_null())
          row.cells.emplace_back(column, value.is_string() ? value.get<std::string>() : value.dump());
    }
  } catch (const ordered_json::parse_error& error) {
    refuse_cut_json(text, error.byte, file);
  } catch (const ordered_json::exception&) {
    throw_input_error("{}: is not the result of a sweep: found a key of another type, or a number out of range", file);
  }
  return results;
}

const std::vector<std::string>& result_columns() {
  static const std::vector<std::string> columns = {"point",
                                                   "model",
                                                   "topology",
                                                   "nodes",
                                                   "devices",
                                                   "strategy",
                                                   "variant",
                                                   "batch_per_gpu",
                                                   "global_batch",
                                                   "seq_len",
                                                   "layers",
                                                   "budget",
                                                   "iteration_seconds",
                                                   "samples_per_second",
                                                   "communication_bytes",
                                                   "peak_memory_bytes",
                                                   "search_seconds",
                                                   "search_processor_seconds",
                                                   "candidates",
                                                   "stopped_because",
                                                   "lower_bound_seconds",
                                                   "gap",
                                                   "plan",
                                                   "error",
                                                   "unity_version",
                                                   "unity_commit",
                                                   "experiment_hash",
                                                   "model_hash",
                                                   "topology_hash",
                                                   "rules_hash",
                                                   "settings",
                                                   "seed",
                                                   "plan_hash",
                                                   "host",
                                                   "started",
                                                   "threads"};
  return columns;
}

const std::vector<std::string>& measured_columns() {
  static const std::vector<std::string> columns = {"search_seconds", "search_processor_seconds", "host", "started",
                                                   "threads"};
  return columns;
}

bool stopped_for_time(const ResultRow& row) {
  std::string why = row.text("stopped_because");
  return why.starts_with("time limit") || why.starts_with("interrupted");
}

std::string place_of(const ResultRow& row) {
  std::string place;
  for (const char* column :
       {"model", "topology", "nodes", "devices", "batch_per_gpu", "global_batch", "seq_len", "layers", "budget"})
    place += row.text(column) + "\n";
  return place;
}

std::string plan_beside(const ResultRow& row, const std::string& results_file) {
  namespace fs = std::filesystem;
  fs::path name = fs::path(row.text("plan")).filename();
  if (name.empty() || name == "." || name == "..") return {};
  fs::path beside = fs::path(results_file).parent_path() / "plans" / name;
  std::error_code error;
  return fs::is_regular_file(beside, error) ? beside.string() : std::string();
}

std::string to_csv(const std::vector<std::string>& columns, const std::vector<ResultRow>& rows) {
  std::string text = join(columns, ",") + "\n";
  for (const ResultRow& row : rows) {
    std::vector<std::string> fields;
    for (const std::string& column : columns) {
      std::string field = row.text(column);
      if (field.find_first_of(",\"\n\r") != std::string::npos) {
        std::string quoted = "\"";
        for (char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
        field = quoted + "\"";
      }
      fields.push_back(field);
    }
    text += join(fields, ",") + "\n";
  }
  return text;
}

}  // namespace unity::report
