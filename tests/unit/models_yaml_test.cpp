#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/models/models.h"
#include "tests/support/paths.h"

using namespace unity;

namespace {

const std::string kTwoTower = UNITY_SOURCE_DIR "/experiments/models/two-tower.yaml";

// The error of the two-tower file with `from` replaced by `to`, from its line number on.
std::string error_with(const std::string& from, const std::string& to) {
  std::string text = read_file(kTwoTower);
  std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  std::string path = (std::filesystem::temp_directory_path() / "models_yaml_test.yaml").string();
  write_file_atomically(path, text.replace(at, from.size(), to));
  std::string message = "no error";
  try {
    build_model({path, {}});
  } catch (const InputError& error) {
    message = error.what();
    REQUIRE(message.starts_with(path + ":"));
    message = message.substr(path.size() + 1);
  }
  std::filesystem::remove(path);
  return message;
}

}  // namespace

TEST_CASE("a model file builds the graph it describes, at the sizes asked for") {
  Pcg pcg = build_model({kTwoTower, {{"batch", 6}, {"hidden", 10}}});
  CHECK(pcg.name() == "two-tower");
  CHECK(to_string(pcg.shape(pcg.outputs()[0])) == "f32[]");
  CHECK(to_string(pcg.shape(pcg.outputs()[1])) == "f32[6, 12]");
  ModelInfo info = model_info(kTwoTower);
  CHECK(info.batch_per_gpu == 24);
  CHECK(info.loss == "cross_entropy");
  CHECK(info.optimizer == "sgd 0.05");
}

TEST_CASE("errors in a model file say where and what, with the nearest name") {
  CHECK(error_with("op: cross_entropy", "op: cross_entrop") ==
        "26:22: layer loss: unknown operator 'cross_entrop' (did you mean 'cross_entropy'?)");
  CHECK(error_with("[join.sum]", "[join.sun]") == "24:42: unknown value 'join.sun' (did you mean 'join.sum'?)");
  CHECK(error_with("version: 1", "version: 2") == "2:10: version: found '2', expected 1");
  CHECK(error_with("outputs:", "output:") == "27:1: model: unknown key 'output' (did you mean 'outputs'?)");
  CHECK(error_with("shape: [16, hidden]", "shape: [16, hiden]") ==
        "11:30: weight user.weight0: shape: found 'hiden', expected an integer or an option (did you mean 'hidden'?)");
  CHECK(error_with("shape: [16, hidden]", "shape: [17, hidden]") ==
        "17:12: user.matmul0: matmul: axis k is 16 in x but 17 in w");
  CHECK(error_with("op: relu, inputs: [join.sum]", "op: relu, attributes: {slope: 1}, inputs: [join.sum]") ==
        "24:45: layer join.relu: relu has no attributes");
  CHECK(error_with("op: relu, inputs: [join.sum]", "op: scale, attributes: {factor: .nan}, inputs: [join.sum]") ==
        "24:55: layer join.relu: factor: expected a real number, a finite one");
  CHECK(error_with("op: relu, inputs: [join.sum]", "op: deliver, inputs: [join.sum]") ==
        "24:27: layer join.relu: 'deliver' stands for the ends of parts of a graph, which the search makes");
  CHECK(error_with("hidden: 48}", "hidden: 48").starts_with("6:"));
}

TEST_CASE("a model file has a batch, and says where its optimizer and outputs stand") {
  std::string path = (std::filesystem::temp_directory_path() / "models_yaml_batch_test.yaml").string();
  const std::string text =
      "format: unity-model\nversion: 1\nname: m\noptions: {size: 4}\noptimizer: adam foo\n"
      "inputs:\n  x: {shape: [size, 6]}\nlayers:\n  - {name: y, op: relu, inputs: [x]}\noutputs: [y]\n";
  write_file_atomically(path, text);
  CHECK_THROWS_WITH(model_info(path), Catch::Equals(path + ":4:10: options: found no 'batch', expected it: the samples "
                                                           "per device, dimension 0 of the inputs"));
  write_file_atomically(path, std::string(text).replace(text.find("{size: 4}"), 9, "{size: 4, batch: 5}"));
  CHECK_THROWS_WITH(model_info(path), Catch::Contains("input x: found shape [4, 6], expected the batch of 5 as "
                                                      "dimension 0 of the first input"));
  write_file_atomically(path, std::string(text).replace(text.find("{size: 4}"), 9, "{size: 4, batch: 4}"));
  CHECK(model_info(path).batch_per_gpu == 4);
  CHECK(model_info(path).outputs_place == path + ":10:10");
  CHECK(model_info(path).optimizer_place == path + ":5:12");
  std::filesystem::remove(path);
}

TEST_CASE("a model file may have states, products of sizes and a file of initial values") {
  std::string path = (std::filesystem::temp_directory_path() / "models_yaml_states_test.yaml").string();
  std::string text =
      "format: unity-model\nversion: 1\nname: shifted\noptions: {batch: 4, h: 3}\nweights_file: values.safetensors\n"
      "inputs:\n  x: {shape: [batch, 2*h]}\n  t: {shape: [batch, 2*h]}\nstates:\n  s: {shape: [6], init: ones}\n"
      "layers:\n  - {name: y, op: add, inputs: [x, s]}\n"
      "  - {name: flat, op: reshape, attributes: {shape: [h*2*batch]}, inputs: [y]}\n"
      "  - {name: loss, op: mean_squared_error, inputs: [y, t]}\noutputs: [loss, flat]\n";
  write_file_atomically(path, text);
  Pcg pcg = build_model({path, {{"batch", 5}}});
  CHECK(to_string(pcg.shape(pcg.outputs()[1])) == "f32[30]");
  CHECK(pcg[NodeId(2)].op->name() == "state");
  CHECK(model_info(path).weights_file == (std::filesystem::temp_directory_path() / "values.safetensors").string());
  write_file_atomically(path, text.replace(text.find("h*2*batch"), 9, "h*2*bath "));
  CHECK_THROWS_WITH(build_model({path, {}}),
                    Catch::EndsWith("layer flat: shape: found 'bath', expected an integer or an "
                                    "option (did you mean 'batch'?)"));
  std::filesystem::remove(path);
}

TEST_CASE("the initial values of a model file lie in its folder") {
  std::string path = (std::filesystem::temp_directory_path() / "models_yaml_escape_test.yaml").string();
  for (const char* elsewhere : {"../values.safetensors", "/etc/passwd", "a/../../values.safetensors"}) {
    write_file_atomically(path, fmt::format("format: unity-model\nversion: 1\nname: m\nweights_file: {}\n", elsewhere));
    CHECK_THROWS_WITH(model_info(path), Catch::Contains(":4:15: weights_file: found ") && Catch::Contains(elsewhere));
  }
  std::filesystem::remove(path);
}

TEST_CASE("a model file that is not there is named") {
  CHECK_THROWS_WITH(build_model({"no/such.yaml", {}}), Catch::StartsWith("no/such.yaml: cannot be read"));
}

TEST_CASE("a state that two operators would update is refused, as only one update would stay") {
  const std::string path = (std::filesystem::temp_directory_path() / "two_writers_test.yaml").string();
  write_file_atomically(
      path,
      "format: unity-model\nversion: 1\nname: siamese\noptions: {batch: 8}\n"
      "inputs: {x: {shape: [batch, 6]}, z: {shape: [batch, 6]}, y: {shape: [batch, 6]}}\n"
      "weights: {g: {shape: [6], init: ones}, b: {shape: [6], init: zeros}}\n"
      "states: {rm: {shape: [6], init: zeros}, rv: {shape: [6], init: ones}}\n"
      "layers:\n"
      "  - {name: mx, op: moments, inputs: [x]}\n"
      "  - {name: cx, op: combine_moments, inputs: [mx.0, mx.1, rm, rv], attributes: {count: batch}}\n"
      "  - {name: nx, op: batch_norm, inputs: [x, cx.0, cx.1, g, b]}\n"
      "  - {name: mz, op: moments, inputs: [z]}\n"
      "  - {name: cz, op: combine_moments, inputs: [mz.0, mz.1, rm, rv], attributes: {count: batch}}\n"
      "  - {name: nz, op: batch_norm, inputs: [z, cz.0, cz.1, g, b]}\n"
      "  - {name: s, op: mul, inputs: [nx, nz]}\n"
      "  - {name: loss, op: mean_squared_error, inputs: [s, y]}\n"
      "outputs: [loss]\n");
  CHECK_THROWS_WITH(build_model({path, {}}),
                    path + ": state 'rm' is updated by 'cx' and by 'cz', expected one operator");
  std::filesystem::remove(path);
}

TEST_CASE("an epsilon below zero, or a momentum above one, is refused in a model") {
  const std::string path = (std::filesystem::temp_directory_path() / "out_of_range_test.yaml").string();
  auto message = [&](const std::string& layer) {
    write_file_atomically(path,
                          "format: unity-model\nversion: 1\nname: ranges\noptions: {batch: 8}\n"
                          "inputs: {x: {shape: [batch, 6]}, y: {shape: [batch, 6]}}\n"
                          "weights: {g: {shape: [6], init: ones}}\n"
                          "states: {rm: {shape: [6], init: zeros}, rv: {shape: [6], init: ones}}\n"
                          "layers:\n"
                          "  - {name: m, op: moments, inputs: [x]}\n" +
                              layer +
                              "  - {name: loss, op: mean_squared_error, inputs: [n, y]}\n"
                              "outputs: [loss]\n");
    try {
      build_model({path, {}});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string
      norm = "  - {name: n, op: rms_norm, inputs: [x, g], attributes: {epsilon: ",
      moments = "  - {name: c, op: combine_moments, inputs: [m.0, m.1, rm, rv], attributes: {count: batch, momentum: ";
  CHECK(message(norm + "0}}\n") == "no error");
  CHECK(message(norm + "-5}}\n") == path + ": epsilon of 'n' (rms_norm): found -5, expected at least 0");
  CHECK(message(moments + "1.5}}\n" + norm + "0}}\n") ==
        path + ": momentum of 'c' (combine_moments): found 1.5, expected at least 0 and at most 1");
  std::filesystem::remove(path);
}
