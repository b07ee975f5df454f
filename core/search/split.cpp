#include "core/search/split.h"

#include <algorithm>
#include <map>
#include <set>

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
    for (std::size_t i = 1; i + 1 < rank; ++i) {
      if (rest == 1 || shape.dims[i] % rest != 0) continue;
      Layout sliced = layout;
      sliced.degrees[i] = rest;
      layouts.insert(sliced);
    }
  }
  return {layouts.begin(), layouts.end()};
}

std::vector<Part> split(const Pcg& pcg, int minimum) {
  std::size_t n = pcg.size();
  // jumps[i]: how many edges between compute operators pass over node i; several results of one node are one edge each.
  std::vector<int> change(n + 1, 0);
  std::vector<bool> tail(n, false);  // results other than the first leave the node, or it feeds a graph output early
  std::size_t compute_nodes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Node& node = pcg.nodes()[i];
    compute_nodes += node.is_compute();
    for (ValueRef v : node.inputs) {
      if (!pcg[v.node].is_compute()) continue;
      ++change[v.node.index() + 1], --change[i];
      if (v.output > 0) tail[v.node.index()] = true;
    }
  }
  for (ValueRef v : pcg.outputs()) tail[v.node.index()] = true;
  std::vector<std::size_t> cuts;
  int passing = 0;
  std::size_t in_part = 0, seen = 0;
  for (std::size_t i = 0; i < n; ++i) {
    passing += change[i];
    if (!pcg.nodes()[i].is_compute()) continue;
    ++in_part, ++seen;
    bool cut = passing == 0 && !tail[i] && pcg.nodes()[i].outputs[0].dtype != DType::i32 &&
               !pcg.nodes()[i].outputs[0].dims.empty();
    if (cut && in_part >= static_cast<std::size_t>(minimum) &&
        compute_nodes - seen >= static_cast<std::size_t>(minimum)) {
      cuts.push_back(i);
      in_part = 0;
    }
  }
  std::vector<Part> parts;
  std::size_t begin = 0;
  NodeId before;
  for (std::size_t cut : cuts) {
    NodeId out(static_cast<std::int64_t>(cut));
    parts.push_back({begin, cut + 1, before, out});
    begin = cut + 1, before = out;
  }
  parts.push_back({begin, n, before, {}});
  return parts;
}

Result<Pcg> part_graph(const Pcg& pcg, const Part& part, const Layout& in, const Layout& out) {
  Pcg g;
  g.set_name(pcg.name());
  std::map<NodeId, NodeId> moved;
  int copies = part.in.valid() ? in.copies : 1;
  auto integers = [](std::int64_t a, std::int64_t b) { return Attributes{a, b}; };
  ValueRef carried;
  if (part.in.valid()) {
    Shape shape = pcg.shape({part.in, 0}).shape();
    carried = {
        UNITY_TRY(g.try_add(get_operator("boundary"),
                            {shape.dims, in.degrees, std::int64_t{in.copies}, std::string(to_string(shape.dtype))}, {},
                            pcg[part.in].origin, "boundary")),
        0};
    for (std::size_t d = 0; d < in.degrees.size(); ++d)
      if (in.degrees[d] > 1)
        carried = {UNITY_TRY(g.try_add(get_operator("combine"), integers(static_cast<std::int64_t>(d), in.degrees[d]),
                                       {carried}, {}, pcg[part.in].name)),
                   0};
  }
  std::map<NodeId, ValueRef> leaves;
  for (std::size_t i = part.first; i < part.last; ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.is_leaf()) continue;
    std::vector<ValueRef> inputs;
    for (ValueRef v : n.inputs) {
      if (v.node == part.in) {
        inputs.push_back(carried);
      } else if (pcg[v.node].is_leaf()) {
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
        inputs.push_back({moved.at(v.node), v.output});
      }
    }
    moved[NodeId(static_cast<std::int64_t>(i))] = UNITY_TRY(g.try_add(*n.op, n.attributes, inputs, n.origin, n.name));
  }
  std::vector<ValueRef> outputs;
  if (part.out.valid()) {
    ValueRef v{moved.at(part.out), 0};
    for (std::size_t d = 0; d < out.degrees.size(); ++d)
      if (out.degrees[d] > 1)
        v = {UNITY_TRY(g.try_add(get_operator("partition"), integers(static_cast<std::int64_t>(d), out.degrees[d]), {v},
                                 {}, pcg[part.out].name)),
             0};
    if (out.copies % copies != 0)
      return fail("layouts {} and {}: copies cannot be dropped", to_string(in), to_string(out));
    if (out.copies > copies)
      v = {UNITY_TRY(
               g.try_add(get_operator("replicate"), {std::int64_t{out.copies / copies}}, {v}, {}, pcg[part.out].name)),
           0};
    outputs.push_back({UNITY_TRY(g.try_add(get_operator("deliver"), {}, {v}, pcg[part.out].origin, "deliver")), 0});
  }
  for (ValueRef v : pcg.outputs())
    if (auto it = moved.find(v.node); it != moved.end()) outputs.push_back({it->second, v.output});
  g.set_outputs(outputs);
  return g;
}

Result<Pcg> stitch(const Pcg& pcg, const std::vector<Pcg>& parts) {
  Pcg whole;
  whole.set_name(pcg.name());
  std::map<std::string, NodeId> leaves;
  std::vector<ValueRef> outputs;
  ValueRef carried;
  for (const Pcg& part : parts) {
    std::vector<ValueRef> moved(part.size());
    ValueRef delivered;
    NodeId deliver;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Node& n = part.nodes()[i];
      if (n.op->name() == "boundary") {
        moved[i] = carried;
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
        delivered = inputs[0], deliver = NodeId(static_cast<std::int64_t>(i));
        continue;
      }
      moved[i] = {UNITY_TRY(whole.try_add(*n.op, n.attributes, inputs, n.origin, n.name)), 0};
      if (n.is_leaf()) leaves[n.name] = moved[i].node;
    }
    for (ValueRef v : part.outputs())
      if (v.node != deliver) outputs.push_back({moved[v.node.index()].node, v.output});
    UNITY_CHECK(deliver.valid() || &part == &parts.back(), "a part before the last delivers nothing");
    carried = delivered;
  }
  whole.set_outputs(outputs);
  return whole;
}

}  // namespace unity
