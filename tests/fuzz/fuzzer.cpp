// libFuzzer's entry for a family of targets. $UNITY_FUZZ_TARGET chooses one; with $UNITY_FUZZ_LIST set, the targets are
// listed, with $UNITY_FUZZ_SEEDS, the seeds of all are written to a folder for each below that one.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/base/text.h"
#include "tests/fuzz/former_findings.h"
#include "tests/fuzz/target.h"

namespace {

const unity::fuzz::Target* chosen = nullptr;

void write_seeds(const std::filesystem::path& folder) {
  for (const unity::fuzz::Target& target : unity::fuzz::targets()) {
    std::filesystem::create_directories(folder / target.name);
    int number = 0;
    for (const std::string& seed : target.seeds())
      unity::write_file_atomically(folder / target.name / fmt::format("seed-{:03}", number++), seed);
    for (const unity::fuzz::FormerFinding& f : unity::fuzz::former_findings())
      if (f.target == target.name)
        unity::write_file_atomically(folder / target.name / fmt::format("seed-{:03}", number++), f.input);
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (std::getenv("UNITY_FUZZ_LIST")) {
    for (const auto& t : unity::fuzz::targets())
      std::printf("%s\t%zu\t%s\n", t.name.c_str(), t.longest, t.dictionary.c_str());
    std::exit(0);
  }
  if (const char* folder = std::getenv("UNITY_FUZZ_SEEDS")) {
    write_seeds(folder);
    std::exit(0);
  }
  const char* name = std::getenv("UNITY_FUZZ_TARGET");
  for (const auto& t : unity::fuzz::targets())
    if (name && t.name == name) chosen = &t;
  if (chosen) return 0;
  std::fprintf(stderr, "UNITY_FUZZ_TARGET: found '%s', expected one of those that UNITY_FUZZ_LIST=1 lists\n",
               name ? name : "");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
