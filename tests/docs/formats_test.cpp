// The keys of docs/formats.md are those that the readers know and that the writers write.

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/docs/documents.h"
#include "tests/support/command.h"

namespace {

using nlohmann::json;
using namespace command;
using Keys = std::set<std::string>;

// By "format place": the rows of the two tables of keys.
const std::map<std::string, Keys>& documented() {
  static const std::map<std::string, Keys> all = [] {
    std::map<std::string, Keys> rows;
    std::istringstream text(read((docs::root() / "docs/formats.md").string()));
    static const std::regex row("\\| `(unity-[a-z]+)` \\| (.*) \\| `([a-z0-9_, -]+)` \\|");
    for (std::string line; std::getline(text, line);) {
      std::smatch m;
      if (!std::regex_match(line, m, row)) continue;
      Keys& keys = rows[m[1].str() + " " + m[2].str()];
      std::istringstream list(m[3]);
      for (std::string key; std::getline(list, key, ',');) keys.insert(key.substr(key.find_first_not_of(' ')));
    }
    return rows;
  }();
  return all;
}

// The lists of keys in the calls of a reader that refuse all others.
std::set<Keys> known_to(const std::string& source) {
  std::string text = read((docs::root() / source).string());
  static const std::regex call("(check_keys|require_map|Section \\w+)\\("), word("\"([^\"]+)\"");
  std::set<Keys> lists;
  for (std::sregex_iterator m(text.begin(), text.end(), call), end; m != end; ++m) {
    std::size_t from = static_cast<std::size_t>(m->position() + m->length()), open = text.find('{', from);
    if (open == text.npos || text.substr(from, open - from).find(';') != std::string::npos) continue;
    std::string list = text.substr(open, text.find('}', open) - open);
    Keys keys;
    for (std::sregex_iterator w(list.begin(), list.end(), word); w != end; ++w) keys.insert((*w)[1]);
    if (!keys.empty()) lists.insert(keys);
  }
  return lists;
}

Keys keys_of(const json& object) {
  Keys keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

}  // namespace

TEST_CASE("the keys of the formats that people write are those that their readers know") {
  const std::map<std::string, std::vector<std::string>> readers = {
      {"unity-topology", {"core/machine/topology_file.cpp", "core/machine/topology_links.cpp"}},
      {"unity-device", {"core/machine/device_file.cpp"}},
      {"unity-mappings", {"core/machine/mapping_families.cpp"}},
      {"unity-collectives", {"core/machine/collectives.cpp"}},
      {"unity-profile", {"core/machine/profile.cpp"}},
      {"unity-model", {"core/models/yaml_model.cpp"}},
      {"unity-experiment", {"core/report/experiment.cpp"}}};
  for (const auto& [format, sources] : readers) {
    std::set<Keys> known, written;
    for (const std::string& source : sources) known.merge(known_to(source));
    for (const auto& [place, keys] : documented())
      if (place.starts_with(format + " ")) written.insert(keys);
    INFO(format);
    CHECK(known.size() > 0);
    CHECK(written == known);
  }
}

TEST_CASE("the keys of the formats that programs write are those that they write") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  REQUIRE(unity("run " + plan + " --data digits --steps 2 --trace " + f.file("trace.json") + " --checkpoint " +
                f.file("ckpt"))
              .code == 0);
  REQUIRE(unity("sweep " +
                f.write("grid.yaml",
                        "format: unity-experiment\nversion: 1\nmodels: [mlp-tiny]\n"
                        "topologies: [laptop]\nstrategies: [data-parallel]\n") +
                " -o " + f.file("grid"))
              .code == 0);
  std::map<std::string, json> files = {
      {"unity-plan the file", json::parse(read(plan))},
      {"unity-trace the file", json::parse(read(f.file("trace.json")))},
      {"unity-results the file", json::parse(read(f.file("grid/results.json")))},
      {"unity-checkpoint `index.json`", json::parse(read(f.file("ckpt/step-000002/index.json")))}};
  for (const auto& [place, file] : files) {
    INFO(place);
    REQUIRE(documented().count(place) == 1);
    CHECK(documented().at(place) == keys_of(file));
    std::string format = place.substr(0, place.find(' '));
    for (const auto& [key, value] : file.items())
      if (auto row = documented().find(format + " `" + key + "`"); row != documented().end() && row->first != place)
        CHECK(row->second == keys_of(value));
  }
}
