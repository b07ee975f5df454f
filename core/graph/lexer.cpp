#include "core/graph/lexer.h"

#include <array>
#include <charconv>

#include "core/base/utf8.h"

namespace unity {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_identifier(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_identifier(char c) { return starts_identifier(c) || is_digit(c) || c == '.'; }

constexpr std::array<std::string_view, 6> kLongSymbols = {"=>", "->", "==", "!=", "<=", ">="};
constexpr std::string_view kSymbols = "()[]{},;:=@+-*/%<>!&|?^~$'";

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    int last_line = 0;
    for (;;) {
      skip_blanks();
      Token token = scan();
      token.first_of_line = token.line != last_line;
      last_line = token.line;
      tokens.push_back(token);
      if (token.kind == TokenKind::end) return tokens;
    }
  }

 private:
  char at(std::size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  void advance(std::size_t n = 1) {
    for (; n > 0 && position_ < text_.size(); --n, ++position_) {
      bool newline = text_[position_] == '\n';
      line_ += newline ? 1 : 0;
      column_ = newline ? 1 : column_ + 1;
    }
  }

  void skip_blanks() {
    while (position_ < text_.size()) {
      if (at() == '#')
        while (position_ < text_.size() && at() != '\n') advance();
      else if (at() == ' ' || at() == '\t' || at() == '\r' || at() == '\n')
        advance();
      else
        return;
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw_input_error("{}:{}:{}: {}", file_, line_, column_, message);
  }

  Token scan() {
    Token token;
    token.line = line_;
    token.column = column_;
    if (position_ >= text_.size()) return token;
    if (starts_identifier(at())) {
      std::size_t n = 1;
      while (position_ + n < text_.size() && continues_identifier(at(n))) ++n;
      return take(token, TokenKind::identifier, n);
    }
    if (is_digit(at())) return scan_number(token);
    if (at() == '"') return scan_text(token);
    for (std::string_view symbol : kLongSymbols)
      if (text_.substr(position_).starts_with(symbol)) return take(token, TokenKind::symbol, 2);
    if (at() == '\0' || kSymbols.find(at()) == std::string_view::npos) {
      auto code = static_cast<unsigned char>(at());
      fail(code >= 32 && code < 127 ? fmt::format("unexpected character '{}'", at())
                                    : fmt::format("unexpected byte 0x{:02x}", code));
    }
    return take(token, TokenKind::symbol, 1);
  }

  Token take(Token token, TokenKind kind, std::size_t n) {
    token.kind = kind;
    token.text = text_.substr(position_, n);
    advance(n);
    return token;
  }

  Token scan_number(Token token) {
    std::size_t n = 0;
    auto digits = [&] {
      while (is_digit(at(n))) ++n;
    };
    digits();
    bool real = false;
    if (at(n) == '.' && is_digit(at(n + 1))) real = true, ++n, digits();
    std::size_t sign = at(n + 1) == '-' || at(n + 1) == '+' ? 1 : 0;
    if ((at(n) == 'e' || at(n) == 'E') && is_digit(at(n + 1 + sign))) real = true, n += 1 + sign, digits();
    const char* begin = text_.data() + position_;
    std::errc status = std::from_chars(begin, begin + n, token.real).ec;
    if (!real && status == std::errc()) status = std::from_chars(begin, begin + n, token.integer).ec;
    if (status != std::errc()) fail(fmt::format("number {} is out of range", text_.substr(position_, n)));
    return take(token, real ? TokenKind::real : TokenKind::integer, n);
  }

  Token scan_text(Token token) {
    token.kind = TokenKind::text;
    advance();
    while (at() != '"') {
      if (position_ >= text_.size() || at() == '\n') fail("found the end of the line, expected '\"' to close the text");
      bool escaped = at() == '\\';
      if (escaped) advance();
      if (escaped && at() != '"' && at() != '\\' && at() != 'n')
        fail(fmt::format("unknown escape '\\{}', expected \\\", \\\\ or \\n", at()));
      token.text += escaped && at() == 'n' ? '\n' : at();
      advance();
    }
    if (const auto wrong = first_not_utf8(token.text))
      fail(
          fmt::format("found byte 0x{:02x} in a text, expected UTF-8", static_cast<unsigned char>(token.text[*wrong])));
    advance();
    return token;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t position_ = 0;
  int line_ = 1;
  int column_ = 1;
};

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the text";
    case TokenKind::text:
      return quote_text(token.text);
    case TokenKind::integer:
    case TokenKind::real:
      return token.text;
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

TokenStream::TokenStream(std::string_view text, std::string file) : file_(std::move(file)) {
  tokens_ = Lexer(text, file_).run();
}

const Token& TokenStream::peek(std::size_t ahead) const {
  return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : tokens_.back();
}

Token TokenStream::next() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::is(std::string_view text, std::size_t ahead) const {
  const Token& token = peek(ahead);
  return (token.kind == TokenKind::identifier || token.kind == TokenKind::symbol) && token.text == text;
}

bool TokenStream::accept(std::string_view text) {
  bool matches = is(text);
  if (matches) next();
  return matches;
}

Token TokenStream::expect(std::string_view text) {
  if (!is(text)) fail_expected(fmt::format("'{}'", text));
  return next();
}

Token TokenStream::expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) fail_expected(what);
  return next();
}

void TokenStream::fail(const Token& at, const std::string& message) const {
  throw_input_error("{}:{}:{}: {}", file_, at.line, at.column, message);
}

void TokenStream::fail_expected(std::string_view expected) const {
  fail(peek(), fmt::format("found {}, expected {}", describe(peek()), expected));
}

bool is_identifier(std::string_view text) {
  if (text.empty() || !starts_identifier(text[0])) return false;
  for (char c : text)
    if (!continues_identifier(c)) return false;
  return true;
}

std::string quote_text(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + "\"";
}

}  // namespace unity
