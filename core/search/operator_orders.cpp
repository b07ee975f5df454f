#include "core/search/operator_orders.h"

#include <functional>

namespace unity {
namespace {

class Orders {
 public:
  Orders(const Pcg& pcg, std::size_t most) : pcg_(pcg), most_(most), waits_for_(pcg.size()) {
    for (std::size_t i = 0; i < pcg.size(); ++i)
      if (pcg.nodes()[i].is_compute()) {
        operators_.emplace_back(static_cast<std::int64_t>(i));
        for (ValueRef v : pcg.nodes()[i].inputs) find_operators(v, waits_for_[i]);
      }
  }

  std::vector<Ordered> run() {
    std::vector<bool> done(pcg_.size(), false);
    extend({}, done);
    return std::move(found_);
  }

 private:
  void find_operators(ValueRef v, std::vector<NodeId>& to) const {
    const Node& n = pcg_[v.node];
    if (n.is_compute()) to.push_back(v.node);
    if (n.is_parallelization())
      for (ValueRef in : n.inputs) find_operators(in, to);
  }

  // Always the earliest first, so that the given order is the first one.
  void extend(const std::vector<NodeId>& order, std::vector<bool>& done) {
    if (found_.size() >= most_) return;
    if (order.size() == operators_.size()) return found_.push_back(rebuilt(order));
    for (NodeId next : operators_) {
      if (done[next.index()]) continue;
      bool ready = true;
      for (NodeId before : waits_for_[next.index()]) ready = ready && done[before.index()];
      if (!ready) continue;
      std::vector<NodeId> longer = order;
      longer.push_back(next);
      done[next.index()] = true;
      extend(longer, done);
      done[next.index()] = false;
    }
  }

  Ordered rebuilt(const std::vector<NodeId>& order) const {
    Ordered result;
    if (order == operators_) {
      result.pcg = pcg_;
      for (std::size_t i = 0; i < pcg_.size(); ++i) result.was.emplace_back(static_cast<std::int64_t>(i));
      return result;
    }
    result.pcg.set_name(pcg_.name());
    std::vector<NodeId> now(pcg_.size());
    std::function<void(NodeId)> add = [&](NodeId id) {
      if (now[id.index()].valid()) return;
      const Node& n = pcg_[id];
      std::vector<ValueRef> inputs;
      for (ValueRef v : n.inputs) {
        add(v.node);
        inputs.push_back({now[v.node.index()], v.output});
      }
      now[id.index()] = result.pcg.try_add(*n.op, n.attributes, std::move(inputs), n.origin, n.name).value();
      result.was.push_back(id);
    };
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (pcg_.nodes()[i].is_leaf()) add(NodeId(static_cast<std::int64_t>(i)));
    for (NodeId id : order) add(id);
    for (std::size_t i = 0; i < pcg_.size(); ++i) add(NodeId(static_cast<std::int64_t>(i)));
    std::vector<ValueRef> outputs;
    for (ValueRef v : pcg_.outputs()) outputs.push_back({now[v.node.index()], v.output});
    result.pcg.set_outputs(std::move(outputs));
    return result;
  }

  const Pcg& pcg_;
  std::size_t most_;
  std::vector<NodeId> operators_;
  std::vector<std::vector<NodeId>> waits_for_;  // by node: operators
  std::vector<Ordered> found_;
};

}  // namespace

std::vector<Ordered> operator_orders(const Pcg& pcg, std::size_t most) { return Orders(pcg, most).run(); }

}  // namespace unity
