// Shells complete what --help describes: the same commands, options and names.

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/paths.h"

namespace {

using nlohmann::json;
using Words = std::set<std::string>;

using namespace command;

// The candidates, without descriptions and without the line on files.
Words candidates(const std::string& words) {
  std::istringstream lines(unity("__complete " + words).out);
  Words found;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with(':')) found.insert(line.substr(0, line.find('\t')));
  return found;
}

bool files_follow(const std::string& words, const std::string& ending) {
  return unity("__complete " + words).out.find(":files " + ending) != std::string::npos;
}

// The options that a help text lists: "  -o,--output TEXT", "  --no-dp{false}".
Words options_of_help(const std::string& help) {
  Words options;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    std::istringstream names(line.substr(2, line.find_first_of(" {", 2) - 2));
    for (std::string name; std::getline(names, name, ',');) options.insert(name);
  }
  return options;
}

Words names(const std::string& what) {
  Words list;
  for (const json& entry : json::parse(unity("list " + what + " --json").out))
    list.insert(entry["name"].get<std::string>());
  return list;
}

// Those of the names that start with what has been typed.
Words names(const std::string& what, const std::string& typed) {
  Words some;
  for (const std::string& name : names(what))
    if (name.starts_with(typed)) some.insert(name);
  return some;
}

void check_all_options(const std::string& command) {
  INFO("unity " << command);
  Words help = options_of_help(unity(command + " --help").out);
  CHECK(help.count("--help") == 1);
  CHECK(candidates(command + " -") == help);
  std::string text = unity(command + " --help").out;
  if (std::size_t below = text.find("\nSubcommands:\n"); below != std::string::npos)
    for (const std::string& name : candidates(command + " ''"))
      if (text.find("\n  " + name + " ", below) != std::string::npos) check_all_options(command + " " + name);
}

// What bash makes of it: a line with the words of COMPREPLY.
std::string bash(const std::string& words, int at) {
  Folder folder;
  std::string script =
      folder.write("complete.sh", "PATH=" UNITY_BINARY_DIR
                                  "/bin:$PATH\n"
                                  "source <(unity completion bash)\n"
                                  "cd " UNITY_SOURCE_DIR
                                  "/experiments\n"
                                  "COMP_WORDS=(unity " +
                                      words + ")\nCOMP_CWORD=" + std::to_string(at) +
                                      "\n_unity\nprintf '%s ' \"${COMPREPLY[@]}\" >" + folder.file("reply") + "\n");
  REQUIRE(std::system(("bash " + script + " 2>/dev/null").c_str()) == 0);
  return read(folder.file("reply"));
}

}  // namespace

TEST_CASE("completion offers every command, and of each the options of its help") {
  Words commands = candidates("''");
  std::string help = unity("--help").out;
  CHECK(commands.size() == 16);
  for (const std::string& command : commands) {
    CHECK(help.find("\n  " + command + " ") != std::string::npos);
    check_all_options(command);
  }
  CHECK(candidates("se") == Words{"search"});
  CHECK(candidates("-") == Words{"-h", "--help", "--version"});
}

TEST_CASE("completion offers the names that list prints") {
  CHECK(candidates("search ''") == names("models"));
  CHECK(candidates("search bert-large --topology ''") == names("topologies"));
  CHECK(candidates("run mlp-tiny --strategy ''") == names("strategies"));
  CHECK(candidates("rules list --operator ''") == names("operators"));
  CHECK(candidates("rules show merge_") == names("rules", "merge_"));
  CHECK(candidates("search gpt2-") == Words{"gpt2-small", "gpt2-medium", "gpt2-xl"});
  CHECK(files_follow("search ''", "yaml"));
  CHECK(files_follow("explain ''", "json"));
}

TEST_CASE("where the values of an option are few, completion offers those that its refusal names") {
  const char* const kCommands[] = {
      "search mlp-tiny --topology laptop --parallelism",
      "search mlp-tiny --topology laptop --schedule",
      "search mlp-tiny --topology laptop --offload",
      "search mlp-tiny --topology laptop --weight-versions",
      "search mlp-tiny --topology laptop --optimizer",
      "run mlp-tiny --schedule",
      "run mlp-tiny --pipeline-schedule",
      "run mlp-tiny --backend",
      "run mlp-tiny --comm",
      "run mlp-tiny --precision",
      "run mlp-tiny --early-stop 1 --early-stop-on",
      "profile mlp-tiny --precision",
      "export mlp-tiny --format",
      "simulate mlp-tiny --trace trace --trace-format",
      "simulate --topology summit --devices 2 --bytes 1MB --collective",
      "simulate --topology summit --devices 2 --bytes 1MB --collective all_reduce --collective-algorithm",
      "list",
      "bench",
      "completion",
  };
  for (const std::string command : kCommands) {
    INFO("unity " << command);
    Words offered = candidates(command + " ''");
    CHECK(offered.size() > 1);
    CHECK(offered.count("zzz") == 0);
    std::vector<std::string> named(offered.begin(), offered.end());
    check_refused(command + " zzz", named);
  }
}

TEST_CASE("completion sees lists, equals signs, and which argument comes next") {
  CHECK(candidates("compare mlp --strategies data-parallel,ex") ==
        Words{"data-parallel,expert", "data-parallel,exhaustive"});
  CHECK(candidates("search mlp --topology=sum") == names("topologies", "sum"));
  CHECK(candidates("search mlp --topology = sum") == names("topologies", "sum"));  // as bash splits it
  CHECK(candidates("search --json mlp-m") == Words{"mlp-mnist"});                  // a flag takes no value
  CHECK(candidates("search mlp ''").empty());                                      // there is no second argument
  CHECK(candidates("run mlp --schedule c") == Words{"constant", "cosine"});
  CHECK(candidates("search mlp --schedule ''") == Words{"gpipe", "1f1b", "interleaved", "zb-h1"});
}

TEST_CASE("bash completes commands, names and files") {
  CHECK(bash("exp", 1) == "explain export ");
  CHECK(bash("search bert-l", 2) == "bert-large ");
  CHECK(bash("search mlp --topology lap", 4) == "laptop ");
  CHECK(bash("sweep first-sweep/", 2) == "first-sweep/experiment.yaml ");
  check_refused("completion tcsh", {"completion: found 'tcsh', expected bash, zsh or fish"});
}

TEST_CASE("the version says commit, build and optional parts") {
  std::string version = unity("--version").out;
  for (const char* line : {"unity 0.", "\ncommit ", "\nbuild ", "\ncompiler ", "\nCUDA ", "\nMPI ", "\nGUI ", "\nZ3 "})
    CHECK(version.find(line) != std::string::npos);
}
