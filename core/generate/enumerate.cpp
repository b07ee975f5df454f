#include "core/generate/enumerate.h"

#include <algorithm>
#include <array>

namespace unity {
namespace {

class Enumerator {
 public:
  explicit Enumerator(const Family& family) : family_(family) {}

  Enumeration run() {
    for (std::size_t l = 0; l < family_.leaves.size(); ++l)
      for (const ParallelShape& layout : family_.leaves[l].layouts) {
        terms_.add_leaf(layout, family_.leaves[l].index_bound);
        out_.leaf_of.push_back(static_cast<std::int32_t>(l));
      }
    by_size_.resize(static_cast<std::size_t>(family_.size) + 1);
    for (int v = 0; v < terms_.leaves(); ++v) by_size_[0].push_back(v);
    for (int size = 1; size <= family_.size; ++size) grow(size);
    out_.counts.terms = static_cast<std::int64_t>(terms_.values().size());
    out_.counts.graphs.assign(by_size_.size(), 0);
    collect();
    classify();
    out_.terms = std::move(terms_);
    return std::move(out_);
  }

 private:
  // All values of exactly `size` operators.
  void grow(int size) {
    users_.assign(terms_.nodes().size(), {});
    for (std::size_t s = 0; s < by_size_.size(); ++s)
      for (std::int32_t v : by_size_[s])
        for (std::int32_t i = 0; i < terms_.value(v).operators; ++i)
          users_[static_cast<std::size_t>(terms_.value(v).closure[static_cast<std::size_t>(i)])].push_back(v);
    std::vector<int> ops;
    for (const TermOperator& op : family_.operators) ops.push_back(terms_.add_operator(op));
    for (int op : ops) {
      operands_.assign(static_cast<std::size_t>(terms_.operators()[static_cast<std::size_t>(op)].operands), -1);
      place(op, 0, size - 1, 0, {});
    }
  }

  // Chooses operand `at`, so that the operands have exactly `budget` operators together, `have` of them (in `used`) so
  // far.
  void place(int op, std::size_t at, int budget, int have, std::vector<std::int32_t> used) {
    if (at == operands_.size()) {
      if (have == budget) try_apply(op, budget + 1);
      return;
    }
    bool last = at + 1 == operands_.size();
    bool commutes =
        operands_.size() == 2 && at == 1 && terms_.operators()[static_cast<std::size_t>(op)].op->commutative();
    auto consider = [&](std::int32_t v) {
      if (commutes && v < operands_[0]) return;
      const TermValue& value = terms_.value(v);
      std::vector<std::int32_t> joint = used;
      for (std::int32_t i = 0; i < value.operators; ++i) {
        std::int32_t n = value.closure[static_cast<std::size_t>(i)];
        if (std::find(used.begin(), used.end(), n) == used.end()) joint.push_back(n);
      }
      int now = static_cast<int>(joint.size());
      if (now > budget || (last && now != budget)) return;
      operands_[at] = v;
      place(op, at + 1, budget, now, std::move(joint));
    };
    for (int size = 0; size <= budget; ++size) {
      int overlap = have + size - budget;  // how many operators must be shared, at least
      if (last && size + have < budget) continue;
      if (overlap <= 0) {
        // By index: by_size_ of this size is complete, the results have more operators.
        for (std::size_t i = 0; i < by_size_[static_cast<std::size_t>(size)].size(); ++i)
          consider(by_size_[static_cast<std::size_t>(size)][i]);
        continue;
      }
      std::vector<std::int32_t> sharing;
      for (std::int32_t n : used)
        for (std::int32_t v : users_[static_cast<std::size_t>(n)])
          if (terms_.value(v).operators == size) sharing.push_back(v);
      std::sort(sharing.begin(), sharing.end());
      sharing.erase(std::unique(sharing.begin(), sharing.end()), sharing.end());
      for (std::int32_t v : sharing) consider(v);
    }
  }

  void try_apply(int op, int size) {
    ++out_.counts.applications;
    std::size_t before = terms_.nodes().size();
    int node = terms_.apply(op, operands_);
    if (node < 0) {
      ++out_.counts.ill_typed;
    } else if (terms_.nodes().size() == before) {
      ++out_.counts.duplicates;
    } else {
      for (int r = 0; r < terms_.node(node).results; ++r)
        by_size_[static_cast<std::size_t>(size)].push_back(terms_.node(node).first_value + r);
    }
  }

  // Whether every result of the graph's operators is consumed in it or one of its results.
  bool complete(TermGraph g) const {
    std::vector<std::int32_t> nodes = nodes_of(terms_, g);
    for (std::int32_t n : nodes) {
      const TermNode& node = terms_.node(n);
      if (node.results == 1) continue;
      for (std::int32_t v = node.first_value; v < node.first_value + node.results; ++v) {
        if (v == g.first || v == g.second) continue;
        bool consumed = std::any_of(nodes.begin(), nodes.end(), [&](std::int32_t m) {
          auto in = terms_.inputs(m);
          return std::find(in.begin(), in.end(), v) != in.end();
        });
        if (!consumed) return false;
      }
    }
    return true;
  }

  bool consumes(std::int32_t user, std::int32_t v) const {
    const TermValue& value = terms_.value(user);
    for (std::int32_t i = 0; i < value.operators; ++i) {
      auto in = terms_.inputs(value.closure[static_cast<std::size_t>(i)]);
      if (std::find(in.begin(), in.end(), v) != in.end()) return true;
    }
    return false;
  }

  void add(TermGraph g, int size) {
    if (!complete(g)) return;
    ++out_.counts.graphs[static_cast<std::size_t>(size)];
    auto key = [&](std::int32_t v) {
      return static_cast<Hash>(static_cast<std::uint32_t>(terms_.value(v).logical)) << 32 |
             static_cast<std::uint32_t>(terms_.value(v).shape);
    };
    Hash a = key(g.first), b = g.second < 0 ? ~Hash{0} : key(g.second);
    if (a == b) return;  // two equal results: which is which can not be told
    if (b < a) std::swap(a, b), std::swap(g.first, g.second);
    graphs_.push_back({a, b, size, g});
  }

  void collect() {
    for (int size = 0; size <= family_.size; ++size)
      for (std::int32_t v : by_size_[static_cast<std::size_t>(size)]) add({v, -1}, size);
    if (family_.sinks < 2) return;
    users_.assign(terms_.nodes().size(), {});
    for (const auto& values : by_size_)
      for (std::int32_t v : values)
        for (std::int32_t i = 0; i < terms_.value(v).operators; ++i)
          users_[static_cast<std::size_t>(terms_.value(v).closure[static_cast<std::size_t>(i)])].push_back(v);
    for (int size = 0; size <= family_.size; ++size)
      for (std::int32_t v : by_size_[static_cast<std::size_t>(size)]) {
        std::vector<std::int32_t> partners;
        for (int other = 0; other <= std::min(size, family_.size - size); ++other)
          for (std::int32_t u : by_size_[static_cast<std::size_t>(other)])
            if (u < v) partners.push_back(u);
        for (std::int32_t i = 0; i < terms_.value(v).operators; ++i)
          for (std::int32_t u : users_[static_cast<std::size_t>(terms_.value(v).closure[static_cast<std::size_t>(i)])])
            if (u < v) partners.push_back(u);
        std::sort(partners.begin(), partners.end());
        partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
        for (std::int32_t u : partners) {
          int joint = TermTable::joint_operators(terms_.value(v), terms_.value(u));
          if (joint <= family_.size && !consumes(v, u) && !consumes(u, v)) add({u, v}, joint);
        }
      }
  }

  void classify() {
    std::sort(graphs_.begin(), graphs_.end(), [](const Keyed& x, const Keyed& y) {
      return std::tie(x.a, x.b, x.size, x.graph.first, x.graph.second) <
             std::tie(y.a, y.b, y.size, y.graph.first, y.graph.second);
    });
    for (std::size_t i = 0; i < graphs_.size();) {
      std::size_t j = i + 1;
      while (j < graphs_.size() && graphs_[j].a == graphs_[i].a && graphs_[j].b == graphs_[i].b) ++j;
      if (j - i > 1) {
        out_.classes.emplace_back();
        for (std::size_t k = i; k < j; ++k) out_.classes.back().push_back(graphs_[k].graph);
        out_.counts.class_graphs += static_cast<std::int64_t>(j - i);
      }
      i = j;
    }
    out_.counts.classes = static_cast<std::int64_t>(out_.classes.size());
  }

  struct Keyed {
    Hash a, b;
    int size;
    TermGraph graph;
  };

  const Family& family_;
  TermTable terms_;
  Enumeration out_;
  std::vector<std::vector<std::int32_t>> by_size_;
  std::vector<std::vector<std::int32_t>> users_;  // by node: values that contain it
  std::vector<std::int32_t> operands_;
  std::vector<Keyed> graphs_;
};

}  // namespace

Enumeration enumerate(const Family& family) { return Enumerator(family).run(); }

std::vector<std::int32_t> nodes_of(const TermTable& terms, TermGraph g) {
  std::vector<std::int32_t> nodes;
  for (std::int32_t v : {g.first, g.second})
    if (v >= 0) {
      const TermValue& value = terms.value(v);
      nodes.insert(nodes.end(), value.closure.begin(), value.closure.begin() + value.operators);
    }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

int operators_of(const TermTable& terms, TermGraph g) {
  const TermValue& a = terms.value(g.first);
  return g.second < 0 ? a.operators : TermTable::joint_operators(a, terms.value(g.second));
}

}  // namespace unity
