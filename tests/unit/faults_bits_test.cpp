// Every single bit of a file that a program wrote is flipped: the file is refused, or its content is the same.
#include <filesystem>
#include <fstream>
#include <functional>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/base/checksum.h"
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/machine/profile.h"
#include "core/plan/plan.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/support/checksum.h"
#include "tests/support/one_weight.h"

using namespace unity;
using namespace unity::test;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "unity-bits-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
};

struct Outcome {
  int refused = 0, same = 0, other = 0, unnamed = 0;
};

// `read` gives what it takes from the text, in a form that can be compared; its errors name `file`.
Outcome flip_all(const std::string& text, const std::string& file,
                 const std::function<std::string(const std::string&)>& read) {
  const std::string whole = read(text);
  Outcome out;
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      bool same = read(damaged) == whole;
      ++(same ? out.same : out.other);
      if (!same) UNSCOPED_INFO("bit " << bit << " of " << file);
    } catch (const InputError& e) {
      ++out.refused;
      if (std::string_view(e.what()).find(file) == std::string_view::npos) ++out.unnamed;
    }
  }
  return out;
}

Plan small_plan() {
  Plan plan;
  plan.model = {"m", {{"batch", 4}}};
  plan.topology = "uniform";
  plan.devices = 2;
  plan.global_batch = 4;
  plan.pcg = parse_pcg("pcg p { x = input([4, 3]) w = weight([3, 2]) y = matmul(x, w) return y }");
  for (const Node& node : plan.pcg.nodes())
    plan.mappings.push_back({0, node.is_compute() ? std::vector{1} : std::vector<int>{}});
  plan.search = {"unity", "no candidate was left", 12, 0.5, {900}};
  plan.prediction = {{1000}, {4096}, {128}};
  return plan;
}

DeviceProfile small_profile() {
  DeviceProfile p;
  p.device = "a processor";
  p.date = "2026-01-31";
  p.backend = "cpu";
  p.precision = Precision::f32;
  p.cache = {32'000'000};
  ProfileSection& s = p.sections[2];
  s.threads = 2;
  s.peak = 2e11;
  s.efficiency["matmul"] = {{1000, 0.25}};
  s.curves["copy"] = {{1024, 1e-6, 2e-6}, {4096, 3.00001e-6, 3.00002e-6}};
  s.tasks["relu(f32[2])"] = {1.5e-6, 2e-6, 0.5e-6, 1.5e-6, 40};
  return p;
}

}  // namespace

TEST_CASE("a plan with any bit flipped is refused, or is the same plan") {
  std::string text = plan_to_json(small_plan());
  Outcome out =
      flip_all(text, "p.json", [](const std::string& t) { return plan_to_json(plan_from_json(t, "p.json")); });
  CHECK(out.other == 0);
  CHECK(out.unnamed == 0);
  CHECK(out.same < 5);  // 900e-9 and 900E-9
}

TEST_CASE("a profile with any bit flipped is refused, or is the same profile") {
  Folder folder;
  std::string file = (folder.path / "p.yaml").string();
  Outcome out = flip_all(profile_to_yaml(small_profile()), file, [&](const std::string& t) {
    std::ofstream(file, std::ios::binary) << t;
    return profile_to_yaml(load_profile(file));
  });
  CHECK(out.other == 0);
  CHECK(out.unnamed == 0);
  CHECK(out.same < 25);  // the e of each number
}

TEST_CASE("a checkpoint with any bit of its index or of its tensors flipped is refused, or is the same checkpoint") {
  Folder folder;
  Program program = one_weight(parse_optimizer("sgd 0.1 momentum=0.5"));
  Executor written(program);
  TrainingPosition position{"linear", "sgd", 1, 3, "digits", 7, 32, 4, 7, 1e-9, {"accuracy", 0.875, 3, 1}};
  save_checkpoint(written, position, {folder.path});
  for (const char* name : {"index.json", "model-00001-of-00001.safetensors"}) {
    fs::path file = folder.path / "step-000003" / name;
    const std::string text = read_file(file);
    Outcome out = flip_all(text, name, [&](const std::string& t) {
      std::ofstream(file, std::ios::binary) << t;
      Executor read(program);
      Checkpoint checkpoint = Checkpoint::newest(folder.path);
      checkpoint.restore(read);
      return index_to_json(checkpoint.index()) + fmt::format("{} {}", read.state("w").reals[0], read.steps_done());
    });
    INFO(name);
    CHECK(out.other == 0);
    CHECK(out.unnamed == 0);
    CHECK(out.same < 3);
    std::ofstream(file, std::ios::binary) << text;
  }
}

TEST_CASE("a plan that a person changes is read when its checksum is removed, and refused with it") {
  std::string text = plan_to_json(small_plan());
  text.replace(text.find("\"candidates\": 12"), 16, "\"candidates\": 13");
  CHECK_THROWS_WITH(plan_from_json(text, "p.json"),
                    Catch::StartsWith("p.json: the checksum of its content is ") &&
                        Catch::EndsWith("(remove its key 'checksum' where that was meant)"));
  CHECK(plan_from_json(files::without_checksum(text), "p.json").search.candidates == 13);
}

TEST_CASE("laid out in another way, a plan is still what was written") {
  std::string text = plan_to_json(small_plan());
  std::erase(text, '\n');
  CHECK(plan_from_json(text, "p.json").global_batch == 4);
}
