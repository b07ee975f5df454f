// The mapping search against all that it could have done, on random small graphs: sequences of operators that branch,
// each mapped in every way, and branches one after the other or at the same time on any two shares, cut again and
// again.
#include "core/search/mapping_shares.h"

#include <limits>

#include <catch2/catch.hpp>

#include "core/search/mapping_problem.h"
#include "tests/support/dice.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

namespace unity::test {
namespace {

class Graphs {
 public:
  Graphs(std::uint64_t seed, int devices) : dice_(seed), most_tasks_(devices), b_("random") {
    n_ = std::array{24, 96, 240}[dice_.below(3)];
  }

  Graphs& of_one_task() { return most_tasks_ = 1, *this; }

  // An operator, its branches, in which one follows on another, and what joins them.
  Pcg branches(int count) {
    ValueRef x = apply(b_.input("x", {n_, n_}));
    std::vector<ValueRef> ends;
    for (int branch = 0; branch < count; ++branch) {
      ValueRef y = x;
      for (std::size_t i = 0, last = dice_.below(2); i <= last; ++i) y = apply(y);
      ends.push_back(y);
    }
    return std::move(b_).finish({b_.apply("concat", {std::int64_t{0}}, ends)});
  }

  // Operators that take any of those before.
  Pcg any(int operators) {
    std::vector<ValueRef> values = {b_.input("x", {n_, n_})};
    for (int i = 0; i < operators; ++i) {
      ValueRef x = values[dice_.below(values.size())], y = values[dice_.below(values.size())];
      values.push_back(dice_.below(3) == 0 ? b_.apply("add", {}, {x, y}) : apply(x));
    }
    values.erase(values.begin());
    return std::move(b_).finish(values);
  }

 private:
  // A product or an activation, in as many tasks as there may be.
  ValueRef apply(ValueRef x) {
    int tasks = 1 + static_cast<int>(dice_.below(static_cast<std::size_t>(most_tasks_)));
    while (n_ % tasks) --tasks;
    auto cut = [&](ValueRef v) { return tasks > 1 ? partition(b_, 0, tasks, v) : v; };
    ValueRef y;
    if (dice_.below(3) == 0) {
      y = b_.apply("relu", {}, {cut(x)});
    } else {
      ValueRef w = b_.weight(fmt::format("w{}", weights_++), {n_, n_});
      y = b_.apply("matmul", {}, {cut(x), tasks > 1 ? replicate(b_, tasks, w) : w});
    }
    return tasks > 1 ? combine(b_, 0, tasks, y) : y;
  }

  Dice dice_;
  int most_tasks_;
  Builder b_;
  std::int64_t n_ = 0;
  int weights_ = 0;
};

class AllWays {
 public:
  AllWays(const Pcg& pcg, const CostModel& cost) : problem_(pcg, cost, cache_, Shares::all) {
    REQUIRE(problem_.build().ok());
    chosen_.assign(problem_.items().size(), -1);
    machine_ = {0, static_cast<int>(cost.topology().device_count())};
  }

  // Every operator in every way, one after the other.
  std::int64_t sequence() {
    std::vector<int> all;
    for (std::size_t i = 0; i < problem_.items().size(); ++i) all.push_back(static_cast<int>(i));
    return sequence(all, machine_);
  }

  // Given what is not in a branch in every way, the branches in every way.
  std::int64_t at_once(const std::vector<std::vector<int>>& branches) {
    std::vector<int> ends;
    for (int i = 0; i < static_cast<int>(problem_.items().size()); ++i)
      if (std::none_of(branches.begin(), branches.end(),
                       [&](const auto& b) { return std::find(b.begin(), b.end(), i) != b.end(); }))
        ends.push_back(i);
    return sequence(ends, machine_, [&] { return shared(branches, machine_); });
  }

  // Those joined by edges, without the first and the last operator.
  std::vector<std::vector<int>> branches(const Pcg& pcg) const {
    std::vector<std::vector<int>> found;
    std::vector<int> branch(problem_.items().size(), -1);
    int first = -1;
    for (std::size_t i = 0; i < problem_.items().size(); ++i) {
      const MappingProblem::Item& item = problem_.items()[i];
      if (item.tasks->fixed || pcg[item.node].op->name() == "concat") continue;
      if (first < 0) {
        first = static_cast<int>(i);
        continue;
      }
      for (int number : problem_.edges_of(static_cast<int>(i))) {
        const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
        if (e.to == static_cast<int>(i) && e.from != first) branch[i] = branch[static_cast<std::size_t>(e.from)];
      }
      if (branch[i] < 0) branch[i] = static_cast<int>(found.size()), found.emplace_back();
      found[static_cast<std::size_t>(branch[i])].push_back(static_cast<int>(i));
    }
    return found;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max() / 8;

  template <class Rest>
  std::int64_t sequence(const std::vector<int>& items, const Resources& share, const Rest& rest, std::size_t k = 0) {
    if (k == items.size()) return rest();
    auto i = static_cast<std::size_t>(items[k]);
    const MappingProblem::Tasks& tasks = *problem_.items()[i].tasks;
    std::int64_t best = kNone;
    for (std::size_t c = 0; c < tasks.choices.size(); ++c) {
      if (!tasks.may_choose(c, share)) continue;
      chosen_[i] = static_cast<int>(c);
      std::int64_t cost = tasks.compute[c];
      for (int number : problem_.edges_of(items[k])) {
        const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
        int a = chosen_[static_cast<std::size_t>(e.from)], b = chosen_[static_cast<std::size_t>(e.to)];
        if (a >= 0 && b >= 0) cost += problem_.edge_cost(e, a, b);
      }
      best = std::min(best, cost + sequence(items, share, rest, k + 1));
    }
    chosen_[i] = -1;
    return best;
  }
  std::int64_t sequence(const std::vector<int>& items, const Resources& share) {
    return sequence(items, share, [] { return std::int64_t{0}; });
  }

  std::int64_t shared(const std::vector<std::vector<int>>& branches, const Resources& share) {
    if (branches.empty()) return 0;
    std::int64_t best = 0;
    for (const std::vector<int>& b : branches) best += sequence(b, share);
    if (branches.size() == 1) return std::min(best, kNone);
    std::size_t ways = 1;
    for (std::size_t p = 0; p < branches.size(); ++p) ways *= 3;
    for (std::size_t way = 0; way < ways; ++way) {
      std::vector<std::vector<int>> sides[3];
      for (std::size_t p = 0, rest = way; p < branches.size(); ++p, rest /= 3) sides[rest % 3].push_back(branches[p]);
      if (sides[0].empty() || sides[1].empty()) continue;
      for (int left = 1; left < share.count; ++left) {
        std::int64_t cost =
            std::max(shared(sides[0], {share.first, left}), shared(sides[1], {share.first + left, share.count - left}));
        if (cost < best) best = std::min(best, cost + shared(sides[2], share));
      }
    }
    return std::min(best, kNone);
  }

  MappingSearch::Cache cache_;
  MappingProblem problem_;
  std::vector<int> chosen_;
  Resources machine_;
};

}  // namespace

TEST_CASE("no combination of mappings, one operator after the other, is estimated to be faster") {
  for (int devices : {3, 4, 6})
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      INFO(devices << " devices, seed " << seed);
      Pcg pcg = Graphs(seed, devices).any(4);
      StubCostModel cost(uniform_topology(devices));
      CHECK(MappingSearch(cost).run(pcg, Shares::all).value().estimate.count <= AllWays(pcg, cost).sequence());
    }
}

TEST_CASE("two or three branches on up to six devices: no other shares are estimated to be faster") {
  int at_once = 0;
  for (int branches : {2, 3})
    for (int devices = 2; devices <= kFewShared; ++devices)
      for (std::uint64_t seed = 0; seed < 60; ++seed) {
        INFO(devices << " devices, " << branches << " branches, seed " << seed);
        Pcg pcg = Graphs(seed, devices).branches(branches);
        StubCostModel cost(uniform_topology(devices));
        AllWays all(pcg, cost);
        const std::int64_t found = MappingSearch(cost).run(pcg, Shares::all).value().estimate.count;
        CHECK(found <= all.at_once(all.branches(pcg)));
        at_once += found < all.sequence();
      }
  CHECK(at_once > 150);  // of 600
}

TEST_CASE("on more devices, or of more branches: for a few graphs only, other shares are estimated to be faster") {
  struct Bound {
    int devices, branches, most_faster;
    double by;
  };
  for (auto [devices, branches, most_faster, by] : {Bound{8, 2, 0, 1}, {8, 3, 4, 1.35}, {4, 4, 3, 1.38}}) {
    int faster = 0, at_once = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      INFO(devices << " devices, " << branches << " branches, seed " << seed);
      Pcg pcg = Graphs(seed, devices).branches(branches);
      StubCostModel cost(uniform_topology(devices));
      AllWays all(pcg, cost);
      const std::int64_t found = MappingSearch(cost).run(pcg, Shares::all).value().estimate.count;
      const std::int64_t best = all.at_once(all.branches(pcg));
      CHECK(static_cast<double>(found) <= by * static_cast<double>(best));
      faster += best < found;
      at_once += found < all.sequence();
    }
    CHECK(faster <= most_faster);  // of 50
    CHECK(at_once > 20);
  }
}

TEST_CASE("halves are among all shares, where no operator has but one mapping") {
  for (int devices : {2, 3, 4, 6, 12})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      INFO(devices << " devices, seed " << seed);
      Pcg pcg = Graphs(seed, devices).of_one_task().branches(3);
      StubCostModel cost(uniform_topology(devices));
      MappingSearch search(cost);
      const MappingResult halves = search.run(pcg).value(), all = search.run(pcg, Shares::all).value();
      CHECK(all.estimate <= halves.estimate);
      CHECK_FALSE(halves.in_shares);
      if (!all.in_shares) CHECK(all.mappings == halves.mappings);
    }
}

}  // namespace unity::test
