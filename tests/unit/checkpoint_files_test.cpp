#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/base/text.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/folder.h"
#include "tests/support/one_weight.h"

using namespace unity;
using namespace unity::test;

namespace {

namespace fs = std::filesystem;

// A folder of its own, removed at the end of the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "unity-checkpoint-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
};

HostTensor value(double x) {
  HostTensor t = real_tensor({1, 1});
  t.reals[0] = x;
  return t;
}

TrainingPosition position(std::int64_t step) {
  return {"linear", "adam 0.001", 0xffffffffffffffff,       step, "digits", 0xfedcba9876543210u, 32, 4,
          7,        0.1 + 0.2,    {"accuracy", 0.875, 3, 1}};
}

std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no InputError";
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void flip(const fs::path& path, std::int64_t from_end) {
  std::string content = read_file(path);
  content[content.size() - static_cast<std::size_t>(from_end)] ^= 1;
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

TEST_CASE("weights and optimizer states come back bit for bit in f64, with the place in the data") {
  Folder folder;
  Program program = one_weight(parse_optimizer("adam 1e-3"));
  Executor a(program, {"cpu", Precision::f64, 1}), b(program, {"cpu", Precision::f64, 2});
  a.set_state("w", value(0.1));
  a.set_state("w.state0", value(-1.0 / 3));
  a.set_state("w.state1", value(5e-324));
  CheckpointOptions options{folder.path, 0, 3, false, 1};  // a file for each tensor
  save_checkpoint(a, position(12), options);
  CHECK(names_in(folder.path / "step-000012") ==
        std::vector<std::string>{"index.json", "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors"});
  Checkpoint saved = Checkpoint::newest(folder.path);
  CHECK(saved.position() == position(12));
  saved.restore(b);
  for (const StateTensor& t : a.state()) CHECK(a.state(t.name) == b.state(t.name));
  CHECK(b.steps_done() == 12);
  CHECK(SafetensorsFile(folder.path / "step-000012" / "model-00001-of-00003.safetensors").at("w").dtype ==
        StoredType::f64);
}

TEST_CASE("single precision is stored as such") {
  Folder folder;
  Program program = one_weight({});
  Executor a(program);
  a.set_state("w", value(0.1));
  save_checkpoint(a, position(1), {folder.path});
  SafetensorsFile file(folder.path / "step-000001" / "model-00001-of-00001.safetensors");
  CHECK(file.floats(file.at("w")) == std::vector<float>{0.1f});
  CHECK(file.at("w").dtype == StoredType::f32);
}

TEST_CASE("the newest is the one of the highest step, the last three stay, what was interrupted is cleared") {
  Folder folder;
  Program program = one_weight({});
  Executor a(program);
  fs::create_directories(folder.path / "step-000900.tmp");
  fs::create_directories(folder.path / "step-000800");  // without its index: not complete
  fs::create_directories(folder.path / "notes");
  for (std::int64_t step : {5, 10, 1'000'000, 20}) save_checkpoint(a, position(step), {folder.path});
  CHECK(names_in(folder.path) ==
        std::vector<std::string>{"notes", "step-000010", "step-000020", "step-000800", "step-1000000"});
  CHECK(Checkpoint::newest(folder.path).position().step == 1'000'000);
}

TEST_CASE("a checkpoint that cannot be written leaves the one before as it was") {
  Folder folder;
  Program program = one_weight({});
  Executor a(program);
  save_checkpoint(a, position(1), {folder.path});
  CHECK_THROWS_AS(publish_checkpoint(folder.path, 2, 1, [](const fs::path&) { throw InputError("disk full"); }),
                  InputError);
  CHECK(names_in(folder.path) == std::vector<std::string>{"step-000001"});
  CHECK(Checkpoint::newest(folder.path).position().step == 1);
}

TEST_CASE("damaged checkpoints are refused, naming the file, and nothing is restored") {
  Folder folder;
  Program program = one_weight(parse_optimizer("sgd 0.1 momentum=0.5"));
  Executor a(program), b(program);
  a.set_state("w", value(5));
  save_checkpoint(a, position(3), {folder.path, 0, 3, false, 1});
  fs::path step = folder.path / "step-000003", second = step / "model-00002-of-00002.safetensors";
  std::string whole = read_file(second), index = read_file(step / "index.json");
  auto restore = [&] { return message([&] { Checkpoint::newest(folder.path).restore(b); }); };

  flip(second, 1);
  CHECK(restore().find(second.string() + ": checksum is ") == 0);
  fs::resize_file(second, whole.size() - 1);
  CHECK(restore().find("is the file truncated?") != std::string::npos);
  fs::remove(second);
  CHECK(restore().find(second.string() + ": is missing") == 0);
  std::ofstream(second, std::ios::binary) << whole;
  CHECK(restore() == "no InputError");
  CHECK(b.state("w") == value(5));

  fs::resize_file(step / "index.json", index.size() / 2);
  CHECK(restore().find((step / "index.json").string() + ": not a complete JSON document") == 0);
  std::string other = index;
  other.replace(other.find("\"step\": 3"), 9, "\"step\": 4");
  std::ofstream(step / "index.json") << other;
  CHECK(restore().find("has changed since it was written") != std::string::npos);
}

TEST_CASE("the index of a checkpoint names only files beside it") {
  Folder folder;
  Program program = one_weight({});
  Executor a(program);
  save_checkpoint(a, position(1), {folder.path});
  fs::path index = folder.path / "step-000001" / "index.json",
           shard = folder.path / "step-000001" / "model-00001-of-00001.safetensors";
  fs::copy_file(shard, folder.path / "elsewhere.safetensors");
  CheckpointIndex changed = index_from_json(read_file(index), "index.json");
  for (const std::string& name :
       {std::string("../elsewhere.safetensors"), (folder.path / "elsewhere.safetensors").string()}) {
    changed.files[0].name = name;
    write_file_atomically(index, index_to_json(changed));
    std::string refused = message([&] { Checkpoint::newest(folder.path).restore(a); });
    CHECK_THAT(refused, Catch::Contains("index.json: file: found") && Catch::Contains(name));
  }
}

TEST_CASE("a checkpoint of another model or optimizer is refused, naming the first tensor that differs") {
  Folder folder;
  Program program = one_weight(parse_optimizer("sgd 0.1 momentum=0.5"));
  Executor a(program);
  save_checkpoint(a, position(3), {folder.path});
  auto refused = [&](const Program& other) {
    Executor executor(other);
    HostTensor before = executor.weight(executor.weight_names()[0]);
    std::string why = message([&] { Checkpoint::newest(folder.path).restore(executor); });
    CHECK(executor.weight(executor.weight_names()[0]) == before);
    return why;
  };
  OptimizerSpec momentum = program.optimizer;
  CHECK(refused(one_weight(momentum, "v")).find("has no 'v' [1, 1]") != std::string::npos);
  CHECK(refused(one_weight(momentum, "w", 3)).find("'w': found [1, 1] of model linear, expected [1, 3]") !=
        std::string::npos);
  CHECK(refused(one_weight(parse_optimizer("adam"))).find("has no 'w.state1'") != std::string::npos);
  CHECK(refused(one_weight({})).find("has 'w.state0' [1, 1], which this run has not") != std::string::npos);
}

TEST_CASE("a folder without a checkpoint cannot be resumed from") {
  Folder folder;
  CHECK(message([&] { Checkpoint::newest(folder.path); }).find("found no checkpoint to resume from") !=
        std::string::npos);
  CHECK(message([&] { Checkpoint::newest(folder.path / "none"); }).find("no checkpoint") != std::string::npos);
}

TEST_CASE("a checkpoint of training that diverged can be read") {
  CheckpointIndex index;
  index.position = position(8);
  index.position.epoch_loss_sum = std::numeric_limits<double>::quiet_NaN();
  CheckpointIndex read = index_from_json(index_to_json(index), "index.json");
  CHECK(std::isnan(read.position.epoch_loss_sum));
  index.position.epoch_loss_sum = read.position.epoch_loss_sum = 0;
  CHECK(read.position == index.position);
}
