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

  // By class of equal sizes; 0: not known yet.
  using Sizes = std::vector<std::int64_t>;
  Sizes sizes() const { return constants_; }

  // The proposal for variable `v` with the rank and the sizes that follow from what is known; what it adds is noted.
  Dims fit(std::size_t v, Dims proposal, Sizes& sizes, const std::function<std::int64_t()>& draw) const;

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
  void propagate(Sizes& sizes) const;

  const Rule& rule_;
  std::map<Place, int> classes_;
  Sizes constants_;
  std::vector<Sum> sums_;
  std::map<std::size_t, std::int64_t> ranks_;
  std::map<std::size_t, std::int64_t> copies_, partials_;
  std::map<Place, std::int64_t> degrees_;
};

}  // namespace unity
