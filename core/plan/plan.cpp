#include "core/plan/plan.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/checksum.h"
#include "core/base/nesting.h"
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/plan/json_reader.h"

namespace unity {
namespace {

using nlohmann::json;

using Reader = JsonReader;

// Of a key that is there twice, the library would take the second.
json parse_each_key_once(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string twice;
  auto see = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  json parsed = json::parse(text, see);
  if (!twice.empty()) throw_input_error("{}: key '{}' is given twice", file, twice);
  return parsed;
}

// Plans without one are older, or have none of what it says.
Schedule read_schedule(const Reader& reader, const std::string& file) {
  reader.expect_only({"order", "overlap", "bucket_bytes", "rematerialise", "offload", "weights", "zero_stage", "fuse"});
  Schedule s;
  s.order = parse_pipeline_order(reader.get_or<std::string>("order", "gpipe"), file + ": plan.schedule.order");
  s.overlap = reader.get_or<int>("overlap", 0);
  if (s.overlap < 0) throw_input_error("{}: plan.schedule.overlap: found {}, expected at least 0", file, s.overlap);
  s.bucket = {reader.get_or<std::int64_t>("bucket_bytes", 0)};
  if (s.bucket.count < 0)
    throw_input_error("{}: plan.schedule.bucket_bytes: found {}, expected at least 0", file, s.bucket.count);
  s.remat = parse_remat(fmt::format("{}", fmt::join(reader.get_or<std::vector<std::string>>("rematerialise", {}), ",")),
                        file + ": plan.schedule.rematerialise");
  s.offload = parse_offload(reader.get_or<std::string>("offload", "none"), file + ": plan.schedule.offload");
  s.weights = parse_weight_versions(reader.get_or<std::string>("weights", "newest"), file + ": plan.schedule.weights");
  s.zero_stage = reader.get_or<int>("zero_stage", 0);
  if (s.zero_stage < 0 || s.zero_stage > 3)
    throw_input_error("{}: plan.schedule.zero_stage: found {}, expected 0 to 3", file, s.zero_stage);
  s.fuse = parse_fuse(reader.get_or<std::string>("fuse", "none"), file + ": plan.schedule.fuse");
  return s;
}

// What rates are counted in is dimension 0 of the inputs; a model file may have it elsewhere, or products of it.
void check_batch(const Plan& plan, const std::string& file) {
  auto option = plan.model.options.find("batch");
  const bool given = option != plan.model.options.end();  // else it is as the graph has it
  const std::int64_t batch = plan.global_batch;
  if (given && (batch != option->second || batch < 1))
    throw_input_error("{}: plan.global_batch: found {}, expected {} as plan.model.options.batch, at least 1", file,
                      batch, option->second);
  if (batch < 1) throw_input_error("{}: plan.global_batch: found {}, expected at least 1", file, batch);
  const bool built_in = !plan.model.name.ends_with(".yaml") && !plan.model.name.ends_with(".yml");
  const Node* other = nullptr;
  for (const Node& n : plan.pcg.nodes()) {
    if (n.op->name() != "input" || n.outputs[0].dims.empty()) continue;
    const Dims dims = n.outputs[0].shape().dims;
    if (dims[0] == batch) return;
    if (!built_in && std::any_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d % batch == 0; })) return;
    if (!other) other = &n;
  }
  if (other)
    throw_input_error("{}: plan.global_batch: found {}, expected {}, dimension 0 of input '{}'", file, batch,
                      other->outputs[0].shape().dims[0], other->name);
}

// What is no task lies where the tasks that it goes to or comes from are: its mapping is not read, but has to be one.
Result<void> check_unread_mapping(const MachineMapping& mapping, int devices) {
  const int places = mapping.places.empty() ? devices : static_cast<int>(mapping.places.size());
  auto check = [](const char* what, int found, int least, int beyond) -> Result<void> {
    if (found < least || found >= beyond)
      return fail("{}: found {}, expected {} to {}", what, found, least, beyond - 1);
    return {};
  };
  UNITY_TRY_VOID(check("start", mapping.start, 0, places));
  for (int s : mapping.strides) UNITY_TRY_VOID(check("strides", s, -places, places + 1));
  for (int d : mapping.places) UNITY_TRY_VOID(check("places", d, 0, devices));
  return {};
}

}  // namespace

std::string plan_to_json(const Plan& plan) {
  json root = {{"format", "unity-plan"}, {"version", Plan::kVersion}};
  root["model"] = {{"name", plan.model.name}, {"options", plan.model.options}};
  root["machine"] = {{"topology", plan.topology},
                     {"nodes", plan.nodes},
                     {"devices", plan.devices},
                     {"hash", fmt::format("{:016x}", plan.topology_hash)}};
  root["global_batch"] = plan.global_batch;
  const OptimizerSpec& o = plan.optimizer;
  root["optimizer"] = {{"name", o.name},
                       {"learning_rate", o.learning_rate},
                       {"momentum", o.momentum},
                       {"beta1", o.beta1},
                       {"beta2", o.beta2},
                       {"epsilon", o.epsilon},
                       {"weight_decay", o.weight_decay},
                       {"nesterov", o.nesterov}};
  root["schedule"] = {{"order", to_string(plan.schedule.order)},     {"overlap", plan.schedule.overlap},
                      {"bucket_bytes", plan.schedule.bucket.count},  {"rematerialise", plan.schedule.remat},
                      {"offload", to_string(plan.schedule.offload)}, {"weights", to_string(plan.schedule.weights)},
                      {"zero_stage", plan.schedule.zero_stage},      {"fuse", to_string(plan.schedule.fuse)}};
  root["prediction"] = {{"iteration_seconds", plan.prediction.iteration.seconds()},
                        {"iteration_picoseconds", plan.prediction.iteration.count},
                        {"peak_memory_bytes", plan.prediction.peak_memory.count},
                        {"communication_bytes", plan.prediction.communicated.count}};
  root["search"] = {{"strategy", plan.search.strategy},
                    {"stopped_because", plan.search.stopped_because},
                    {"candidates", plan.search.candidates},
                    {"seconds", plan.search.seconds},
                    {"profile", plan.search.profile}};
  if (auto gap = plan.optimality_gap()) {
    root["search"]["lower_bound_picoseconds"] = plan.search.lower_bound.count;
    root["search"]["gap"] = *gap;
  }
  if (!plan.search.log.best_so_far.empty()) root["search"]["log"] = search_log_json(plan.search.log);
  root["derivation"] = json::array();
  for (const DerivationStep& s : plan.derivation)
    root["derivation"].push_back(
        {{"rule", s.rule}, {"where", s.where}, {"degree", s.degree}, {"iteration_picoseconds", s.iteration_ps}});
  root["mappings"] = json::array();
  for (const MachineMapping& m : plan.mappings) {
    root["mappings"].push_back({{"start", m.start}, {"strides", m.strides}});
    if (!m.places.empty()) root["mappings"].back()["places"] = m.places;
  }
  // One array element per line of the text form, so that plans diff well.
  root["pcg"] = json::array();
  std::string text = print(plan.pcg);
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    root["pcg"].push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  add_checksum(root);
  return root.dump(1) + "\n";
}

Plan plan_from_json(const std::string& text, const std::string& file) {
  refuse_deep_json(text, file);
  json parsed;
  try {
    parsed = parse_each_key_once(text, file);
  } catch (const json::parse_error& e) {
    refuse_cut_json(text, e.byte, file);
  } catch (const json::out_of_range&) {
    throw_input_error("{}: found a number that is out of range", file);
  }
  Reader root(parsed, file, "plan");
  if (root.get<std::string>("format") != "unity-plan")
    throw_input_error("{}: format is '{}', expected 'unity-plan'", file, root.get<std::string>("format"));
  if (root.get<int>("version") != Plan::kVersion)
    throw_input_error("{}: version is {}, expected {}", file, root.get<int>("version"), Plan::kVersion);
  take_checksum(parsed, file, Checksum::when_there);
  root.expect_only({"format", "version", "model", "machine", "global_batch", "optimizer", "schedule", "prediction",
                    "search", "derivation", "mappings", "pcg"});
  Plan plan;
  Reader model = root.child("model");
  model.expect_only({"name", "options"});
  plan.model.name = model.get<std::string>("name");
  plan.model.options = model.get<std::map<std::string, std::int64_t>>("options");
  Reader machine = root.child("machine");
  machine.expect_only({"topology", "nodes", "devices", "hash"});
  plan.topology = machine.get<std::string>("topology");
  plan.nodes = machine.get<int>("nodes");
  plan.devices = machine.get<int>("devices");
  const auto hash = machine.get<std::string>("hash");
  const auto [end, status] = std::from_chars(hash.data(), hash.data() + hash.size(), plan.topology_hash, 16);
  if (status != std::errc() || end != hash.data() + hash.size())
    throw_input_error("{}: plan.machine.hash: found '{}', expected 16 hexadecimal digits", file, hash);
  plan.global_batch = root.get<std::int64_t>("global_batch");
  Reader o = root.child("optimizer");
  o.expect_only({"name", "learning_rate", "momentum", "beta1", "beta2", "epsilon", "weight_decay", "nesterov"});
  plan.optimizer = {o.get<std::string>("name"),    o.get<double>("learning_rate"), o.get<double>("momentum"),
                    o.get<double>("beta1"),        o.get<double>("beta2"),         o.get<double>("epsilon"),
                    o.get_or("weight_decay", 0.0), o.get_or("nesterov", false)};
  check_optimizer(plan.optimizer, file + ": plan.optimizer");
  if (root.has("schedule")) plan.schedule = read_schedule(root.child("schedule"), file);
  Reader prediction = root.child("prediction");
  prediction.expect_only({"iteration_seconds", "iteration_picoseconds", "peak_memory_bytes", "communication_bytes"});
  prediction.get_or("iteration_seconds", 0.0);  // of iteration_picoseconds, for people
  plan.prediction = {{prediction.get_from_zero<std::int64_t>("iteration_picoseconds")},
                     {prediction.get_from_zero<std::int64_t>("peak_memory_bytes")},
                     {prediction.get_from_zero<std::int64_t>("communication_bytes")}};
  Reader search = root.child("search");
  search.expect_only(
      {"strategy", "stopped_because", "candidates", "seconds", "lower_bound_picoseconds", "gap", "log", "profile"});
  plan.search = {
      search.get<std::string>("strategy"),
      search.get<std::string>("stopped_because"),
      search.get_from_zero<std::int64_t>("candidates"),
      search.get_from_zero<double>("seconds"),
      {search.has("lower_bound_picoseconds") ? search.get_from_zero<std::int64_t>("lower_bound_picoseconds") : 0}};
  if (search.has("log")) plan.search.log = search_log_from_json(search.at("log"), file);
  plan.search.profile = search.get_or<std::string>("profile", "");
  for (const json& step : root.list("derivation")) {
    Reader s(step, file, "plan.derivation");
    s.expect_only({"rule", "where", "degree", "iteration_picoseconds"});
    plan.derivation.push_back({s.get<std::string>("rule"), s.get<std::string>("where"), s.get<int>("degree"),
                               s.get<std::int64_t>("iteration_picoseconds")});
  }
  std::string pcg;
  for (const json& line : root.list("pcg")) {
    if (!line.is_string()) throw_input_error("{}: plan.pcg: found {}, expected lines of text", file, line.type_name());
    pcg += line.get<std::string>() + "\n";
  }
  plan.pcg = parse_pcg(pcg, file + ":pcg");
  check_batch(plan, file);
  plan.model.options.emplace("batch", plan.global_batch);  // that the graph has, for who builds the model anew
  for (const json& mapping : root.list("mappings")) {
    Reader m(mapping, file, "plan.mappings");
    m.expect_only({"start", "strides", "places"});
    plan.mappings.push_back(
        {m.get<int>("start"), m.get<std::vector<int>>("strides"), m.get_or<std::vector<int>>("places", {})});
  }
  if (plan.mappings.size() != plan.pcg.size())
    throw_input_error("{}: plan.mappings: found {}, expected {} (one for each node)", file, plan.mappings.size(),
                      plan.pcg.size());
  return plan;
}

void save_plan(const Plan& plan, const std::string& path) { write_file_atomically(path, plan_to_json(plan)); }

Plan load_plan(const std::string& path) {
  std::string text = read_file(path);
  refuse_no_json(text, path, "a plan, as unity search -o FILE.json writes it");
  return plan_from_json(text, path);
}

Result<void> check_plan(const Plan& plan, const Topology& topology) {
  if (plan.devices != static_cast<int>(topology.device_count()))
    return fail("plan for {} devices of {}: the machine has {} devices", plan.devices, plan.topology,
                topology.device_count());
  if (plan.topology_hash != topology.hash())
    return fail(
        "plan for another machine: it was made for {} devices of {} (hash {:016x}), found {} devices of {} (hash "
        "{:016x}); a topology or device file that has changed makes another machine",
        plan.devices, plan.topology, plan.topology_hash, topology.device_count(), topology.name, topology.hash());
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = plan.pcg[id];
    const bool read = !n.is_parallelization() && (!n.is_leaf() || n.op->stored());
    auto ok = read ? check_mapping(plan.mappings[i], node_grid(plan.pcg, id), plan.devices)
                   : check_unread_mapping(plan.mappings[i], plan.devices);
    if (!ok.ok()) return fail("mapping of {} ({}): {}", n.name, n.op->name(), ok.error().message);
  }
  return {};
}

}  // namespace unity
