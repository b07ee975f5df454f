// What `cmake --install` and CPack put somewhere works there: from any folder, and without the sources.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/paths.h"

namespace {

using nlohmann::json;

using namespace command;

Outcome shell(const std::string& line) {
  Folder folder;
  int status = std::system(("cd / && ( " + line + " ) >" + folder.file("out") + " 2>" + folder.file("err")).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read(folder.file("out")), read(folder.file("err"))};
}

// Done, or says what went wrong.
std::string done(const std::string& line) {
  Outcome o = shell(line);
  INFO(line << "\n" << o.out << o.err);
  REQUIRE(o.code == 0);
  return o.out;
}

// Installed below one folder, then moved to another.
std::string moved_installation(const Folder& folder) {
  done(std::string(UNITY_CMAKE) + " --install " UNITY_BINARY_DIR " --prefix " + folder.file("first"));
  fs::rename(folder.file("first"), folder.file("moved"));
  return folder.file("moved");
}

}  // namespace

TEST_CASE("an installed Unity finds its machines, data and plug-ins beside itself, also where it was moved") {
  Folder folder;
  std::string moved = moved_installation(folder), unity = moved + "/bin/unity ", plan = folder.file("plan.json");
  fs::copy_file(moved + "/share/unity/topologies/laptop.yaml", moved + "/share/unity/topologies/moved-here.yaml");
  CHECK(done(unity + "list topologies").find("moved-here") != std::string::npos);
  done(unity + "search mlp-tiny --topology moved-here --devices 2 --strategy data-parallel --global-batch 60 -o " +
       plan);
  json run = json::parse(done(unity + "run " + plan + " --data digits --steps 2 --json"));
  CHECK(run["losses"].size() == 2);

  fs::remove(moved + "/share/unity/data/digits.csv.gz");
  folder.write("moved/share/unity/data/digits.csv.gz", "no data");
  Outcome damaged = shell(unity + "run " + plan + " --data digits --steps 2");
  CHECK(damaged.code == 2);
  CHECK(damaged.err.find("/moved/") != std::string::npos);

  std::string version = done(unity + "--version");
  CHECK(version.find("is missing") == std::string::npos);
  fs::remove_all(moved + "/lib/unity");
  std::string without = done(unity + "--version");
  CHECK((version.find("MPI               absent") != std::string::npos ||
         without.find("is missing") != std::string::npos));

  for (const char* file : {"share/unity/rules/named.rules", "share/unity/models/two-tower.yaml",
                           "share/bash-completion/completions/unity", "share/zsh/vendor-completions/_unity",
                           "share/fish/vendor_completions.d/unity.fish", "share/doc/unity-testbed/docs/tutorial.md"})
    CHECK(fs::is_regular_file(moved + "/" + file));
}

TEST_CASE("find_package(Unity) gives core and the simulator to another program") {
  if (*UNITY_SANITIZE) {
    WARN("skipped: libraries with sanitizers need programs with sanitizers");
    return;
  }
  Folder folder;
  std::string moved = moved_installation(folder), build = folder.file("build");
  done(std::string(UNITY_CMAKE) + " -S " UNITY_SOURCE_DIR "/docs/examples/library -B " + build +
       " -DCMAKE_PREFIX_PATH=" + moved);
  done(std::string(UNITY_CMAKE) + " --build " + build);
  // 2 layers of 1024 x 4096 and 4096 x 1000, each gradient summed by a ring of 3: 4 bytes x 2 (3 - 1) x 8,290,304 =
  // 132.6 MB.
  std::string out = done(build + "/predict");
  CHECK(out.find("data-parallel: ") == 0);
  CHECK(out.find("132.6 MB sent") != std::string::npos);
  CHECK(out.find("\nunity: ") != std::string::npos);
  CHECK(shell(build + "/predict /no/such.yaml").code == 2);
}

TEST_CASE("the Debian package of the command names the libraries it needs, and holds all else") {
  if (shell("dpkg-shlibdeps --version && file --version").code != 0) {
    WARN("skipped: dpkg-dev and file are not installed");
    return;
  }
  Folder folder;
  std::string root = folder.file("root"), packages = folder.file("packages");
  done("cpack -G DEB --config " UNITY_BINARY_DIR
       "/CPackConfig.cmake -D CPACK_COMPONENTS_ALL=command "
       "-D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -B " +
       packages);
  done("dpkg-deb -x " + packages + "/unity-testbed_*.deb " + root);
  std::string needs = done("dpkg-deb -f " + packages + "/unity-testbed_*.deb Depends");
  for (const char* library : {"libc6 ", "libyaml-cpp", "libz3", "libdnnl", "libopenblas"})
    CHECK(needs.find(library) != std::string::npos);
  fs::copy_file(root + "/usr/share/unity/topologies/summit.yaml", root + "/usr/share/unity/topologies/packed.yaml");
  json found =
      json::parse(done(root + "/usr/bin/unity search mlp --topology packed --nodes 1 --strategy data-parallel --json"));
  CHECK(found["devices"] == 6);
}
