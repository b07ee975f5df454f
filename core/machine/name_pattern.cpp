#include "core/machine/name_pattern.h"

#include <algorithm>
#include <charconv>

namespace unity {

Result<NamePattern> NamePattern::parse(std::string_view text, IndexScope& scope) {
  NamePattern pattern;
  std::vector<std::string> captured;
  for (std::string_view rest = text; !rest.empty();) {
    if (rest[0] == '*') {
      pattern.pieces_.push_back({Kind::star});
      rest.remove_prefix(1);
      continue;
    }
    if (rest[0] != '<') {
      std::size_t end = std::min(rest.find_first_of("*<"), rest.size());
      pattern.pieces_.push_back({Kind::text, std::string(rest.substr(0, end))});
      rest.remove_prefix(end);
      continue;
    }
    // '>' may also compare, so it only ends an expression outside of parentheses.
    std::size_t end = 1;
    for (int depth = 0; end < rest.size() && (depth > 0 || rest[end] != '>'); ++end)
      depth += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
    if (end == rest.size()) return fail("'{}': '<' without '>'", text);
    std::string_view inside = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (std::find(captured.begin(), captured.end(), inside) != captured.end())
      return fail("'{}': '<{}>' is given twice, expected another name, and a 'where' that compares them", text, inside);
    if (is_index_name(inside) && !scope.find(inside)) {
      captured.emplace_back(inside);
      pattern.pieces_.push_back({Kind::capture, {}, scope.add(std::string(inside))});
    } else {
      IndexExpression expression = UNITY_TRY(IndexExpression::parse(inside, scope));
      pattern.pieces_.push_back({Kind::expression, {}, 0, std::move(expression)});
    }
  }
  return pattern;
}

Result<NamePattern> NamePattern::bind(std::span<const std::int64_t> values) const {
  NamePattern bound;
  for (const Piece& piece : pieces_)
    if (piece.kind == Kind::expression)
      bound.pieces_.push_back({Kind::text, std::to_string(UNITY_TRY(piece.expression->evaluate(values)))});
    else
      bound.pieces_.push_back(piece);
  return bound;
}

bool NamePattern::has_expressions() const {
  return std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& p) { return p.kind == Kind::expression; });
}

std::optional<std::string> NamePattern::name() const {
  std::string name;
  for (const Piece& piece : pieces_) {
    if (piece.kind != Kind::text) return std::nullopt;
    name += piece.text;
  }
  return name;
}

bool NamePattern::match(std::string_view name, std::vector<std::int64_t>& values) const {
  std::vector<bool> failed;
  if (std::count_if(pieces_.begin(), pieces_.end(), [](const Piece& p) { return p.kind == Kind::star; }) > 1)
    failed.resize(pieces_.size() * (name.size() + 1));
  return match(0, name, values, failed);
}

bool NamePattern::match(std::size_t p, std::string_view name, std::vector<std::int64_t>& values,
                        std::vector<bool>& failed) const {
  if (p == pieces_.size()) return name.empty();
  const Piece& piece = pieces_[p];
  switch (piece.kind) {
    case Kind::text:
      return name.starts_with(piece.text) && match(p + 1, name.substr(piece.text.size()), values, failed);
    case Kind::star: {
      std::size_t place = p + pieces_.size() * name.size();
      if (!failed.empty() && failed[place]) return false;
      for (std::size_t n = 0; n <= name.size(); ++n) {
        if (match(p + 1, name.substr(n), values, failed)) return true;
        if (n < name.size() && name[n] == '.') break;
      }
      if (!failed.empty()) failed[place] = true;
      return false;
    }
    case Kind::capture: {
      if (name.empty() || name[0] < '0' || name[0] > '9') return false;
      std::int64_t number = 0;
      auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc() || (name[0] == '0' && end - name.data() > 1)) return false;
      values[piece.place] = number;
      return match(p + 1, name.substr(static_cast<std::size_t>(end - name.data())), values, failed);
    }
    case Kind::expression:
      break;
  }
  UNITY_CHECK(false, "a pattern is matched before its expressions have values");
  return false;
}

}  // namespace unity
