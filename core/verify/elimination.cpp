#include "core/verify/elimination.h"

#include <algorithm>
#include <numeric>

namespace unity {
namespace {

using Kind = Constraint::Kind;

constexpr std::int64_t kLargest = 1 << 20;  // exponent

std::int64_t at(const Integers& exponents, std::size_t symbol) {
  return symbol < exponents.size() ? exponents[symbol] : 0;
}

// product^f / other^g, without common factors of exponents; nullopt where one is too large.
std::optional<Integers> quotient(const Integers& product, std::int64_t f, const Integers& other, std::int64_t g) {
  Integers result(std::max(product.size(), other.size()));
  std::int64_t common = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = f * at(product, i) - g * at(other, i);
    common = std::gcd(common, result[i]);
  }
  for (std::int64_t& e : result) {
    if (common > 1) e /= common;
    if (std::abs(e) > kLargest) return std::nullopt;
  }
  return result;
}

// At least 1, and whole: every symbol is a whole number.
bool is_whole(const Integers& exponents) {
  return std::all_of(exponents.begin(), exponents.end(), [](std::int64_t e) { return e >= 0; });
}

}  // namespace

Elimination::Elimination(const std::vector<Constraint>& assumed) {
  for (const Constraint& c : assumed)
    if (c.kind == Kind::equal) add(ratio(c));
  for (const Constraint& c : assumed)
    if (c.kind == Kind::divides || c.kind == Kind::at_most)
      if (auto bound = reduced(ratio(c)); bound && !is_whole(*bound)) bounds_.push_back({c.kind, std::move(*bound)});
}

bool Elimination::shows(const Constraint& c) {
  if (c.kind == Kind::less) return false;
  auto goal = reduced(ratio(c));
  if (!goal) return false;
  if (c.kind == Kind::equal) return std::all_of(goal->begin(), goal->end(), [](std::int64_t e) { return e == 0; });
  return is_whole(*goal) || std::any_of(bounds_.begin(), bounds_.end(), [&](const Bound& b) {
           if (c.kind == Kind::divides && b.kind != Kind::divides) return false;
           auto rest = quotient(*goal, 1, b.ratio, 1);
           return rest && is_whole(*rest);
         });
}

Elimination::Exponents Elimination::ratio(const Constraint& c) {
  Exponents exponents;
  for (const auto& [symbol, exponent] : c.right / c.left) {
    std::size_t i = symbols_.emplace(symbol, symbols_.size()).first->second;
    if (i >= exponents.size()) exponents.resize(i + 1);
    exponents[i] = exponent;
  }
  return exponents;
}

std::optional<Elimination::Exponents> Elimination::reduced(Exponents product) const {
  for (const Equation& e : equations_) {
    std::int64_t exponent = at(product, e.pivot);
    if (exponent == 0) continue;
    auto next = quotient(product, e.ratio[e.pivot], e.ratio, exponent);
    if (!next) return std::nullopt;
    product = std::move(*next);
  }
  return product;
}

void Elimination::add(Exponents equation) {
  auto rest = reduced(std::move(equation));
  if (!rest) return;
  auto pivot = static_cast<std::size_t>(
      std::find_if(rest->begin(), rest->end(), [](std::int64_t e) { return e != 0; }) - rest->begin());
  if (pivot == rest->size()) return;
  if ((*rest)[pivot] < 0)
    for (std::int64_t& e : *rest) e = -e;
  std::vector<Equation> without = equations_;
  for (Equation& e : without) {
    auto next = quotient(e.ratio, (*rest)[pivot], *rest, at(e.ratio, pivot));
    if (!next) return;  // without this one less follows
    e.ratio = std::move(*next);
  }
  equations_ = std::move(without);
  equations_.push_back({pivot, std::move(*rest)});
}

}  // namespace unity
