// The commands of the tutorial and of the questions, as a reader types them one after another in a folder of their own.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/docs/documents.h"
#include "tests/support/command.h"
#include "tests/support/paths.h"

namespace {

using namespace docs;
using namespace command;

struct Ran {
  int code = 0;
  std::string out, err;
};

Ran type(const Folder& folder, const std::string& line) {
  std::string script = folder.write(".line", "cd " + (folder.path / "here").string() + "\n" + line + "\n");
  std::string call = "PATH=" UNITY_BINARY_DIR
                     "/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                     "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 "
                     "OMPI_MCA_btl_vader_single_copy_mechanism=none bash " +
                     script + " >" + folder.file(".out") + " 2>" + folder.file(".err") + " </dev/null";
  int status = std::system(call.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read(folder.file(".out")), read(folder.file(".err"))};
}

void write_file(const Folder& folder, const Block& block) {
  fs::path path = folder.path / "here" / block.word;
  fs::create_directories(path.parent_path());
  std::ofstream out(path);
  for (const std::string& line : block.lines) out << line << "\n";
}

// Whether `text` has the parts of `expected` that '..' separates, in this order, and nothing else on the line.
bool says(const std::string& text, const std::string& expected) {
  std::size_t at = 0, from = 0;
  bool first = true;
  while (true) {
    std::size_t dots = expected.find("..", from);
    std::string part = expected.substr(from, dots == expected.npos ? dots : dots - from);
    std::size_t found = text.find(part, at);
    if (found == text.npos || (first && found != 0)) return false;
    at = found + part.size();
    first = false;
    if (dots == expected.npos) return text.substr(at) == "\n" || (part.empty() && !text.empty());
    from = dots + 2;
  }
}

// Columns are as wide as what is in them, times say.
std::string with_single_spaces(std::string text) {
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }), text.end());
  return text;
}

bool prints(const Ran& ran, const std::string& expected) {
  std::istringstream in(ran.out + ran.err);
  for (std::string line; std::getline(in, line);)
    if (says(with_single_spaces(line) + "\n", with_single_spaces(expected))) return true;
  return false;
}

bool has(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null").c_str()) == 0;
}

}  // namespace

// Writes the files of a page, and types its commands, which have to work and print the lines below them. How many
// commands and lines there were.
struct Followed {
  int commands = 0, lines = 0;
};

Followed follow(const std::string& page, const Folder& folder) {
  Followed done;
  for (const Block& block : read_document(page).blocks) {
    if (!block.word.empty() && block.language != "console") write_file(folder, block);
    bool wrong = block.word == "refuted";
    bool wanted = block.language == "console" &&
                  (block.word.empty() || wrong ||
                   (block.word == "mpi" && has("mpirun") && fs::exists(UNITY_BINARY_DIR "/lib/unity/libunity_mpi.so")));
    Ran ran;
    for (const std::string& line : block.lines) {
      INFO(page << ":" << block.line << ": " << line);
      if (wanted && line.starts_with("$ ")) {
        ran = type(folder, line.substr(2));
        INFO(ran.err);
        REQUIRE(ran.code == (wrong ? 1 : 0));
        ++done.commands;
      } else if (wanted && !line.empty()) {
        INFO(ran.out << ran.err);
        CHECK(prints(ran, line));
        ++done.lines;
      }
    }
  }
  return done;
}

TEST_CASE("every command of the tutorial that needs no cluster or GPU works, in order") {
  Folder folder;
  fs::create_directories(folder.path / "here");
  for (const auto& entry : fs::directory_iterator(root() / "docs/examples/tutorial"))
    fs::copy_file(entry.path(), folder.path / "here" / entry.path().filename());
  Followed done = follow("docs/tutorial.md", folder);
  CHECK(done.commands > 30);
  CHECK(done.lines > 6);
  CHECK(type(folder, "bash -n job.sbatch").code == 0);
}

TEST_CASE("the commands of the how-tos work") {
  Folder folder;
  fs::create_directories(folder.path / "here");
  CHECK(follow("docs/howto/rule.md", folder).commands == 4);
  CHECK(follow("docs/howto/topology.md", folder).commands == 4);
  CHECK(follow("docs/howto/sweep.md", folder).commands == 8);
  CHECK(type(folder, "bash -n sweep.sbatch").code == 0);
  CHECK(fs::exists(folder.path / "here/shared/report.html"));
  CHECK(fs::exists(folder.path / "here/today/report.html"));
  // What the rule of one's own is there for.
  CHECK(type(folder, "unity explain twice.json").out.find("relu_once") != std::string::npos);
}

TEST_CASE("every message of the questions is what the command above it prints") {
  Folder folder;
  fs::create_directories(folder.path / "here");
  int messages = 0;
  for (const Block& block : read_document("docs/faq.md").blocks) {
    if (block.language == "yaml") write_file(folder, block);
    if (block.language != "console") continue;
    Ran ran;
    for (const std::string& line : block.lines) {
      INFO("docs/faq.md:" << block.line << ": " << line << "\n" << ran.err);
      if (line.starts_with("$ ")) {
        ran = type(folder, line.substr(2));
        INFO(ran.out << ran.err);
        CHECK(ran.code == (block.word == "fails" ? 2 : 0));
      } else {
        CHECK(says(ran.err, line));
        ++messages;
      }
    }
  }
  CHECK(messages > 20);
}
