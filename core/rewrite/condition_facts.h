// What a rule's conditions say about its variables before any is known: ranks, sizes that are equal or sum up alike,
// layouts that are fixed. For proposing instances (instance.h) that have a chance.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

class ConditionFacts {
 public:
  explicit ConditionFacts(const Rule& rule);

  struct Known {
    Integers sizes;              // by class of equal sizes; 0: not known yet
    std::map<int, Dims> shapes;  // by group of variables that conditions liken to each other
  };
  Known known() const { return {constants_, {}}; }

  // Whether conditions liken variables to each other in a way that is not followed size by size: equal ranks, equal
  // sizes in a dimension that is an attribute.
  bool has_likeness() const { return !groups_.empty(); }

  // The proposal for variable `v` with the rank and the sizes that follow from what is known; what it adds is noted.
  // With `alike`, variables that are likened get one shape.
  Dims fit(std::size_t v, Dims proposal, Known& known, const std::function<std::int64_t()>& draw, bool alike) const;

  // The layout with degrees, copies and partial sums that conditions fix to a number.
  ParallelShape pinned(std::size_t v, ParallelShape shape) const;

 private:
  using Place = std::pair<std::size_t, std::int64_t>;  // variable and dimension
  struct Sum {
    std::map<int, std::int64_t> terms;  // by class: how often
    std::int64_t constant = 0;          // terms + constant == 0
  };
  int class_of(Place place);
  bool add(const Expression& e, std::int64_t times, Sum& sum);
  void note(const Condition& condition);
  void propagate(Integers& sizes) const;
  void liken(std::size_t v, std::size_t w);

  const Rule& rule_;
  std::map<Place, int> classes_;
  Integers constants_;
  std::map<std::size_t, int> groups_;  // of likened variables
  std::vector<Sum> sums_;
  std::map<std::size_t, std::int64_t> ranks_;
  std::map<std::size_t, std::int64_t> copies_, partials_;
  std::map<Place, std::int64_t> degrees_;
};

}  // namespace unity
