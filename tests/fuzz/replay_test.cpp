// The fuzz targets without a fuzzer: their seeds, what the fuzzers once found, and a fixed number of mutations of both.
#include <algorithm>
#include <array>
#include <sstream>

#include <catch2/catch.hpp>
#include <sys/resource.h>

#include "tests/fuzz/former_findings.h"
#include "tests/fuzz/target.h"
#include "tests/support/dice.h"
#include "tests/support/seed.h"

namespace unity::fuzz {
namespace {

// Sizes that are not checked before memory is taken show as a failed allocation. Sanitizers reserve more than any
// bound.
void bound_memory() {
#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
  rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
#endif
}

// Words of the target's dictionary, as libFuzzer reads it: "text" with \" \\ \xAB.
std::vector<std::string> dictionary(const Target& target) {
  std::vector<std::string> words;
  if (target.dictionary.empty()) return words;
  std::istringstream lines(tree_file("tests/fuzz/dictionaries/" + target.dictionary + ".dict"));
  for (std::string line; std::getline(lines, line);) {
    std::string word;
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
      if (line[i] != '\\') {
        word += line[i];
      } else if (line[++i] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        word += line[i];
      }
    }
    if (!word.empty()) words.push_back(std::move(word));
  }
  return words;
}

// A few changes of a seed: bytes, words of the dictionary, parts that go, double, or come from another seed.
std::string mutated(const std::vector<std::string>& seeds, const std::vector<std::string>& words, test::Dice& dice) {
  std::string text = seeds[dice.below(seeds.size())];
  for (std::size_t changes = 1 + dice.below(4); changes > 0; --changes) {
    std::size_t at = dice.below(text.size() + 1), length = std::min(1 + dice.below(24), text.size() - at);
    switch (dice.below(words.empty() ? 5 : 7)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(dice.below(text.size() + 1), length));
        break;
      case 3: {
        const std::string& other = seeds[dice.below(seeds.size())];
        text.insert(at, other.substr(dice.below(other.size() + 1), 1 + dice.below(60)));
        break;
      }
      case 4:
        text.insert(at, 1, static_cast<char>(dice.below(256)));
        break;
      case 5:
        text.insert(at, words[dice.below(words.size())]);
        break;
      default:
        text.replace(at, length, words[dice.below(words.size())]);
    }
  }
  return text;
}

// "x\x01y", for messages.
std::string printable(const std::string& input) {
  std::string text;
  for (char c : input.substr(0, 2000))
    text += c == '\n' || (c >= ' ' && c <= '~') ? std::string(1, c)
                                                : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

void replay(const Target& target, const std::string& input) {
  INFO(target.name << ": " << printable(input));
  REQUIRE_NOTHROW(target.run(input));
}

std::vector<std::string> seeds_of(const Target& target) {
  std::vector<std::string> seeds = target.seeds();
  for (const FormerFinding& f : former_findings())
    if (f.target == target.name && f.input.size() <= target.longest) seeds.push_back(f.input);
  return seeds;
}

TEST_CASE("every fuzz target takes its seeds") {
  bound_memory();
  for (const Target& target : targets()) {
    std::vector<std::string> seeds = seeds_of(target);
    CHECK(!seeds.empty());
    for (const std::string& seed : seeds) replay(target, seed);
    replay(target, "");
  }
}

TEST_CASE("what fuzzers once found is refused or read") {
  bound_memory();
  for (const FormerFinding& f : former_findings())
    for (const Target& target : targets())
      if (f.target == target.name) {
        INFO("it " << f.what);
        replay(target, f.input);
      }
}

TEST_CASE("mutations of the seeds of fuzz targets are refused or read") {
  bound_memory();
  std::uint64_t seed = test::seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  for (const Target& target : targets()) {
    test::Dice dice(seed);
    std::vector<std::string> seeds = seeds_of(target), words = dictionary(target);
    for (int i = 0; i < target.mutations; ++i) replay(target, mutated(seeds, words, dice));
  }
}

}  // namespace
}  // namespace unity::fuzz
