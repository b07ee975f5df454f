#include "core/report/search_settings.h"

#include <charconv>
#include <map>

#include "core/base/text.h"
#include "core/machine/mapping_families.h"
#include "core/rewrite/library.h"
#include "core/rewrite/proof.h"

namespace unity::report {

namespace {

int parse_overlap(const std::string& text) {
  int count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0)
    throw_input_error("--overlap: found '{}', expected a number of micro-batches, or 0", text);
  return count;
}

}  // namespace

void ScheduleSettings::apply(Schedule& schedule) const {
  if (!order.empty()) schedule.order = parse_pipeline_order(order, "--pipeline-schedule");
  if (!overlap.empty()) schedule.overlap = parse_overlap(overlap);
  if (!bucket.empty()) schedule.bucket = bucket == "0" ? Bytes{} : parse_memory("--bucket", bucket);
  if (!offload.empty()) schedule.offload = parse_offload(offload, "--offload");
  if (!weights.empty()) schedule.weights = parse_weight_versions(weights, "--weight-versions");
  if (!zero_stage.empty()) schedule.zero_stage = parse_zero_stage(zero_stage, "--zero-stage");
  if (!fuse.empty()) schedule.fuse = parse_fuse(fuse, "--fuse");
  if (!remat.empty()) schedule.remat = parse_remat(remat, "--remat");
}

std::vector<SettingField> setting_fields(ScheduleSettings& s) {
  return {
      {"schedule", "Order of micro-batches: gpipe (default), 1f1b, interleaved, zb-h1", &s.order},
      {"overlap",
       "Micro-batches that a stage takes at once, so that one is computed while another is communicated; with 1, "
       "weights' gradients are (default: 0, as they come)",
       &s.overlap},
      {"bucket",
       "Join all-reduces of gradients until they have so many bytes, as in '25 MB' (default: each on its own)",
       &s.bucket},
      {"remat",
       "Activations to compute again in the backward pass: none, blocks, all (about sqrt(n) segments), or "
       "labels of operators, comma-separated",
       &s.remat},
      {"offload", "What waits on the host: none, activations, optimizer, or activations,optimizer", &s.offload},
      {"weight-versions", "Weights that a pipeline's passes read: newest (default), or those of one update before: 2bw",
       &s.weights},
      {"zero-stage",
       "Of weights stored in parts, what is whole in a step: gradients and weights (1, default), weights (2), neither "
       "(3)",
       &s.zero_stage},
      {"fuse",
       "Tasks that are one: none (default), or chains of element-wise operators, also behind a matmul; plans are "
       "searched without",
       &s.fuse},
  };
}

std::vector<SettingField> setting_fields(SearchSettings& s) {
  SearchOptions& o = s.search;
  return {
      {"budget", "Candidates that may be scored; half as many at least in a second search of unity", &o.budget},
      {"alpha", "Expand candidates up to alpha times the best", &o.alpha},
      {"jobs", "Threads (default: one for each core); the plan does not depend on it", &o.jobs},
      {"seed", "Seed of random choices, from 0 on", &o.seed},
      {"time-limit",
       "Seconds after which the search ends with the best so far; what it finds then depends on the machine (default: "
       "0, none)",
       &o.time_limit},
      {"memory-limit", "Memory per device, as in '12 GB' (default, and at most: as the device has)", &s.memory_limit},
      {"parallelism",
       "Allowed kinds, comma-separated: data,model,reduction,head,spatial,pipeline (default: all); what needs several "
       "is "
       "left out where one of them is not there",
       &s.parallelism},
      {"rules", "Further rules of substitution: FILE.rules with its proofs (unity rules verify FILE --write)",
       &s.rules},
      {"mappings", "Further families of machine mappings: a YAML file (form: topologies/README.md)", &s.mappings},
      {"optimizer", "As in 'adam 1e-4' or 'sgd 0.1 momentum=0.9 weight_decay=1e-4' (default: the model's)",
       &s.optimizer},
      {"stages", "Strategy pipeline: stages, a divisor of the devices (default: the fastest)", &o.stages},
      {"parts", "Strategy pipeline: parts of the graph in each stage (default: 1; 2 for interleaved)", &o.parts},
      {"micro-batches",
       "Strategies pipeline, alpa-like, unity: parts of the batch of plans that have any; 1: none (default: the "
       "fastest)",
       &o.micro_batches},
      {"no-splitting", "Search the whole graph at once", &o.splitting},
      {"no-algebra", "Do not rewrite: parallelization alone, pipelines of the model as it is included", &o.algebra},
      {"no-dp", "Do not search for mappings: every operator from the first device on, or the first of its stage",
       &o.mapping_dp},
      {"no-blocks", "Lower candidates for all devices, though a block of them stands for all", &o.blocks},
      {"no-cache", "Solve equal parts anew, and keep no costs from graph to graph", &o.cache},
      {"no-incremental-matching", "Match rules anew in each graph, not only near the last change",
       &o.incremental_matching},
      {"no-buckets",
       "Strategy unity: each gradient in a collective of its own, or as --bucket says, though joined they be faster",
       &o.buckets},
      {"no-overlap", "Strategies unity, pipeline: tasks as they come, or as --overlap says, though others be faster",
       &o.overlap},
      {"no-stored-parts",
       "Strategies unity, pipeline, alpa-like: weights whole on each device, though stored in parts they be faster",
       &o.stored_parts},
      {"no-seeds",
       "Strategy unity: what it finds by itself, though data parallelism, the expert or a pipeline of even stages be "
       "faster",
       &o.seeds},
      {"no-templates",
       "Strategies unity, pipeline, alpa-like: no sharding of pairs of matmuls by columns, then rows, nor of each "
       "operator of a stage in a way of its own, but step by step as rules lead there; stages are data-parallel inside",
       &o.templates},
      {"no-growth", "Strategy unity: rules lead to no graphs of more operators than the model has", &o.growth},
      {"no-uneven",
       "Strategies unity, exhaustive: no axes of small graphs in unequal parts (with --no-templates none of stages)",
       &o.uneven},
  };
}

OptimizerSpec optimizer_of(const ModelInfo& info) {
  try {
    return parse_optimizer(info.optimizer);
  } catch (const InputError& error) {
    if (info.optimizer_place.empty()) throw;
    throw_input_error("{}: {}", info.optimizer_place, error.what());
  }
}

SearchOptions SearchSettings::options(const std::string& strategy, const std::string& model) const {
  SearchOptions o = search;
  o.strategy = strategy;
  o.memory_limit = parse_memory("--memory-limit", memory_limit);
  std::map<std::string, Hash> known;  // texts, by name
  if (!rules.empty())
    for (const Rule& rule : rule_library()) known.emplace(rule.name, hash_rule(rule));
  for (const std::string& path : rules)
    for (Rule& rule : load_proved_rules(path)) {
      auto [there, added] = known.emplace(rule.name, hash_rule(rule));
      if (!added && there->second != hash_rule(rule))
        throw_input_error("--rules: {}: rule '{}' is there already with another text, in the library or another file",
                          path, rule.name);
      if (added) o.rules.push_back(std::move(rule));
    }
  if (!parallelism.empty()) o.parallelism = split_list("--parallelism", parallelism);
  const OptimizerSpec own = optimizer_of(model_info(model));
  o.optimizer = optimizer.empty() ? own : parse_optimizer(optimizer);
  schedule.apply(o.schedule);
  o.buckets = o.buckets && schedule.bucket.empty();
  o.overlap = o.overlap && schedule.overlap.empty();
  o.offload = o.offload && schedule.offload.empty();
  o.remat = o.remat && schedule.remat.empty();
  return o;
}

void SearchSettings::add_mappings(Topology& topology) const {
  if (!mappings.empty()) topology.mapping_families = std::make_shared<const MappingFamilies>(mappings, topology);
}

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    if (names.back().empty()) throw_input_error("{}: found '{}', expected names separated by commas", option, text);
    begin = end + 1;
  }
  return names;
}

ModelSpec ModelChoice::spec(int devices) const {
  ModelInfo info = model_info(model);
  ModelSpec spec{model, {}};
  if (seq_len) spec.options["seq-len"] = seq_len;
  if (layers) spec.options["layers"] = layers;
  for (const std::string& option : options) {
    std::size_t equals = option.find('=');
    std::int64_t value = 0;
    const char* end = option.data() + option.size();
    const char* begin = equals == std::string::npos ? end : option.data() + equals + 1;
    auto [rest, error] = std::from_chars(begin, end, value);
    if (equals == 0 || error != std::errc() || rest != end)
      throw_input_error("--option: found '{}', expected NAME=VALUE with an integer value", option);
    const std::string name = option.substr(0, equals);
    if (!spec.options.emplace(name, value).second || (name == "batch" && (global_batch || batch_per_gpu)))
      throw_input_error("--option: found '{}', expected one value for {}: another option gives it, too", option, name);
  }
  if (!spec.options.contains("batch"))
    spec.options["batch"] =
        global_batch ? global_batch : (batch_per_gpu ? batch_per_gpu : info.batch_per_gpu) * devices;
  return spec;
}

Bytes parse_memory(const std::string& option, const std::string& text) {
  if (text.empty()) return {};
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, count);
  Bytes bytes{count};
  if (error != std::errc() || rest != end) {
    Result<Bytes> parsed = parse_bytes(text);
    if (!parsed.ok()) throw_input_error("{}: {}", option, parsed.error().message);
    bytes = *parsed;
  }
  if (bytes.count <= 0) throw_input_error("{}: found '{}', expected more than 0 bytes", option, text);
  return bytes;
}

}  // namespace unity::report
