#include "core/report/provenance.h"

#include <algorithm>
#include <ctime>
#include <set>

#include "core/base/text.h"
#include "core/machine/collectives.h"
#include "core/machine/mapping_families.h"
#include "core/machine/profile.h"
#include "core/rewrite/library.h"

namespace unity::report {
namespace {

Hash hash_of(const ByNodes& figures) {
  Hash h = 0;
  for (double f : figures) h = combine(h, hash_number(f));
  return h;
}

Hash hash_of(const CollectiveLibrary& library) {
  Hash h = combine(hash_text(library.name), static_cast<Hash>(library.channels));
  h = combine(h, library.chains_in_nodes);
  for (CollectiveAlgorithm a : library.algorithms) h = combine(h, static_cast<Hash>(a));
  for (double e : library.link_efficiency) h = combine(h, hash_number(e));
  for (const CollectiveProtocol& p : library.protocols) {
    h = combine(combine(h, hash_text(p.name)), static_cast<Hash>(p.network_overhead.count));
    for (const auto& costs : p.costs) {
      h = combine(h, costs.has_value());
      if (!costs) continue;
      h = combine(combine(h, static_cast<Hash>(costs->base.count)), hash_of(costs->efficiency));
      for (Picoseconds hop : costs->hops) h = combine(h, static_cast<Hash>(hop.count));
    }
  }
  for (const RateLimit& limit : library.limits) {
    h = combine(combine(h, hash_text(limit.protocol)), hash_of(limit.rate));
    h = combine(h, limit.algorithm ? 1 + static_cast<Hash>(*limit.algorithm) : 0);
  }
  return h;
}

// A value of a setting as it is written in files; of lists all.
std::string text_of(const auto& value) {
  if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<std::string>>)
    return join(value, ",");
  else
    return fmt::format("{}", value);
}

}  // namespace

const std::vector<std::string>& input_columns() {
  static const std::vector<std::string> columns = {"unity_version", "unity_commit", "experiment_hash", "model_hash",
                                                   "topology_hash", "rules_hash",   "settings",        "seed"};
  return columns;
}

const std::vector<std::string>& provenance_columns() {
  static const std::vector<std::string> columns = [] {
    std::vector<std::string> all = input_columns();
    for (const char* more : {"plan_hash", "host", "started", "threads"}) all.emplace_back(more);
    return all;
  }();
  return columns;
}

std::string hex(Hash hash) { return fmt::format("{:016x}", hash); }

Hash machine_hash(const Topology& topology) {
  Hash h = combine(topology.hash(), static_cast<Hash>(topology.whole_nodes));
  for (const DeviceSpec& spec : topology.specs) {
    h = combine(combine(h, hash_number(spec.host_bandwidth.rate)), hash_number(spec.interference));
    h = combine(h, spec.profile ? hash_text(profile_to_yaml(*spec.profile)) : 0);
  }
  for (const Vertex& vertex : topology.vertices) h = combine(h, vertex.host);
  for (const Level& level : topology.levels) h = combine(h, hash_text(level.name));
  h = combine(h, topology.collectives ? hash_of(*topology.collectives) : 0);
  return combine(h, topology.mapping_families ? topology.mapping_families->text_hash() : 0);
}

Hash rules_hash(const std::vector<Rule>& further) {
  Hash h = 0;
  for (const Rule& rule : rule_library()) h = combine(h, hash_rule(rule));
  for (const Rule& rule : further) h = combine(h, hash_rule(rule));
  return h;
}

Hash plan_hash(const Plan& plan) {
  Plan run = plan;
  run.search = {};
  run.prediction = {};
  run.derivation.clear();
  return hash_text(plan_to_json(run));
}

Hash grid_hash(const std::vector<GridPoint>& grid) {
  Hash h = grid.size();
  for (const GridPoint& p : grid) h = combine(h, hash_text(p.key()));
  return h;
}

std::string settings_text(const SearchSettings& settings) {
  SearchSettings given = settings, usual;
  std::vector<report::SettingField> fields = setting_fields(given), defaults = setting_fields(usual);
  for (auto [more, from] : {std::pair{&fields, &given.schedule}, {&defaults, &usual.schedule}})
    for (SettingField& field : setting_fields(*from)) more->push_back(std::move(field));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string& name = fields[i].name;
    if (name == "jobs" || name == "seed") continue;  // the plan does not depend on it; a column of its own
    auto value = [](const SettingField& field) {
      return std::visit([](auto* at) { return text_of(*at); }, field.value);
    };
    std::string text = value(fields[i]);
    if (text == value(defaults[i]) && name != "budget" && name != "alpha") continue;
    texts.push_back(name.starts_with("no-") ? name : name + "=" + text);
  }
  return join(texts, " ");
}

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::vector<std::pair<std::string, std::string>> provenance_summary(const std::vector<ResultRow>& rows) {
  std::vector<std::pair<std::string, std::string>> summary;
  for (const std::string& column : provenance_columns()) {
    std::set<std::string> values;
    for (const ResultRow& row : rows)
      if (const std::string* value = row.find(column)) values.insert(*value);
    if (values.empty()) continue;
    std::vector<std::string> in_order(values.begin(), values.end());
    auto number = [](const std::string& value) { return number_of(value).has_value(); };
    if (std::all_of(in_order.begin(), in_order.end(), number))  // seeds: 9 before 10
      std::stable_sort(in_order.begin(), in_order.end(),
                       [](const std::string& a, const std::string& b) { return *number_of(a) < *number_of(b); });
    constexpr std::size_t kMostShown = 3;
    std::string text = join(in_order);
    if (in_order.size() > kMostShown)
      text = fmt::format("{} values, {} to {}", in_order.size(), in_order.front(), in_order.back());
    summary.emplace_back(column, text);
  }
  return summary;
}

}  // namespace unity::report
