// Files that are not what they should be.
#include <filesystem>

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include "core/base/text.h"
#include "core/models/onnx/read.h"
#include "tests/support/onnx_file.h"

using namespace unity;
using namespace unity::test;

namespace {

OnnxFile linear(std::int64_t opset = 17) {
  return OnnxFile(opset)
      .input("x", Dims{2, 3})
      .weight("w", {3, 2}, {1, 2, 3, 4, 5, 6})
      .node("MatMul", {"x", "w"}, {"y"})
      .output("y");
}

std::string read_error(const std::string& bytes) {
  std::string path = onnx_path("damaged.onnx");
  write_file_atomically(path, bytes);
  std::string message = "no error";
  try {
    read_onnx(path);
  } catch (const InputError& error) {
    message = std::string(error.what()).substr(path.size() + 2);
  }
  std::filesystem::remove(path);
  return message;
}

struct Folder {
  std::string path = onnx_path("folder");
  Folder() { std::filesystem::create_directories(path + "/inside"); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string error(const OnnxFile& file) const {
    std::string model = file.save(path + "/m.onnx");
    try {
      read_onnx(model);
    } catch (const InputError& error) {
      return std::string(error.what()).substr(model.size() + 2);
    }
    return "no error";
  }
};

}  // namespace

TEST_CASE("a file that is cut anywhere is refused, and so is another file") {
  std::string bytes = linear().bytes();
  CHECK(read_error(bytes) == "no error");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("cut to " << length);
    CHECK(read_error(bytes.substr(0, length)) != "no error");
  }
  CHECK(read_error("format: unity-model\n") == "is not an ONNX model");
  CHECK_THROWS_WITH(read_onnx("no/such.onnx"), Catch::StartsWith("no/such.onnx: cannot be read"));
}

TEST_CASE("opsets from 9 to 20 are read") {
  for (std::int64_t opset : {9, 13, 20}) CHECK(read_error(linear(opset).bytes()) == "no error");
  CHECK(read_error(linear(8).bytes()) == "found opset 8, expected 9 to 20");
  CHECK(read_error(linear(21).bytes()) == "found opset 21, expected 9 to 20");
}

TEST_CASE("external data must lie in the model's folder, be there and be as long as the tensor") {
  Folder folder;
  write_file_atomically(folder.path + "/inside/w.bin", std::string(64, '\0'));
  auto with = [](const std::string& location, std::int64_t offset, std::int64_t length) {
    return OnnxFile()
        .input("x", Dims{2, 3})
        .external("w", {3, 2}, location, offset, length)
        .node("MatMul", {"x", "w"}, {"y"})
        .output("y");
  };
  CHECK(folder.error(with("inside/w.bin", 40, 24)) == "no error");
  CHECK(folder.error(with("inside/w.bin", 41, 24)) ==
        "tensor 'w': external data: 'inside/w.bin' has 64 bytes, expected at least 41 + 24");
  CHECK(folder.error(with("inside/w.bin", 0, 20)) ==
        "tensor 'w': found data of 5 elements, expected 6 for shape [3, 2]; is the file truncated?");
  CHECK(folder.error(with("inside/v.bin", 0, 24)) ==
        "tensor 'w': external data: 'inside/v.bin' cannot be read; expected beside the model");
  REQUIRE(mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);  // nobody writes to it
  CHECK(folder.error(with("pipe", 0, 24)) ==
        "tensor 'w': external data: 'pipe' cannot be read; expected beside the model");
  for (const char* outside : {"../w.bin", "inside/../../w.bin", "/etc/passwd", ""})
    CHECK(
        folder.error(with(outside, 0, 24)) ==
        fmt::format("tensor 'w': external data: found location '{}', expected a file in the model's folder", outside));
}

TEST_CASE("a link out of the model's folder is refused") {
  Folder folder;
  std::string outside = onnx_path("outside.bin");
  write_file_atomically(outside, std::string(24, '\0'));
  std::filesystem::create_symlink(outside, folder.path + "/w.bin");
  auto file = OnnxFile()
                  .input("x", Dims{2, 3})
                  .external("w", {3, 2}, "w.bin", 0, 24)
                  .node("MatMul", {"x", "w"}, {"y"})
                  .output("y");
  CHECK_THAT(folder.error(file), Catch::Contains("expected a file in the model's folder"));
  std::filesystem::remove(outside);
}

TEST_CASE("element types that Unity lacks are named") {
  OnnxFile file = OnnxFile().input_of_type("x", {2}, 8).node("Relu", {"x"}, {"y"}).output("y");
  CHECK(read_error(file.bytes()) == "input 'x': found element type STRING, expected a real or integer type");
  OnnxFile complex = OnnxFile().input_of_type("x", {2}, 14).node("Relu", {"x"}, {"y"}).output("y");
  CHECK_THAT(read_error(complex.bytes()), Catch::Contains("found element type COMPLEX64"));
}

TEST_CASE("dynamic dimensions without a size are all listed, and names that do not occur are refused") {
  OnnxFile file = OnnxFile()
                      .input("x", std::vector<std::string>{"batch", "length", "3"})
                      .input("m", std::vector<std::string>{"batch", "?"})
                      .node("Relu", {"x"}, {"y"})
                      .output("y");
  CHECK(import_error(file) ==
        "found 3 dynamic dimensions without a size: batch (of input 'x'), length (of input 'x'), m.1 (of input 'm'); "
        "expected --dim NAME=SIZE for each");
  CHECK(import_error(file, {{{"batch", 2}, {"length", 5}, {"m.1", 1}}, "none", ""}) == "no error");
  CHECK(import_error(file, {{{"bath", 2}}, "none", ""}) == "has no dynamic dimension 'bath' (did you mean 'batch'?)");
}

TEST_CASE("all operators that Unity lacks are listed with their number") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 3})
                      .node("Einsum", {"x"}, {"a"})
                      .node("Relu", {"a"}, {"b"})
                      .node("Einsum", {"b"}, {"c"})
                      .node("FusedThing", {"c"}, {"d"}, {}, "com.example")
                      .node("Pad", {"x"}, {"e"}, {{"mode", std::string("reflect")}})
                      .output("d");
  CHECK(import_error(file) ==
        "found 4 operators that Unity lacks: Einsum (2); Pad: mode reflect (1); com.example.FusedThing (1)");
}

TEST_CASE("operands that do not fit are told with the node") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 3})
                      .weight("w", {4, 2}, std::vector<float>(8))
                      .node("MatMul", {"x", "w"}, {"y"})
                      .output("y");
  CHECK_THAT(import_error(file), Catch::StartsWith("node '/y/MatMul' (MatMul): ") &&
                                     Catch::EndsWith("matmul: axis k is 3 in x but 4 in w"));
  OnnxFile undefined = OnnxFile().input("x", Dims{2}).node("Add", {"x", "z"}, {"y"}).output("y");
  CHECK(import_error(undefined) == "node '/y/Add' (Add): value 'z' is used before it is defined");
  OnnxFile no_output = OnnxFile().input("x", Dims{2}).node("Relu", {"x"}, {"y"}).output("z");
  CHECK(import_error(no_output) == "output 'z' is not defined");
}
