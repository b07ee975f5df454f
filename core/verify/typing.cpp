#include "core/verify/typing.h"

#include <cmath>
#include <set>

#include <z3++.h>

#include "core/verify/elimination.h"
#include "core/verify/layouts.h"

namespace unity {
namespace {

using Kind = Constraint::Kind;

bool is_prime(const std::string& symbol) { return symbol.find_first_not_of("0123456789") == std::string::npos; }

// Holds whatever the symbols are.
bool trivial(const Constraint& c) {
  if (c.kind == Kind::equal) return c.left == c.right;
  if (c.kind == Kind::less) return false;
  for (const auto& [symbol, exponent] : c.right / c.left)
    if (exponent < 0) return false;
  return true;
}

// One reading of monomials as linear terms: the exponents of one prime, or logarithms.
class World {
 public:
  // `prime`: whose exponents; empty: of a prime that no literal has; none: logarithms.
  World(z3::context& context, const std::optional<std::string>& prime, const std::vector<Constraint>& assumed,
        const std::map<std::string, std::vector<Monomial>>& sums, const z3::params& params)
      : context_(context), prime_(prime), solver_(context, z3::solver::simple()) {
    solver_.set(params);
    for (const Constraint& c : assumed)
      if (auto fact = holds(c, true)) solver_.add(*fact);
    for (const auto& [symbol, summands] : sums) {
      z3::expr_vector options(context_);
      for (const Monomial& m : summands) options.push_back(value_of(symbol) >= term(m));
      solver_.add(prime_ ? z3::mk_or(options) : z3::mk_and(options));
    }
    add_bounds();
  }

  bool proves(const Constraint& c) {
    auto goal = holds(c, false);
    if (!goal) return true;
    add_bounds();
    solver_.push();
    solver_.add(!*goal);
    bool proved = solver_.check() == z3::unsat;
    solver_.pop();
    return proved;
  }

 private:
  // What a constraint says in this world: all that it says there (as a goal), or what follows from it.
  std::optional<z3::expr> holds(const Constraint& c, bool assumed) {
    z3::expr left = term(c.left), right = term(c.right);
    switch (c.kind) {
      case Kind::equal:
        if (!prime_ && !assumed) return std::nullopt;  // shown by the primes
        return left == right;
      case Kind::divides:
        if (!prime_ && !assumed) return std::nullopt;
        return left <= right;
      case Kind::at_most:
        return prime_ ? std::nullopt : std::optional(left <= right);
      default:
        return prime_ ? std::nullopt : std::optional(left < right);
    }
  }

  z3::expr term(const Monomial& m) {
    z3::expr sum = prime_ ? context_.int_val(0) : context_.real_val(0);
    for (const auto& [symbol, exponent] : m) sum = sum + value_of(symbol) * exponent;
    return sum;
  }

  z3::expr value_of(const std::string& symbol) {
    if (prime_ && is_prime(symbol)) return context_.int_val(symbol == *prime_ ? 1 : 0);
    z3::expr value = prime_ ? context_.int_const(symbol.c_str()) : context_.real_const(symbol.c_str());
    if (seen_.insert(symbol).second) fresh_.push_back(symbol);
    return value;
  }

  void add_bounds() {
    for (const std::string& symbol : fresh_) {
      z3::expr value = prime_ ? context_.int_const(symbol.c_str()) : context_.real_const(symbol.c_str());
      if (is_prime(symbol)) {
        auto millionths = static_cast<int>(std::log(std::stod(symbol)) * 1e6);
        solver_.add(value >= context_.real_val(millionths, 1000000));
        solver_.add(value <= context_.real_val(millionths + 1, 1000000));
      } else {
        solver_.add(value >= 0);
      }
    }
    fresh_.clear();
  }

  z3::context& context_;
  std::optional<std::string> prime_;
  z3::solver solver_;
  std::set<std::string> seen_;
  std::vector<std::string> fresh_;
};

// The first goal that does not follow.
std::optional<Constraint> unproved(const std::vector<Constraint>& assumed, const std::vector<Constraint>& goals,
                                   const std::map<std::string, std::vector<Monomial>>& sums, const ProofLimit& limit) {
  std::vector<Constraint> open;
  for (const Constraint& c : goals)
    if (!trivial(c)) open.push_back(c);
  if (open.empty()) return std::nullopt;
  Elimination elimination(assumed);
  std::erase_if(open, [&](const Constraint& c) { return elimination.shows(c); });
  if (open.empty()) return std::nullopt;
  std::set<std::string> primes = {""};
  for (const auto* list : {&assumed, &goals})
    for (const Constraint& c : *list)
      for (const Monomial* m : {&c.left, &c.right})
        for (const auto& [symbol, exponent] : *m)
          if (is_prime(symbol)) primes.insert(symbol);
  std::vector<std::optional<std::string>> worlds(primes.begin(), primes.end());
  worlds.emplace_back(std::nullopt);
  z3::context context;
  z3::params params(context);
  params.set("rlimit", limit.steps());
  for (const auto& prime : worlds) {
    World world(context, prime, assumed, sums, params);
    for (const Constraint& c : open)
      if (!world.proves(c)) return c;
  }
  return std::nullopt;
}

std::string explain(const Constraint& c) {
  return fmt::format("{}: found {} and {}", c.why, to_string(c.left), to_string(c.right));
}

}  // namespace

TypingProof prove_typing(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature,
                         const ProofLimit& limit, bool ask_total) {
  TypingProof proof;
  auto constraints = typing_constraints(rule, instance, signature);
  if (!constraints.ok()) {
    proof.why = constraints.error().message;
    return proof;
  }
  std::optional<Constraint> open;
  if (ask_total) {
    open = unproved(constraints->assumed, constraints->asked, constraints->sums, limit);
    proof.total = !open;
    if (open) proof.partial = explain(*open);
  }
  std::vector<Constraint> assumed = constraints->assumed;
  assumed.insert(assumed.end(), constraints->asked.begin(), constraints->asked.end());
  open = unproved(assumed, constraints->shown, constraints->sums, limit);
  proof.proved = !open;
  if (open) proof.why = explain(*open);
  proof.used = {"typing"};
  return proof;
}

}  // namespace unity
