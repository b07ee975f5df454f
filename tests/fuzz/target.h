// Fuzz targets: functions of arbitrary bytes that must end, refuse what is wrong with InputError, and keep the
// properties they state. libFuzzer runs them (fuzzer.cpp), and so does an ordinary test (replay_test.cpp).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace unity::fuzz {

struct Target {
  std::string name;
  std::string checks;  // what holds of inputs that are accepted, besides that nothing crashes
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();
  std::size_t longest;          // in bytes, of the inputs that are worth trying
  std::string dictionary = "";  // file of tests/fuzz/dictionaries; empty: none
  int mutations = 2500;         // that the replaying test tries
};

// Of this program: each family of targets (a source file) defines it.
const std::vector<Target>& targets();

// What an input made false.
class Broken : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Broken(fmt::format(format, std::forward<Args>(args)...));
}
void require_equal(const std::string& found, const std::string& expected, std::string_view what);

// Whether f ends; false when it refuses its input. Any other exception passes through: it is a finding.
template <class F>
bool accepted(F f) {
  try {
    f();
    return true;
  } catch (const InputError& error) {
    require(*error.what() != '\0', "refused without a reason");
    return false;
  }
}

// The bytes as numbers, one after the other; zeros when they are used up.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint64_t number(std::size_t bytes);  // little-endian
  std::size_t below(std::size_t n) { return n < 2 ? 0 : static_cast<std::size_t>(number(n <= 256 ? 1 : 4)) % n; }

 private:
  std::string_view bytes_;
};

// Writes a file into a folder of this process ($TMPDIR, where there is memory for a file system) and returns its path.
// The same name is written again and again.
std::string scratch_file(const std::string& name, std::string_view content);
std::string scratch_folder();

// Files of the source tree: one, or all of a folder with this ending, in the order of their names.
std::string tree_file(const std::string& path);
std::vector<std::string> tree_files(const std::string& folder, std::string_view ending);

}  // namespace unity::fuzz
