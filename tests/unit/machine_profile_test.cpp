#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/machine/profile.h"

using namespace unity;

namespace {

struct File {
  std::filesystem::path path;
  explicit File(const std::string& text) {
    static int number = 0;
    path = std::filesystem::temp_directory_path() / fmt::format("unity-profile-{}-{}.yaml", getpid(), number++);
    std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
};

const std::string kHead =
    "format: unity-profile\nversion: 1\ndevice: d\ndate: 2026-01-31\nbackend: cpu\nprecision: f32\n";

void check_refused(const std::string& text, const std::vector<std::string>& said) {
  File file(text);
  try {
    load_profile(file.path.string());
    FAIL("accepted:\n" << text);
  } catch (const InputError& e) {
    for (const std::string& part : said) {
      INFO(e.what());
      CHECK(std::string(e.what()).find(part) != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("a profile is read as it was written") {
  DeviceProfile p;
  p.device = "somebody's processor";
  p.date = "2026-01-31";
  p.cache = {32'000'000};
  ProfileSection& s = p.sections[2];
  s.threads = 2;
  s.task_overhead = -3e-8;
  s.handover = 4e-6;
  s.peak = 2e11;
  s.elementwise_peak = 1e10;
  s.memory_bandwidth = 4e10;
  s.efficiency["matmul"] = {{1000, 0.25}, {1e6, 1}};
  s.curves["all_reduce of 2"] = {{1024, 1e-6, 2e-6}, {4096, 3e-6, 3e-6}};
  s.tasks["matmul{\"relu\", 0}(f32[2, 3], f32[3, 4]) -> f32[2, 4]"] = {1e-6, 2e-6, 0.5e-6, 1.5e-6, 40};
  s.tasks["concat(" + std::string(1500, 'x') + ")"] = {1e-6, 1e-6, 1e-6, 1e-6, 1};
  File file("");
  save_profile(p, file.path.string());
  DeviceProfile q = load_profile(file.path.string());
  CHECK(profile_to_yaml(q) == profile_to_yaml(p));
  CHECK(q.device == p.device);
  CHECK(q.cache == p.cache);
  CHECK(q.section(1) == nullptr);
  DeviceProfile gpu = q;  // has no threads of the CPU
  gpu.backend = "cuda", gpu.sections = {{1, s}};
  CHECK(gpu.section(16) == gpu.section(1));
  CHECK(gpu.section(16) != nullptr);
  REQUIRE(q.section(2));
  CHECK(q.section(2)->tasks == s.tasks);
  CHECK(q.section(2)->curves == s.curves);
  CHECK(q.entries() == 2);
}

TEST_CASE("between two points of a curve seconds follow a power law, beyond its end they are in proportion") {
  std::vector<ProfilePoint> curve = {{100, 1, 2}, {10000, 100, 200}};
  CHECK(seconds_at(curve, 10).warm == 1);
  CHECK(seconds_at(curve, 1000).warm == Approx(10));  // the middle of the logarithms
  CHECK(seconds_at(curve, 1000).cold == Approx(20));
  CHECK(seconds_at(curve, 20000).warm == Approx(200));
}

TEST_CASE("bad profiles are refused with place, found and expected") {
  check_refused("format: unity-device\nversion: 1\n", {":1:9:", "unity-device", "unity-profile"});
  check_refused(kHead, {"sections", "missing"});
  check_refused(kHead + "sections:\n  - {threads: 0}\n", {":8:15:", "threads", "'0'", "above 0"});
  check_refused(kHead + "sections:\n  - {threads: 1, handovr: 1}\n", {":8:", "handovr", "handover"});
  check_refused(kHead + "sections:\n  - {threads: 1}\n  - {threads: 1}\n", {":9:", "1 threads", "twice"});
  check_refused(kHead + "sections:\n  - threads: 1\n    tasks:\n      'relu(f32[2]) -> f32[2]': {warm: fast}\n",
                {":10:", "relu", "'fast'", "number above 0"});
  check_refused(kHead + "sections:\n  - threads: 1\n    tasks:\n      a: {cold: 1}\n", {":10:", "'warm' is missing"});
  check_refused(kHead + "sections:\n  - threads: 1\n    curves:\n      copy: {10: 1, 5: 2}\n", {":10:", "ascending"});
  check_refused(kHead + "sections:\n  - threads: 1\n    curves:\n      copy: {10: [1, 2, 3]}\n",
                {":10:", "3 numbers", "[warm, cold]"});
  check_refused(kHead + "sections:\n  - threads: 1\n    efficiency:\n      matmul: {10: 1.5}\n", {":10:", "at most 1"});
  for (const char* overhead : {"task_overhead: 1e300", "task_overhead: -1e8", "handover: 61", "step_overhead: 1e7"}) {
    std::string key(overhead, std::string(overhead).find(':'));
    check_refused(kHead + "sections:\n  - threads: 1\n    " + overhead + "\n",
                  {":9:", key + ": found '", "to 60 seconds"});
  }
  std::string precision = kHead;
  precision.replace(precision.find("f32"), 3, "f7");
  check_refused(precision + "sections: []\n", {":6:", "precision", "f7"});
}

TEST_CASE("a device file names its profile, relative to itself") {
  File profile(kHead + "sections: [{threads: 1, peak: 5e11}]\n");
  std::string device =
      "format: unity-device\nversion: 1\nname: d\nkind: cpu\npeak: {f32: 1 TFLOPS}\nmemory_bandwidth: 1 "
      "GB/s\nmemory: 1 GB\nlaunch_overhead: 1 us\n";
  File with(device + "profile: " + profile.path.filename().string() + "\n");
  DeviceSpec spec = load_device(with.path.string());
  REQUIRE(spec.profile);
  CHECK(spec.profile->section(1)->peak == 5e11);
  File slow(device + "handover: 2000000 s\n");
  CHECK_THROWS_WITH(load_device(slow.path.string()),
                    Catch::Contains(":9:11: handover: found '2000000 s', expected 0 to 60 s"));
  File absent(device + "profile: absent.yaml\n");
  CHECK_THROWS_WITH(load_device(absent.path.string()), Catch::Contains(":9:10:") && Catch::Contains("absent.yaml"));
}
