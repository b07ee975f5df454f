#include "core/search/exact_sharding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/base/parallel.h"
#include "core/search/parallelism.h"
#include "core/search/substitution.h"
#include "core/search/table_elimination.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

constexpr std::size_t kMostEntries = std::size_t{1} << 20;
constexpr int kMicroBatchesOfMany = 8;

// By operator, the axes that may be split: those of classes whose kinds are allowed.
std::vector<std::set<int>> allowed_axes(const IntraPlans& plans, const std::vector<std::string>& allowed) {
  const Pcg& model = plans.model();
  std::map<NodeId, std::set<int>> forbidden;
  if (!allowed.empty()) {
    const std::vector<AxisClass> classes = axis_classes(model);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (is_allowed(kinds_of_class(model, classes, c), allowed)) continue;
      for (const auto* members : {&classes[c].members, &classes[c].others})
        for (const AxisClassMember& m : *members) forbidden[m.node].insert(m.axis);
    }
  }
  std::vector<std::set<int>> axes;
  for (NodeId id : plans.operators()) {
    const AxisTable& table = *model[id].table;
    std::set<int>& may = axes.emplace_back();
    for (int a = 0; a < static_cast<int>(table.axes.size()); ++a)
      if (can_split(table, a) && table.axes[static_cast<std::size_t>(a)].size > 1 && !forbidden[id].contains(a))
        may.insert(a);
  }
  return axes;
}

// The first: not at all. Parts are equal, those of the batch in each micro-batch.
std::vector<Sharding> ways(const AxisTable& table, const std::set<int>& axes, std::optional<int> batch_axis,
                           int micro_batches, int width) {
  const std::size_t count = table.axes.size();
  const Sharding whole{std::vector<int>(count, 1), std::vector<int>(count, 1)};
  auto divides = [&](int axis, int degree) {
    const std::int64_t parts = axis == batch_axis ? std::int64_t{degree} * micro_batches : degree;
    return table.axes[static_cast<std::size_t>(axis)].size % parts == 0;
  };
  std::vector<Sharding> all = {whole};
  auto add = [&](std::initializer_list<std::pair<int, int>> degrees) {
    Sharding sharding = whole;
    for (auto [axis, degree] : degrees) {
      if (!divides(axis, degree)) return;
      sharding.degrees[static_cast<std::size_t>(axis)] = degree;
    }
    all.push_back(std::move(sharding));
  };
  for (int degree : degrees_of_devices(width))
    for (int a : axes) {
      add({{a, degree}});
      for (int b : axes)
        if (degree < width && a != b) add({{a, degree}, {b, width / degree}});
    }
  return all;
}

// An operator split in one way.
struct Way {
  Sharding sharding;
  std::vector<ParallelShape> operands, results;
};

class Chooser {
 public:
  Chooser(const IntraPlans& plans, const IntraCosts& costs, int micro_batches, const Resources& devices)
      : plans_(plans), costs_(costs), micro_batches_(micro_batches), devices_(devices) {}

  ChosenShardings choose(const std::vector<std::string>& allowed) {
    const std::vector<std::set<int>> axes = allowed_axes(plans_, allowed);
    const Pcg& model = plans_.model();
    std::map<NodeId, std::size_t> place;
    std::set<NodeId> stored;
    for (std::size_t k = 0; k < plans_.operators().size(); ++k) {
      const NodeId id = plans_.operators()[k];
      place[id] = k;
      std::vector<bool> own;
      for (ValueRef v : model[id].inputs) {
        const NodeId source = source_of(model, v).node;
        own.push_back(model[source].is_leaf() && model[source].op->stored() && stored.insert(source).second);
      }
      add_operator(k, axes[k], own);
      for (std::size_t j = 0; j < own.size(); ++j)
        if (const ValueRef source = source_of(model, model[id].inputs[j]); model[source.node].is_compute())
          add_pair(place.at(source.node), static_cast<std::size_t>(source.output), k, j);
    }
    const LeastSum least = least_sum(sum_, kMostEntries);
    ChosenShardings chosen{{}, least.cost, least.exact};
    for (std::size_t k = 0; k < of_operator_.size(); ++k)
      chosen.shardings.push_back((*of_operator_[k])[static_cast<std::size_t>(least.values[k])].sharding);
    return chosen;
  }

 private:
  // The ways of operators that are alike, and what they take, are found once.
  void add_operator(std::size_t op, const std::set<int>& axes, const std::vector<bool>& own) {
    const Pcg& model = plans_.model();
    const Node& n = model[plans_.operators()[op]];
    std::string text(n.op->name());
    for (const AttributeValue& a : n.attributes) text += ' ' + to_string(a);
    for (std::size_t j = 0; j < n.inputs.size(); ++j)
      text += fmt::format("; {} {} {}", to_string(model.shape(n.inputs[j])), bool(own[j]),
                          plans_.needs_gradient(n.inputs[j].node));
    for (int a : axes) text += fmt::format(" {}", a);
    text += fmt::format("; {} {} {}", plans_.batch_axis(op).value_or(-1), plans_.in_block(op), costs_.is_lookup(op));
    auto [known, fresh] = alike_.try_emplace(std::move(text));
    auto& [ways_of, times] = known->second;
    if (fresh) {
      const AxisTable& table = *n.table;
      for (Sharding& s : ways(table, axes, plans_.batch_axis(op), micro_batches_, devices_.count)) {
        Way way{std::move(s), {}, {}};
        for (std::size_t j = 0; j < n.inputs.size(); ++j)
          way.operands.push_back(required_input_shape(table, way.sharding, j));
        for (std::size_t o = 0; o < n.outputs.size(); ++o)
          way.results.push_back(output_parallel_shape(table, way.sharding, o));
        const IntraCosts::OperatorCosts c =
            costs_.operator_costs(op, way.sharding, way.operands, own, micro_batches_, devices_);
        times.push_back(std::llround(c.time + (c.sync + c.update) / micro_batches_));
        ways_of.push_back(std::move(way));
      }
    }
    of_operator_.push_back(&ways_of);
    sum_.own.push_back(times);
  }

  void add_pair(std::size_t from, std::size_t result, std::size_t to, std::size_t operand) {
    const std::vector<Way>&makers = *of_operator_[from], &readers = *of_operator_[to];
    auto [known, fresh] = moves_.try_emplace({&makers, result, &readers, operand});
    if (fresh)
      for (const Way& maker : makers)
        for (const Way& reader : readers)
          known->second.push_back(std::llround(
              costs_.move_time(maker.results[result], reader.operands[operand], micro_batches_, devices_)));
    sum_.pairs.push_back({static_cast<int>(from), static_cast<int>(to), known->second});
  }

  const IntraPlans& plans_;
  const IntraCosts& costs_;
  int micro_batches_;
  Resources devices_;
  std::map<std::string, std::pair<std::vector<Way>, std::vector<std::int64_t>>> alike_;
  std::vector<const std::vector<Way>*> of_operator_;
  std::map<std::tuple<const void*, std::size_t, const void*, std::size_t>, std::vector<std::int64_t>> moves_;
  SumOfTables sum_;
};

}  // namespace

ChosenShardings choose_shardings(const IntraPlans& plans, const IntraCosts& costs, const StrategyInput& input,
                                 int micro_batches, const Resources& devices) {
  return Chooser(plans, costs, micro_batches, devices).choose(input.options.parallelism);
}

void add_chosen_shardings(IntraPlans& plans, const IntraCosts& costs, const StrategyInput& input,
                          const std::vector<Submesh>& meshes, const std::vector<int>& micro_batches) {
  std::vector<std::pair<Resources, int>> kinds;
  for (const Submesh& mesh : meshes)
    for (int m : {1, kMicroBatchesOfMany})
      if (mesh.width > 1 && std::find(micro_batches.begin(), micro_batches.end(), m) != micro_batches.end())
        kinds.emplace_back(example(mesh), m);
  std::vector<ChosenShardings> chosen(kinds.size());
  parallel_for(kinds.size(), input.evaluator.threads(), [&](std::size_t i) {
    if (input.evaluator.stopping()) return;
    auto timer = input.evaluator.record().time(SearchLevel::substitution);
    chosen[i] = choose_shardings(plans, costs, input, kinds[i].second, kinds[i].first);
  });
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (!chosen[i].shardings.empty())
      plans.add({kinds[i].first.count, 1, IntraPlan::Rest::few, kinds[i].second}, chosen[i].shardings);
}

}  // namespace unity
