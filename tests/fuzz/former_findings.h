// Inputs that once crashed, hung, or took all memory, minimised: seeds of the fuzzers, replayed by the test. Those of
// ONNX are graphs among the seeds (model_targets.cpp), where they can be read.
#pragma once

#include <string>
#include <vector>

namespace unity::fuzz {

struct FormerFinding {
  std::string target;
  std::string what;  // it did
  std::string input;
};

const std::vector<FormerFinding>& former_findings();

}  // namespace unity::fuzz
