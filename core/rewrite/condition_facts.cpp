#include "core/rewrite/condition_facts.h"

namespace unity {
namespace {

using Kind = Expression::Kind;

std::optional<std::int64_t> constant_of(const Expression& e) {
  const auto* integer = std::get_if<std::int64_t>(&e.constant);
  return e.kind == Kind::constant && integer ? std::optional(*integer) : std::nullopt;
}

// dim(x, a) and dim(y, a), or rank(x) and rank(y).
bool same_query(const Expression& a, const Expression& b) {
  if (a.query != b.query || (a.query != Expression::Query::dim && a.query != Expression::Query::rank)) return false;
  if (a.query == Expression::Query::rank) return true;
  const Expression &i = a.arguments[0], &j = b.arguments[0];
  return i.kind == Kind::variable && j.kind == Kind::variable && i.variable == j.variable;
}

bool of_variable(const Expression& e) { return e.kind == Kind::shape && e.value.variable >= 0; }

}  // namespace

ConditionFacts::ConditionFacts(const Rule& rule) : rule_(rule) {
  for (const Condition& condition : rule_.conditions)
    if (condition.kind == Condition::Kind::equal) note(condition);
  propagate(constants_);
}

int ConditionFacts::class_of(Place place) {
  auto [found, added] = classes_.emplace(place, static_cast<int>(constants_.size()));
  if (added) constants_.push_back(0);
  return found->second;
}

// False when the expression is no sum of sizes of variables.
bool ConditionFacts::add(const Expression& e, std::int64_t times, Sum& sum) {
  if (auto constant = constant_of(e)) return sum.constant += times * *constant, true;
  if (e.kind == Kind::add || e.kind == Kind::subtract)
    return add(e.arguments[0], times, sum) && add(e.arguments[1], e.kind == Kind::add ? times : -times, sum);
  if (!of_variable(e) || e.query != Expression::Query::dim) return false;
  auto dim = constant_of(e.arguments[0]);
  if (!dim) return false;
  sum.terms[class_of({static_cast<std::size_t>(e.value.variable), *dim})] += times;
  return true;
}

void ConditionFacts::liken(std::size_t v, std::size_t w) {
  int fresh = static_cast<int>(groups_.size());
  int to = groups_.try_emplace(v, fresh).first->second, from = groups_.try_emplace(w, to).first->second;
  for (auto& [variable, group] : groups_)
    if (group == from) group = to;
}

void ConditionFacts::note(const Condition& condition) {
  if (of_variable(condition.left) && of_variable(condition.right) && same_query(condition.left, condition.right))
    return liken(static_cast<std::size_t>(condition.left.value.variable),
                 static_cast<std::size_t>(condition.right.value.variable));
  for (auto [one, other] :
       {std::pair(&condition.left, &condition.right), std::pair(&condition.right, &condition.left)}) {
    auto constant = constant_of(*other);
    if (!of_variable(*one) || !constant || one->query == Expression::Query::dim) continue;
    auto v = static_cast<std::size_t>(one->value.variable);
    if (one->query == Expression::Query::rank) ranks_[v] = *constant;
    if (one->query == Expression::Query::copies) copies_[v] = *constant;
    if (one->query == Expression::Query::partials) partials_[v] = *constant;
    if (one->query == Expression::Query::degree)
      if (auto dim = constant_of(one->arguments[0])) degrees_[{v, *dim}] = *constant;
    return;
  }
  Sum sum;
  if (!add(condition.left, 1, sum) || !add(condition.right, -1, sum)) return;
  std::erase_if(sum.terms, [](const auto& term) { return term.second == 0; });
  sums_.push_back(std::move(sum));
}

// Where one size of a sum is not known, it follows.
void ConditionFacts::propagate(Integers& sizes) const {
  for (bool progress = true; progress;) {
    progress = false;
    for (const Sum& sum : sums_) {
      std::int64_t rest = sum.constant;
      std::pair<int, std::int64_t> open = {-1, 0};
      int unknown = 0;
      for (auto [c, times] : sum.terms) {
        std::int64_t size = sizes[static_cast<std::size_t>(c)];
        rest += times * size;
        if (size == 0) ++unknown, open = {c, times};
      }
      if (unknown != 1 || rest % open.second != 0 || -rest / open.second < 1) continue;
      sizes[static_cast<std::size_t>(open.first)] = -rest / open.second;
      progress = true;
    }
  }
}

Dims ConditionFacts::fit(std::size_t v, Dims proposal, Known& known, const std::function<std::int64_t()>& draw,
                         bool alike) const {
  auto group = groups_.find(v);
  if (alike && group != groups_.end()) {
    auto like = known.shapes.find(group->second);
    if (like != known.shapes.end()) proposal = like->second;
  }
  if (auto rank = ranks_.find(v); rank != ranks_.end()) {
    auto wanted = static_cast<std::size_t>(rank->second);
    while (proposal.size() > wanted) proposal.erase(proposal.begin());
    while (proposal.size() < wanted) proposal.insert(proposal.begin(), draw());
  }
  for (std::size_t i = 0; i < proposal.size(); ++i) {
    auto found = classes_.find({v, static_cast<std::int64_t>(i)});
    if (found == classes_.end()) continue;
    std::int64_t& size = known.sizes[static_cast<std::size_t>(found->second)];
    if (size == 0) {
      size = proposal[i];
      propagate(known.sizes);
    }
    proposal[i] = size;
  }
  if (group != groups_.end()) known.shapes.try_emplace(group->second, proposal);
  return proposal;
}

ParallelShape ConditionFacts::pinned(std::size_t v, ParallelShape shape) const {
  auto set = [&](const auto& facts, const auto& key, int& to) {
    if (auto found = facts.find(key); found != facts.end()) to = static_cast<int>(found->second);
  };
  set(copies_, v, shape.copies);
  set(partials_, v, shape.partials);
  for (std::size_t i = 0; i < shape.dims.size(); ++i)
    set(degrees_, Place{v, static_cast<std::int64_t>(i)}, shape.dims[i].degree);
  return shape;
}

}  // namespace unity
