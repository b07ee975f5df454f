#include "core/rewrite/relayout.h"

#include <map>
#include <numeric>
#include <tuple>

namespace unity {
namespace {

struct Links {
  const Operator* partition = &get_operator("partition");
  const Operator* combine = &get_operator("combine");
  const Operator* replicate = &get_operator("replicate");
  const Operator* reduce = &get_operator("reduce");
};

const Links& links() {
  static const Links links;
  return links;
}

class Pass {
 public:
  Pass(const Pcg& pcg, const Layouts& layouts)
      : pcg_(pcg), layouts_(layouts), stored_(storage_ends(pcg, pcg.uses())), moved_(pcg.size()) {
    result_.chosen.assign(pcg.size(), 0);
  }

  Result<Relaid> run() {
    result_.pcg.set_name(pcg_.name());
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      NodeId id(static_cast<std::int64_t>(i));
      if (is_chain_link(pcg_[id]) && !stored_[i]) continue;
      Result<void> emitted = emit(id);
      if (!emitted.ok()) return emitted.error();
    }
    std::vector<ValueRef> outputs;
    for (ValueRef v : pcg_.outputs()) outputs.push_back(UNITY_TRY(lay_out(v, pcg_.shape(v), true)));
    result_.pcg.set_outputs(std::move(outputs));
    result_.pcg = result_.pcg.without_dead_nodes();
    return std::move(result_);
  }

 private:
  Result<void> emit(NodeId id) {
    const Node& node = pcg_[id];
    if (stored_[id.index()]) {
      // The stored form of a weight: a chain of its own, and the source of others.
      auto stored = lay_out_from(chain_source(pcg_, stored_, node.inputs[0]), pcg_.shape({id, 0}), false);
      if (!stored.ok()) return stored.error();
      moved_[id.index()] = {stored->node};
      return {};
    }
    OperandShapes as_is;
    for (ValueRef v : node.inputs) as_is.push_back(pcg_.shape(v));
    std::vector<OperandShapes> alternatives;
    if (id.index() < layouts_.size()) alternatives = layouts_[id.index()];
    if (alternatives.empty()) alternatives.push_back(std::move(as_is));
    Error last;
    for (std::size_t a = 0; a < alternatives.size(); ++a) {
      auto added = try_node(node, alternatives[a]);
      if (added.ok()) {
        result_.chosen[id.index()] = static_cast<int>(a);
        moved_[id.index()] = *added;
        return {};
      }
      last = added.error();
    }
    return fail("{}: {}", node.name.empty() ? node.op->name() : node.name, last.message);
  }

  Result<NodeId> try_node(const Node& node, const OperandShapes& shapes) {
    std::vector<ValueRef> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      bool free_copies = node.table && node.table->inputs[i].shape_only;
      inputs.push_back(UNITY_TRY(lay_out(node.inputs[i], shapes[i], free_copies)));
    }
    if (node.is_parallelization()) return add(*node.op, node.attributes, std::move(inputs), node.origin, node.name);
    return result_.pcg.try_add_like(node, std::move(inputs));
  }

  Result<ValueRef> lay_out(ValueRef old, ParallelShape to, bool free_copies) {
    return lay_out_from(chain_source(pcg_, stored_, old), std::move(to), free_copies);
  }

  // The canonical chain from the new value of `source` to the shape `to`.
  Result<ValueRef> lay_out_from(ValueRef source, ParallelShape to, bool free_copies) {
    ValueRef v{moved_[source.node.index()], source.output};
    const ParallelShape from = result_.pcg.shape(v);
    if (free_copies && to.copies % from.copies != 0) to.copies = from.copies;
    if (to.copies % from.copies != 0)
      return fail("a value has copies {}, expected a divisor of {}", from.copies, to.copies);
    if (from.partials % to.partials != 0)
      return fail("a value has partials {}, expected a multiple of {}", from.partials, to.partials);
    v = UNITY_TRY(link(*links().reduce, -1, from.partials / to.partials, v));
    for (bool joining : {true, false})
      for (std::size_t j = 0; j < from.dims.size(); ++j) {
        int g = std::gcd(from.dims[j].degree, to.dims[j].degree);
        int degree = (joining ? from : to).dims[j].degree / g;
        v = UNITY_TRY(link(joining ? *links().combine : *links().partition, static_cast<int>(j), degree, v));
      }
    return link(*links().replicate, -1, to.copies / from.copies, v);
  }

  Result<ValueRef> link(const Operator& op, int dim, int degree, ValueRef v) {
    if (degree == 1) return v;
    Attributes attributes =
        dim >= 0 ? Attributes{std::int64_t{dim}, std::int64_t{degree}} : Attributes{std::int64_t{degree}};
    const Node& producer = result_.pcg[v.node];
    OriginId origin = producer.origin;
    std::string name = producer.name;
    return ValueRef{UNITY_TRY(add(op, std::move(attributes), {v}, origin, std::move(name))), 0};
  }

  // A parallelization operator, once.
  Result<NodeId> add(const Operator& op, Attributes attributes, std::vector<ValueRef> inputs, OriginId origin,
                     std::string name) {
    auto key = std::make_tuple(&op, attributes, inputs);
    auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    NodeId id = UNITY_TRY(result_.pcg.try_add(op, std::move(attributes), std::move(inputs), origin, std::move(name)));
    made_.emplace(std::move(key), id);
    return id;
  }

  const Pcg& pcg_;
  const Layouts& layouts_;
  std::vector<bool> stored_;
  std::vector<NodeId> moved_;  // by old node
  // Only looked up, never walked: the order by address can not show.
  std::map<std::tuple<const Operator*, Attributes, std::vector<ValueRef>>, NodeId> made_;
  Relaid result_;
};

}  // namespace

bool is_chain_link(const Node& node) {
  const Links& l = links();
  return node.op == l.partition || node.op == l.combine || node.op == l.replicate || node.op == l.reduce;
}

std::vector<bool> storage_ends(const Pcg& pcg, const std::vector<std::vector<Pcg::Use>>& uses) {
  std::vector<bool> ends(pcg.size(), false);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    if (!pcg.nodes()[i].op->stored() || pcg.nodes()[i].op->name() == "boundary") continue;
    NodeId at(static_cast<std::int64_t>(i));
    while (uses[at.index()].size() == 1) {
      NodeId user = uses[at.index()][0].user;
      if (pcg[user].op != links().partition && pcg[user].op != links().replicate) break;
      at = user;
    }
    if (at.index() == i) continue;
    for (const Pcg::Use& use : uses[at.index()])
      if (pcg[use.user].op == links().combine) ends[at.index()] = true;
  }
  return ends;
}

ValueRef chain_source(const Pcg& pcg, const std::vector<bool>& storage_ends, ValueRef v) {
  while (is_chain_link(pcg[v.node]) && !storage_ends[v.node.index()]) v = pcg[v.node].inputs[0];
  return v;
}

Result<Relaid> relayout(const Pcg& pcg, const Layouts& layouts) { return Pass(pcg, layouts).run(); }

}  // namespace unity
