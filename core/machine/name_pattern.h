// Patterns on the names of vertices, in topology files. Internal to this folder.
//   *             any text without a dot
//   <i>           a number; the pattern captures it when the name i is new
//   <expression>  the number that an expression over names known gives: leaf<i/8>
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/index_expression.h"

namespace unity {

class NamePattern {
 public:
  // Adds the names that it captures to the scope.
  static Result<NamePattern> parse(std::string_view text, IndexScope& scope);

  // The pattern with the values of its expressions in their place.
  Result<NamePattern> bind(std::span<const std::int64_t> values) const;
  bool has_expressions() const;
  // The one name that it stands for, where it is a name and no more.
  std::optional<std::string> name() const;
  // Writes captured numbers to `values`. Of a pattern without expressions. A number has no superfluous zeros.
  bool match(std::string_view name, std::vector<std::int64_t>& values) const;

 private:
  enum class Kind : std::uint8_t { text, star, capture, expression };
  struct Piece {
    Kind kind;
    std::string text;       // text
    std::size_t place = 0;  // capture: in the scope
    std::optional<IndexExpression> expression;
  };
  // Pieces from `piece` on match the name; `failed` holds, by piece and length of the name, where they do not, so that
  // many stars take no more than their number times the square of the length.
  bool match(std::size_t piece, std::string_view name, std::vector<std::int64_t>& values,
             std::vector<bool>& failed) const;

  std::vector<Piece> pieces_;
};

}  // namespace unity
