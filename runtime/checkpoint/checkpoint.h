// Checkpoints: weights and optimizer states as whole logical tensors, in the precision in which they are held, and
// where training stood. As they know nothing of plans and devices, a run under any plan can go on from them, bit for
// bit.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/checkpoint/index.h"

namespace unity {

struct CheckpointOptions {
  std::filesystem::path folder;  // empty: none
  std::int64_t every = 0;        // steps; 0: at the end only
  std::int64_t keep = 3;         // the newest so many, at least 1
  bool resume = false;           // go on from the newest
  std::int64_t shard_bytes = 256 << 20;
};

// Writes the checkpoint `position.step`, when all copies of weights and states agree (ReplicasDiffer when not). Several
// processes share the files out, into a folder that all of them see. InputError when that is not possible; older ones
// stay as they were until it is complete.
void save_checkpoint(const Executor& executor, const TrainingPosition& position, const CheckpointOptions& options);

// A checkpoint opened for reading.
class Checkpoint {
 public:
  // The index; InputError when it is damaged.
  explicit Checkpoint(std::filesystem::path path);
  // The newest complete one. InputError when there is none.
  static Checkpoint newest(const std::filesystem::path& folder);

  const TrainingPosition& position() const { return index_.position; }
  const CheckpointIndex& index() const { return index_; }
  // Sets weights, optimizer states and steps done. Everything is checked before anything is set: InputError when the
  // checkpoint is of another model (names the first tensor that differs), or a file is missing or has changed.
  void restore(Executor& executor) const;

 private:
  std::filesystem::path path_;
  CheckpointIndex index_;
};

}  // namespace unity
