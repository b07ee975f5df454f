// `unity rules import` as a user meets it.
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "core/base/text.h"
#include "core/rewrite/library.h"
#include "tests/support/paths.h"
#include "tests/support/peer_files.h"

namespace unity {
namespace {

using namespace test;

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "unity-rules-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  std::string file(const std::string& name) const { return (path / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }
};

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome import(const Folder& folder, const std::string& arguments) {
  std::string command = std::string(UNITY_BINARY_DIR) + "/bin/unity rules import " + arguments + " >" +
                        folder.file("out") + " 2>" + folder.file("err") + " </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_file(folder.file("out")), read_file(folder.file("err"))};
}

// Proved; refuted; ill-typed; unsupported.
const std::vector<PeerRule> kRules = {
    peer_rule({linear({-1}, {-4}, 2)}, {linear({-1}, {-4}), relu({0})}),
    peer_rule({add({-1}, {-2})}, {{"EW_MUL", {{-1}, {-2}}, {}}}),
    peer_rule({relu({-1})}, {add({-1}, {-2})}),
    peer_rule({replicate(1, {-1})}, {replicate(2, {-1})}),
};

TEST_CASE("the verdicts of a file are one JSON document") {
  Folder folder;
  Outcome o = import(folder, folder.write("a.pb", wire(kRules)) + " --json");
  INFO(o.err);
  REQUIRE(o.code == 0);
  auto json = nlohmann::json::parse(o.out);
  std::vector<std::string> verdicts;
  for (const auto& rule : json["rules"]) {
    CHECK(rule["index"] == verdicts.size());
    verdicts.push_back(rule["verdict"]);
  }
  CHECK(verdicts == std::vector<std::string>{"proved", "refuted", "ill-typed", "unsupported"});
  CHECK(json["rules"][0]["steps"] == 1);
  CHECK(json["rules"][0].contains("library_rule"));
  CHECK(json["rules"][1].contains("counterexample"));
  CHECK(json["rules"][2]["why"] == "the target uses v2, which the source does not bind");
  for (const char* verdict : {"proved", "refuted", "ill-typed", "unsupported"}) CHECK(json["counts"][verdict] == 1);
  CHECK(json["counts"]["unknown"] == 0);
}

TEST_CASE("proved rules are written with their proofs, and can be loaded") {
  Folder folder;
  Outcome o = import(folder, folder.write("a.pb", wire(kRules)) + " -o " + folder.file("b.rules"));
  INFO(o.err);
  REQUIRE(o.code == 0);
  CHECK(o.out.find("4 rules: 1 proved (1 of them in the library or derived from it in at most 3 steps), 1 refuted, "
                   "1 ill-typed, 1 unsupported, 0 unknown") != std::string::npos);
  std::vector<Rule> rules = load_proved_rules(folder.file("b.rules"));
  REQUIRE(rules.size() == 1);
  CHECK(rules[0].name == "imported_a_0");
}

TEST_CASE("files that are no rule files end the command with code 2 and one line") {
  Folder folder;
  std::string bytes = wire(kRules);
  for (auto [path, said] :
       {std::pair(folder.write("cut.pb", bytes.substr(0, bytes.size() - 3)), "the file is cut off"),
        std::pair(folder.write("text.pb", "hello"), "byte 0"),
        std::pair(folder.write("cut.json", "{\"rule\": ["), ":1:"),
        std::pair(folder.write("empty.pb", ""), "found no rules"), std::pair(folder.file("none.pb"), "none.pb")}) {
    Outcome o = import(folder, path);
    INFO(o.err);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
    CHECK(o.err.find(said) != std::string::npos);
  }
  CHECK(import(folder, folder.file("cut.pb") + " -o out.txt").code == 2);
}

}  // namespace
}  // namespace unity
