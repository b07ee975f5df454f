#include "tests/fuzz/former_findings.h"

namespace unity::fuzz {

const std::vector<FormerFinding>& former_findings() {
  static const std::vector<FormerFinding> list = {
      {"peer-rules", "ended with an exception of the JSON library", "{\"rule\": [1e400]}"},
  };
  return list;
}

}  // namespace unity::fuzz
