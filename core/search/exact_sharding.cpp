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

// An operator split in one way.
struct Way {
  Sharding sharding;
  std::vector<ParallelShape> operands, results;
};

Way way_of(const AxisTable& table, const Sharding& sharding, const std::set<std::size_t>& partial) {
  Way way{sharding, {}, {}};
  for (std::size_t j = 0; j < table.inputs.size(); ++j)
    way.operands.push_back(required_input_shape(table, sharding, j, partial.contains(j)));
  for (std::size_t o = 0; o < table.outputs.size(); ++o)
    way.results.push_back(output_parallel_shape(table, sharding, o));
  return way;
}

// Which operands of a linear operator may be partial at a time.
std::vector<std::set<std::size_t>> partial_operands(const AxisTable& table) {
  std::vector<std::set<std::size_t>> sets;
  std::set<std::size_t> linear;
  for (std::size_t j = 0; j < table.inputs.size(); ++j)
    if (table.inputs[j].linear) linear.insert(j);
  if (table.linearity == Linearity::joint && !linear.empty()) sets.push_back(linear);
  if (table.linearity == Linearity::multilinear)
    for (std::size_t j : linear) sets.push_back({j});
  return sets;
}

// Whether each dimension that walks the axis walks no other.
bool is_alone(const AxisTable& table, int axis) {
  for (const std::vector<OperandAxes>* operands : {&table.inputs, &table.outputs})
    for (const OperandAxes& operand : *operands)
      for (const DimAxes& dim : operand.dims)
        if (dim.axes.size() > 1 && std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end()) return false;
  return true;
}

// What ways() may do.
struct Limits {
  int width = 1, micro_batches = 1;
  std::optional<int> batch_axis;
  bool uneven = false;  // parts may differ by an element, but for those of the batch
  // By operand, whether it is what an operator made, which may be partial.
  std::vector<bool> made;
};

// The first: not at all.
std::vector<Way> ways(const AxisTable& table, const std::set<int>& axes, const Limits& limits) {
  const int width = limits.width;
  const std::size_t count = table.axes.size();
  const Sharding whole{std::vector<int>(count, 1), std::vector<int>(count, 1)};
  auto divides = [&](int axis, int degree) {
    const std::int64_t size = table.axes[static_cast<std::size_t>(axis)].size;
    const bool batch = axis == limits.batch_axis;
    if (size % (batch ? std::int64_t{degree} * limits.micro_batches : degree) == 0) return true;
    return limits.uneven && !batch && size >= degree && is_alone(table, axis);
  };
  std::vector<std::set<std::size_t>> partial = partial_operands(table);
  std::erase_if(partial, [&](const std::set<std::size_t>& operands) {
    return std::any_of(operands.begin(), operands.end(), [&](std::size_t j) { return !limits.made[j]; });
  });
  std::vector<Way> all = {way_of(table, whole, {})};
  auto add = [&](std::initializer_list<std::pair<int, int>> degrees, int passing = 1) {
    Sharding sharding = whole;
    sharding.passing = passing;
    for (auto [axis, degree] : degrees) {
      if (!divides(axis, degree)) return;
      sharding.degrees[static_cast<std::size_t>(axis)] = degree;
    }
    if (passing == 1) all.push_back(way_of(table, sharding, {}));
    for (std::size_t i = 0; passing > 1 && i < partial.size(); ++i) all.push_back(way_of(table, sharding, partial[i]));
  };
  for (int degree : degrees_of_devices(width)) {
    add({}, degree);
    for (int a : axes) {
      add({{a, degree}});
      if (degree == width) continue;
      add({{a, degree}}, width / degree);
      for (int b : axes)
        if (a != b) add({{a, degree}, {b, width / degree}});
    }
  }
  return all;
}

struct Request {
  Resources devices;
  int micro_batches = 1;
  bool uneven = false;
};

class Chooser {
 public:
  Chooser(const IntraPlans& plans, const IntraCosts& costs, const SearchOptions& options, const Request& request)
      : plans_(plans), costs_(costs), options_(options), request_(request) {}

  ChosenShardings choose() {
    const std::vector<std::set<int>> axes = allowed_axes(plans_, options_.parallelism);
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
      chosen.operands.push_back((*of_operator_[k])[static_cast<std::size_t>(least.values[k])].operands);
    return chosen;
  }

 private:
  // The ways of operators that are alike, and what they take, are found once.
  void add_operator(std::size_t op, const std::set<int>& axes, const std::vector<bool>& own) {
    const Pcg& model = plans_.model();
    const Node& n = model[plans_.operators()[op]];
    std::string text(n.op->name());
    for (const AttributeValue& a : n.attributes) text += ' ' + to_string(a);
    Limits limits{request_.devices.count, request_.micro_batches, plans_.batch_axis(op), request_.uneven, {}};
    for (std::size_t j = 0; j < n.inputs.size(); ++j) {
      limits.made.push_back(model[source_of(model, n.inputs[j]).node].is_compute());
      text += fmt::format("; {} {} {} {}", to_string(model.shape(n.inputs[j])), bool(own[j]),
                          plans_.needs_gradient(n.inputs[j].node), bool(limits.made[j]));
    }
    for (int a : axes) text += fmt::format(" {}", a);
    text += fmt::format("; {} {} {}", plans_.batch_axis(op).value_or(-1), plans_.in_block(op), costs_.is_lookup(op));
    auto [known, fresh] = alike_.try_emplace(std::move(text));
    auto& [ways_of, times] = known->second;
    if (fresh) {
      const AxisTable& table = *n.table;
      ways_of = ways(table, axes, limits);
      for (const Way& way : ways_of) {
        const IntraCosts::OperatorCosts c =
            costs_.operator_costs(op, way.sharding, way.operands, own, request_.micro_batches, request_.devices);
        times.push_back(std::llround(c.time + (c.sync + c.update) / request_.micro_batches));
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
          known->second.push_back(move_time(maker.results[result], reader.operands[operand]));
    sum_.pairs.push_back({static_cast<int>(from), static_cast<int>(to), known->second});
  }

  std::int64_t move_time(const ParallelShape& from, const ParallelShape& to) const {
    constexpr std::int64_t kNever = std::int64_t{1} << 50;
    if (from.partials % to.partials != 0 || to.copies % from.copies != 0) return kNever;  // relayout.h
    return std::llround(costs_.move_time(from, to, request_.micro_batches, request_.devices));
  }

  const IntraPlans& plans_;
  const IntraCosts& costs_;
  const SearchOptions& options_;
  Request request_;
  std::map<std::string, std::pair<std::vector<Way>, std::vector<std::int64_t>>> alike_;
  std::vector<const std::vector<Way>*> of_operator_;
  std::map<std::tuple<const void*, std::size_t, const void*, std::size_t>, std::vector<std::int64_t>> moves_;
  SumOfTables sum_;
};

}  // namespace

ChosenShardings choose_shardings(const IntraPlans& plans, const IntraCosts& costs, const StrategyInput& input,
                                 int micro_batches, const Resources& devices, bool uneven) {
  return Chooser(plans, costs, input.options, {devices, micro_batches, uneven}).choose();
}

int add_chosen_shardings(IntraPlans& plans, const IntraCosts& costs, const StrategyInput& input,
                         const std::vector<Submesh>& meshes, const std::vector<int>& micro_batches) {
  struct Job {
    IntraPlan plan;
    Request request;
    std::vector<OperandShapes> operands;
  };
  std::vector<Job> jobs;
  int kinds = 0;
  for (bool uneven : {false, true})
    for (int m : {1, kMicroBatchesOfMany}) {
      if ((uneven && !input.options.uneven) || !std::count(micro_batches.begin(), micro_batches.end(), m)) continue;
      ++kinds;
      for (const Submesh& mesh : meshes)
        if (mesh.width > 1)
          jobs.push_back({{mesh.width, 1, IntraPlan::Rest::few, kinds}, {example(mesh), m, uneven}, {}});
    }
  parallel_for(jobs.size(), input.evaluator.threads(), [&](std::size_t i) {
    if (input.evaluator.stopping()) return;
    auto timer = input.evaluator.record().time(SearchLevel::substitution);
    const Request& r = jobs[i].request;
    jobs[i].operands = choose_shardings(plans, costs, input, r.micro_batches, r.devices, r.uneven).operands;
  });
  for (Job& job : jobs)
    if (!job.operands.empty()) plans.add(job.plan, std::move(job.operands));
  return kinds;
}

}  // namespace unity
