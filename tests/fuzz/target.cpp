#include "tests/fuzz/target.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tests/support/paths.h"

namespace unity::fuzz {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "unity-fuzz-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no folder for the inputs: " + name);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

void require_equal(const std::string& found, const std::string& expected, std::string_view what) {
  if (found == expected) return;
  auto [f, e] = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  auto at = static_cast<std::size_t>(f - found.begin()), from = at < 60 ? 0 : at - 60;
  throw Broken(fmt::format("{} differs at byte {}: found\n{}\nexpected\n{}", what, at, found.substr(from, 200),
                           expected.substr(from, 200)));
}

std::uint64_t Choices::number(std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes && !bytes_.empty(); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes_[0])} << (8 * i);
    bytes_.remove_prefix(1);
  }
  return value;
}

std::string scratch_folder() {
  static const Folder folder;
  return folder.path.string();
}

std::string scratch_file(const std::string& name, std::string_view content) {
  std::string path = scratch_folder() + "/" + name;
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 && fs::create_directories(fs::path(path).parent_path()))
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = file >= 0 && ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  if (file >= 0) ::close(file);
  if (!written) throw std::runtime_error("cannot write " + path);
  return path;
}

std::string tree_file(const std::string& path) { return read_file(fs::path(UNITY_SOURCE_DIR) / path); }

std::vector<std::string> tree_files(const std::string& folder, std::string_view ending) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(UNITY_SOURCE_DIR) / folder))
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const fs::path& path : paths) texts.push_back(read_file(path));
  return texts;
}

}  // namespace unity::fuzz
