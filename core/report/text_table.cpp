#include "core/report/text_table.h"

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/base/xml.h"

namespace unity::report {

std::string in_markdown(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '|' || c == '<') result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result;
}

std::string to_markdown(const TextTable& table) {
  std::vector<std::string> header, rule;
  for (std::size_t i = 0; i < table.header.size(); ++i) {
    header.push_back(in_markdown(table.header[i]));
    rule.push_back(i < table.texts ? "---" : "---:");
  }
  std::string text = "| " + join(header, " | ") + " |\n|" + join(rule, "|") + "|\n";
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const TextCell& cell : row) {
      std::string words = in_markdown(cell.text);
      cells.push_back(cell.link.empty() ? words : fmt::format("[{}]({})", words, url_of(cell.link)));
    }
    text += "| " + join(cells, " | ") + " |\n";
  }
  return text;
}

std::string to_html(const TextTable& table) {
  auto row = [&](const char* element, const auto& cells, auto&& content) {
    std::string text = "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      text += fmt::format("<{0}{1}>{2}</{0}>", element, i < table.texts ? "" : R"( class="n")", content(cells[i]));
    return text + "</tr>\n";
  };
  std::string text = "<div class=\"wide\"><table>\n<thead>\n" +
                     row("th", table.header, [](const std::string& words) { return xml_escaped(words); }) +
                     "</thead>\n<tbody>\n";
  for (const auto& cells : table.rows)
    text += row("td", cells, [](const TextCell& cell) {
      std::string words = xml_escaped(cell.text);
      return cell.link.empty() ? words : fmt::format(R"(<a href="{}">{}</a>)", url_of(cell.link), words);
    });
  return text + "</tbody>\n</table></div>\n";
}

std::string url_of(const std::string& path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string url;
  for (char c : path)
    url += kPlain.find(c) != kPlain.npos ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return url;
}

}  // namespace unity::report
