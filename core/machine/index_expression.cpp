#include "core/machine/index_expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/base/text.h"

namespace unity {

std::optional<std::size_t> IndexScope::find(std::string_view name) const {
  auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names_.begin());
}

std::size_t IndexScope::add(std::string name, std::int64_t value) {
  names_.push_back(std::move(name));
  values.push_back(value);
  return names_.size() - 1;
}

bool is_index_name(std::string_view text) {
  auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

class IndexExpressionParser {
 public:
  using Op = IndexExpression::Op;
  IndexExpressionParser(std::string_view text, const IndexScope& scope) : text_(text), rest_(text), scope_(scope) {}

  Result<IndexExpression> parse() {
    UNITY_TRY_VOID(level(0));
    if (!peek().empty()) return fail("'{}': found '{}', expected an operator or the end", text_, rest_);
    return std::move(result_);
  }

 private:
  struct Binary {
    std::string_view sign;
    Op op;
    int level;
  };
  // Longer signs first, so that "<=" is not read as "<".
  static constexpr std::array<Binary, 13> kBinary = {{{"||", Op::either, 0},
                                                      {"&&", Op::both, 1},
                                                      {"==", Op::equal, 2},
                                                      {"!=", Op::unequal, 2},
                                                      {"<=", Op::at_most, 2},
                                                      {">=", Op::at_least, 2},
                                                      {"<", Op::less, 2},
                                                      {">", Op::more, 2},
                                                      {"+", Op::add, 3},
                                                      {"-", Op::subtract, 3},
                                                      {"*", Op::multiply, 4},
                                                      {"/", Op::divide, 4},
                                                      {"%", Op::remainder, 4}}};
  static constexpr int kUnary = 5, kDeepest = 64;

  std::string_view peek() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
    return rest_;
  }
  bool take(std::string_view sign) {
    if (!peek().starts_with(sign)) return false;
    rest_.remove_prefix(sign.size());
    return true;
  }
  const Binary* take_binary(int level) {
    peek();
    for (const Binary& b : kBinary)
      if (rest_.starts_with(b.sign)) {
        if (b.level != level) return nullptr;
        rest_.remove_prefix(b.sign.size());
        return &b;
      }
    return nullptr;
  }
  void emit(Op op, std::int64_t operand = 0) { result_.steps_.push_back({op, operand}); }

  Result<void> level(int l) {
    if (l == kUnary) return unary();
    UNITY_TRY_VOID(level(l + 1));
    while (const Binary* b = take_binary(l)) {
      UNITY_TRY_VOID(level(l + 1));
      emit(b->op);
    }
    return {};
  }

  Result<void> unary() {
    if (++depth_ > kDeepest) return fail("'{}': more than {} nested parts", text_, kDeepest);
    if (take("-")) {
      UNITY_TRY_VOID(unary());
      emit(Op::negate);
    } else if (peek().starts_with("!") && !rest_.starts_with("!=")) {
      rest_.remove_prefix(1);
      UNITY_TRY_VOID(unary());
      emit(Op::invert);
    } else {
      UNITY_TRY_VOID(primary());
    }
    --depth_;
    return {};
  }

  Result<void> primary() {
    if (take("(")) {
      UNITY_TRY_VOID(level(0));
      return close();
    }
    if (peek().empty()) return fail("'{}': ends where a number or name is expected", text_);
    if (std::isdigit(static_cast<unsigned char>(rest_[0]))) {
      std::int64_t number = 0;
      auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (error != std::errc()) return fail("'{}': the number is too large", text_);
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      emit(Op::number, number);
      return {};
    }
    std::size_t length = 1;
    auto continues = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
    while (length < rest_.size() && continues(rest_[length])) ++length;
    std::string name(rest_.substr(0, length));
    if (!is_index_name(name)) return fail("'{}': found '{}', expected a number or name", text_, rest_);
    rest_.remove_prefix(length);
    constexpr std::array<std::pair<std::string_view, Op>, 3> kFunctions = {
        {{"min", Op::minimum}, {"max", Op::maximum}, {"root", Op::root}}};
    for (const auto& [function, op] : kFunctions) {
      if (name != function || !take("(")) continue;
      UNITY_TRY_VOID(level(0));
      if (!take(",")) return fail("'{}': {} takes two values, separated by a comma", text_, function);
      UNITY_TRY_VOID(level(0));
      emit(op);
      return close();
    }
    auto place = scope_.find(name);
    if (!place) return fail("'{}': unknown name '{}'{}", text_, name, suggestion(name, scope_.names()));
    emit(Op::name, static_cast<std::int64_t>(*place));
    return {};
  }

  Result<void> close() {
    if (!take(")")) return fail("'{}': found '{}', expected ')'", text_, peek());
    return {};
  }

  std::string_view text_, rest_;
  const IndexScope& scope_;
  IndexExpression result_;
  int depth_ = 0;
};

Result<IndexExpression> IndexExpression::parse(std::string_view text, const IndexScope& scope) {
  return IndexExpressionParser(text, scope).parse();
}

Result<std::int64_t> IndexExpression::apply(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::divide:
    case Op::remainder: {
      if (b == 0) return fail("division by zero");
      if (b == -1) return op == Op::remainder ? Result<std::int64_t>(0) : apply(Op::subtract, 0, a);
      bool down = a % b != 0 && (a < 0) != (b < 0);
      result = op == Op::divide ? a / b - down : a % b + (down ? b : 0);
      break;
    }
    case Op::equal:
      return a == b;
    case Op::unequal:
      return a != b;
    case Op::less:
      return a < b;
    case Op::at_most:
      return a <= b;
    case Op::more:
      return a > b;
    case Op::at_least:
      return a >= b;
    case Op::both:
      return a && b;
    case Op::either:
      return a || b;
    case Op::minimum:
      return std::min(a, b);
    case Op::maximum:
      return std::max(a, b);
    case Op::root: {
      if (a < 0 || b < 1) return fail("root({}, {}): expected a number of at least 0 and a degree of at least 1", a, b);
      auto reaches = [&](std::int64_t r) {
        std::int64_t power = 1;
        for (std::int64_t i = 0; i < b && power < a; ++i)
          if (__builtin_mul_overflow(power, r, &power)) return true;
        return power >= a;
      };
      b = std::min<std::int64_t>(b, 63);  // beyond which 2 reaches everything
      std::int64_t low = -1, high = a;    // high reaches, low does not
      while (high - low > 1) {
        std::int64_t middle = low + (high - low) / 2;
        (middle > 0 ? reaches(middle) : a == 0) ? high = middle : low = middle;
      }
      return high;
    }
    case Op::number:
    case Op::name:
    case Op::negate:
    case Op::invert:
      break;
  }
  if (overflow) return fail("a number is too large");
  return result;
}

Result<std::int64_t> IndexExpression::evaluate(std::span<const std::int64_t> values) const {
  std::vector<std::int64_t> stack;
  for (const Step& step : steps_) {
    if (step.op == Op::number || step.op == Op::name) {
      stack.push_back(step.op == Op::number ? step.operand : values[static_cast<std::size_t>(step.operand)]);
      continue;
    }
    std::int64_t last = stack.back();
    if (step.op == Op::invert) {
      stack.back() = !last;
      continue;
    }
    std::int64_t first = 0;
    if (step.op != Op::negate) {
      stack.pop_back();
      first = stack.back();
    }
    stack.back() = UNITY_TRY(apply(step.op == Op::negate ? Op::subtract : step.op, first, last));
  }
  return stack.back();
}

}  // namespace unity
