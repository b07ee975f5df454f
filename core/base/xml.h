// Texts as XML and SVG take them.
#pragma once

#include <string>
#include <string_view>

namespace unity {

// Control characters but for line ends are not allowed in XML: they are left out.
inline std::string xml_escaped(std::string_view words) {
  std::string result;
  for (char c : words) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n')
      result += c;
  }
  return result;
}

}  // namespace unity
