#include "core/search/mapping_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/search/mapping_problem.h"
#include "core/search/mapping_shares.h"
#include "core/search/table_elimination.h"

namespace unity {
namespace {

constexpr std::int64_t kVisits = 20'000, kVisitsOfItem = 300;  // of items: no more than that, or that many for each
constexpr std::size_t kMostEntries = 1'000'000;                // of a table, where these are too few
constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

class Dp {
 public:
  Dp(const Pcg& pcg, const CostModel& cost, MappingSearch::Cache& cache, Shares shares)
      : problem_(pcg, cost, cache, shares), shares_(shares) {}

  Result<MappingResult> run();

 private:
  using Set = std::vector<int>;  // items, ascending (topological)
  struct HashOf {
    std::size_t operator()(const std::vector<int>& key) const {
      Hash hash = mix(key.size());
      for (int number : key) hash = combine(hash, static_cast<Hash>(number));
      return hash;
    }
  };

  std::int64_t solve(const Set& set);
  std::int64_t solve_connected(const Set& set);
  std::int64_t condition(const Set& set, int pivot, bool splits);
  std::int64_t eliminate(const Set& set);
  bool given_up() const { return visits_ > most_visits_; }
  bool may_choose(int item, std::size_t choice) const;
  std::int64_t placement_cost(int item) const;
  std::vector<Set> components(const Set& set);
  int splitting_node(const Set& set);
  // Until the next set is marked.
  void mark(const Set& set) {
    ++stamp_;
    for (int i : set) stamps_[static_cast<std::size_t>(i)] = stamp_;
  }
  bool marked(int item) const { return stamps_[static_cast<std::size_t>(item)] == stamp_; }
  std::int64_t side_by_side(const std::vector<Set>& parts, const std::vector<std::int64_t>& costs, std::int64_t best);
  int width(const Set& set) const;  // the most tasks of an operator

  MappingProblem problem_;
  Shares shares_;
  std::vector<int> chosen_;                  // by item: index into choices, -1: open
  std::vector<Resources> share_;             // by item: where it may run
  std::vector<int> stamps_, parent_, rank_;  // by item
  int stamp_ = 0;
  std::unordered_map<std::vector<int>, std::pair<std::int64_t, std::vector<int>>, HashOf> memo_;
  std::int64_t most_visits_ = 0;
  std::int64_t visits_ = 0;        // of items
  std::int64_t spare_visits_ = 0;  // in shares other than halves, which are left out once these are as many
  bool spare_ = false;             // in such a share
  bool in_shares_ = false;         // one was better somewhere
};

std::int64_t Dp::placement_cost(int item) const {
  auto i = static_cast<std::size_t>(item);
  std::int64_t cost = problem_.items()[i].tasks->compute[static_cast<std::size_t>(chosen_[i])];
  for (int number : problem_.edges_of(item)) {
    const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
    int a = chosen_[static_cast<std::size_t>(e.from)], b = chosen_[static_cast<std::size_t>(e.to)];
    if (a >= 0 && b >= 0) cost += problem_.edge_cost(e, a, b);
  }
  return cost;
}

std::vector<Dp::Set> Dp::components(const Set& set) {
  mark(set);
  for (int i : set) parent_[static_cast<std::size_t>(i)] = i;
  auto find = [&](int i) {
    while (parent_[static_cast<std::size_t>(i)] != i) i = parent_[static_cast<std::size_t>(i)];
    return i;
  };
  for (int i : set)
    for (int number : problem_.edges_of(i)) {
      const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
      int other = e.from == i ? e.to : e.from;
      if (!marked(other)) continue;
      int a = find(i), b = find(other);
      if (a != b) parent_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }
  std::vector<Set> result;
  for (int i : set) {
    int root = find(i);
    int& number = rank_[static_cast<std::size_t>(root)];  // of the root's component; roots come before the others
    if (root == i) number = static_cast<int>(result.size()), result.emplace_back();
    result[static_cast<std::size_t>(number)].push_back(i);
  }
  return result;
}

// The middle one of the nodes that no edge within the set jumps over: best of those that everything before leads to and
// everything after comes from (else branches that start or end apart would be pulled into the sequence); -1 for none.
int Dp::splitting_node(const Set& set) {
  mark(set);
  auto rank = [&](int item) { return static_cast<std::size_t>(rank_[static_cast<std::size_t>(item)]); };
  for (std::size_t r = 0; r < set.size(); ++r) rank_[static_cast<std::size_t>(set[r])] = static_cast<int>(r);
  std::vector<int> jumps(set.size() + 1, 0);
  std::vector<bool> entered(set.size(), false), left(set.size(), false);
  for (int i : set)
    for (int number : problem_.edges_of(i)) {
      const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
      if (e.from != i || !marked(e.to)) continue;
      ++jumps[rank(e.from) + 1];
      --jumps[rank(e.to)];
      left[rank(e.from)] = entered[rank(e.to)] = true;
    }
  std::size_t last_source = 0, first_sink = set.size() - 1;
  for (std::size_t r = 0; r < set.size(); ++r)
    if (!entered[r]) last_source = r;
  for (std::size_t r = set.size(); r-- > 0;)
    if (!left[r]) first_sink = r;
  int covered = 0, best = -1, best_distance = std::numeric_limits<int>::max();
  for (std::size_t r = 0; r < set.size(); ++r) {
    covered += jumps[r];
    int distance = std::abs(static_cast<int>(set.size()) / 2 - static_cast<int>(r));
    if (r < last_source || r > first_sink) distance += static_cast<int>(set.size());
    if (covered == 0 && distance < best_distance) best = set[r], best_distance = distance;
  }
  return best;
}

int Dp::width(const Set& set) const {
  int most = 1;
  for (int i : set) most = std::max(most, task_count(problem_.items()[static_cast<std::size_t>(i)].tasks->grid));
  return most;
}

// The best cost of the open items of `set`, leaving its choices in chosen_. Memoised on the choices of its neighbours.
std::int64_t Dp::solve(const Set& set) {
  if (set.empty()) return 0;
  std::vector<int> key = {static_cast<int>(set.size()), share_[static_cast<std::size_t>(set[0])].first,
                          share_[static_cast<std::size_t>(set[0])].count};
  key.insert(key.end(), set.begin(), set.end());
  std::vector<int> around;
  mark(set);
  for (int i : set)
    for (int number : problem_.edges_of(i)) {
      const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
      for (int other : {e.from, e.to})
        if (!marked(other) && chosen_[static_cast<std::size_t>(other)] >= 0) around.push_back(other);
    }
  std::sort(around.begin(), around.end());
  around.erase(std::unique(around.begin(), around.end()), around.end());
  for (int other : around) key.push_back(other), key.push_back(chosen_[static_cast<std::size_t>(other)]);
  auto [found, inserted] = memo_.try_emplace(std::move(key), kInfinite, std::vector<int>());
  auto& entry = found->second;
  if (!inserted) {
    for (std::size_t k = 0; k < entry.second.size(); ++k) chosen_[static_cast<std::size_t>(set[k])] = entry.second[k];
    return entry.first;
  }
  (spare_ ? spare_visits_ : visits_) += std::ssize(set);
  if (given_up()) return 0;
  std::vector<Set> parts = components(set);
  std::int64_t best;
  if (parts.size() == 1) {
    best = solve_connected(set);
  } else {
    std::vector<std::int64_t> costs;
    for (const Set& part : parts) costs.push_back(solve(part));
    best = side_by_side(parts, costs, std::accumulate(costs.begin(), costs.end(), std::int64_t{0}));
  }
  entry.first = best;
  entry.second.clear();
  for (int i : set) entry.second.push_back(chosen_[static_cast<std::size_t>(i)]);
  return best;
}

// Some of the parts at the same time on two shares, as long as that takes less than `best`, what all take one after the
// other; leaves the choices of the best in chosen_.
std::int64_t Dp::side_by_side(const std::vector<Set>& parts, const std::vector<std::int64_t>& costs,
                              std::int64_t best) {
  const Resources all = share_[static_cast<std::size_t>(parts[0][0])];
  std::vector<PartNeeds> needs;
  for (std::size_t p = 0; p < parts.size(); ++p) needs.push_back({costs[p], width(parts[p])});
  const bool was_spare = spare_;
  for (const ShareCut& cut : share_cuts(problem_.topology(), all, needs, shares_)) {
    if (!cut.halves && spare_visits_ > most_visits_) break;
    // What is not on a side; and the longest of the others, which takes no less on a half, where no operator has
    // mappings that it has not on the whole machine.
    std::int64_t others = 0, least = 0;
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (cut.sides[p] == Side::neither)
        others += costs[p];
      else if (shares_ == Shares::halves)
        least = std::max(least, costs[p]);
    if (others + least >= best) continue;
    spare_ = was_spare || !cut.halves;
    Set first, second, both;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (cut.sides[p] == Side::neither) continue;
      Set& to = cut.sides[p] == Side::first ? first : second;
      to.insert(to.end(), parts[p].begin(), parts[p].end());
    }
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    both = first;
    both.insert(both.end(), second.begin(), second.end());
    std::vector<int> before;
    for (int i : both) before.push_back(std::exchange(chosen_[static_cast<std::size_t>(i)], -1));
    for (int i : first) share_[static_cast<std::size_t>(i)] = cut.first;
    for (int i : second) share_[static_cast<std::size_t>(i)] = cut.second;
    std::int64_t at_once = others + solve(first);
    if (at_once < best) at_once = std::max(at_once, others + solve(second));
    for (int i : both) share_[static_cast<std::size_t>(i)] = all;
    if (at_once < best)
      best = at_once, in_shares_ = in_shares_ || spare_;
    else
      for (std::size_t k = 0; k < both.size(); ++k) chosen_[static_cast<std::size_t>(both[k])] = before[k];
  }
  spare_ = was_spare;
  return best;
}

std::int64_t Dp::solve_connected(const Set& set) {
  if (int node = splitting_node(set); node >= 0) return condition(set, node, true);
  auto fewer_edges = [&](int a, int b) { return problem_.edges_of(a).size() < problem_.edges_of(b).size(); };
  return condition(set, *std::max_element(set.begin(), set.end(), fewer_edges), false);
}

bool Dp::may_choose(int item, std::size_t choice) const {
  auto i = static_cast<std::size_t>(item);
  return problem_.items()[i].tasks->may_choose(choice, share_[i]);
}

// By each mapping of the pivot; `splits`: what is before it and what is after it are independent then.
std::int64_t Dp::condition(const Set& set, int pivot, bool splits) {
  Set before, after;
  for (int i : set)
    if (i != pivot) (i < pivot ? before : after).push_back(i);
  Set rest = before;
  rest.insert(rest.end(), after.begin(), after.end());
  auto p = static_cast<std::size_t>(pivot);
  std::int64_t best = kInfinite;
  std::vector<int> best_choice;
  for (std::size_t c = 0; c < problem_.items()[p].tasks->choices.size() && !given_up(); ++c) {
    if (!may_choose(pivot, c)) continue;
    for (int i : set) chosen_[static_cast<std::size_t>(i)] = -1;
    chosen_[p] = static_cast<int>(c);
    std::int64_t cost = placement_cost(pivot);
    if (cost < best) cost += splits ? solve(before) + solve(after) : solve(rest);
    if (cost < best) {
      best = cost;
      best_choice.clear();
      for (int i : set) best_choice.push_back(chosen_[static_cast<std::size_t>(i)]);
    }
  }
  for (std::size_t k = 0; k < set.size(); ++k)
    chosen_[static_cast<std::size_t>(set[k])] = best_choice.empty() ? 0 : best_choice[k];
  return best;
}

// One after the other on all devices of the share, whatever falls apart.
std::int64_t Dp::eliminate(const Set& set) {
  for (int i : set) chosen_[static_cast<std::size_t>(i)] = -1;
  SumOfTables sum;
  std::vector<std::vector<int>> choices;  // by variable
  std::map<int, int> variable;            // by item
  for (int i : set) {
    auto& own = sum.own.emplace_back();
    auto& of_item = choices.emplace_back();
    for (std::size_t c = 0; c < problem_.items()[static_cast<std::size_t>(i)].tasks->choices.size(); ++c) {
      if (!may_choose(i, c)) continue;
      chosen_[static_cast<std::size_t>(i)] = static_cast<int>(c);
      of_item.push_back(static_cast<int>(c)), own.push_back(placement_cost(i));
    }
    chosen_[static_cast<std::size_t>(i)] = -1;
    if (own.empty()) own.push_back(kInfinite / std::ssize(set)), of_item.push_back(0);
    variable.try_emplace(i, static_cast<int>(variable.size()));
  }
  for (int i : set)
    for (int number : problem_.edges_of(i)) {
      const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
      if (e.from != i || !variable.contains(e.to)) continue;
      auto& pair = sum.pairs.emplace_back(SumOfTables::Pair{variable[e.from], variable[e.to], {}});
      for (int from : choices[static_cast<std::size_t>(pair.a)])
        for (int to : choices[static_cast<std::size_t>(pair.b)]) pair.cost.push_back(problem_.edge_cost(e, from, to));
    }
  LeastSum least = least_sum(sum, kMostEntries);
  for (std::size_t k = 0; k < set.size(); ++k)
    chosen_[static_cast<std::size_t>(set[k])] = choices[k][static_cast<std::size_t>(least.values[k])];
  return std::min(least.cost, kInfinite);
}

Result<MappingResult> Dp::run() {
  UNITY_TRY_VOID(problem_.build());
  for (std::vector<int>* by_item : {&stamps_, &parent_, &rank_}) by_item->assign(problem_.items().size(), 0);
  share_.assign(problem_.items().size(), {0, static_cast<int>(problem_.topology().device_count())});
  chosen_.assign(problem_.items().size(), -1);
  Set open;
  MappingResult result;
  std::int64_t cost = 0;
  for (std::size_t i = 0; i < problem_.items().size(); ++i) {
    if (problem_.items()[i].tasks->fixed || problem_.items()[i].tasks->choices.size() == 1)
      chosen_[i] = 0;
    else
      open.push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < problem_.items().size(); ++i) {
    if (chosen_[i] < 0) continue;
    cost += problem_.items()[i].tasks->compute[0];
    for (int number : problem_.edges_of(static_cast<int>(i))) {
      const MappingProblem::Edge& e = problem_.edges()[static_cast<std::size_t>(number)];
      if (e.from == static_cast<int>(i) && chosen_[static_cast<std::size_t>(e.to)] >= 0)
        cost += problem_.edge_cost(e, 0, 0);
    }
  }
  most_visits_ = std::max(kVisits, kVisitsOfItem * std::ssize(open));
  std::int64_t of_open = solve(open);
  if (given_up()) of_open = eliminate(open);
  cost += of_open;
  result.mappings = problem_.mappings(chosen_);
  result.estimate = {cost};
  result.in_shares = in_shares_ && !given_up();
  return result;
}

}  // namespace

MachineMapping natural_mapping(const TaskGrid& grid, int start) {
  MachineMapping m{start, std::vector<int>(grid.size())};
  int stride = 1;
  for (std::size_t g = grid.size(); g-- > 0;) m.strides[g] = stride, stride *= grid[g].degree;
  return m;
}

std::vector<MachineMapping> natural_mappings(const Pcg& pcg) {
  std::vector<MachineMapping> mappings(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (!pcg.nodes()[i].is_parallelization())
      mappings[i] = natural_mapping(node_grid(pcg, NodeId(static_cast<std::int64_t>(i))));
  return mappings;
}

MappingSearch::MappingSearch(const CostModel& cost, bool keep)
    : cost_(cost), cache_(std::make_unique<Cache>()), keep_(keep) {}
MappingSearch::~MappingSearch() = default;

Result<MappingResult> MappingSearch::run(const Pcg& pcg, Shares shares) const {
  if (keep_) return Dp(pcg, cost_, *cache_, shares).run();
  Cache own;
  return Dp(pcg, cost_, own, shares).run();
}

}  // namespace unity
