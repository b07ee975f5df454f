// What the documentation names is there: links, files, commands, options.

#include "tests/docs/documents.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/paths.h"

namespace {

using namespace docs;
using command::read;
using command::unity;
namespace fs = std::filesystem;
using Words = std::set<std::string>;

const std::vector<Document>& documents() {
  static const std::vector<Document> all = all_documents();
  return all;
}

// The options of every command, of unity-gui and of our scripts: those that their definitions or sources name.
const std::map<std::string, Words>& options_of_commands() {
  static const std::map<std::string, Words> all = [] {
    std::map<std::string, Words> found;
    std::istringstream lines(unity("__reference").out);
    std::string command;
    static const std::regex option("`(--?[a-z0-9][a-z0-9-]*)`");
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("## unity ")) found[command = line.substr(9)];
      if (!line.starts_with("| `-")) continue;
      std::string names = line.substr(0, line.find(" | "));
      for (std::sregex_iterator m(names.begin(), names.end(), option), end; m != end; ++m)
        found[command].insert((*m)[1]);
    }
    return found;
  }();
  return all;
}

Words words_with_dashes(const std::string& text) {
  static const std::regex option("(^|[^A-Za-z0-9-])(--[a-z][a-z0-9-]*[a-z0-9])");
  Words found;
  for (std::sregex_iterator m(text.begin(), text.end(), option), end; m != end; ++m) found.insert((*m)[2]);
  return found;
}

// Options of programs that are not ours, in our documentation.
const Words kOthers = {"--allow-run-as-root",
                       "--array",
                       "--bind-to",
                       "--build",
                       "--component",
                       "--cpus-per-task",
                       "--dependency",
                       "--hostfile",
                       "--kill-on-bad-exit",
                       "--map-by",
                       "--mca",
                       "--mpi",
                       "--nodes",
                       "--ntasks-per-node",
                       "--output-on-failure",
                       "--oversubscribe",
                       "--prefix",
                       "--preset",
                       "--requeue",
                       "--target",
                       "--test-dir",
                       "--time",
                       "--verbose"};

}  // namespace

TEST_CASE("every link of the documentation leads to a file and a heading that are there") {
  CHECK(documents().size() > 30);
  for (const Document& document : documents())
    for (const Link& link : document.links) {
      INFO(document.path << ":" << link.line << ": " << link.to);
      if (link.to.find("://") != std::string::npos) continue;
      CHECK_FALSE(link.to.starts_with('/'));
      std::string file = link.to.substr(0, link.to.find('#'));
      fs::path target = file.empty() ? root() / document.path : root() / fs::path(document.path).parent_path() / file;
      CHECK(fs::exists(target));
      if (std::size_t hash = link.to.find('#'); hash != std::string::npos && target.extension() == ".md") {
        std::vector<std::string> anchors =
            read_document(fs::relative(fs::weakly_canonical(target), fs::weakly_canonical(root())).string()).anchors;
        CHECK(std::find(anchors.begin(), anchors.end(), link.to.substr(hash + 1)) != anchors.end());
      }
    }
}

TEST_CASE("every page and picture of docs/ is linked from another page") {
  Words linked;
  for (const Document& document : documents())
    for (const Link& link : document.links) {
      fs::path target = root() / fs::path(document.path).parent_path() / link.to.substr(0, link.to.find('#'));
      if (link.to.find("://") == std::string::npos && fs::exists(target) && !link.to.starts_with('#'))
        linked.insert(fs::weakly_canonical(target).string());
    }
  for (const auto& entry : fs::recursive_directory_iterator(root() / "docs")) {
    std::string ending = entry.path().extension().string();
    if (ending != ".md" && ending != ".png" && ending != ".svg") continue;
    INFO(entry.path().string());
    CHECK(linked.count(fs::weakly_canonical(entry.path()).string()) == 1);
  }
}

TEST_CASE("every file that the documentation names by its path is there") {
  static const std::regex path(
      "(core|simulator|runtime|gui|cli|topologies|experiments|tests|docs|scripts|cmake)(/[A-Za-z0-9_.@-]+)+/?");
  for (const Document& document : documents())
    for (const Link& code : document.code) {
      if (!std::regex_match(code.to, path)) continue;
      INFO(document.path << ":" << code.line << ": " << code.to);
      fs::path here = root() / fs::path(document.path).parent_path() / code.to;  // a room's own folder
      CHECK((fs::exists(root() / code.to) || fs::exists(here)));
    }
}

TEST_CASE("every option that the documentation names belongs to a command, a script or a known program") {
  Words known = kOthers;
  for (const auto& [command, options] : options_of_commands()) known.insert(options.begin(), options.end());
  for (const std::string& more : {read((root() / "docs/reference.md").string()), unity("--help").out})
    known.merge(words_with_dashes(more));
  std::string gui = read((root() / "gui/app/main.cpp").string());
  known.merge(words_with_dashes(gui));
  for (const char* folder : {"scripts", "experiments", "tests/reference", "tests/cluster", "tests/faults"})
    for (const auto& entry : fs::recursive_directory_iterator(root() / folder))
      if (entry.is_regular_file() && entry.path().extension() != ".md" && entry.path().extension() != ".json")
        known.merge(words_with_dashes(read(entry.path().string())));
  for (const Document& document : documents()) {
    auto check = [&](const std::string& text, int line) {
      for (const std::string& option : words_with_dashes(text)) {
        INFO(document.path << ":" << line << ": " << option);
        CHECK(known.count(option) == 1);
      }
    };
    for (const Link& code : document.code) check(code.to, code.line);
    for (const Block& block : document.blocks)
      for (std::size_t i = 0; i < block.lines.size() && block.word != "fails"; ++i)
        check(block.lines[i], block.line + static_cast<int>(i));
  }
}

TEST_CASE("every command of unity in the documentation exists, with the options it is given") {
  std::size_t seen = 0;
  for (const Document& document : documents())
    for (const Block& block : document.blocks)
      for (std::size_t i = 0; i < block.lines.size(); ++i) {
        std::string line = block.lines[i].substr(0, block.lines[i].find("  #"));
        while (line.ends_with('\\') && ++i < block.lines.size())
          line = line.substr(0, line.size() - 1) + block.lines[i];
        static const std::regex call("(^|[ /$;|])unity ([a-z]+)( [a-z][a-z-]+)?(.*)");
        std::smatch m;
        if (!std::regex_search(line, m, call) || document.path == "docs/reference.md") continue;
        if (line.starts_with("unity: error")) continue;
        INFO(document.path << ":" << block.line + static_cast<int>(i) << ": " << line);
        const auto& all = options_of_commands();
        std::string command = m[2], longer = command + std::string(m[3]);
        auto found = all.count(longer) ? all.find(longer) : all.find(command);
        CHECK((found != all.end() || block.language == "cmake"));
        if (found == all.end()) continue;
        ++seen;
        if (block.word == "fails") continue;
        std::string rest = m[3].str() + m[4].str();
        for (const std::string& option : words_with_dashes(rest.substr(0, rest.find(" ; "))))
          CHECK((found->second.count(option) == 1 || option == "--help"));
      }
  CHECK(seen > 60);
}

TEST_CASE("every model, machine and strategy that an example names is there") {
  auto names = [](const std::string& what) {
    Words list;
    for (const auto& entry : nlohmann::json::parse(unity("list " + what + " --json").out))
      list.insert(entry["name"].get<std::string>());
    return list;
  };
  const Words models = names("models"), topologies = names("topologies"), strategies = names("strategies");
  static const std::regex model("unity (search|compare|run) ([a-z0-9@-]+)( |$)"),
      topology("--topology ([a-z0-9-]+)( |$)"), strategy("--strateg(y|ies) ([a-z,-]+)( |$)");
  std::size_t seen = 0;
  for (const Document& document : documents())
    for (const Block& block : document.blocks) {
      if (block.word == "fails") continue;
      for (const std::string& whole : block.lines) {
        std::string line = whole.substr(0, whole.find("  #"));
        INFO(document.path << ":" << block.line << ": " << line);
        std::smatch m;
        if (std::regex_search(line, m, model)) CHECK((models.count(m[2]) == 1 && ++seen));
        if (std::regex_search(line, m, topology)) CHECK(topologies.count(m[1]) == 1);
        if (!std::regex_search(line, m, strategy)) continue;
        std::istringstream list(m[2]);
        for (std::string one; std::getline(list, one, ',');)
          if (one.find_first_of("abc") != 0 || one.size() > 1) CHECK(strategies.count(one) == 1);
      }
    }
  CHECK(seen > 25);
}

TEST_CASE("every variable UNITY_.. that the documentation names is read somewhere") {
  static const std::regex variable("UNITY_[A-Z][A-Z_]*[A-Z]");
  auto variables = [](const std::string& text) {
    Words found;
    for (std::sregex_iterator m(text.begin(), text.end(), variable), end; m != end; ++m) found.insert(m->str());
    return found;
  };
  Words known = variables(read((root() / "CMakeLists.txt").string()));
  for (const char* folder : {"cli", "cmake", "core", "gui", "runtime", "scripts", "simulator", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
      std::string ending = entry.path().extension().string();
      if (entry.is_regular_file() && ending != ".md" && ending != ".proofs" && ending != ".gz")
        known.merge(variables(read(entry.path().string())));
    }
  for (const Document& document : documents())
    for (const std::string& name : variables(read((root() / document.path).string()))) {
      INFO(document.path << ": " << name);
      CHECK(known.count(name) == 1);
    }
}

TEST_CASE("docs/reference.md is what the definitions of the commands say; scripts/reference writes it") {
  CHECK(read((root() / "docs/reference.md").string()) == unity("__reference").out);
}

TEST_CASE("docs/commands.md has every command, and names every option somewhere") {
  std::string text = read((root() / "docs/commands.md").string());
  Words named;
  for (const Document& document : documents())
    if (document.path.starts_with("docs/") && document.path != "docs/reference.md")
      named.merge(words_with_dashes(read((root() / document.path).string())));
  for (const auto& [command, options] : options_of_commands()) {
    std::string first = command.substr(0, command.find(' '));
    INFO(command);
    CHECK(text.find("`" + first + " ") != std::string::npos);
    for (const std::string& option : options)
      if (option.starts_with("--") && option != "--output") {  // which is -o
        INFO(option);
        CHECK(named.count(option) == 1);
      }
  }
}

TEST_CASE("docs/gui.md names every option of unity-gui") {
  const std::string program = UNITY_BINARY_DIR "/bin/unity-gui";
  if (!fs::exists(program)) {
    WARN("skipped: this build has no window");
    return;
  }
  command::Folder folder;
  REQUIRE(std::system((program + " --help >" + folder.file("help")).c_str()) == 0);
  Words named = words_with_dashes(read((root() / "docs/gui.md").string()));
  for (const std::string& option : words_with_dashes(read(folder.file("help")))) {
    INFO(option);
    CHECK((named.count(option) == 1 || option == "--help" || option == "--version"));
  }
}

TEST_CASE("docs/commands.md says every key that --json prints") {
  using nlohmann::json;
  command::Folder f;
  std::string plan = f.file("plan.json"), text = read((root() / "docs/commands.md").string());
  auto check = [&](const std::string& arguments, bool list = false) {
    command::Outcome o = unity(arguments);
    INFO("unity " << arguments << "\n" << o.err);
    REQUIRE(o.code == 0);
    json printed = json::parse(o.out);
    for (const auto& [key, value] : (list ? printed.at(0) : printed).items()) {
      INFO(key);
      CHECK(std::regex_search(text, std::regex("\\b" + key + "\\b")));
    }
  };
  check("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel --json -o " + plan);
  check("compare mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategies data-parallel,expert --json",
        true);
  check("explain " + plan + " --what-if --scale device=2 --json");
  check("simulate " + plan + " --json");
  check("simulate --collective all_reduce --bytes '1 MB' --topology summit --json");
  check("run " + plan + " --data digits --steps 2 --json");
  check("validate " + plan + " --steps 2 --json");
  check("show summit --json");
  check("import " + (root() / "docs/examples/tutorial/net.onnx").string() + " --dim batch=48 -o " + f.file("net.yaml") +
        " --json");
  check("import nvidia-smi-topo " + (root() / "docs/examples/tutorial/topo.txt").string() + " -o " +
        f.file("node.yaml") + " --json");
}
