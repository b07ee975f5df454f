// Whether a text is well-formed XML: elements that close, attributes in quotes, once each, known entities, one root.
#pragma once

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

namespace markup {

// What is wrong with it; empty: nothing. After a document type, without sections of CDATA or processing instructions.
inline std::string why_not_well_formed(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0, roots = 0;
  auto wrong = [&](const std::string& what) {
    return what + " at " + std::to_string(at) + ": " + text.substr(std::min(at, text.size()), 60);
  };
  auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == ':' || c == '_'; };
  auto name = [&] {
    std::size_t begin = at;
    while (at < text.size() && is_name(text[at])) ++at;
    return text.substr(begin, at - begin);
  };
  // Text up to a character; false where it has what must be escaped.
  auto plain = [&](char end) {
    for (; at < text.size() && text[at] != end; ++at) {
      if (text[at] == '<' || (static_cast<unsigned char>(text[at]) < 0x20 && !std::isspace(text[at]))) return false;
      if (text[at] != '&') continue;
      std::string entity = text.substr(at, text.find(';', at) + 1 - at);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return false;
    }
    return true;
  };
  auto blanks = [&] {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  };
  if (text.starts_with("<!DOCTYPE html>")) at = 15;
  while (at < text.size()) {
    std::size_t begin = at;
    if (!plain('<')) return wrong("text");
    if (open.empty() && text.substr(begin, at - begin).find_first_not_of(" \n") != std::string::npos)
      return wrong("text outside the root");
    if (at == text.size()) break;
    ++at;
    if (text[at] == '/') {
      ++at;
      std::string closed = name();
      if (open.empty() || open.back() != closed || text[at] != '>') return wrong("end of " + closed);
      open.pop_back();
      ++at;
      continue;
    }
    std::string element = name();
    if (element.empty()) return wrong("element");
    if (open.empty() && ++roots > 1) return wrong("second root");
    std::set<std::string> attributes;
    for (blanks(); at < text.size() && is_name(text[at]); blanks()) {
      std::string attribute = name();
      if (!attributes.insert(attribute).second || text.substr(at, 2) != "=\"") return wrong("attribute " + attribute);
      at += 2;
      if (!plain('"') || at == text.size()) return wrong("value of " + attribute);
      ++at;
    }
    bool empty = text[at] == '/';
    at += empty;
    if (text[at] != '>') return wrong("element " + element);
    ++at;
    if (!empty) open.push_back(element);
  }
  return open.empty() && roots == 1 ? "" : wrong(open.empty() ? "no root" : "open " + open.back());
}

}  // namespace markup
