#include "core/search/split.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/rewrite/match.h"
#include "core/search/through_layouts.h"

namespace unity {

int Layout::tasks() const {
  std::int64_t n = copies;
  for (std::int64_t d : degrees) n *= d;
  return static_cast<int>(n);
}

bool alike(const Layout& a, const Layout& b) {
  auto first = [](const Layout& l) { return l.degrees.empty() ? 1 : l.degrees[0]; };
  return first(a) == first(b) && a.copies == b.copies && a.tasks() == b.tasks();
}

std::string to_string(const Layout& layout) {
  return fmt::format("[{}]{}", fmt::join(layout.degrees, ", "),
                     layout.copies > 1 ? fmt::format(" copies {}", layout.copies) : "");
}

std::vector<Layout> boundary_layouts(const Shape& shape, int devices) {
  std::set<Layout> layouts;
  std::size_t rank = shape.dims.size();
  layouts.insert({Integers(rank, 1), 1});
  for (int d0 = 1; d0 <= devices; ++d0) {
    if (devices % d0 != 0 || (rank > 0 && shape.dims[0] % d0 != 0)) continue;
    int rest = devices / d0;
    Layout layout{Integers(rank, 1), 1};
    if (rank > 0) layout.degrees[0] = d0;
    Layout copied = layout;
    copied.copies = rest;
    layouts.insert(copied);
    for (std::size_t i = 1; i + (rank == 2 ? 0 : 1) < rank; ++i) {
      if (rest == 1 || shape.dims[i] % rest != 0) continue;
      Layout sliced = layout;
      sliced.degrees[i] = rest;
      layouts.insert(sliced);
    }
  }
  return {layouts.begin(), layouts.end()};
}

std::vector<Layout> boundary_layouts(const Pcg& pcg, const Part& part, int devices) {
  const std::vector<NodeId>& values = part.out;
  std::vector<Layout> layouts;
  for (std::size_t k = 0; k < values.size(); ++k) {
    std::vector<Layout> of_value = boundary_layouts(pcg.shape({values[k], 0}).shape(), devices);
    if (k == 0) layouts = of_value;
    std::erase_if(layouts,
                  [&](const Layout& l) { return std::find(of_value.begin(), of_value.end(), l) == of_value.end(); });
  }
  // Of branches that have had a half of the machine each, one has the value.
  const int half = devices / 2;
  auto divides = [&](NodeId v) {
    const Dims& dims = pcg.shape({v, 0}).shape().dims;
    return !dims.empty() && dims[0] % half == 0;
  };
  if (part.has_branches && half > 1 && devices % 2 == 0 && std::all_of(values.begin(), values.end(), divides)) {
    Layout layout{Integers(pcg.shape({values[0], 0}).dims.size(), 1), 1};
    layout.degrees[0] = half;
    layouts.push_back(layout);
    std::sort(layouts.begin(), layouts.end());
  }
  return layouts;
}

namespace {

constexpr std::size_t kMostValues = 2;  // at a cut
constexpr double kLittle = 0.05;        // of a graph's FLOPs, by operators behind a cut that need nothing of it

// Where a graph can be cut.
class Places {
 public:
  Places(const Pcg& pcg, const std::vector<Rule>& rules)
      : pcg_(pcg),
        last_use_(pcg.size(), 0),
        whole_(pcg.size(), true),
        disturbed_(pcg.size(), 0),
        beside_(pcg.size(), 0) {
    count_disturbed(rules);
    count_beside();
    for (std::size_t i = 0; i < pcg.size(); ++i)
      for (ValueRef v : pcg.nodes()[i].inputs) {
        if (pcg[v.node].is_leaf()) continue;
        last_use_[v.node.index()] = i;
        if (v.output > 0) whole_[v.node.index()] = false;
      }
    // What is laid out anew, or is one of the summands of a value (a rewritten graph has such), is used where that is.
    for (std::size_t i = pcg.size(); i-- > 0;)
      if (pcg.nodes()[i].is_parallelization())
        for (ValueRef v : pcg.nodes()[i].inputs)
          last_use_[v.node.index()] = std::max(last_use_[v.node.index()], last_use_[i]);
    for (ValueRef v : pcg.outputs()) whole_[v.node.index()] = false;
    for (std::size_t i = 0; i < pcg.size(); ++i)
      whole_[i] = whole_[i] && !pcg.nodes()[i].outputs.empty() && pcg.nodes()[i].outputs[0].dtype != DType::i32 &&
                  !pcg.nodes()[i].outputs[0].dims.empty();
  }

  // Of the operators of [first, last), the ones to cut behind. `most`: values at a cut, of which the last one is the
  // operator's; `in`: what is cut before the first.
  std::vector<Part> cut(std::size_t first, std::size_t last, const std::vector<NodeId>& in, std::size_t most,
                        std::size_t minimum) const {
    std::size_t operators = 0;  // up to and with a place
    std::vector<Place> places;
    std::vector<NodeId> open = in;  // values that are read later
    for (std::size_t i = first; i < last; ++i) {
      if (!pcg_.nodes()[i].is_compute()) continue;
      ++operators;
      std::erase_if(open, [&](NodeId v) { return last_use_[v.index()] <= i; });
      const bool jumped = open.size() >= most;
      if (last_use_[i] > i || !jumped) open.emplace_back(static_cast<std::int64_t>(i));
      if (!jumped && may_cut(open) && beside_[i] <= kLittle) places.push_back({i, operators, open});
    }
    std::vector<Part> parts = {{first, last, in, {}}};
    std::size_t begun = 0;  // operators before the part
    for (std::size_t p = 0; p < places.size(); ++p) {
      if (places[p].operators < begun + minimum) continue;
      auto allowed = [&](std::size_t q) { return q < places.size() && places[q].operators + minimum <= operators; };
      if (!allowed(p)) break;
      for (std::size_t q = p + 1; allowed(q) && places[q].operators < begun + 2 * minimum; ++q)
        if (disturbed_[places[q].node] < disturbed_[places[p].node]) p = q;
      parts.back().last = places[p].node + 1, parts.back().out = places[p].open;
      parts.push_back({places[p].node + 1, last, places[p].open, {}});
      begun = places[p].operators;
    }
    for (Part& part : parts)
      for (std::size_t i = part.first; i + 1 < part.last; ++i)
        part.has_branches = part.has_branches || (pcg_.nodes()[i].is_compute() && beside_[i] > kLittle);
    return parts;
  }

 private:
  struct Place {
    std::size_t node = 0, operators = 0;
    std::vector<NodeId> open;
  };

  // By operator: matches of rules that have operators up to it, and behind it.
  void count_disturbed(const std::vector<Rule>& rules) {
    std::vector<std::int64_t> change(pcg_.size(), 0);
    MatchIndex index(pcg_);
    for (const Rule& rule : rules) {
      if (!rule.algebraic()) continue;
      for (const Match& match : find_matches(index, rule)) {
        auto [least, most] = std::minmax_element(match.nodes.begin(), match.nodes.end());
        ++change[least->index()], --change[most->index()];
      }
    }
    std::partial_sum(change.begin(), change.end(), disturbed_.begin());
  }

  // By operator: the share of all FLOPs that operators behind it do without any result of it or of those before it. A
  // cut there would put one of two branches behind the other, which can run at the same time.
  void count_beside() {
    std::vector<std::size_t> first(pcg_.size());  // of the operators that an operator waits for, itself included
    double sum = 0;
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      const Node& n = pcg_.nodes()[i];
      first[i] = i;
      for (ValueRef v : n.inputs)
        if (!pcg_[source_of(pcg_, v).node].is_leaf()) first[i] = std::min(first[i], first[v.node.index()]);
      if (!n.is_compute()) continue;
      const double of_operator = flops(*n.table, full_ranges(*n.table));
      sum += of_operator;
      if (first[i] > 0) beside_[first[i] - 1] += of_operator;
    }
    for (std::size_t i = pcg_.size(); i > 1; --i) beside_[i - 2] += beside_[i - 1];
    for (double& b : beside_) b /= std::max(1.0, sum);
  }

  // All have a result that a part can begin with, alike in rank.
  bool may_cut(const std::vector<NodeId>& values) const {
    return std::all_of(values.begin(), values.end(), [&](NodeId v) {
      return whole_[v.index()] && pcg_[v].outputs[0].dims.size() == pcg_[values[0]].outputs[0].dims.size();
    });
  }

  const Pcg& pcg_;
  std::vector<std::size_t> last_use_;
  std::vector<bool> whole_;              // nothing but the first result leaves it
  std::vector<std::int64_t> disturbed_;  // by operator: rules, by a cut behind it
  std::vector<double> beside_;           // by operator
};

std::string boundary_name(std::size_t value) { return value == 0 ? "boundary" : fmt::format("boundary.{}", value); }

}  // namespace

std::vector<Part> split(const Pcg& pcg, int minimum, const std::vector<Rule>& rules) {
  Places places(pcg, rules);
  std::vector<Part> parts;
  for (const Part& part : places.cut(0, pcg.size(), {}, 1, static_cast<std::size_t>(minimum))) {
    std::size_t operators = 0;
    for (std::size_t i = part.first; i < part.last; ++i) operators += pcg.nodes()[i].is_compute();
    std::vector<Part> smaller = {part};
    if (operators > kLargePart)
      smaller = places.cut(part.first, part.last, part.in, kMostValues, static_cast<std::size_t>(minimum));
    smaller.back().out = part.out;
    parts.insert(parts.end(), smaller.begin(), smaller.end());
  }
  return parts;
}

Result<Pcg> part_graph(const Pcg& pcg, const Part& part, const Layout& in, const Layout& out) {
  Pcg g;
  g.set_name(pcg.name());
  std::map<NodeId, ValueRef> moved;  // first results
  int copies = part.in.empty() ? 1 : in.copies;
  auto integers = [](std::int64_t a, std::int64_t b) { return Attributes{a, b}; };
  for (std::size_t k = 0; k < part.in.size(); ++k) {
    const NodeId id = part.in[k];
    Shape shape = pcg.shape({id, 0}).shape();
    ValueRef carried{
        UNITY_TRY(g.try_add(get_operator("boundary"),
                            {shape.dims, in.degrees, std::int64_t{in.copies}, std::string(to_string(shape.dtype))}, {},
                            pcg[id].origin, boundary_name(k))),
        0};
    for (std::size_t d = 0; d < in.degrees.size(); ++d)
      if (in.degrees[d] > 1)
        carried = {UNITY_TRY(g.try_add(get_operator("combine"), integers(static_cast<std::int64_t>(d), in.degrees[d]),
                                       {carried}, {}, pcg[id].name)),
                   0};
    moved[id] = carried;
  }
  std::map<NodeId, ValueRef> leaves;
  for (std::size_t i = part.first; i < part.last; ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.is_leaf()) continue;
    std::vector<ValueRef> inputs;
    for (ValueRef v : n.inputs) {
      if (pcg[v.node].is_leaf()) {
        auto [it, inserted] = leaves.try_emplace(v.node);
        if (inserted) {
          const Node& leaf = pcg[v.node];
          it->second = {UNITY_TRY(g.try_add(*leaf.op, leaf.attributes, {}, leaf.origin, leaf.name)), 0};
          if (copies > 1)
            it->second = {
                UNITY_TRY(g.try_add(get_operator("replicate"), {std::int64_t{copies}}, {it->second}, {}, leaf.name)),
                0};
        }
        inputs.push_back(it->second);
      } else {
        inputs.push_back({moved.at(v.node).node, v.output});
      }
    }
    moved[NodeId(static_cast<std::int64_t>(i))] = {UNITY_TRY(g.try_add(*n.op, n.attributes, inputs, n.origin, n.name)),
                                                   0};
  }
  std::vector<ValueRef> outputs;
  for (NodeId id : part.out) {
    ValueRef v = moved.at(id);
    for (std::size_t d = 0; d < out.degrees.size(); ++d)
      if (out.degrees[d] > 1)
        v = {UNITY_TRY(g.try_add(get_operator("partition"), integers(static_cast<std::int64_t>(d), out.degrees[d]), {v},
                                 {}, pcg[id].name)),
             0};
    if (out.copies % copies != 0)
      return fail("layouts {} and {}: copies cannot be dropped", to_string(in), to_string(out));
    if (out.copies > copies)
      v = {UNITY_TRY(g.try_add(get_operator("replicate"), {std::int64_t{out.copies / copies}}, {v}, {}, pcg[id].name)),
           0};
    outputs.push_back({UNITY_TRY(g.try_add(get_operator("deliver"), {}, {v}, pcg[id].origin, "deliver")), 0});
  }
  for (ValueRef v : pcg.outputs())
    if (auto it = moved.find(v.node); it != moved.end()) outputs.push_back({it->second.node, v.output});
  g.set_outputs(outputs);
  return g;
}

Result<Pcg> stitch(const Pcg& pcg, const std::vector<Part>& parts, const std::vector<Pcg>& graphs) {
  Pcg whole;
  whole.set_name(pcg.name());
  std::map<std::string, NodeId> leaves;
  std::vector<std::vector<ValueRef>> outputs;  // of each part, in the order of the model's
  std::vector<ValueRef> carried;               // by number of the boundary
  for (const Pcg& part : graphs) {
    std::vector<ValueRef> moved(part.size());
    std::map<NodeId, ValueRef> delivered;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Node& n = part.nodes()[i];
      if (n.op->name() == "boundary") {
        for (std::size_t k = 0; k < carried.size(); ++k)
          if (n.name == boundary_name(k)) moved[i] = carried[k];
        UNITY_CHECK(moved[i].node.valid(), "a part begins with a value that the one before it does not deliver");
        continue;
      }
      if (n.is_leaf())
        if (auto it = leaves.find(n.name); it != leaves.end()) {
          moved[i] = {it->second, 0};
          continue;
        }
      std::vector<ValueRef> inputs;
      for (ValueRef v : n.inputs)
        inputs.push_back({moved[v.node.index()].node, n.inputs.empty() || part[v.node].op->name() == "boundary"
                                                          ? moved[v.node.index()].output
                                                          : v.output});
      if (n.op->name() == "deliver") {
        delivered[NodeId(static_cast<std::int64_t>(i))] = inputs[0];
        continue;
      }
      moved[i] = {UNITY_TRY(whole.try_add(*n.op, n.attributes, inputs, n.origin, n.name)), 0};
      if (n.is_leaf()) leaves[n.name] = moved[i].node;
    }
    carried.clear();
    outputs.emplace_back();
    for (ValueRef v : part.outputs())
      if (auto it = delivered.find(v.node); it != delivered.end())
        carried.push_back(it->second);
      else
        outputs.back().push_back({moved[v.node.index()].node, v.output});
    UNITY_CHECK(!carried.empty() || &part == &graphs.back(), "a part before the last delivers nothing");
  }
  std::vector<ValueRef> in_order;
  std::vector<std::size_t> taken(parts.size(), 0);
  for (ValueRef v : pcg.outputs()) {
    const Node& n = pcg[v.node];
    if (n.is_leaf()) {
      auto [it, inserted] = leaves.try_emplace(n.name);
      if (inserted) it->second = UNITY_TRY(whole.try_add(*n.op, n.attributes, {}, n.origin, n.name));
      in_order.push_back({it->second, v.output});
      continue;
    }
    std::size_t p = 0;
    while (v.node.index() >= parts[p].last) ++p;
    in_order.push_back(outputs[p].at(taken[p]++));
  }
  whole.set_outputs(in_order);
  return whole;
}

}  // namespace unity
