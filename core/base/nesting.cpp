#include "core/base/nesting.h"

namespace unity {

void refuse_deep_json(std::string_view text, const std::string& file) {
  int depth = 0, line = 1;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\n') ++line;
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kDeepestFile)
        throw_input_error("{}:{}: found lists and objects nested deeper than {}, expected a file of Unity's", file,
                          line, kDeepestFile);
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

}  // namespace unity
