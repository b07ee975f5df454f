#include "core/search/necessary_work.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/union_find.h"
#include "core/graph/autodiff.h"
#include "core/rewrite/axis_classes.h"
#include "core/search/rules_on_operators.h"
#include "core/search/work_estimate.h"

namespace unity {
namespace {

// Given operands, unless a generated rule sees through them. Those of the second set, moreover, read what they are
// given whole and are not linear in it.
const Names kOpaque = {"batch_norm", "causal_softmax", "cross_entropy", "embedding",   "embedding_bag", "exp",    "log",
                       "mul",        "reduce_max",     "reduce_sum",    "reduce_mean", "relu",          "softmax"};
const Names kObservers = {"batch_norm", "causal_softmax", "cross_entropy", "exp", "log", "relu", "softmax"};
constexpr double kAddition = 3;  // traffic of an addition, in times of its result
const Names kPassing = {"add", "concat", "reshape", "scale", "transpose"};  // results hold each element of the operand

bool is_product(const Node& n) { return is_product(*n.op); }
bool has_activation(const Node& n) {
  return is_product(n) && n.op->name() != "batch_matmul" &&
         text_attribute(n.attributes, n.op->name() == "matmul" ? 0 : 4) != "none";
}

class Finder {
 public:
  Finder(const Pcg& model, const OptimizerSpec& optimizer, const std::vector<Rule>& users_rules, int devices)
      : model_(model),
        optimizer_(optimizer),
        one_device_(devices == 1),
        algebra_(library_algebra()),
        users_(kinds_in_sources(users_rules)),
        needs_(needs_gradient(model)),
        uses_(model.uses()) {}

  std::vector<WorkItem> run() {
    find_values();
    find_live();
    find_reached();
    find_products();
    find_sums();
    find_uneven();
    std::vector<WorkItem> items;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      NodeId id(static_cast<std::int64_t>(i));
      WorkItem item{id, alternatives(id)};
      if (!item.alternatives.empty()) items.push_back(std::move(item));
    }
    return items;
  }

 private:
  struct Product {
    NodeId node;
    std::set<Hash> x, w;  // the given values its operands are made of
    double flops = 0;
    NodeId norm;  // the batch norm that reads it, and may be folded into another one
    double joined = 1;
  };

  const Node& node(std::size_t i) const { return model_.nodes()[i]; }
  bool kept(const Node& n) const {
    return n.is_compute() && !algebra_.rewritten.contains(n.op->name()) && !users_.contains(n.op->name());
  }
  bool listed(const Names& names, const Node& n) const {
    return names.contains(n.op->name()) && !users_.contains(n.op->name());
  }
  bool given(NodeId id) const {
    const Node& n = model_[id];
    if (n.is_leaf() || has_activation(n) || reshapes(id)) return true;
    return (kept(n) || listed(kOpaque, n)) && !algebra_.seen_through.contains(n.op->name());
  }
  bool observes(NodeId id, std::size_t operand) const {
    const Node& n = model_[id];
    if (n.table->inputs[operand].shape_only) return false;
    if (is_reshape(n)) return reshapes_for_good(id, sizes(model_.shape(n.inputs[0])));
    if (algebra_.consumers.contains(n.op->name())) return false;
    return kept(n) || (listed(kObservers, n) && (n.op->name() != "batch_norm" || operand == 0));
  }

  // No rule sees a product through a reshape, but rules let reshapes that undo each other vanish, and pass transposes.
  static bool is_reshape(const Node& n) { return n.op->name() == "reshape"; }
  static bool moves(const Node& n) { return is_reshape(n) || n.op->name() == "transpose"; }
  static std::multiset<std::int64_t> sizes(const ParallelShape& shape) {
    std::multiset<std::int64_t> all;
    for (const auto& dim : shape.dims)
      if (dim.size > 1) all.insert(dim.size);
    return all;
  }
  bool reshapes(NodeId id) const {
    if (!is_reshape(model_[id]) || barrier_broken_) return false;
    ValueRef from{id, 0};
    while (moves(model_[from.node])) from = model_[from.node].inputs[0];
    return sizes(model_.shape(from)) != sizes(model_.shape({id, 0}));
  }
  bool reshapes_for_good(NodeId id, const std::multiset<std::int64_t>& from) const {
    if (barrier_broken_) return false;
    for (const Pcg::Use& u : uses_[id.index()]) {
      if (moves(model_[u.user]) ? !reshapes_for_good(u.user, from) : sizes(model_.shape({id, 0})) == from) return false;
    }
    return true;
  }

  // Equal for values that the same operators compute of the same leaves.
  void find_values() {
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const Node& n = node(i);
      Hash h = hash_text(n.op->name());
      if (n.is_leaf() || n.op->random()) h = combine(h, i + 1);
      for (const AttributeValue& a : n.attributes) h = combine(h, hash_text(to_string(a)));
      for (ValueRef v : n.inputs) h = combine(h, value(v));
      values_.push_back(h);
    }
  }
  Hash value(ValueRef v) const { return combine(values_[v.node.index()], static_cast<Hash>(v.output)); }

  // What an output needs. Of an operator with a result that nobody reads, rules may drop a part, and what that needs.
  void find_live() {
    live_.assign(model_.size(), false);
    std::vector<std::vector<bool>> read(model_.size());
    for (std::size_t i = 0; i < model_.size(); ++i) read[i].assign(node(i).outputs.size(), false);
    for (ValueRef v : model_.outputs()) read[v.node.index()][static_cast<std::size_t>(v.output)] = true;
    for (std::size_t i = model_.size(); i-- > 0;) {
      bool any = std::any_of(read[i].begin(), read[i].end(), [](bool r) { return r; });
      bool all = std::all_of(read[i].begin(), read[i].end(), [](bool r) { return r; });
      live_[i] = any;
      if (kept(node(i)) ? any : any && all)
        for (ValueRef v : node(i).inputs) read[v.node.index()][static_cast<std::size_t>(v.output)] = true;
    }
  }

  // Where the gradient of the loss arrives.
  void find_reached() {
    reached_.assign(model_.size(), false);
    if (model_.outputs().empty()) return;
    reached_[model_.outputs()[0].node.index()] = true;
    for (std::size_t i = model_.size(); i-- > 0;) {
      NodeId id(static_cast<std::int64_t>(i));
      if (!reached_[i] || !needs_[i] || !node(i).is_compute()) continue;
      GradientProgram program = gradient_program(model_, id, needs_);
      for (std::size_t k = 0; k < program.input_gradients.size(); ++k)
        if (program.input_gradients[k]) reached_[node(i).inputs[k].node.index()] = true;
    }
  }

  // The given values that a value is made of by linear operators, and whether that is by arranging and adding up
  // different ones only. Each is visited once.
  struct Roots {
    std::set<Hash> values;
    std::set<ValueRef> seen;
    bool plain = true;
  };
  void find_roots(ValueRef value_of, Roots& found) const {
    std::vector<ValueRef> open = {value_of};
    while (!open.empty()) {
      ValueRef v = open.back();
      open.pop_back();
      const Node& n = model_[v.node];
      bool is_given = given(v.node),
           fresh = is_given ? found.values.insert(value(v)).second : found.seen.insert(v).second;
      found.plain = found.plain && fresh && (is_given || kPassing.contains(n.op->name()));
      if (!is_given && fresh) open.insert(open.end(), n.inputs.begin(), n.inputs.end());
    }
  }

  // Products of which a value is a sum.
  void products_of(ValueRef value_of, std::set<std::size_t>& found, std::set<ValueRef>& seen) const {
    std::vector<ValueRef> open = {value_of};
    while (!open.empty()) {
      ValueRef v = open.back();
      open.pop_back();
      const Node& n = model_[v.node];
      if (given(v.node) || !seen.insert(v).second) continue;
      if (is_product(n)) found.insert(v.node.index());
      open.insert(open.end(), n.inputs.begin(), n.inputs.end());
    }
  }

  // Whether the result is read whole, with no product of a common operand added on the way.
  bool is_observed(const Product& p) const {
    if (has_activation(model_[p.node])) return true;
    std::vector<NodeId> open = {p.node};
    while (!open.empty()) {
      NodeId at = open.back();
      open.pop_back();
      for (const Pcg::Use& u : uses_[at.index()]) {
        const Node& user = model_[u.user];
        if (!live_[u.user.index()] || users_.contains(user.op->name())) continue;
        if (observes(u.user, static_cast<std::size_t>(u.operand))) return true;
        if (!kPassing.contains(user.op->name())) continue;
        if (user.op->name() == "add" && shares_operand(p, user)) continue;
        open.push_back(u.user);
      }
    }
    return false;
  }
  bool shares_operand(const Product& p, const Node& sum) const {
    std::set<std::size_t> added;
    std::set<ValueRef> seen;
    for (ValueRef v : sum.inputs) products_of(v, added, seen);
    added.erase(p.node.index());
    return std::any_of(added.begin(), added.end(), [&](std::size_t other) {
      Roots theirs;
      for (ValueRef v : node(other).inputs) find_roots(v, theirs);
      return meet(theirs.values, p.x) || meet(theirs.values, p.w);
    });
  }
  template <class T>
  static bool meet(const std::set<T>& a, const std::set<T>& b) {
    return std::any_of(a.begin(), a.end(), [&](const T& t) { return b.contains(t); });
  }

  void find_products() {
    std::set<Hash> seen;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const Node& n = node(i);
      if (n.op->name() == "attention") count_attention(NodeId(static_cast<std::int64_t>(i)));
      if (!is_product(n) || users_.contains(n.op->name())) continue;
      Roots x, w;
      find_roots(n.inputs[0], x);
      find_roots(n.inputs[1], w);
      Product p{NodeId(static_cast<std::int64_t>(i)), x.values, w.values, 0, {}, 1};
      p.flops = flops(*n.table, full_ranges(*n.table));
      for (const Pcg::Use& u : uses_[i])
        if (!p.norm.valid() && live_[u.user.index()] && model_[u.user].op->name() == "batch_norm") p.norm = u.user;
      bool plain = x.plain && w.plain && !meet(p.x, p.w) && !pads_ && !reads_padding_alone(n);
      counted_[i] = plain && live_[i] && is_observed(p) && seen.insert(values_[i]).second;
      products_.push_back(std::move(p));
    }
    find_joined();
  }
  // What rules may join with a product: what has an operand in common with it or is added to it, and with those, as
  // far as neither waits for the other's result.
  void find_joined() {
    UnionFind groups(products_.size());
    std::map<Hash, std::size_t> first_x, first_w;
    std::map<std::size_t, std::size_t> first_sum;
    for (std::size_t a = 0; a < products_.size(); ++a) {
      const Product& p = products_[a];
      product_of_[p.node.index()] = a;
      for (Hash h : p.x) groups.join(a, first_x.try_emplace(h, a).first->second);
      for (Hash h : p.w) groups.join(a, first_w.try_emplace(h, a).first->second);
      for (std::size_t sum : next_sums(p.node)) groups.join(a, first_sum.try_emplace(sum, a).first->second);
    }
    for (auto sum = first_sum.begin(); sum != first_sum.end(); ++sum)  // their keys ascend, and so do those put in
      for (std::size_t next : next_sums(NodeId(static_cast<std::int64_t>(sum->first))))
        groups.join(sum->second, first_sum.try_emplace(next, sum->second).first->second);
    std::vector<std::vector<std::size_t>> members(products_.size());
    for (std::size_t a = 0; a < products_.size(); ++a) members[groups.find(a)].push_back(a);
    const std::vector<Bits> before = products_before();
    for (std::size_t a = 0; a < products_.size(); ++a) {
      Product& p = products_[a];
      double all = p.flops;
      for (std::size_t b : members[groups.find(a)]) {
        const Product& q = products_[b];
        if (a == b || contains(before[a], b) || contains(before[b], a)) continue;
        all += q.norm.valid() ? 2 * q.flops : q.flops;
      }
      p.joined = all / p.flops;
    }
  }
  // Whether some window of a convolution holds nothing but padding: what is computed there is zero without it, too.
  bool reads_padding_alone(const Node& n) const {
    if (n.op->name() != "conv2d") return false;
    const Dims kernel = model_.shape(n.inputs[1]).shape().dims;
    Dims padding = ints_attribute(n.attributes, 1), dilation = ints_attribute(n.attributes, 2);
    for (std::size_t d = 0; d < 2; ++d) {
      std::int64_t window = (kernel[2 + d] - 1) * dilation[d] + 1;
      if (padding[d] >= window || padding[2 + d] >= window) return true;  // top, left, bottom, right
    }
    return false;
  }
  // Taken apart, it is two products with softmax between.
  void count_attention(NodeId id) {
    const Node& n = model_[id];
    Roots roots;
    for (ValueRef v : n.inputs) find_roots(v, roots);
    Product p{id, {}, {}, 0, {}, 1};
    bool users = users_.contains("attention") || users_.contains("batch_matmul") || users_.contains("softmax");
    counted_[id.index()] = roots.plain && !users && live_[id.index()] && is_observed(p);
  }
  // The additions that a result may reach by linear operators, with no other one between.
  std::set<std::size_t> next_sums(NodeId id) const {
    std::set<std::size_t> sums, seen;
    std::vector<NodeId> open = {id};
    while (!open.empty()) {
      NodeId at = open.back();
      open.pop_back();
      for (const Pcg::Use& u : uses_[at.index()]) {
        const Node& n = model_[u.user];
        bool folded = n.op->name() == "batch_norm" && u.operand == 0;
        if ((given(u.user) && !folded) || is_product(n) || !seen.insert(u.user.index()).second) continue;
        if (n.op->name() == "add")
          sums.insert(u.user.index());
        else
          open.push_back(u.user);
      }
    }
    return sums;
  }
  // By product: those whose results it needs, as bits.
  using Bits = std::vector<std::uint64_t>;
  static bool contains(const Bits& bits, std::size_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }
  std::vector<Bits> products_before() const {
    std::vector<Bits> of_products, of_nodes(model_.size());
    for (std::size_t i = 0; i < model_.size(); ++i) {
      Bits& mine = of_nodes[i];
      mine.assign(products_.size() / 64 + 1, 0);
      for (ValueRef v : node(i).inputs) {
        const Bits& theirs = of_nodes[v.node.index()];
        for (std::size_t word = 0; word < mine.size(); ++word) mine[word] |= theirs[word];
        if (auto found = product_of_.find(v.node.index()); found != product_of_.end())
          mine[found->second / 64] |= std::uint64_t{1} << found->second % 64;
      }
      if (product_of_.contains(i)) of_products.push_back(mine);
    }
    return of_products;
  }

  static double shape_bytes(const Shape& s) { return static_cast<double>(s.bytes()); }
  static double arithmetic(const AxisTable& table) {
    // Rates are those of f32.
    return operand_shape(table, table.outputs[0]).dtype == DType::f32 ? flops(table, full_ranges(table)) : 0;
  }
  // Windows may be split unevenly, and the columns of a product (of logits), with all that walks the same dimension.
  void find_uneven() {
    uneven_.resize(model_.size());
    for (const AxisClass& c : axis_classes(model_)) {
      auto axis = [&](const AxisClassMember& m) {
        return model_[m.node].table->axes[static_cast<std::size_t>(m.axis)];
      };
      bool uneven = std::any_of(c.members.begin(), c.members.end(), [&](const AxisClassMember& m) {
        return axis(m).role == AxisRole::window || (model_[m.node].op->name() == "matmul" && axis(m).name == "n");
      });
      for (const AxisClassMember& m : c.members)
        if (uneven && axis(m).size > 1) uneven_[m.node.index()].push_back(axis(m).size);
    }
  }

  // The operator and its gradient. `product`: only steps that are products, and their FLOPs count.
  WorkUnit as_it_is(NodeId id, bool product) const {
    const Node& n = model_[id];
    WorkUnit unit{
        {{product ? arithmetic(*n.table) : 0, memory_traffic(*n.op, *n.table), true, {}}}, 1, uneven_[id.index()]};
    if (!reached_[id.index()] || !needs_[id.index()]) return unit;
    GradientProgram program = gradient_program(model_, id, needs_);
    std::vector<std::vector<Shape>> shapes;
    auto shape_of = [&](GradientValue v) -> Shape {
      auto i = static_cast<std::size_t>(v.index);
      if (v.kind == GradientValue::Kind::input) return model_.shape(n.inputs[i]).shape();
      if (v.kind == GradientValue::Kind::step) return shapes[i][static_cast<std::size_t>(v.result)];
      return n.outputs[i].shape();
    };
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const GradientStep& step = program.steps[s];
      std::vector<Shape> in;
      for (GradientValue v : step.inputs) in.push_back(shape_of(v));
      AxisTable table = step.op->axes(step.attributes, in).value();
      shapes.emplace_back();
      for (const OperandAxes& o : table.outputs) shapes.back().push_back(operand_shape(table, o));
      if (product && step.op->name() == "relu_gradient") continue;
      WorkStep work{product ? arithmetic(table) : 0, memory_traffic(*step.op, table), false, {}};
      for (std::size_t k = 0; k < program.input_gradients.size(); ++k) {
        const auto& g = program.input_gradients[k];
        if (g && g->kind == GradientValue::Kind::step && static_cast<std::size_t>(g->index) == s)
          work.toward.push_back(static_cast<int>(k));
      }
      unit.steps.push_back(std::move(work));
    }
    return unit;
  }

  std::vector<std::vector<WorkUnit>> alternatives(NodeId id) const {
    const Node& n = model_[id];
    std::size_t i = id.index();
    const std::string& name = n.op->name();
    if (name == "weight") return update(id);
    if (!n.is_compute() || !live_[i]) return {};
    if (kept(n)) return {{n.op->name() == "moments" ? moments(id) : as_it_is(id, false)}};
    if (users_.contains(name)) return {};
    if (name == "batch_matmul" || name == "attention")
      return counted_.at(i) ? std::vector<std::vector<WorkUnit>>{{products_of_attention(id)}}
                            : std::vector<std::vector<WorkUnit>>{};
    if (is_product(n)) return product(id);
    if (name == "batch_norm") return normalization(id);
    if (name == "embedding" || name == "embedding_bag") return {{lookup(id)}};
    if (name == "relu" && stays(n)) return {{as_it_is(id, false)}};
    if (sums_[i]) return {{as_it_is(id, false)}};
    return {};
  }

  // A product that a batch norm reads is in normalization().
  std::vector<std::vector<WorkUnit>> product(NodeId id) const {
    if (!counted_.at(id.index())) return {};
    const Product& p = products_[product_of_.at(id.index())];
    if (p.norm.valid() && !users_.contains("batch_norm")) return {};
    return {{product_unit(p)}};
  }
  // Where it can be joined with others, its operands may be read for several at once.
  WorkUnit product_unit(const Product& p) const {
    WorkUnit unit = as_it_is(p.node, true);
    unit.joined = p.joined;
    if (p.joined > 1)
      for (WorkStep& s : unit.steps) s.bytes = 0;
    return unit;
  }

  // Fused, it is one product of twice the FLOPs, and its gradient one of five times as many. Bytes depend on the form.
  WorkUnit products_of_attention(NodeId id) const {
    const Node& n = model_[id];
    bool attention = n.op->name() == "attention";
    double one = arithmetic(*n.table) / (attention ? 2 : 1);
    WorkUnit unit{std::vector<WorkStep>(attention ? 2 : 1, {one, 0, true, {}}), 5, {}};
    if (!reached_[id.index()] || !needs_[id.index()]) return unit;
    GradientProgram program = gradient_program(model_, id, needs_);
    std::vector<int> wanted;
    for (int k = 0; k < static_cast<int>(program.input_gradients.size()); ++k)
      if (program.input_gradients[static_cast<std::size_t>(k)]) wanted.push_back(k);
    for (int k : wanted) unit.steps.push_back({one, 0, false, {k}});
    // That of the weights, from which those of queries and keys follow.
    if (attention && !wanted.empty() && wanted[0] < 2) unit.steps.push_back({one, 0, false, {}});
    return unit;
  }

  // As it is, behind its convolution; or that convolution, joined with a second one of scaled filters, and the addition
  // of what is left. There the path through the gradient goes through the second convolution.
  std::vector<std::vector<WorkUnit>> normalization(NodeId id) const {
    const Node& n = model_[id];
    WorkUnit unit = as_it_is(id, false);
    auto found = product_of_.find(n.inputs[0].node.index());
    if (found == product_of_.end()) return {{unit}};
    const Product& p = products_[found->second];
    if (!counted_.at(p.node.index()) || p.norm != id) return {};
    WorkUnit first = product_unit(p);
    // A path through this node comes through the product.
    for (WorkStep& s : first.steps)
      s.toward = s.toward == std::vector<int>{0} ? std::vector<int>{0, 1, 2} : std::vector<int>{};
    WorkUnit both = first;
    double y = shape_bytes(n.outputs[0].shape());
    for (WorkStep& s : both.steps) s.flops *= 2, s.bytes += p.joined > 1 ? 0 : y;
    std::vector<WorkUnit> as_is = {first, unit};
    if (gives_gradient(id) && needs_[n.inputs[0].node.index()] && has_moments(n.inputs[0]))
      as_is.push_back({{{0, y, false, {}, kAddition * y}}, 2, {}});
    return {as_is, {both, WorkUnit{{{0, 2 * y, true, {}}}, 1, uneven_[id.index()]}}};
  }
  bool gives_gradient(NodeId id) const { return reached_[id.index()] && needs_[id.index()]; }
  bool has_moments(ValueRef v) const {
    return std::any_of(uses_[v.node.index()].begin(), uses_[v.node.index()].end(), [&](const Pcg::Use& u) {
      const Node& user = model_[u.user];
      return user.op->name() == "moments" && kept(user) && live_[u.user.index()] && gives_gradient(u.user);
    });
  }
  // Their gradient's task may add the gradient of what is normalised.
  WorkUnit moments(NodeId id) const {
    WorkUnit unit = as_it_is(id, false);
    for (WorkStep& s : unit.steps)
      if (!s.forward) s.task_bytes = s.bytes + shape_bytes(model_.shape(model_[id].inputs[0]).shape());
    return unit;
  }

  // Rows are read; of plain gradient descent the same rows are updated, else the table is.
  WorkUnit lookup(NodeId id) const {
    const Node& n = model_[id];
    double rows = memory_traffic(*n.op, *n.table) - shape_bytes(n.outputs[0].shape()) -
                  shape_bytes(model_.shape(n.inputs[0]).shape());
    WorkUnit unit{{{0, rows, true, {}}}, 1, {}};
    if (!reached_[id.index()] || !needs_[id.index()]) return unit;
    unit.steps.push_back({0, std::min(2 * rows, 4 * shape_bytes(model_.shape(n.inputs[1]).shape())), false, {}});
    return unit;
  }

  bool stays(const Node& relu) const {
    const Node& from = model_[relu.inputs[0].node];
    if (kept(from)) return true;
    return from.op->name() == "add" && std::any_of(from.inputs.begin(), from.inputs.end(), [&](ValueRef v) {
             return is_no_product(v) || model_[v.node].op->name() == "batch_norm";
           });
  }
  // Nor does a rule make it one.
  bool is_no_product(ValueRef v) const { return kept(model_[v.node]) || model_[v.node].op->name() == "relu"; }

  // What is added to no product is not joined with one, as no rule makes products out of nothing; nor is it there
  // before: equal sums count once.
  void find_sums() {
    sums_.assign(model_.size(), false);
    if (!one_device_ || users_.contains("add") || users_.contains("relu")) return;
    std::set<std::set<Hash>> seen;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const Node& n = node(i);
      if (n.op->name() != "add" || !live_[i] || n.inputs.size() != 2) continue;
      const Shape y = n.outputs[0].shape();
      bool whole =
          std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueRef v) { return model_.shape(v).shape() == y; });
      bool opaque = std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueRef v) {
        return is_no_product(v) || model_[v.node].op->name() == "batch_norm";
      });
      bool apart = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueRef v) { return is_no_product(v); });
      bool observed = std::any_of(uses_[i].begin(), uses_[i].end(), [&](const Pcg::Use& u) {
        return live_[u.user.index()] && observes(u.user, static_cast<std::size_t>(u.operand));
      });
      std::set<Hash> operands = {value(n.inputs[0]), value(n.inputs[1])};
      sums_[i] = whole && opaque && apart && observed && operands.size() == 2 && seen.insert(operands).second;
    }
  }

  std::vector<std::vector<WorkUnit>> update(NodeId id) const {
    if (!reached_[id.index()]) return {};
    if (optimizer_.name == "sgd" && optimizer_.states() == 0 && optimizer_.weight_decay == 0)
      for (const Pcg::Use& u : uses_[id.index()]) {
        const std::string& user = model_[u.user].op->name();
        if (user.starts_with("embedding") || user == "gather" || model_[u.user].op->category() != OpCategory::compute)
          return {};
      }
    double weight = shape_bytes(model_[id].outputs[0].shape());
    return {{WorkUnit{{{0, (3 + 2 * optimizer_.states()) * weight, true, {}}}, 1, {}}}};
  }

  const Pcg& model_;
  const OptimizerSpec& optimizer_;
  const bool one_device_;
  const Algebra& algebra_;
  const Names users_;  // kinds of operators in sources of the user's rules
  const std::vector<bool> needs_;
  const std::vector<std::vector<Pcg::Use>> uses_;
  std::vector<Hash> values_;  // by node
  std::vector<bool> live_, reached_;
  std::vector<bool> sums_;                         // by node: it is an addition that counts
  std::vector<std::vector<std::int64_t>> uneven_;  // by node: sizes of its axes whose parts may differ
  std::vector<Product> products_;
  std::map<std::size_t, std::size_t> product_of_;  // by node
  std::map<std::size_t, bool> counted_;            // by node
  // Kernels that are padded with zeros multiply in vain, and rules know.
  const bool pads_ =
      std::any_of(model_.nodes().begin(), model_.nodes().end(), [](const Node& n) { return n.op->name() == "pad"; });
  const bool barrier_broken_ =
      algebra_.seen_through.contains("reshape") || algebra_.consumers.contains("reshape") || users_.contains("reshape");
};

}  // namespace

std::vector<WorkItem> necessary_work(const Pcg& model, const OptimizerSpec& optimizer,
                                     const std::vector<Rule>& users_rules, int devices) {
  return Finder(model, optimizer, users_rules, devices).run();
}

}  // namespace unity
