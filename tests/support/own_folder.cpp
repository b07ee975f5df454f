// Every run of a test program has its own folder for temporary files, removed with all it holds when the run ends: runs
// beside one another, which ctest starts for single cases, never meet in a file.

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

namespace {

namespace fs = std::filesystem;

class OwnFolder : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo&) override {
    std::string name = (fs::temp_directory_path() / "unity-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for temporary files: " + name);
    folder_ = name;
    setenv("TMPDIR", name.c_str(), 1);
  }

  void testRunEnded(const Catch::TestRunStats&) override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

 private:
  fs::path folder_;
};

CATCH_REGISTER_LISTENER(OwnFolder)

}  // namespace
