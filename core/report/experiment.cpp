#include "core/report/experiment.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/read_yaml.h"
#include "core/base/text.h"
#include "core/models/models.h"
#include "core/search/parallelism.h"

namespace unity::report {
namespace {

// A mapping of a file that says where it is wrong.
class Section {
 public:
  Section(const std::string& file, YAML::Node node, const std::string& what, const std::vector<std::string>& keys)
      : file_(file), node_(std::move(node)) {
    if (!node_.IsMap()) fail_at(node_, fmt::format("found no mapping, expected {}", what));
    for (const auto& entry : node_) {
      if (!entry.first.IsScalar()) fail_at(entry.first, "found a nested key, expected a name");
      std::string key = entry.first.Scalar();
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail_at(entry.first, fmt::format("unknown key '{}'{}", key, suggestion(key, keys)));
    }
  }

  [[noreturn]] void fail_at(const YAML::Node& node, const std::string& message) const {
    throw InputError(fmt::format("{}:{}:{}: {}", file_, node.Mark().line + 1, node.Mark().column + 1, message));
  }
  [[noreturn]] void fail_at(const std::string& key, const std::string& message) const {
    fail_at(node_[key] ? node_[key] : node_, fmt::format("{}: {}", key, message));
  }

  YAML::Node at(const std::string& key) const { return node_[key]; }
  bool has(const std::string& key) const { return static_cast<bool>(node_[key]); }
  const std::string& file() const { return file_; }

  template <class T>
  T convert(const std::string& key, const YAML::Node& item) const {
    constexpr const char* kExpected = std::is_same_v<T, std::string> ? "a name"
                                      : std::is_same_v<T, bool>      ? "true or false"
                                      : std::is_floating_point_v<T>  ? "a number"
                                                                     : "an integer";
    try {
      if (item.IsScalar()) return item.as<T>();
    } catch (const YAML::Exception&) {
    }
    fail_at(item, fmt::format("{}: found '{}', expected {}", key, item.IsScalar() ? item.Scalar() : "a nested value",
                              kExpected));
  }
  template <class T>
  T get(const std::string& key, T fallback) const {
    return has(key) ? convert<T>(key, at(key)) : fallback;
  }
  std::string required(const std::string& key) const {
    if (!has(key)) fail_at(node_, fmt::format("key '{}' is missing", key));
    return convert<std::string>(key, at(key));
  }
  // One value or a list of them; integers are at least 1.
  template <class T>
  std::vector<T> list(const std::string& key, std::vector<T> fallback) const {
    if (!has(key)) return fallback;
    std::vector<T> values;
    auto add = [&](const YAML::Node& item) {
      values.push_back(convert<T>(key, item));
      if constexpr (std::is_integral_v<T>)
        if (values.back() < 1) fail_at(item, fmt::format("{}: found {}, expected at least 1", key, values.back()));
    };
    if (at(key).IsSequence())
      for (const YAML::Node& item : at(key)) add(item);
    else
      add(at(key));
    if (values.empty()) fail_at(key, "the list is empty");
    return values;
  }
  void check_known(const std::string& key, const YAML::Node& item, const std::vector<std::string>& known) const {
    if (std::find(known.begin(), known.end(), item.Scalar()) == known.end())
      fail_at(item, fmt::format("{}: '{}' is not known{}", key, item.Scalar(), suggestion(item.Scalar(), known)));
  }
  // The same, each one of the known names or, where files are, a path.
  std::vector<std::string> names(const std::string& key, std::vector<std::string> fallback,
                                 const std::vector<std::string>& known, bool files = false) const {
    std::vector<std::string> values = list<std::string>(key, std::move(fallback));
    for (std::size_t i = 0; has(key) && i < values.size(); ++i)
      if (!(files && values[i].ends_with(".yaml")))
        check_known(key, at(key).IsSequence() ? at(key)[i] : at(key), known);
    return values;
  }
  std::string name(const std::string& key, const std::string& fallback, const std::vector<std::string>& known) const {
    check_one(key);
    return names(key, {fallback}, known).front();
  }
  // Not a list of several, of which but the first would be left out.
  void check_one(const std::string& key) const {
    if (has(key) && at(key).IsSequence() && at(key).size() > 1)
      fail_at(key, fmt::format("found a list of {}, expected one value", at(key).size()));
  }

 private:
  std::string file_;
  YAML::Node node_;
};

Variant read_variant(const std::string& file, const YAML::Node& node) {
  Variant v;
  Section s(file, node, "a variant",
            {"name",       "strategy",     "without", "parallelism",     "budget",     "alpha",    "seed",
             "time-limit", "memory-limit", "stages",  "micro-batches",   "mappings",   "schedule", "overlap",
             "bucket",     "remat",        "offload", "weight-versions", "zero-stage", "fuse"});
  v.name = s.required("name");
  v.strategy = s.name("strategy", "unity", strategy_names());
  SearchOptions& o = v.settings.search;
  const std::map<std::string, bool*> parts = {{"splitting", &o.splitting},
                                              {"algebra", &o.algebra},
                                              {"dp", &o.mapping_dp},
                                              {"cache", &o.cache},
                                              {"incremental-matching", &o.incremental_matching},
                                              {"buckets", &o.buckets},
                                              {"overlap", &o.overlap},
                                              {"stored-parts", &o.stored_parts},
                                              {"seeds", &o.seeds},
                                              {"templates", &o.templates},
                                              {"growth", &o.growth},
                                              {"uneven", &o.uneven}};
  for (const std::string& part : s.names("without", {},
                                         {"splitting", "algebra", "dp", "cache", "incremental-matching", "buckets",
                                          "overlap", "stored-parts", "seeds", "templates", "growth", "uneven"}))
    *parts.at(part) = false;
  v.settings.parallelism = join(s.names("parallelism", {}, parallelism_kinds()), ",");
  for (const auto& [key, value] :
       {std::pair{"budget", &o.budget}, {"stages", &o.stages}, {"micro-batches", &o.micro_batches}}) {
    s.check_one(key);
    *value = s.list<int>(key, {*value}).front();
  }
  o.alpha = s.get("alpha", o.alpha);
  o.seed = s.get("seed", o.seed);
  o.time_limit = s.get("time-limit", o.time_limit);
  if (!(o.alpha >= 1)) s.fail_at("alpha", fmt::format("found {}, expected at least 1", o.alpha));
  if (!(o.time_limit >= 0)) s.fail_at("time-limit", fmt::format("found {}, expected at least 0 s", o.time_limit));
  v.settings.memory_limit = s.get<std::string>("memory-limit", "");
  try {
    parse_memory("memory-limit", v.settings.memory_limit);
  } catch (const InputError& error) {
    s.fail_at(s.at("memory-limit"), error.what());
  }
  for (const SettingField& field : setting_fields(v.settings.schedule)) {
    if (!s.has(field.name)) continue;
    *std::get<std::string*>(field.value) = join(s.list<std::string>(field.name, {}), ",");
    try {
      Schedule schedule;
      v.settings.schedule.apply(schedule);
    } catch (const InputError& error) {
      s.fail_at(field.name, error.what());
    }
  }
  v.settings.mappings = s.get<std::string>("mappings", "");
  std::vector<std::string> settings;
  for (const auto& entry : node)
    if (std::string key = entry.first.Scalar(); key != "name") {
      std::vector<std::string> values = s.list<std::string>(key, {});
      settings.push_back(key + "=" + join(values, ","));
    }
  v.text = join(settings, " ");
  return v;
}

std::vector<Variant> read_variants(const Section& root) {
  if (root.has("variants") && root.has("strategies"))
    root.fail_at("variants", "found beside 'strategies', expected one of them");
  std::vector<Variant> variants;
  if (!root.has("variants")) {
    for (const std::string& name : root.names("strategies", {"unity"}, strategy_names())) {
      variants.emplace_back();
      variants.back().name = variants.back().strategy = name;
    }
    return variants;
  }
  if (!root.at("variants").IsSequence()) root.fail_at("variants", "expected a list");
  std::set<std::string> names;
  for (const YAML::Node& node : root.at("variants")) {
    variants.push_back(read_variant(root.file(), node));
    if (!names.insert(variants.back().name).second)
      root.fail_at(node, fmt::format("variant '{}' is there twice", variants.back().name));
  }
  if (variants.empty()) root.fail_at("variants", "the list is empty");
  return variants;
}

Published read_published(const Section& figure, const YAML::Node& node) {
  auto number = [&](const YAML::Node& at) {
    const auto value = figure.convert<double>("published", at);
    if (!(value > 0) || !std::isfinite(value))
      figure.fail_at(at, fmt::format("published: found {}, expected a number above 0", at.Scalar()));
    return value;
  };
  if (!node.IsSequence()) {
    const double value = number(node);
    return {value, value};
  }
  if (node.size() != 2) figure.fail_at(node, "published: expected a number, or two of a range");
  Published range{number(node[0]), number(node[1])};
  if (range.second < range.first) figure.fail_at(node, "published: expected the smaller number of a range first");
  return range;
}

// Columns that rows have only where the grid has the key.
void check_in_grid(const Section& root, const Section& figure, const std::string& key, const std::string& column) {
  for (const auto& [of_rows, of_grid] : {std::pair{"batch_per_gpu", "batch-per-gpu"},
                                         {"seq_len", "seq-len"},
                                         {"layers", "layers"},
                                         {"budget", "budget"}})
    if (column == of_rows && !root.has(of_grid))
      figure.fail_at(key,
                     fmt::format("found '{}', which no point has, as the experiment has no '{}'", column, of_grid));
}

Figure read_figure(const Section& root, const YAML::Node& node, const std::vector<Variant>& variants) {
  static const std::vector<std::string> kColumns = {"model",    "topology", "nodes",         "devices",
                                                    "strategy", "variant",  "batch_per_gpu", "global_batch",
                                                    "seq_len",  "layers",   "budget"};
  const std::string& file = root.file();
  Section s(
      file, node, "a figure",
      {"name", "title", "kind", "x", "y", "series", "panels", "only", "over", "take", "log", "published", "source"});
  Figure f;
  f.name = s.required("name");
  if (f.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos)
    s.fail_at("name", fmt::format("found '{}', expected a file's name of letters, digits and -", f.name));
  f.title = s.get<std::string>("title", f.name);
  f.lines = s.name("kind", "bars", {"bars", "lines"}) == "lines";
  std::vector<std::string> measured;
  for (const auto& [key, more] : quantities()) measured.push_back(key);
  s.required("x"), s.required("y");
  f.x = s.name("x", "", kColumns);
  f.y = s.name("y", "", measured);
  if (f.lines && (f.x == "model" || f.x == "topology" || f.x == "strategy" || f.x == "variant"))
    s.fail_at("x", fmt::format("found '{}', expected a column of numbers, along which lines are drawn", f.x));
  f.series = s.name("series", "variant", kColumns);
  if (s.has("panels")) f.panels = s.name("panels", "", kColumns);
  f.take = s.name("take", "max", {"max", "min", "mean"});
  f.source = s.get<std::string>("source", f.source);
  for (const auto& [key, column] : {std::pair{"x", f.x}, {"series", f.series}, {"panels", f.panels}})
    check_in_grid(root, s, key, column);
  for (const std::string& axis : s.names("log", {}, {"x", "y"})) (axis == "x" ? f.log_x : f.log_y) = true;
  if (f.log_x && !f.lines) s.fail_at("log", "found x, expected y: bars stand side by side");
  std::vector<std::string> names;
  for (const Variant& v : variants) names.push_back(v.name);
  f.over = s.names("over", {}, names);
  if (s.has("only")) {
    Section only(file, s.at("only"), "columns and their values", kColumns);
    std::vector<std::string> strategies;
    for (const Variant& v : variants) strategies.push_back(v.strategy);
    const std::map<std::string, std::vector<std::string>> values_of = {
        {"model", root.list<std::string>("models", {})},
        {"topology", root.list<std::string>("topologies", {})},
        {"strategy", strategies},
        {"variant", names}};
    for (const auto& entry : s.at("only")) {
      std::string column = entry.first.Scalar();
      check_in_grid(root, only, column, column);
      auto known = values_of.find(column);
      f.only[column] =
          known == values_of.end() ? only.list<std::string>(column, {}) : only.names(column, {}, known->second);
    }
  }
  if (s.has("published")) {
    if (!s.at("published").IsMap()) s.fail_at("published", "expected values by series and x");
    if (s.has("panels")) s.fail_at("published", "found beside 'panels', expected a figure of one chart");
    for (const auto& series : s.at("published")) {
      if (f.series == "variant") s.check_known("published", series.first, names);
      if (!series.second.IsMap()) s.fail_at(series.second, "published: expected values by x");
      for (const auto& x : series.second)
        f.published[series.first.Scalar()][x.first.Scalar()] = read_published(s, x.second);
    }
  }
  return f;
}

// The lists are multiplied before there is a point.
void check_points(const Section& root, std::size_t variants) {
  constexpr std::size_t kMostPoints = 1'000'000;
  std::size_t points = variants;
  for (const char* key :
       {"models", "topologies", "nodes", "devices", "batch-per-gpu", "global-batch", "seq-len", "layers", "budget"}) {
    if (root.has(key) && root.at(key).IsSequence()) points *= std::max<std::size_t>(root.at(key).size(), 1);
    if (points > kMostPoints)
      root.fail_at(key, fmt::format("with it there are more than {} points, expected at most as many", kMostPoints));
  }
}

// Numbers of devices that some machine of the grid has; machines that cannot be read are no business of theirs.
void check_devices(const Section& root, const std::vector<std::string>& topologies, const std::vector<int>& nodes) {
  if (!root.has("devices")) return;
  const YAML::Node at = root.at("devices");
  for (std::size_t i = 0; i < (at.IsSequence() ? at.size() : 1); ++i) {
    const YAML::Node item = at.IsSequence() ? at[i] : at;
    const int devices = root.convert<int>("devices", item);
    std::string why;
    auto fits = [&](const std::string& topology, int node_count) {
      try {
        load_topology(topology, {node_count, 0});
      } catch (const InputError&) {
        return true;
      }
      try {
        load_topology(topology, {node_count, devices});
        return true;
      } catch (const InputError& error) {
        why = error.what();
        return false;
      }
    };
    bool some = false;
    for (const std::string& topology : topologies)
      for (std::size_t n = 0; n < nodes.size() && !some; ++n) some = fits(topology, nodes[n]);
    if (!some) root.fail_at(item, "devices: " + why);
  }
}

void check_mappings_files(const Section& root) {
  if (!root.has("variants")) return;
  for (const YAML::Node& variant : root.at("variants")) {
    const YAML::Node file = variant["mappings"];
    if (!file) continue;
    try {
      read_file(file.Scalar());
    } catch (const InputError& error) {
      root.fail_at(file, fmt::format("mappings: {}", error.what()));
    }
  }
}

}  // namespace

std::string GridPoint::key() const {
  std::string text = fmt::format("{}/{}/nodes={}/devices={}/{}", model, topology, nodes, devices, variant.name);
  if (!variant.text.empty()) text += fmt::format(" ({})", variant.text);
  if (batch_per_gpu) text += fmt::format("/batch-per-gpu={}", batch_per_gpu);
  if (global_batch) text += fmt::format("/global-batch={}", global_batch);
  if (seq_len) text += fmt::format("/seq-len={}", seq_len);
  if (layers) text += fmt::format("/layers={}", layers);
  if (budget) text += fmt::format("/budget={}", budget);
  return text;
}

const std::map<std::string, bool>& quantities() {
  static const std::map<std::string, bool> list = {{"iteration_seconds", false},       {"samples_per_second", true},
                                                   {"communication_bytes", false},     {"peak_memory_bytes", false},
                                                   {"search_seconds", false},          {"candidates", false},
                                                   {"search_processor_seconds", false}};
  return list;
}

Experiment load_experiment(const std::string& file, bool to_run) {
  YAML::Node node = read_yaml(read_file(file), file);
  if (!node.IsMap())
    throw_input_error("{}:1:1: found no mapping, expected an experiment (format: unity-experiment)", file);
  Section root(file, node, "an experiment",
               {"format", "version", "name", "models", "topologies", "nodes", "devices", "strategies", "variants",
                "batch-per-gpu", "global-batch", "seq-len", "layers", "budget", "figures"});
  if (root.has("batch-per-gpu") && root.has("global-batch"))
    root.fail_at("global-batch", "found beside 'batch-per-gpu', expected one of them");
  for (const char* key : {"format", "version", "models", "topologies"})
    if (!root.has(key)) root.fail_at(node, fmt::format("key '{}' is missing", key));
  if (std::string format = root.get<std::string>("format", ""); format != "unity-experiment")
    root.fail_at("format", fmt::format("found '{}', expected unity-experiment", format));
  if (root.get("version", 0) != 1)
    root.fail_at("version", fmt::format("found '{}', expected 1", root.get<std::string>("version", "")));
  Experiment e;
  e.name = root.get<std::string>("name", file);
  std::vector<Variant> variants = read_variants(root);
  check_points(root, variants.size());
  for (const std::string& model : root.names("models", {}, model_names(), true))
    for (const std::string& topology : root.names("topologies", {}, topology_names(), true))
      for (int nodes : root.list<int>("nodes", {0}))
        for (int devices : root.list<int>("devices", {0}))
          for (std::int64_t batch : root.list<std::int64_t>("batch-per-gpu", {0}))
            for (std::int64_t seq : root.list<std::int64_t>("seq-len", {0}))
              for (std::int64_t layers : root.list<std::int64_t>("layers", {0}))
                for (int budget : root.list<int>("budget", {0}))
                  for (std::int64_t samples : root.list<std::int64_t>("global-batch", {0}))
                    for (const Variant& v : variants)
                      e.grid.push_back({model, topology, v, nodes, devices, batch, seq, layers, budget, samples});
  if (to_run) {
    check_mappings_files(root);
    check_devices(root, root.names("topologies", {}, topology_names(), true), root.list<int>("nodes", {0}));
  }
  if (!root.has("figures")) return e;
  if (!root.at("figures").IsSequence()) root.fail_at("figures", "expected a list");
  std::set<std::string> names;
  for (const YAML::Node& figure : root.at("figures")) {
    e.figures.push_back(read_figure(root, figure, variants));
    if (!names.insert(e.figures.back().name).second)
      root.fail_at(figure, fmt::format("figure '{}' is there twice", e.figures.back().name));
  }
  return e;
}

}  // namespace unity::report
