// Small ONNX files made by hand, and what they compute once they are imported.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/models/onnx/import.h"

namespace unity::test {

class OnnxFile {
 public:
  explicit OnnxFile(std::int64_t opset = 17);

  // A dimension is a size in digits, or a name.
  OnnxFile& input(const std::string& name, const std::vector<std::string>& dims, bool integral = false);
  OnnxFile& input(const std::string& name, const Dims& dims, bool integral = false);
  OnnxFile& input_of_type(const std::string& name, const Dims& dims, int type);
  OnnxFile& weight(const std::string& name, const Dims& dims, const std::vector<float>& values);
  OnnxFile& integers(const std::string& name, const Dims& dims, const Integers& values);
  OnnxFile& external(const std::string& name, const Dims& dims, const std::string& location, std::int64_t offset,
                     std::int64_t length);
  OnnxFile& node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::map<std::string, OnnxAttribute>& attributes = {}, const std::string& domain = "");
  OnnxFile& output(const std::string& name);

  std::string bytes() const;
  std::string save(const std::string& path) const;  // returns the path

 private:
  struct Model;
  std::shared_ptr<Model> model_;
};

// In the test's build folder; removed by the caller.
std::string onnx_path(const std::string& name);

// Imported without a loss unless the options say otherwise.
OnnxImport import_file(const OnnxFile& file, OnnxImportOptions options = {{}, "none", "labels"});

using Inputs = std::map<std::string, std::vector<double>>;
// The outputs of the graph on these inputs, in double precision; weights and states have their imported values.
std::vector<std::vector<double>> evaluate_import(const OnnxTranslated& model, const Inputs& inputs);
// The first output of the file.
std::vector<double> result_of(const OnnxFile& file, const Inputs& inputs);

// "no error", or what InputError says after the path of the file.
std::string import_error(const OnnxFile& file, OnnxImportOptions options = {{}, "none", "labels"});

void check_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance = 1e-6);

}  // namespace unity::test
