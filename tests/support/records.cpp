#include "tests/support/records.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "tests/support/paths.h"

namespace unity::test {

Records::Records(std::string file)
    : path_(UNITY_SOURCE_DIR "/tests/golden/" + std::move(file)), writing_(std::getenv("UNITY_RECORD") != nullptr) {
  if (!std::filesystem::exists(path_)) return;
  std::istringstream in(read_file(path_));
  std::string* record = nullptr;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("== "))
      record = &records_[line.substr(3)];
    else if (record)
      *record += line + "\n";
}

Records::~Records() {
  if (!writing_) return;
  std::string text;
  for (const auto& [name, record] : records_) text += "== " + name + "\n" + record;
  write_file_atomically(path_, text);
}

void Records::check(const std::string& name, const std::string& text) {
  if (writing_) records_[name] = text;
  INFO(name << ": recorded in " << path_ << "; if the new one is meant, run this test again with UNITY_RECORD=1");
  REQUIRE(records_.contains(name));
  CHECK(text == records_[name]);
}

}  // namespace unity::test
