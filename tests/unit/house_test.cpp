// The tree keeps to its own rules: arrows between folders, libraries behind their doors, no circles of includes, files
// that can be read at once, headers that say what they are, READMEs and docs/code.md that are true.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/paths.h"

namespace {

namespace fs = std::filesystem;
using Words = std::set<std::string>;

const fs::path kRoot = UNITY_SOURCE_DIR;
const std::vector<std::string> kRooms = {"core", "simulator", "runtime", "gui", "cli"};

// Longer than 600 lines, and why.
const std::map<std::string, std::string> kLong = {};

struct Include {
  std::string name;
  bool ours = false;  // "quoted"
  int line = 0;
};

struct Source {
  std::string path;  // from the root
  std::string text;
  std::vector<Include> includes;
  std::ptrdiff_t lines = 0;
};

bool has_source_ending(const fs::path& path) {
  static const Words endings = {".cpp", ".h", ".cu"};
  return endings.count(path.extension().string()) == 1;
}

Source read_source(const fs::path& path) {
  Source source;
  source.path = fs::relative(path, kRoot).string();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  source.text = text.str();
  source.lines = std::count(source.text.begin(), source.text.end(), '\n');
  std::istringstream lines(source.text);
  static const std::regex include("^\\s*#include ([\"<])([^\">]+)[\">].*");
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch m;
    if (line.find("#include") != std::string::npos && std::regex_match(line, m, include))
      source.includes.push_back({m[2], m[1] == "\"", number});
  }
  return source;
}

// Of the rooms and the tests, sorted by path.
const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> found;
    for (const char* room : {"core", "simulator", "runtime", "gui", "cli", "tests"})
      for (const auto& entry : fs::recursive_directory_iterator(kRoot / room))
        if (entry.is_regular_file() && has_source_ending(entry.path())) found.push_back(read_source(entry.path()));
    std::sort(found.begin(), found.end(), [](const Source& a, const Source& b) { return a.path < b.path; });
    return found;
  }();
  return all;
}

bool in_room(const std::string& path) { return !path.starts_with("tests/"); }

// "core/ops/matmul.cpp" is in "core/ops", "runtime/cpu/gemm.cpp" in "runtime".
std::string folder_of(const std::string& path) {
  std::size_t slash = path.find('/');
  if (path.starts_with("core/")) slash = path.find('/', slash + 1);
  return path.substr(0, slash);
}

std::vector<std::string> words(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream in(text);
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

// The cells of a Markdown table's row.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    std::size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    found.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return found;
}

// The rows of the tables under a heading of docs/code.md, without their heads.
std::vector<std::vector<std::string>> rows_under(const std::string& heading) {
  std::ifstream file(kRoot / "docs/code.md");
  std::vector<std::vector<std::string>> rows;
  bool under = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) under = line == "## " + heading;
    if (under && line.starts_with("| ")) rows.push_back(cells(line));
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

std::string without_quotes(const std::string& cell) {
  std::string text = cell;
  text.erase(std::remove(text.begin(), text.end(), '`'), text.end());
  return text;
}

// Which folders each may include: the table of docs/code.md.
std::map<std::string, Words> arrows() {
  const Words in_core = {"base",   "ops",  "graph",  "machine", "rewrite", "generate",
                         "verify", "plan", "models", "search",  "trace",   "report"};
  std::map<std::string, Words> allowed;
  for (const std::vector<std::string>& row : rows_under("Which folder may include which")) {
    Words& to = allowed[without_quotes(row.at(0))];
    for (const std::string& word : words(row.at(1))) {
      if (word == "core")
        for (const std::string& folder : in_core) to.insert("core/" + folder);
      else
        to.insert(in_core.count(word) == 1 ? "core/" + word : word);
    }
  }
  return allowed;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool holds_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("folders include only those that docs/code.md allows") {
  const std::map<std::string, Words> allowed = arrows();
  CHECK(allowed.size() == 16);
  std::map<std::string, Words> met;
  for (const Source& source : sources()) {
    if (!in_room(source.path)) continue;
    const std::string from = folder_of(source.path);
    INFO(source.path);
    REQUIRE(allowed.count(from) == 1);
    for (const Include& include : source.includes) {
      if (!include.ours || include.name.find('/') == std::string::npos) continue;
      const std::string to = folder_of(include.name);
      if (to == from) continue;
      INFO(source.path << ":" << include.line << ": " << include.name);
      CHECK(allowed.at(from).count(to) == 1);
      met[from].insert(to);
    }
  }
  // What is allowed is needed, too, but for the rooms of people, which may use all below them.
  for (const auto& [from, folders] : allowed) {
    if (from == "gui" || from == "cli") continue;
    INFO(from);
    CHECK((folders == met[from] || from == "core/base"));
  }
}

TEST_CASE("the arrows between folders make no circle") {
  const std::map<std::string, Words> allowed = arrows();
  std::map<std::string, int> state;  // 1: on the way, 2: done
  std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    INFO(folder);
    REQUIRE(state[folder] != 1);
    if (state[folder] == 2) return;
    state[folder] = 1;
    if (auto found = allowed.find(folder); found != allowed.end())
      for (const std::string& to : found->second)
        if (to != "nothing" && to != "of" && to != "ours") visit(to);
    state[folder] = 2;
  };
  for (const auto& [folder, to] : allowed) visit(folder);
}

TEST_CASE("no header includes itself by way of others") {
  std::map<std::string, const Source*> by_path;
  for (const Source& source : sources()) by_path[source.path] = &source;
  std::map<std::string, int> state;
  std::function<void(const Source&)> visit = [&](const Source& source) {
    INFO(source.path);
    REQUIRE(state[source.path] != 1);
    if (state[source.path] == 2) return;
    state[source.path] = 1;
    for (const Include& include : source.includes)
      if (auto to = by_path.find(include.name); include.ours && to != by_path.end()) visit(*to->second);
    state[source.path] = 2;
  };
  for (const Source& source : sources()) visit(source);
  CHECK(state.size() > 800);
}

TEST_CASE("libraries are included behind their doors only") {
  struct Door {
    std::regex header;
    std::vector<std::string> folders;
  };
  const std::vector<Door> doors = {
      {std::regex("z3(\\+\\+)?\\.h"), {"core/verify/", "cli/build_info.cpp"}},
      {std::regex("imgui.*|GLFW/.*|GL/.*|EGL/.*|gvc\\.h|cgraph.*"), {"gui/", "cli/build_info.cpp"}},
      {std::regex("cuda.*|cublas.*|cudnn.*|cub/.*"), {"runtime/cuda/", "cli/build_info.cpp"}},
      {std::regex("nccl\\.h"), {"runtime/cuda/", "runtime/comm/"}},
      {std::regex("mpi\\.h"), {"runtime/comm/", "cli/build_info.cpp"}},
      {std::regex("onnx/.*"), {"core/models/onnx/", "cli/build_info.cpp"}},
      {std::regex("dnnl.*|cblas\\.h"), {"runtime/cpu/", "cli/build_info.cpp"}},
      {std::regex("CLI/.*"), {"cli/", "gui/app/"}},
  };
  std::size_t seen = 0;
  for (const Source& source : sources()) {
    if (!in_room(source.path)) continue;
    for (const Include& include : source.includes)
      for (const Door& door : doors) {
        if (include.ours || !std::regex_match(include.name, door.header)) continue;
        ++seen;
        INFO(source.path << ":" << include.line << ": " << include.name);
        CHECK(std::any_of(door.folders.begin(), door.folders.end(),
                          [&](const std::string& folder) { return source.path.starts_with(folder); }));
      }
  }
  CHECK(seen > 40);
}

TEST_CASE("files have at most 600 lines, or a reason") {
  for (const Source& source : sources()) {
    INFO(source.path << ": " << source.lines << " lines");
    CHECK((source.lines > 600) == (kLong.count(source.path) == 1));
  }
}

TEST_CASE("no document or experiment has both sides of a merge") {
  std::vector<fs::path> all = {kRoot / "README.md"};
  for (const char* folder : {"docs", "experiments", "topologies", "scripts", "core", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      if (entry.is_regular_file()) all.push_back(entry.path());
  const std::string left(7, '<'), right(7, '>');
  for (const fs::path& path : all) {
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      INFO(fs::relative(path, kRoot).string() << ":" << number);
      if (line.starts_with(left + " ") || line.starts_with(right + " ")) FAIL_CHECK(line);
    }
  }
}

TEST_CASE("every header begins with what it is for") {
  for (const Source& source : sources()) {
    if (!source.path.ends_with(".h")) continue;
    INFO(source.path);
    CHECK(source.text.starts_with("// "));
    CHECK(source.text.find("#pragma once\n") != std::string::npos);
  }
}

TEST_CASE("every folder of code is described by its README or the nearest above") {
  Words folders;
  for (const Source& source : sources())
    for (fs::path folder = fs::path(source.path).parent_path(); !folder.empty(); folder = folder.parent_path())
      folders.insert(folder.string());
  for (const std::string& folder : folders) {
    if (fs::exists(kRoot / folder / "README.md")) continue;
    fs::path above = fs::path(folder).parent_path();
    while (!above.empty() && !fs::exists(kRoot / above / "README.md")) above = above.parent_path();
    INFO(folder << ", described in " << above.string() << "/README.md");
    REQUIRE(!above.empty());
    const std::string text = read_source(kRoot / above / "README.md").text;
    CHECK(text.find(fs::path(folder).filename().string() + "/") != std::string::npos);
  }
}

TEST_CASE("the files that a folder's README names by their names are in the tree") {
  std::string paths = "\n";
  for (const char* room : {"core", "simulator", "runtime", "gui", "cli", "tests", "docs", "cmake"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / room))
      paths += "/" + fs::relative(entry.path(), kRoot).string() + "\n";
  static const std::regex name("`([A-Za-z0-9_/]+\\.(h|cpp|cu|def|rules|cmake))`");
  std::size_t seen = 0;
  for (const std::string& room : kRooms)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / room)) {
      if (entry.path().filename() != "README.md") continue;
      const std::string text = read_source(entry.path()).text;
      for (std::sregex_iterator m(text.begin(), text.end(), name), end; m != end; ++m) {
        INFO(fs::relative(entry.path(), kRoot).string() << ": " << (*m)[1].str());
        ++seen;
        CHECK(paths.find("/" + (*m)[1].str() + "\n") != std::string::npos);
      }
    }
  CHECK(seen > 100);
}

TEST_CASE("what docs/code.md says where it is, is there") {
  static const std::regex link("\\[([^\\]]+)\\]\\(\\.\\./([^)]+)\\)");
  const auto rows = rows_under("Where is");
  CHECK(rows.size() >= 40);
  for (const std::vector<std::string>& row : rows) {
    std::smatch m;
    INFO(row.at(0));
    REQUIRE(std::regex_match(row.at(1), m, link));
    CHECK(m[1] == m[2]);
    REQUIRE(fs::exists(kRoot / m[2].str()));
    CHECK(holds_word(read_source(kRoot / m[2].str()).text, without_quotes(row.at(2))));
  }
}

TEST_CASE("every file of tests belongs to a program of tests") {
  std::vector<std::regex> patterns;
  auto add_patterns = [&](const fs::path& path) {
    // ${fuzz}/replay_test.cpp, say, is in fuzz.
    const std::string text = std::regex_replace(read_source(path).text, std::regex("\\$\\{([a-z]+)\\}"), "$1");
    static const std::regex name("[a-z0-9_]+/[a-z0-9_*]+\\.cpp");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), name); it != std::sregex_iterator(); ++it)
      patterns.emplace_back(std::regex_replace(it->str(), std::regex("\\*"), "[a-z0-9_]*"));
  };
  add_patterns(kRoot / "tests/CMakeLists.txt");
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests"))
    if (entry.path().extension() == ".cmake") add_patterns(entry.path());
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    const std::string path = fs::relative(entry.path(), kRoot / "tests").string();
    if (!std::regex_search(path, std::regex("_test\\.cpp$"))) continue;
    INFO("tests/" << path);
    CHECK(std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return std::regex_match(path, p); }));
    ++files;
  }
  CHECK(files > 200);
}
