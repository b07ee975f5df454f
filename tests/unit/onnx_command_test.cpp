// `unity import`, and the other commands on what it writes.
#include <cmath>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "core/base/safetensors.h"
#include "core/base/text.h"
#include "tests/support/onnx_file.h"
#include "tests/support/paths.h"

using namespace unity;
using namespace unity::test;

namespace {

struct Folder {
  std::string path = onnx_path("command");
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome unity_command(const Folder& folder, const std::string& arguments) {
  std::string command = std::string(UNITY_BINARY_DIR) + "/bin/unity " + arguments + " >" + folder.file("out") + " 2>" +
                        folder.file("err") + " </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_file(folder.file("out")), read_file(folder.file("err"))};
}

// With all weights zero but the last bias, the loss does not depend on the data.
OnnxFile classifier() {
  return OnnxFile()
      .input("x", std::vector<std::string>{"n", "3"})
      .weight("w", {3, 2}, std::vector<float>(6, 0))
      .weight("b", {2}, {0, 0})
      .weight("g", {2}, {1, 1})
      .weight("mean", {2}, {0, 0})
      .weight("variance", {2}, {1, 1})
      .node("MatMul", {"x", "w"}, {"h"})
      .node("BatchNormalization", {"h", "g", "b", "mean", "variance"}, {"y"})
      .output("y");
}

}  // namespace

TEST_CASE("an imported model is shown, searched, simulated and run from its values") {
  Folder folder;
  classifier().save(folder.file("net.onnx"));
  Outcome imported = unity_command(folder, "import " + folder.file("net.onnx") + " --dim n=8 --json");
  INFO(imported.err);
  REQUIRE(imported.code == 0);
  auto json = nlohmann::json::parse(imported.out);
  CHECK(json["model"] == folder.file("net.yaml"));
  CHECK(json["weights_file"] == folder.file("net.safetensors"));
  CHECK(json["parameters"] == 10);
  CHECK(json["any_batch"] == true);
  const std::string model = folder.file("net.yaml"), plan = folder.file("plan.json");
  CHECK(unity_command(folder, "show " + model).code == 0);
  CHECK(unity_command(folder, "search " + model + " --topology laptop --devices 2 -o " + plan).code == 0);
  CHECK(unity_command(folder, "simulate " + plan).code == 0);
  for (const std::string& what : {model + " --devices 2", plan}) {
    Outcome run = unity_command(folder, "run " + what + " --steps 2 --precision f64 --json");
    INFO(run.err);
    REQUIRE(run.code == 0);
    CHECK(nlohmann::json::parse(run.out)["losses"][0].get<double>() == Approx(std::log(2.0)).epsilon(1e-9));
  }
}

TEST_CASE("a file of values that lacks a tensor or has another shape is refused") {
  Folder folder;
  classifier().save(folder.file("net.onnx"));
  REQUIRE(unity_command(folder, "import " + folder.file("net.onnx") + " --dim n=8").code == 0);
  auto run_with = [&](std::vector<TensorInfo> tensors) {
    SafetensorsWriter writer(folder.file("net.safetensors"), tensors);
    for (const TensorInfo& t : tensors) writer.append(std::vector<float>(static_cast<std::size_t>(t.elements()), 1));
    writer.finish();
    return unity_command(folder, "run " + folder.file("net.yaml") + " --devices 1 --steps 1");
  };
  const StoredType f32 = StoredType::f32;
  // States start as their `init` says where the file lacks them.
  CHECK(run_with({{"w", f32, {3, 2}}, {"b", f32, {2}}, {"g", f32, {2}}}).code == 0);
  Outcome lacking = run_with({{"w", f32, {3, 2}}, {"b", f32, {2}}});
  CHECK(lacking.code == 2);
  CHECK_THAT(lacking.err, Catch::Contains("net.safetensors: no tensor 'g' among 2"));
  Outcome turned = run_with({{"w", f32, {2, 3}}, {"b", f32, {2}}, {"g", f32, {2}}});
  CHECK(turned.code == 2);
  CHECK_THAT(turned.err, Catch::Contains("tensor 'w': found shape [2, 3], expected [3, 2] as in the model"));
}

TEST_CASE("wrong use of import is refused in one line") {
  Folder folder;
  std::string onnx = classifier().save(folder.file("net.onnx"));
  auto refused = [&](const std::string& arguments, const std::string& said) {
    Outcome o = unity_command(folder, "import " + arguments);
    INFO(arguments << ": " << o.err);
    CHECK(o.code == 2);
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
    CHECK_THAT(o.err, Catch::Contains(said));
    CHECK_FALSE(std::filesystem::exists(folder.file("net.yaml")));
  };
  refused(onnx, "found 1 dynamic dimension without a size: n (of input 'x')");
  refused(onnx + " --dim n", "--dim: found 'n', expected NAME=SIZE");
  refused(onnx + " --dim n=0", "--dim: found 'n=0', expected NAME=SIZE with a size of at least 1");
  refused(onnx + " --dim n=8 --loss hinge", "loss: found 'hinge'");
  refused(onnx + " --dim n=8 -o " + folder.file("net.json"), "found another ending, expected .yaml or .yml");
  refused(folder.file("none.onnx"), "none.onnx: cannot be read");
}
