// A table as data, and as Markdown and HTML.
#pragma once

#include <string>
#include <vector>

namespace unity::report {

struct TextCell {
  std::string text, link;  // link: a relative path; empty: none
  TextCell(std::string t, std::string l = {}) : text(std::move(t)), link(std::move(l)) {}
  TextCell(const char* t) : text(t) {}
};

struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<TextCell>> rows;
  std::size_t texts = 1;  // so many columns from the left are texts; the others are numbers, on the right
};

// Cells cannot end a cell or begin a line.
std::string to_markdown(const TextTable& table);
// Words of a name or message in a line of Markdown: nothing in them is a column's end or markup of HTML.
std::string in_markdown(const std::string& text);
std::string to_html(const TextTable& table);

// A relative path as a link of HTML.
std::string url_of(const std::string& path);

}  // namespace unity::report
