#include "core/base/utf8.h"

#include <cstdint>

namespace unity {

std::optional<std::size_t> first_not_utf8(std::string_view text) {
  auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0}; };
  for (std::size_t i = 0; i < text.size();) {
    const std::uint8_t first = byte(i);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0  // in the middle of a character, or longer than need be
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0) return i;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    const std::uint8_t second = byte(i + 1);
    const bool refused = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                         (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
    if (refused) return i;
    i += length;
  }
  return std::nullopt;
}

}  // namespace unity
