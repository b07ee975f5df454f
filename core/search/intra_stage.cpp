#include "core/search/intra_stage.h"

#include <algorithm>
#include <numeric>

#include "core/base/parallel.h"
#include "core/plan/rematerialise.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/normalize.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/parallelism.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

std::vector<NodeId> compute_nodes(const Pcg& pcg) {
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].is_compute()) nodes.emplace_back(static_cast<std::int64_t>(i));
  return nodes;
}

// Members of an axis class that have room are split along it as well: of the batch's, or of the first class of
// positions that can be.
Result<State> fill(const State& state, const IntraPlan& plan) {
  std::string kind = plan.rest == IntraPlan::Rest::batch ? "data" : "spatial";
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (kinds_of_class(state.pcg, classes, c) != std::set<std::string>{kind}) continue;
    auto filled = apply_move(state, {Move::Kind::fill_class, static_cast<int>(c), plan.width(), plan.tensor});
    if (filled.ok() && most_tasks(filled->pcg) <= plan.width()) return filled;
  }
  return fail("nothing can be split further along its {} axes", kind);
}

}  // namespace

std::string to_string(const IntraPlan& plan) {
  if (plan.chosen > 0) return fmt::format("each operator over {}", plan.data);
  if (plan.tensor == 1) return fmt::format("data {}", plan.data);
  std::string tensor = fmt::format("tensor {}", plan.tensor);
  static constexpr std::string_view kRest[] = {"", " (rest by all)", " (rest by batch)", " (rest by sequence)"};
  tensor += kRest[static_cast<std::size_t>(plan.rest)];
  return plan.data == 1 ? tensor : fmt::format("data {} x {}", plan.data, tensor);
}

IntraPlans::IntraPlans(const Pcg& model, const StrategyInput& input)
    : in_(input), model_(normalize(model)), operators_(compute_nodes(model_)) {
  const std::map<NodeId, int> axes = batch_axes(model_);
  for (NodeId id : operators_) {
    auto axis = axes.find(id);
    batch_axis_.push_back(axis == axes.end() ? std::nullopt : std::optional(axis->second));
  }
  if (auto leaf = batch_leaf(model_); leaf.ok()) batch_ = model_.shape(*leaf).dims[0].size;
  needs_gradient_.assign(model_.size(), false);
  std::vector<std::size_t> place(model_.size(), 0);
  std::map<ValueRef, std::size_t> last_use;
  producers_.resize(operators_.size());
  for (std::size_t k = 0; k < operators_.size(); ++k) place[operators_[k].index()] = k;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    const Node& n = model_.nodes()[i];
    needs_gradient_[i] = n.is_leaf() && n.op->stored();
    for (ValueRef v : n.inputs) {
      needs_gradient_[i] = needs_gradient_[i] || needs_gradient_[v.node.index()];
      if (!model_[v.node].is_compute()) continue;
      last_use[v] = place[i];
      if (n.is_compute()) producers_[place[i]].push_back(place[v.node.index()]);
    }
  }
  in_block_.assign(operators_.size(), false), leaves_block_.assign(operators_.size(), false);
  for (std::size_t k = 0; k < operators_.size(); ++k) {
    std::string block = repeated_block(model_[operators_[k]].name);
    in_block_[k] = !block.empty();
    for (ValueRef v : model_[operators_[k]].inputs)
      if (model_[v.node].is_compute() && repeated_block(model_[v.node].name) != block)
        leaves_block_[place[v.node.index()]] = true;
  }
  std::vector<bool> of_all(operators_.size(), false);  // samples
  for (std::size_t k = 0; k < operators_.size(); ++k) {
    const auto axis = batch_axis(k);
    const bool by_sample =
        axis && model_[operators_[k]].table->axes[static_cast<std::size_t>(*axis)].role == AxisRole::parallel;
    of_all[k] = axis && !by_sample;
    for (std::size_t p : producers_[k]) {
      if (of_all[p] && by_sample) waits_for_batch_ = true;
      if (of_all[p] && !by_sample) of_all[k] = true;
    }
  }
  crossing_.assign(operators_.size() + 1, 0);
  for (const auto& [value, last] : last_use)
    for (std::size_t k = place[value.node.index()] + 1; k <= last; ++k)
      crossing_[k] += static_cast<double>(model_.shape(value).shape().bytes());
}

Result<State> IntraPlans::split_columns(const Columns& columns) const {
  auto [data, tensor, copies] = columns;
  // What is looked for in columns and rows takes long, and finds the same whether the batch is split before or after;
  // but copies would turn into shards of the batch.
  const bool batch_first = data == 1 || tensor == 1 || (copies && tensor % data == 0);
  if (!batch_first) return shard_batch(UNITY_TRY(columns_then_rows_.at({1, tensor, copies})), data);
  State state = UNITY_TRY(shard_batch({model_, {}, {}}, data));
  if (tensor == 1) return state;
  if (copies) state = UNITY_TRY(apply_move(state, {Move::Kind::replicate_all, 0, 0, tensor}));
  return column_then_row(state, tensor, data * tensor, true, in_.options.parallelism,
                         [&] { return in_.evaluator.stopping(); });
}

void IntraPlans::split_columns(const std::vector<Columns>& all) {
  std::vector<Columns> columns;
  for (const Columns& c : all)
    if (!columns_then_rows_.contains(c) && std::find(columns.begin(), columns.end(), c) == columns.end())
      columns.push_back(c);
  std::vector<Result<State>> split(columns.size(), fail("not split"));
  parallel_for(columns.size(), in_.evaluator.threads(), [&](std::size_t i) {
    if (in_.evaluator.stopping()) return;
    split[i] = in_.evaluator.record().timed(SearchLevel::substitution, [&] { return split_columns(columns[i]); });
  });
  for (std::size_t i = 0; i < columns.size(); ++i) columns_then_rows_.emplace(columns[i], std::move(split[i]));
}

Result<Pcg> IntraPlans::shard(const IntraPlan& plan) const {
  const State& state = UNITY_TRY(columns_then_rows_.at(columns_of(plan)));
  if (plan.rest == IntraPlan::Rest::few || plan.rest == IntraPlan::Rest::copies) return state.pcg;
  return UNITY_TRY(fill(state, plan)).pcg;
}

// Without the graph where it has not the model's operators in their order.
IntraPlans::Sharded IntraPlans::with_operators(Pcg pcg) const {
  Sharded sharded{std::nullopt, compute_nodes(pcg)};
  bool same = sharded.operators.size() == operators_.size();
  for (std::size_t k = 0; same && k < operators_.size(); ++k) {
    const Node &a = model_[operators_[k]], &b = pcg[sharded.operators[k]];
    same = a.op == b.op && a.name == b.name && a.inputs.size() == b.inputs.size();
  }
  if (same) sharded.pcg = std::move(pcg);
  return sharded;
}

void IntraPlans::add(const IntraPlan& plan, std::vector<OperandShapes> operands) {
  if (models_.contains(plan)) return;
  Layouts layouts(model_.size());
  int batch_degree = 1;
  for (std::size_t k = 0; k < operators_.size(); ++k) {
    const Node& n = model_[operators_[k]];
    if (auto axis = batch_axis_[k]) {
      Result<Sharding> sharding = infer_sharding(n.op->name(), *n.table, operands[k]);
      if (sharding.ok()) batch_degree = std::lcm(batch_degree, sharding->degrees[static_cast<std::size_t>(*axis)]);
    }
    OperandShapes whole;
    for (ValueRef v : n.inputs) whole.push_back(model_.shape(v));
    layouts[operators_[k].index()] = {std::move(operands[k]), std::move(whole)};
  }
  Result<Relaid> relaid = relayout(model_, layouts);
  if (!relaid.ok()) return;
  Sharded sharded = with_operators(std::move(relaid->pcg));
  if (!sharded.pcg) return;
  of_width(plan.width());
  models_.emplace(plan, std::move(sharded));
  batch_degrees_.emplace(plan, batch_degree);
  of_width_[plan.width()].push_back(plan);
}

void IntraPlans::shard_all(std::vector<IntraPlan> plans) {
  std::sort(plans.begin(), plans.end());
  plans.erase(std::unique(plans.begin(), plans.end()), plans.end());
  std::erase_if(plans, [&](const IntraPlan& p) { return models_.contains(p); });
  std::vector<Columns> alone, columns;  // without splits of the batch
  for (const IntraPlan& p : plans) {
    columns.push_back(columns_of(p));
    if (p.tensor > 1) alone.emplace_back(1, p.tensor, p.rest == IntraPlan::Rest::copies);
  }
  split_columns(alone);
  split_columns(columns);
  std::vector<Sharded> sharded(plans.size());
  parallel_for(plans.size(), in_.evaluator.threads(), [&](std::size_t i) {
    if (in_.evaluator.stopping()) return;
    auto pcg = in_.evaluator.record().timed(SearchLevel::substitution, [&] { return shard(plans[i]); });
    if (pcg.ok()) sharded[i] = with_operators(std::move(*pcg));
  });
  for (std::size_t i = 0; i < plans.size(); ++i) models_.emplace(plans[i], std::move(sharded[i]));
}

const Pcg* IntraPlans::sharded(const IntraPlan& plan) {
  if (!is_allowed(plan)) return nullptr;
  shard_all({plan});
  const Sharded& found = models_.at(plan);
  return found.pcg ? &*found.pcg : nullptr;
}

// What columns and rows are split, column_then_row() chooses.
bool IntraPlans::is_allowed(const IntraPlan& plan) const {
  if (plan.tensor > 1 && !in_.options.templates) return false;
  std::set<std::string> kinds;
  if (plan.data > 1 || plan.rest == IntraPlan::Rest::batch) kinds.insert("data");
  if (plan.rest == IntraPlan::Rest::sequence) kinds.insert("spatial");
  return unity::is_allowed(kinds, in_.options.parallelism);
}

std::vector<IntraPlan> IntraPlans::possible(int width) const {
  std::vector<IntraPlan> plans;
  const Topology& topology = in_.evaluator.cost().topology();
  int per_node = std::max(1, in_.devices / std::max(1, std::min(topology.nodes, in_.devices)));
  for (int tensor = 1; tensor <= std::min(width, per_node); ++tensor) {
    if (width % tensor != 0) continue;
    for (IntraPlan::Rest rest :
         {IntraPlan::Rest::few, IntraPlan::Rest::copies, IntraPlan::Rest::batch, IntraPlan::Rest::sequence}) {
      const IntraPlan plan{width / tensor, tensor, rest};
      if ((tensor > 1 || rest == IntraPlan::Rest::few) && is_allowed(plan)) plans.push_back(plan);
    }
  }
  return plans;
}

void IntraPlans::prepare(const std::vector<int>& widths) {
  std::vector<IntraPlan> all;
  for (int width : widths) {
    std::vector<IntraPlan> plans = possible(width);
    all.insert(all.end(), plans.begin(), plans.end());
  }
  shard_all(std::move(all));
  for (int width : widths) of_width(width);
}

const std::vector<IntraPlan>& IntraPlans::of_width(int width) {
  if (auto known = of_width_.find(width); known != of_width_.end()) return known->second;
  std::vector<IntraPlan> plans = possible(width);
  shard_all(plans);
  std::erase_if(plans, [&](const IntraPlan& p) { return !models_.at(p).pcg; });
  return of_width_.emplace(width, std::move(plans)).first->second;
}

OperandShapes IntraPlans::operands(const IntraPlan& plan, std::size_t op) const {
  const Sharded& model = models_.at(plan);
  OperandShapes shapes;
  for (ValueRef v : (*model.pcg)[model.operators[op]].inputs) shapes.push_back(model.pcg->shape(v));
  return shapes;
}

double IntraPlans::flops_of(std::size_t begin, std::size_t end) const {
  double sum = 0;
  for (std::size_t k = begin; k < end; ++k) {
    const AxisTable& table = *model_[operators_[k]].table;
    sum += flops(table, full_ranges(table));
  }
  return sum;
}

bool IntraPlans::has_micro_batches(const IntraPlan& plan, int micro_batches) const {
  int devices = plan.rest == IntraPlan::Rest::batch ? plan.width() : plan.data;
  if (plan.chosen > 0) devices = batch_degrees_.at(plan);
  return batch_ % (static_cast<std::int64_t>(devices) * micro_batches) == 0;
}

}  // namespace unity
