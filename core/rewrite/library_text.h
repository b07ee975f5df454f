// The text of rules/*, compiled in.
#pragma once

#include <vector>

namespace unity {

struct LibraryText {
  const char* name;    // "matmul"
  const char* rules;   // of rules/matmul.rules
  const char* proofs;  // of rules/matmul.proofs; empty when there is none
};

std::vector<LibraryText> library_texts();

}  // namespace unity
