#include "tests/docs/documents.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>

#include "tests/support/paths.h"

namespace docs {
namespace fs = std::filesystem;
namespace {

// As GitHub makes them: lower case, blanks to '-', other marks left out.
std::string anchor_of(const std::string& title) {
  std::string anchor;
  for (unsigned char c : title) {
    if (std::isalnum(c) || c == '-' || c == '_' || c >= 0x80)
      anchor += static_cast<char>(std::tolower(c));
    else if (c == ' ')
      anchor += '-';
  }
  return anchor;
}

void read_line(Document& document, std::string line, int number) {
  static const std::regex code("`([^`]+)`"), link("\\]\\(([^)\\s]+)\\)");
  for (std::sregex_iterator m(line.begin(), line.end(), code), end; m != end; ++m)
    document.code.push_back({(*m)[1], number});
  std::string plain = std::regex_replace(line, code, "`");
  for (std::sregex_iterator m(plain.begin(), plain.end(), link), end; m != end; ++m)
    document.links.push_back({(*m)[1], number});
  if (line.starts_with('#')) document.anchors.push_back(anchor_of(line.substr(line.find_first_not_of("# "))));
}

}  // namespace

fs::path root() { return UNITY_SOURCE_DIR; }

Document read_document(const std::string& path) {
  Document document;
  document.path = path;
  std::ifstream in(root() / path);
  bool fenced = false, indented = false, blank = true;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("```")) {
      fenced = !fenced;
      indented = false;
      if (fenced) {
        std::size_t space = line.find(' ');
        document.blocks.push_back(
            {line.substr(3, space - 3), space == line.npos ? "" : line.substr(space + 1), {}, number + 1});
      }
      continue;
    }
    if (fenced) {
      document.blocks.back().lines.push_back(line);
      continue;
    }
    if (line.starts_with("    ") && (indented || blank)) {
      if (!indented) document.blocks.push_back({"", "", {}, number});
      indented = true;
      document.blocks.back().lines.push_back(line.substr(4));
      continue;
    }
    blank = line.find_first_not_of(' ') == line.npos;
    if (!blank) indented = false;
    read_line(document, line, number);
  }
  return document;
}

std::vector<Document> all_documents() {
  std::vector<std::string> paths;
  for (auto it = fs::recursive_directory_iterator(root()); it != fs::recursive_directory_iterator(); ++it) {
    std::string name = it->path().filename().string(), path = fs::relative(it->path(), root()).string();
    if (it->is_directory() && (name.starts_with('.') || path == "build" || path == "out"))
      it.disable_recursion_pending();
    if (it->is_regular_file() && it->path().extension() == ".md") paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Document> documents;
  for (const std::string& path : paths) documents.push_back(read_document(path));
  return documents;
}

}  // namespace docs
