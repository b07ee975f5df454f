// Texts as XML, HTML and SVG take them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unity {

// The bytes of the character of UTF-8 that the text begins with; 0 where it is none, or one that XML does not allow.
inline std::size_t xml_character(std::string_view text) {
  auto first = static_cast<unsigned char>(text.front());
  std::size_t bytes = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (bytes > text.size() || (first >= 0x80 && first < 0xc2) || first > 0xf4) return 0;
  std::uint32_t code = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return 0;
    code = code << 6 | (next & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  bool allowed =
      code >= 0x20 ? code < 0xd800 || (code > 0xdfff && code < 0xfffe) || code > 0xffff : code == '\n' || code == '\t';
  return allowed && code >= kLeast[bytes] && code <= 0x10ffff ? bytes : 0;
}

// What is not allowed in XML, control characters but for tabs and line ends, and what is no UTF-8, is left out.
inline std::string xml_escaped(std::string_view words) {
  std::string result;
  while (!words.empty()) {
    std::size_t bytes = xml_character(words);
    if (words.front() == '&')
      result += "&amp;";
    else if (words.front() == '<')
      result += "&lt;";
    else if (words.front() == '>')
      result += "&gt;";
    else if (words.front() == '"')
      result += "&quot;";
    else
      result += words.substr(0, bytes);
    words.remove_prefix(bytes ? bytes : 1);
  }
  return result;
}

}  // namespace unity
