#include "core/base/path_inside.h"

namespace unity {

Result<std::filesystem::path> path_inside(const std::filesystem::path& folder, const std::string& name) {
  namespace fs = std::filesystem;
  fs::path relative = name;
  if (name.empty() || name.find('\0') != std::string::npos) return fail("found no name, expected that of a file");
  if (relative.is_absolute())
    return fail("found the absolute path '{}', expected a file in {}", name, folder.empty() ? "." : folder.string());
  std::error_code error;
  // Both without links, so that a folder that is itself reached through one is no obstacle.
  fs::path whole = fs::weakly_canonical(fs::absolute(folder.empty() ? "." : folder, error), error);
  fs::path found = error ? fs::path() : fs::weakly_canonical(whole / relative, error);
  if (error) return fail("found '{}', which cannot be followed ({})", name, error.message());
  fs::path way = found.lexically_relative(whole);
  if (way.empty() || *way.begin() == "..")
    return fail("found '{}', which leads out of its folder, expected a file in {}", name, whole.string());
  return folder / relative;
}

}  // namespace unity
