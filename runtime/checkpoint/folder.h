// A folder of checkpoints: one folder `step-000123` for each, which appears complete or not at all. What is being
// written or removed has a name that ends in `.tmp`; the next checkpoint clears what an interrupted run left so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace unity {

struct SavedStep {
  std::int64_t step = 0;
  std::filesystem::path path;
};

// The complete checkpoints, by step. None when the folder does not exist.
std::vector<SavedStep> saved_steps(const std::filesystem::path& folder);

// Makes the folder where it does not exist, and tries whether it can be written to. InputError when not.
void require_checkpoint_folder(const std::filesystem::path& folder);

// The folder in which the checkpoint of a step is written until it is complete.
std::filesystem::path unfinished_checkpoint(const std::filesystem::path& folder, std::int64_t step);

// Calls write(a fresh folder beside), makes it durable, gives it its name, and only then removes all but the newest
// `keep` checkpoints. InputError when that is not possible; whatever happens, the checkpoints before stay as they were.
void publish_checkpoint(const std::filesystem::path& folder, std::int64_t step, std::int64_t keep,
                        const std::function<void(const std::filesystem::path&)>& write);

}  // namespace unity
