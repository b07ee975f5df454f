#include "runtime/checkpoint/index.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "core/base/checksum.h"
#include "core/base/nesting.h"

namespace unity {
namespace {

using nlohmann::json;

StoredType stored_type(const std::string& name) {
  for (StoredType type : {StoredType::f32, StoredType::f64})
    if (to_string(type) == name) return type;
  throw_input_error("dtype: found '{}', expected F32 or F64", name);
}

CheckpointIndex read(const json& root) {
  CheckpointIndex index;
  TrainingPosition& p = index.position;
  p.model = root.at("model");
  p.optimizer = root.at("optimizer");
  p.seed = root.at("seed");
  p.step = root.at("step");
  index.weights = std::stoull(root.at("weights").get<std::string>(), nullptr, 16);
  const json& data = root.at("data");
  p.data = data.at("name");
  p.contents = std::stoull(data.value("contents", "0"), nullptr, 16);
  p.batch = data.at("batch");
  p.epoch = data.at("epoch");
  p.batches = data.at("batches");
  // JSON has no numbers that are not finite: null stands for them.
  const json& sum = data.at("epoch_loss_sum");
  p.epoch_loss_sum = sum.is_null() ? std::numeric_limits<double>::quiet_NaN() : sum.get<double>();
  const json& best = root.at("best");
  if (!best.at("value").is_null()) p.best.value = best.at("value").get<double>();
  p.best.metric = best.value("metric", "");
  p.best.epoch = best.at("epoch");
  p.best.waited = best.at("waited");
  for (const json& f : root.at("files")) {
    CheckpointFile file{f.at("file"), f.at("bytes"), f.at("crc32"), {}};
    for (const json& t : f.at("tensors"))
      file.tensors.push_back({t.at("name"), stored_type(t.at("dtype")), t.at("dims"), 0});
    index.files.push_back(std::move(file));
  }
  return index;
}

}  // namespace

Hash hash_of(const std::vector<StateTensor>& state) {
  Hash h = hash_text("state");
  for (const StateTensor& t : state) {
    h = combine(h, hash_text(t.name));
    h = combine(h, t.dims.size());
    for (std::int64_t d : t.dims) h = combine(h, static_cast<Hash>(d));
  }
  return h;
}

Hash hash_of(const CheckpointIndex& index) { return hash_text(index_to_json(index)); }

std::string index_to_json(const CheckpointIndex& index) {
  const TrainingPosition& p = index.position;
  json root = {{"format", "unity-checkpoint"},
               {"version", CheckpointIndex::kVersion},
               {"model", p.model},
               {"optimizer", p.optimizer},
               {"weights", fmt::format("{:016x}", index.weights)},
               {"seed", p.seed},
               {"step", p.step},
               {"data",
                {{"name", p.data},
                 {"contents", fmt::format("{:016x}", p.contents)},
                 {"batch", p.batch},
                 {"epoch", p.epoch},
                 {"batches", p.batches},
                 {"epoch_loss_sum", p.epoch_loss_sum}}},
               {"best",
                {{"metric", p.best.metric},
                 {"value", p.best.value ? json(*p.best.value) : json()},
                 {"epoch", p.best.epoch},
                 {"waited", p.best.waited}}},
               {"files", json::array()}};
  for (const CheckpointFile& f : index.files) {
    json tensors = json::array();
    for (const TensorInfo& t : f.tensors)
      tensors.push_back({{"name", t.name}, {"dtype", std::string(to_string(t.dtype))}, {"dims", t.dims}});
    root["files"].push_back({{"file", f.name}, {"bytes", f.bytes}, {"crc32", f.crc32}, {"tensors", tensors}});
  }
  add_checksum(root);
  return root.dump(1) + "\n";
}

CheckpointIndex index_from_json(const std::string& text, const std::string& file) {
  refuse_deep_json(text, file);
  json root = json::parse(text, nullptr, false);
  if (root.is_discarded() || !root.is_object())
    throw_input_error("{}: not a complete JSON document; is the file truncated?", file);
  if (root.value("format", json()) != "unity-checkpoint")
    throw_input_error("{}: format is {}, expected \"unity-checkpoint\"", file, root.value("format", json()).dump());
  if (root.value("version", json()) != CheckpointIndex::kVersion)
    throw_input_error("{}: version is {}, expected {}", file, root.value("version", json()).dump(),
                      CheckpointIndex::kVersion);
  take_checksum(root, file, Checksum::required);
  try {
    return read(root);
  } catch (const std::exception& e) {
    throw_input_error("{}: not the index of a checkpoint: {}", file, e.what());
  }
}

void check_same_model(const CheckpointIndex& index, const std::vector<StateTensor>& state, const std::string& folder) {
  if (index.weights == hash_of(state)) return;
  std::vector<StateTensor> stored;
  for (const CheckpointFile& f : index.files)
    for (const TensorInfo& t : f.tensors) stored.push_back({t.name, t.dims});
  for (const StateTensor& t : state) {
    auto it = std::find_if(stored.begin(), stored.end(), [&](const StateTensor& s) { return s.name == t.name; });
    if (it == stored.end())
      throw_input_error("{}: has no '{}' [{}], which this run has; it is of model {} with optimizer '{}'", folder,
                        t.name, fmt::join(t.dims, ", "), index.position.model, index.position.optimizer);
    if (it->dims != t.dims)
      throw_input_error("{}: '{}': found [{}] of model {}, expected [{}] as in this run", folder, t.name,
                        fmt::join(it->dims, ", "), index.position.model, fmt::join(t.dims, ", "));
  }
  for (const StateTensor& s : stored)
    if (std::find(state.begin(), state.end(), s) == state.end())
      throw_input_error("{}: has '{}' [{}], which this run has not; it is of model {} with optimizer '{}'", folder,
                        s.name, fmt::join(s.dims, ", "), index.position.model, index.position.optimizer);
  throw_input_error("{}: found hash {:016x} of weight names and shapes, expected {:016x}", folder, index.weights,
                    hash_of(state));
}

std::string shard_name(std::size_t shard, std::size_t shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

}  // namespace unity
