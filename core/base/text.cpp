#include "core/base/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "core/base/replacing_file.h"

namespace unity {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 200;  // comparing takes the product of the lengths
  if (name.size() > kLongest) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(name.size() < 4 ? 1 : 2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best_distance = distance, best = candidate;
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  std::string near = nearest_name(name, candidates);
  if (!near.empty()) return fmt::format(" (did you mean '{}'?)", near);
  return candidates.empty() ? "" : fmt::format(" (known: {})", join(candidates));
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw_input_error("{}: is a folder, expected a file", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_input_error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) throw_input_error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  return std::move(content).str();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  ReplacingFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace unity
