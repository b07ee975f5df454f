// Bounds on files that others wrote: paths that stay in their folder, nesting, aliases.
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "core/base/nesting.h"
#include "core/base/path_inside.h"
#include "core/base/read_yaml.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace unity {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using namespace std::string_literals;

std::string refusal(const fs::path& folder, const std::string& name) {
  auto path = path_inside(folder, name);
  return path.ok() ? "" : path.error().message;
}

// A folder `own` with a file, beside a file that is none of its business.
struct Folders {
  fs::path all = fs::temp_directory_path() / "untrusted", own = all / "own";
  Folders() {
    fs::create_directories(own / "deep");
    std::ofstream(all / "secret") << "secret";
    std::ofstream(own / "deep" / "file") << "file";
  }
  ~Folders() { fs::remove_all(all); }
};

std::string yaml_error(const std::string& text) {
  try {
    read_yaml(text, "f.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

std::string json_error(const std::string& text) {
  try {
    refuse_deep_json(text, "f.json");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a path in a file stays in its folder") {
  Folders f;
  CHECK(*path_inside(f.own, "deep/file") == f.own / "deep/file");
  CHECK(*path_inside(f.own, "deep/../deep/file") == f.own / "deep/../deep/file");
  CHECK(*path_inside(f.own, "not/there.yaml") == f.own / "not/there.yaml");
  // An empty folder is the working directory.
  CHECK(*path_inside("", "a.yaml") == "a.yaml");
  CHECK_FALSE(path_inside("", "../a.yaml").ok());
  CHECK_THAT(refusal(f.own, "../secret"), Contains("'../secret', which leads out of its folder"));
  CHECK_THAT(refusal(f.own, "deep/../../secret"), Contains("leads out of its folder"));
  CHECK_THAT(refusal(f.own, ".."), Contains("leads out of its folder"));
  CHECK_THAT(refusal(f.own, (f.all / "secret").string()), Contains("the absolute path"));
  CHECK_THAT(refusal(f.own, (f.own / "deep/file").string()), Contains("the absolute path"));
  CHECK_THAT(refusal(f.own, ""), Contains("found no name"));
  CHECK_THAT(refusal(f.own, std::string("a\0b", 3)), Contains("found no name"));
}

TEST_CASE("a symbolic link leads out of a folder only where its end is outside") {
  Folders f;
  fs::create_symlink("../secret", f.own / "out");
  fs::create_symlink("..", f.own / "up");
  fs::create_symlink("deep/file", f.own / "in");
  fs::create_symlink("round", f.own / "round");
  fs::create_directory_symlink(f.own, f.all / "also-own");
  CHECK_THAT(refusal(f.own, "out"), Contains("leads out of its folder"));
  CHECK_THAT(refusal(f.own, "up/secret"), Contains("leads out of its folder"));
  CHECK(refusal(f.own, "in").empty());
  CHECK(refusal(f.all / "also-own", "deep/file").empty());
  CHECK_THAT(refusal(f.all / "also-own", "out"), Contains("leads out of its folder"));
  CHECK_THAT(refusal(f.own, "round"), Contains("cannot be followed"));
}

TEST_CASE("JSON that is nested deeper than 100 is refused before it is parsed") {
  auto nested = [](int depth) { return std::string(static_cast<std::size_t>(depth), '['); };
  CHECK(json_error(nested(100) + std::string(100, ']')).empty());
  CHECK_THAT(json_error("{\"a\":\n" + nested(100)),
             Contains("f.json:2: found lists and objects nested deeper than 100"));
  CHECK_THAT(json_error(nested(1'000'000)), Contains("f.json:1: "));
  CHECK(json_error("\"" + nested(200) + "\\\"" + nested(200) + "\"").empty());  // a text
  std::string wide = "[";
  for (int i = 0; i < 300; ++i) wide += "[],";
  CHECK(json_error(wide).empty());
}

TEST_CASE("YAML aliases that stand for more than a million nodes are refused") {
  // Line i + 1 names line i ten times: 10^9 texts.
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{}: &a{} [", i, i);
    for (int k = 0; k < 10; ++k) bomb += fmt::format("{}*a{}", k ? ", " : "", i - 1);
    bomb += "]\n";
  }
  CHECK_THAT(yaml_error(bomb), Contains("f.yaml:6:") && Contains("more than 1000000 nodes"));
  CHECK(read_yaml("a: &a [1, 2]\nb: [*a, *a]\n", "f")["b"][1][0].as<int>() == 1);
  CHECK(yaml_error("a: &a x\nb: \"*a & *b\"\n").empty());
}

TEST_CASE("a YAML alias inside what it stands for is refused") {
  CHECK_THAT(yaml_error("a: &a [1, *a]\n"), Contains("f.yaml:1:11: found an alias inside what it stands for"));
  CHECK_THAT(yaml_error("a: &a {b: {c: *a}}\n"), Contains("inside what it stands for"));
}

TEST_CASE("deep YAML is refused, by nesting and by aliases") {
  CHECK_THAT(yaml_error(std::string(100'000, '[')), Contains("nested too deep"));
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK_THAT(yaml_error(deep.substr(0, 2'000'000)), Contains("nested too deep"));
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) chain += fmt::format("a{}: &a{} [*a{}]\n", i, i, i - 1);
  CHECK_THAT(yaml_error(chain), Contains("nested deeper than 100"));
}

TEST_CASE("malformed YAML is refused where it is wrong") {
  CHECK_THAT(yaml_error("a: 1\nb: [1, 2\n"), Contains("f.yaml:3:") && Contains("malformed YAML"));
  CHECK_THAT(yaml_error("a: *b\n"), Contains("f.yaml:1:") && Contains("malformed YAML"));
  CHECK(read_yaml("", "f").IsNull());
}

TEST_CASE("a key that is in a map of a YAML file twice is refused where it is again") {
  CHECK(yaml_error("a: 1\nb: {c: 1, d: 2, c: 3}\n") == "f.yaml:2:17: key 'c' is given twice");
  CHECK(yaml_error("- {a: 1}\n- {a: 1}\n").empty());
}

TEST_CASE("no name is suggested for a very long one") {
  CHECK(nearest_name(std::string(10'000'000, 'a'), {"aaaa"}).empty());
  CHECK(nearest_name("matmull", {"matmul"}) == "matmul");
}

TEST_CASE("a second document in a YAML file is refused, as it would not be read") {
  CHECK(yaml_error("a: 1\n---\nb: 2\n") == "f.yaml:3:1: found a second document, expected the end of the file");
  CHECK(yaml_error("---\n# nothing\n---\na: 1\n") ==
        "f.yaml:4:1: found a second document, expected the end of the file");
  CHECK_THAT(yaml_error(", a\n"), Contains("f.yaml:1:1: found what belongs to nothing, expected the end of the file"));
  CHECK(read_yaml("---\na: 1\n...\n---\n# nothing\n", "f")["a"].as<int>() == 1);
}

TEST_CASE("texts that are not UTF-8 are told from those that are") {
  for (const char* text :
       {"", "a", "h\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x99\x82", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    CHECK_FALSE(first_not_utf8(text));
  CHECK(first_not_utf8("caf\xE9") == 3u);           // Latin-1
  CHECK(first_not_utf8("\xE2\x82") == 0u);          // cut off
  CHECK(first_not_utf8("a\xC0\xAF") == 1u);         // longer than need be
  CHECK(first_not_utf8("\xE0\x9F\xBF") == 0u);      // the same
  CHECK(first_not_utf8("\xF0\x8F\xBF\xBF") == 0u);  // the same
  CHECK(first_not_utf8("\xED\xA0\x80") == 0u);      // a surrogate
  CHECK(first_not_utf8("\xF4\x90\x80\x80") == 0u);  // beyond U+10FFFF
  CHECK(first_not_utf8("\xC3\xA9\xA9") == 2u);      // in the middle of a character
  CHECK(yaml_error("a: 1\nb: caf\xE9\n") == "f.yaml:2:7: found byte 0xe9, expected text in UTF-8");
  CHECK(yaml_error("\xE9: 1\n") == "f.yaml:1:1: found byte 0xe9, expected text in UTF-8");
  CHECK(read_yaml("\xFF\xFE"
                  "a\0:\0 \0\x31\0"s,
                  "f")["a"]
            .as<int>() == 1);  // UTF-16
}

}  // namespace unity
