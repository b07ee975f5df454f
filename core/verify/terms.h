// Rules and axioms as terms of first-order logic. Private to this folder: it shows Z3.
//
// A logical tensor is an element of an uninterpreted sort, an operator a function symbol for each number of operands
// and each result, with its attributes as arguments: integers (a product of two unknowns is an uninterpreted function),
// reals likewise, texts and lists uninterpreted (`element` reads a list). `typed`, `rank` and `dim` are functions of
// tensors. An ill-typed call, or one with an index out of range, is one fixed value of which `typed` is false; so an
// axiom that is guarded by the side that matches being well-typed holds of all tensors as soon as it holds of those at
// which that side is well-typed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <z3++.h>

#include "core/rewrite/rule.h"

namespace unity {

class Language {
 public:
  explicit Language(z3::context& context);

  z3::context& context() { return context_; }
  z3::sort tensor() { return tensor_; }
  z3::sort sort_of(AttributeKind kind);

  z3::expr typed(const z3::expr& t) { return typed_(t); }
  z3::expr rank(const z3::expr& t) { return rank_(t); }
  z3::expr dim(const z3::expr& t, const z3::expr& i) { return dim_(t, i); }
  z3::expr dim(const z3::expr& t, int i) { return dim_(t, context_.int_val(i)); }
  z3::expr element(const z3::expr& list, int i) { return element_(list, context_.int_val(i)); }

  z3::expr constant(const AttributeValue& value, AttributeKind kind);
  z3::expr list(const z3::expr_vector& elements);
  z3::expr divides(const z3::expr& a, const z3::expr& b);
  z3::expr arithmetic(Expression::Kind kind, z3::expr a, z3::expr b);
  // Result `result` of `results`.
  z3::expr call(const Operator& op, const std::vector<z3::expr>& attributes, const std::vector<z3::expr>& operands,
                int result, int results);

  std::size_t symbols() const { return 2 * (calls_.size() + lists_.size() + numerals_.size()) + products_; }
  // What holds of the symbols that were used so far: operands of well-typed calls are well-typed, lists have their
  // elements, products commute. As (name, formula).
  std::vector<std::pair<std::string, z3::expr>> background();

  // forall variables: body, instantiated where a pattern matches.
  z3::expr forall(const std::vector<z3::expr>& variables, const std::vector<z3::expr>& pattern, const z3::expr& body);

 private:
  z3::context& context_;
  z3::sort tensor_, list_, text_;
  z3::func_decl typed_, rank_, dim_, element_;
  struct Symbol {
    z3::func_decl function;
    std::size_t attributes;
  };
  std::map<std::string, Symbol> calls_;
  std::map<std::size_t, z3::func_decl> lists_;
  std::set<std::string> numerals_;
  bool products_ = false;
};

// A rule or axiom as terms, with given terms for its variables.
class Reading {
 public:
  // Absent attributes are those that occur in parallelization operators alone.
  // `results`: of each node; empty: as many as the rule names.
  Reading(Language& language, const Rule& rule, std::vector<z3::expr> values,
          std::vector<std::optional<z3::expr>> attributes, std::vector<int> results = {});

  z3::expr value(PatternValue v);
  // nullopt: says nothing about logical tensors, or is out of reach.
  std::optional<z3::expr> condition(const Condition& c);
  std::optional<z3::expr> expression(const Expression& e, AttributeKind kind);

  // Reads attributes that are not plain as new variables, which `variables` and `equations` then hold: for patterns.
  struct Abstraction {
    std::vector<z3::expr> variables, equations;
  };
  z3::expr pattern(PatternValue v, Abstraction& abstraction);

 private:
  z3::expr build(PatternValue v, Abstraction* abstraction);

  Language& language_;
  const Rule& rule_;
  std::vector<z3::expr> values_;
  std::vector<std::optional<z3::expr>> attributes_;
  std::vector<int> results_;
};

// The kind of each attribute variable, from where it stands alone.
std::vector<AttributeKind> attribute_kinds(const Rule& rule);

}  // namespace unity
