#include "core/search/table_elimination.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace unity {
namespace {

constexpr int kMostRounds = 16;
constexpr int kIdleRounds = 2;  // after which no round is expected to bring a gain

struct Table {
  std::vector<int> variables;  // ascending; the last one innermost
  std::vector<std::int64_t> cost;
};

class Elimination {
 public:
  // `held`: by variable, how many rounds held it; those of this one are added. `best`: what they are held at.
  Elimination(const SumOfTables& sum, std::size_t most, const std::vector<int>& best, std::vector<int>& held);
  std::vector<int> run();
  bool held_any() const { return held_any_; }

 private:
  struct Eliminated {
    int variable;
    std::vector<int> neighbours;
    std::vector<int> values;  // the best, by values of these
  };

  std::size_t values(int v) const { return sum_.own[static_cast<std::size_t>(v)].size(); }
  std::size_t entries(int v) const;  // of the table over it and its neighbours, or above what is allowed
  void eliminate(int v);
  void hold(int v);
  int widest_of(int v) const;
  void take_out(int v);

  const SumOfTables& sum_;
  std::size_t most_;
  const std::vector<int>& best_;
  std::vector<int>& held_;
  bool held_any_ = false;
  std::vector<Table> tables_;
  std::vector<std::vector<std::size_t>> tables_of_;  // by variable
  std::vector<std::set<int>> neighbours_;            // by variable, of those that are left
  std::set<std::pair<std::size_t, int>> left_;       // by entries
  std::vector<std::size_t> entries_;
  std::vector<Eliminated> eliminated_;
};

Elimination::Elimination(const SumOfTables& sum, std::size_t most, const std::vector<int>& best, std::vector<int>& held)
    : sum_(sum), most_(most), best_(best), held_(held) {
  tables_of_.resize(sum.own.size()), neighbours_.resize(sum.own.size());
  for (std::size_t v = 0; v < sum.own.size(); ++v) {
    tables_of_[v].push_back(tables_.size());
    tables_.push_back({{static_cast<int>(v)}, sum.own[v]});
  }
  for (const SumOfTables::Pair& p : sum.pairs) {
    auto a = static_cast<std::size_t>(p.a), b = static_cast<std::size_t>(p.b);
    neighbours_[a].insert(p.b), neighbours_[b].insert(p.a);
    tables_of_[a].push_back(tables_.size()), tables_of_[b].push_back(tables_.size());
    if (p.a < p.b) {
      tables_.push_back({{p.a, p.b}, p.cost});
      continue;
    }
    Table turned{{p.b, p.a}, {}};
    for (std::size_t y = 0; y < values(p.b); ++y)
      for (std::size_t x = 0; x < values(p.a); ++x) turned.cost.push_back(p.cost[x * values(p.b) + y]);
    tables_.push_back(std::move(turned));
  }
  for (std::size_t v = 0; v < sum.own.size(); ++v) {
    entries_.push_back(entries(static_cast<int>(v)));
    left_.insert({entries_[v], static_cast<int>(v)});
  }
}

std::size_t Elimination::entries(int v) const {
  std::size_t n = values(v);
  for (int u : neighbours_[static_cast<std::size_t>(v)])
    if (n *= values(u); n > most_) return most_ + 1;
  return n;
}

// It is no neighbour any more.
void Elimination::take_out(int v) {
  auto i = static_cast<std::size_t>(v);
  left_.erase({entries_[i], v});
  for (int u : neighbours_[i]) {
    auto& theirs = neighbours_[static_cast<std::size_t>(u)];
    theirs.erase(v);
    std::size_t& entries_of = entries_[static_cast<std::size_t>(u)];
    left_.erase({entries_of, u});
    left_.insert({entries_of = entries(u), u});
  }
}

void Elimination::eliminate(int v) {
  auto i = static_cast<std::size_t>(v);
  std::vector<int> around(neighbours_[i].begin(), neighbours_[i].end());
  for (int a : around)
    for (int b : around)
      if (a != b) neighbours_[static_cast<std::size_t>(a)].insert(b);
  take_out(v);

  struct Reader {
    const Table* table;
    std::size_t step = 0;            // to the next value of v
    std::vector<std::size_t> steps;  // to the next of each neighbour's
    std::size_t at = 0;
  };
  std::vector<Reader> readers;
  for (std::size_t t : tables_of_[i]) {
    if (tables_[t].variables.empty()) continue;
    Reader& r = readers.emplace_back();
    r.table = &tables_[t], r.steps.assign(around.size(), 0);
    std::size_t step = 1;
    for (std::size_t k = tables_[t].variables.size(); k-- > 0; step *= values(tables_[t].variables[k])) {
      int u = tables_[t].variables[k];
      auto at = std::lower_bound(around.begin(), around.end(), u);
      (u == v ? r.step : r.steps[static_cast<std::size_t>(at - around.begin())]) = step;
    }
  }
  std::size_t size = 1;
  for (int u : around) size *= values(u);
  Table left{around, std::vector<std::int64_t>(size)};
  Eliminated done{v, around, std::vector<int>(size)};
  std::vector<std::size_t> counter(around.size(), 0);
  for (std::size_t entry = 0; entry < size; ++entry) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t x = 0; x < values(v); ++x) {
      std::int64_t cost = 0;
      for (const Reader& r : readers) cost += r.table->cost[r.at + x * r.step];
      if (cost < least) least = cost, done.values[entry] = static_cast<int>(x);
    }
    left.cost[entry] = least;
    for (std::size_t k = around.size(); k-- > 0;) {
      for (Reader& r : readers) r.at += r.steps[k];
      if (++counter[k] < values(around[k])) break;
      for (Reader& r : readers) r.at -= r.steps[k] * counter[k];
      counter[k] = 0;
    }
  }
  for (std::size_t t : tables_of_[i]) tables_[t] = {};
  for (int u : around) tables_of_[static_cast<std::size_t>(u)].push_back(tables_.size());
  tables_.push_back(std::move(left));
  eliminated_.push_back(std::move(done));
}

void Elimination::hold(int v) {
  auto i = static_cast<std::size_t>(v);
  take_out(v);
  held_any_ = true, ++held_[i];
  const auto x = static_cast<std::size_t>(best_[i]);
  for (std::size_t t : tables_of_[i]) {
    Table& table = tables_[t];
    auto at = std::find(table.variables.begin(), table.variables.end(), v);
    if (at == table.variables.end()) continue;
    std::size_t inner = 1;
    for (auto u = at + 1; u != table.variables.end(); ++u) inner *= values(*u);
    std::vector<std::int64_t> cost;
    for (std::size_t outer = 0; outer < table.cost.size(); outer += inner * values(v))
      for (std::size_t k = 0; k < inner; ++k) cost.push_back(table.cost[outer + x * inner + k]);
    table.variables.erase(at);
    table.cost = std::move(cost);
  }
  eliminated_.push_back({v, {}, {best_[i]}});
}

// Of a variable and its neighbours: what was held the least, then has the most neighbours.
int Elimination::widest_of(int v) const {
  std::vector<int> among = {v};
  const auto& around = neighbours_[static_cast<std::size_t>(v)];
  among.insert(among.end(), around.begin(), around.end());
  return *std::min_element(among.begin(), among.end(), [&](int a, int b) {
    auto rank = [&](int u) {
      auto i = static_cast<std::size_t>(u);
      return std::tuple<int, std::ptrdiff_t, int>(held_[i], -std::ssize(neighbours_[i]), u);
    };
    return rank(a) < rank(b);
  });
}

std::vector<int> Elimination::run() {
  while (!left_.empty()) {
    auto [entries, v] = *left_.begin();
    if (entries <= most_)
      eliminate(v);
    else
      hold(widest_of(v));
  }
  std::vector<int> chosen(sum_.own.size(), 0);
  for (std::size_t k = eliminated_.size(); k-- > 0;) {
    const Eliminated& e = eliminated_[k];
    std::size_t at = 0;
    for (int u : e.neighbours) at = at * values(u) + static_cast<std::size_t>(chosen[static_cast<std::size_t>(u)]);
    chosen[static_cast<std::size_t>(e.variable)] = e.values[at];
  }
  return chosen;
}

std::int64_t cost_of(const SumOfTables& sum, const std::vector<int>& values) {
  auto at = [&](int v) { return static_cast<std::size_t>(values[static_cast<std::size_t>(v)]); };
  std::int64_t cost = 0;
  for (std::size_t v = 0; v < values.size(); ++v) cost += sum.own[v][static_cast<std::size_t>(values[v])];
  for (const SumOfTables::Pair& p : sum.pairs)
    cost += p.cost[at(p.a) * sum.own[static_cast<std::size_t>(p.b)].size() + at(p.b)];
  return cost;
}

// Each variable at its best, given those before it.
std::vector<int> one_by_one(const SumOfTables& sum) {
  std::vector<std::vector<std::int64_t>> own = sum.own;
  std::vector<std::vector<std::size_t>> later(own.size());  // pairs, by the variable that comes first
  for (std::size_t p = 0; p < sum.pairs.size(); ++p)
    later[static_cast<std::size_t>(std::min(sum.pairs[p].a, sum.pairs[p].b))].push_back(p);
  std::vector<int> values;
  for (std::size_t v = 0; v < own.size(); ++v) {
    const std::size_t x = static_cast<std::size_t>(std::min_element(own[v].begin(), own[v].end()) - own[v].begin());
    values.push_back(static_cast<int>(x));
    for (std::size_t p : later[v]) {
      const SumOfTables::Pair& pair = sum.pairs[p];
      const bool first = pair.a == static_cast<int>(v);
      auto& theirs = own[static_cast<std::size_t>(first ? pair.b : pair.a)];
      for (std::size_t y = 0; y < theirs.size(); ++y)
        theirs[y] += first ? pair.cost[x * theirs.size() + y] : pair.cost[y * own[v].size() + x];
    }
  }
  return values;
}

}  // namespace

LeastSum least_sum(const SumOfTables& sum, std::size_t most) {
  LeastSum least;
  least.values = one_by_one(sum);
  least.cost = cost_of(sum, least.values);
  std::vector<int> held(sum.own.size(), 0);
  for (int round = 0, idle = 0; round < kMostRounds && idle < kIdleRounds; ++round) {
    const std::vector<int> best = least.values;
    Elimination elimination(sum, most, best, held);
    std::vector<int> values = elimination.run();
    std::int64_t cost = cost_of(sum, values);
    ++idle;
    if (cost < least.cost || !elimination.held_any()) {
      if (cost < least.cost) idle = 0;
      least.cost = cost, least.values = std::move(values);
    }
    least.exact = !elimination.held_any();
    if (least.exact) break;
  }
  return least;
}

}  // namespace unity
