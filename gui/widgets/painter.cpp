#include "gui/widgets/painter.h"

namespace unity::gui {

TextMetrics::TextMetrics() {
  advance[static_cast<std::size_t>(Face::text)].fill(0.56f);
  advance[static_cast<std::size_t>(Face::strong)].fill(0.58f);
  advance[static_cast<std::size_t>(Face::mono)].fill(0.6f);
}

float TextMetrics::width(std::string_view text, float size, Face face) const {
  const auto& table = advance[static_cast<std::size_t>(face)];
  float sum = 0;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 128)
      sum += table[byte];
    else if (byte >= 0xc0)  // the first byte of a letter in UTF-8
      sum += table['m'];
  }
  return sum * size;
}

std::string elide(const TextMetrics& metrics, std::string_view text, float size, Face face, float width) {
  if (metrics.width(text, size, face) <= width) return std::string(text);
  for (std::size_t kept = text.size(); kept-- > 1;) {
    std::size_t head = (kept + 1) / 2, tail = kept / 2;
    std::string shorter = std::string(text.substr(0, head)) + ".." + std::string(text.substr(text.size() - tail));
    if (metrics.width(shorter, size, face) <= width) return shorter;
  }
  return "..";
}

}  // namespace unity::gui
