#include "cli/table.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace unity::cli {

Table& Table::left(std::size_t column) {
  left_.push_back(column);
  return *this;
}

std::string Table::text() const {
  std::vector<std::size_t> widths(header_.size());
  for (std::size_t i = 0; i < header_.size(); ++i) widths[i] = header_[i].size();
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string result;
  auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i) text += "  ";
      // A cell beyond the header (an error instead of figures) runs freely.
      if (i >= widths.size() || std::find(left_.begin(), left_.end(), i) != left_.end())
        text += fmt::format("{:<{}}", row[i], i < widths.size() ? widths[i] : 0);
      else
        text += fmt::format("{:>{}}", row[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    result += text + "\n";
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return result;
}

void Table::print() const { fmt::print("{}", text()); }

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3)
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  return digits;
}

}  // namespace unity::cli
