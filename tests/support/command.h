// The `unity` command as a user meets it: a child process, its exit code, its two streams.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/paths.h"

namespace command {

namespace fs = std::filesystem;

// A folder of its own for each test case, removed at its end.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "unity-cli-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  std::string file(const std::string& name) const { return (path / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
};

inline std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Outcome {
  int code = -1;
  std::string out, err;
  std::int64_t error_lines() const { return std::count(err.begin(), err.end(), '\n'); }
};

inline Outcome unity(const std::string& arguments) {
  Folder folder;
  std::string command = std::string(UNITY_BINARY_DIR) + "/bin/unity " + arguments + " >" + folder.file("out") + " 2>" +
                        folder.file("err") + " </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read(folder.file("out")), read(folder.file("err"))};
}

// Wrong input: exit code 2, one line on standard error that holds all the given texts, nothing on standard output.
inline void check_refused(const std::string& arguments, const std::vector<std::string>& said) {
  INFO("unity " << arguments);
  Outcome o = unity(arguments);
  INFO("stderr: " << o.err);
  CHECK(o.code == 2);
  CHECK(o.error_lines() == 1);
  CHECK(o.out.empty());
  for (const std::string& text : said) CHECK(o.err.find(text) != std::string::npos);
}

}  // namespace command
