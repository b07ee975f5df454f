// Tokens of Unity's text languages: PCGs (text.h), and rules and axioms (core/rewrite).
//   identifier  [A-Za-z_][A-Za-z0-9_.]*   labels of operators ("encoder.3.query") are identifiers
//   integer, real  without sign;  text  "..." with \" \\ \n;  symbol  one of => -> == != <= >= or a single character
// `#` starts a comment. Whitespace and newlines only separate tokens; a token knows whether it is the first of its
// line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace unity {

enum class TokenKind : std::uint8_t { identifier, integer, real, text, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // as written; of a text: its content
  std::int64_t integer = 0;
  double real = 0;  // of integers too
  int line = 1;
  int column = 1;
  bool first_of_line = false;
};

class TokenStream {
 public:
  // Throws InputError at a character that starts no token. `file` names the text in messages.
  TokenStream(std::string_view text, std::string file);

  const Token& peek(std::size_t ahead = 0) const;  // the end token, beyond the end
  Token next();
  bool at_end() const { return peek().kind == TokenKind::end; }

  // On the identifier or symbol `text` (never on a quoted text).
  bool is(std::string_view text, std::size_t ahead = 0) const;
  bool accept(std::string_view text);
  Token expect(std::string_view text);
  Token expect(TokenKind kind, std::string_view what);  // what: "the name of an operator"

  // Throws InputError "file:line:column: message".
  [[noreturn]] void fail(const Token& at, const std::string& message) const;
  // "found X, expected Y" at the next token.
  [[noreturn]] void fail_expected(std::string_view expected) const;
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

bool is_identifier(std::string_view text);
// The text in quotes, with escapes.
std::string quote_text(std::string_view text);

}  // namespace unity
