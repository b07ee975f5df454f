#include "core/base/nesting.h"

#include <algorithm>

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

void refuse_no_json(std::string_view text, const std::string& file, const std::string& expected) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] != '{' && text[begin] != '[')
    throw_input_error("{}: found no JSON object, expected {}", file, expected);
}

void refuse_cut_json(std::string_view text, std::size_t byte, const std::string& file) {
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size())), '\n');
  throw_input_error("{}:{}: not a complete JSON document (byte {}); is the file truncated?", file, line, byte);
}

}  // namespace unity
