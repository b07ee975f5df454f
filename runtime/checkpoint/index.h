// The index of a checkpoint: where training stood, and which file holds which tensors. It is the file index.json
// ("unity-checkpoint") beside the safetensors files, with its own checksum.
#pragma once

#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/base/safetensors.h"
#include "runtime/early_stop.h"
#include "runtime/executor.h"

namespace unity {

// Where training stands between two steps, besides weights and optimizer states. Random numbers depend on the seed and
// the step, the order of an epoch's rows on the seed and the epoch; so nothing else is drawn.
struct TrainingPosition {
  std::string model;      // its name, for messages
  std::string optimizer;  // its text, for messages
  std::uint64_t seed = 1;
  std::int64_t step = 0;  // steps done
  std::string data = "synthetic";
  Hash contents = 0;          // of the data (contents_of); 0: not known
  std::int64_t batch = 0;     // samples in each; 0 for synthetic data
  std::int64_t epoch = 0;     // epochs done
  std::int64_t batches = 0;   // batches of the next epoch done
  double epoch_loss_sum = 0;  // over these
  BestEpoch best;
  bool operator==(const TrainingPosition&) const = default;
};

struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::vector<TensorInfo> tensors;  // offsets are not kept
};

struct CheckpointIndex {
  static constexpr int kVersion = 1;
  TrainingPosition position;
  Hash weights = 0;  // names and shapes of all tensors, see hash_of
  std::vector<CheckpointFile> files;
};

Hash hash_of(const std::vector<StateTensor>& state);
// Of all that it says, the checksums of the files among it: two checkpoints have the same one when they have the same
// contents.
Hash hash_of(const CheckpointIndex& index);

std::string index_to_json(const CheckpointIndex& index);
// InputError that begins with `file` when the text is not whole, has changed, or is of another format or version.
CheckpointIndex index_from_json(const std::string& text, const std::string& file);

// InputError that names the first tensor in which the checkpoint differs from what the executor's program has.
void check_same_model(const CheckpointIndex& index, const std::vector<StateTensor>& state, const std::string& folder);

// "model-00001-of-00003.safetensors", counted from 0.
std::string shard_name(std::size_t shard, std::size_t shards);

}  // namespace unity
