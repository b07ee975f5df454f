#include "runtime/checkpoint/folder.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/replacing_file.h"

namespace unity {
namespace {

namespace fs = std::filesystem;

// The step of a name like step-000123; -1 for other names.
std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return -1;
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && rest == end ? step : -1;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw_input_error("{}: cannot be renamed to {}: {}", from.string(), to.string(), error.message());
}

// Out of sight at once, gone a little later.
void remove_checkpoint(const fs::path& path) {
  fs::path beside = path.string() + ".old.tmp";
  std::error_code error;
  fs::remove_all(beside, error);
  rename_folder(path, beside);
  fs::remove_all(beside, error);
}

void clear_leftovers(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".tmp")) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

}  // namespace

std::vector<SavedStep> saved_steps(const fs::path& folder) {
  std::vector<SavedStep> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::int64_t step = step_of(entry.path().filename().string());
    if (step >= 0 && fs::exists(entry.path() / "index.json", error)) steps.push_back({step, entry.path()});
  }
  std::sort(steps.begin(), steps.end(), [](const SavedStep& a, const SavedStep& b) { return a.step < b.step; });
  return steps;
}

void require_checkpoint_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) throw_input_error("{}: cannot be made a folder: {}", folder.string(), error.message());
  ReplacingFile(folder / "step-probe");  // removed at once
}

fs::path unfinished_checkpoint(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{:06}.tmp", step);
}

void publish_checkpoint(const fs::path& folder, std::int64_t step, std::int64_t keep,
                        const std::function<void(const fs::path&)>& write) {
  clear_leftovers(folder);
  fs::path path = folder / fmt::format("step-{:06}", step), beside = unfinished_checkpoint(folder, step);
  std::error_code error;
  fs::create_directories(beside, error);
  if (error) throw_input_error("{}: cannot be written: {}", beside.string(), error.message());
  try {
    write(beside);
    synchronize_folder(beside);
    if (fs::exists(path)) remove_checkpoint(path);
    rename_folder(beside, path);
  } catch (...) {
    fs::remove_all(beside, error);
    throw;
  }
  synchronize_folder(folder);
  std::vector<SavedStep> steps = saved_steps(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i)
    if (steps[i].step != step) remove_checkpoint(steps[i].path);
}

}  // namespace unity
