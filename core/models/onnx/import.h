// ONNX files as models of Unity.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/models/onnx/translate.h"

namespace unity {

struct OnnxImportOptions {
  std::map<std::string, std::int64_t> dims;
  std::string loss = "cross_entropy";
  std::string labels = "labels";
  std::int64_t other_dims = 0;  // size of dynamic dimensions that `dims` does not name; 0: they are an error
};

struct OnnxImport {
  OnnxTranslated model;
  std::int64_t batch = 1;  // dimension 0 of the first input that has one
  // The same at twice the batch, from which it shows what depends on the batch; empty when the file can't be
  // translated for another one, and then `fixed` says why.
  Pcg doubled;
  std::string fixed;
  std::vector<std::string> assumed;  // dimensions that have the size other_dims
};

// Reads, translates, appends the loss, and puts the operators together again that the exporter took apart (rules in
// core/rewrite/rules/import.rules). InputError.
OnnxImport import_onnx(const std::string& path, const OnnxImportOptions& options);

// Writes the model file (a path that ends in .yaml or .yml) and the initial values beside it, .safetensors. Returns the
// path of the latter; empty when there are no values. InputError where a file of that name is there that no
// import wrote.
std::string write_import(const OnnxImport& import, const std::string& path);

}  // namespace unity
