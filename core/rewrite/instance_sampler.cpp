// Finding shapes and attributes at which a rule's source is well-typed: first logical shapes (logical_sample.h), then
// layouts, from the shardings of the operators back through the parallelization operators to the variables.
#include <algorithm>
#include <utility>

#include "core/rewrite/logical_sample.h"

namespace unity {
namespace {

class Attempt {
 public:
  Attempt(const Rule& rule, const InstanceSampler::Facts& facts, const SampleOptions& options, std::uint64_t seed)
      : rule_(rule),
        facts_(facts.conditions),
        options_(options),
        draw_(seed),
        logical_(rule, facts, options, draw_),
        layouts_(rule.values.size()),
        results_(rule.source_nodes) {}

  Result<Instantiation> run() {
    UNITY_TRY_VOID(logical_.choose());
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      if (logical_.computes(n)) UNITY_TRY_VOID(choose_layouts(n));
    for (std::size_t n : logical_.stacks()) {
      PatternValue stack{-1, static_cast<int>(n), 0};
      if (UNITY_TRY(layout(stack))) continue;
      ParallelShape shape = random_layout(logical_.shape_of(stack));
      for (PatternValue in : rule_.nodes[n].inputs)
        if (auto is = UNITY_TRY(layout(in))) shape = *is;
      shape.partials = static_cast<int>(rule_.nodes[n].inputs.size());
      UNITY_TRY_VOID(lay_out(stack, shape));
    }
    std::vector<ParallelShape> variables;
    for (std::size_t v = 0; v < layouts_.size(); ++v)
      variables.push_back(layouts_[v] ? *layouts_[v]
                                      : facts_.pinned(v, supplied(v, random_layout(logical_.shape_of_variable(v)))));
    Instantiation result = instantiate(rule_, variables, logical_.attributes());
    if (result.fault == InstanceFault::source || result.fault == InstanceFault::condition)
      return fail("{}", result.why);
    return result;
  }

 private:
  ParallelShape random_layout(const ParallelShape& logical) {
    ParallelShape shape = logical;
    if (options_.serial || draw_.chance(35)) return shape;
    for (ParallelDim& dim : shape.dims)
      if (int d = draw_.of(options_.degrees); draw_.chance(50) && d <= dim.size) dim.degree = d;
    if (draw_.chance(40)) shape.copies = draw_.of(options_.degrees);
    if (draw_.chance(40) && shape.dtype != DType::i32) shape.partials = draw_.of(options_.degrees);
    return shape;
  }

  // The layout of a variable, changed so that the parallelization operators over it find what they take away.
  ParallelShape supplied(std::size_t variable, ParallelShape shape) {
    for (int t = 0; t < kSampleProposals; ++t) {
      std::vector<std::optional<ParallelShape>> made(rule_.source_nodes);
      bool changed = false;
      for (std::size_t n = 0; n < rule_.source_nodes && !changed; ++n) {
        const PatternNode& node = rule_.nodes[n];
        if (logical_.computes(n) || node.inputs.size() != 1) continue;
        PatternValue in = node.inputs[0];
        if (in.variable == static_cast<int>(variable))
          made[n] = shape;
        else if (in.node >= 0)
          made[n] = made[static_cast<std::size_t>(in.node)];
        auto attributes = logical_.attributes_of(n);
        if (!made[n] || !attributes.ok()) continue;
        auto result = infer_parallel_shapes(*node.op, *attributes, {*made[n]});
        if (result.ok()) {
          made[n] = (*result)[0];
          continue;
        }
        changed = supply(shape, node.op->name(), *attributes);
        if (!changed) return shape;
      }
      if (!changed) break;
    }
    return shape;
  }

  // What this operator lacks; false when nothing helps.
  static bool supply(ParallelShape& shape, const std::string& op, const Attributes& attributes) {
    if (op == "reduce" && shape.dtype == DType::i32) return false;
    if (op == "reduce") return shape.partials *= static_cast<int>(int_attribute(attributes, 0)), shape.partials < 1000;
    if (op == "replicate") return std::exchange(shape.partials, 1) > 1;
    if (attributes.size() < 2 || int_attribute(attributes, 0) < 0 ||
        int_attribute(attributes, 0) >= static_cast<std::int64_t>(shape.dims.size()))
      return false;
    ParallelDim& dim = shape.dims[static_cast<std::size_t>(int_attribute(attributes, 0))];
    auto d = static_cast<int>(int_attribute(attributes, 1));
    if (op == "combine") return dim.degree *= d, dim.degree <= dim.size;
    if (op == "partition") return std::exchange(dim.degree, 1) > 1;
    if (op == "batch") return dim.micro *= d, dim.size % (dim.degree * dim.micro) == 0;
    return false;
  }

  // The layout of a value, when those of the variables under it are known.
  Result<std::optional<ParallelShape>> layout(PatternValue v) {
    if (v.variable >= 0) return layouts_[static_cast<std::size_t>(v.variable)];
    auto n = static_cast<std::size_t>(v.node);
    if (results_[n].empty()) {
      std::vector<ParallelShape> inputs;
      for (PatternValue in : rule_.nodes[n].inputs) {
        auto shape = UNITY_TRY(layout(in));
        if (!shape) return std::optional<ParallelShape>();
        inputs.push_back(*shape);
      }
      results_[n] = UNITY_TRY(infer_parallel_shapes(*rule_.nodes[n].op, UNITY_TRY(logical_.attributes_of(n)), inputs));
    }
    if (v.output >= static_cast<int>(results_[n].size())) return fail("there is no result {}", v.output);
    return std::optional(results_[n][static_cast<std::size_t>(v.output)]);
  }

  // Lays out the unknown variables under `v` so that it gets `shape`.
  Result<void> lay_out(PatternValue v, ParallelShape shape) {
    if (v.variable >= 0) {
      auto& is = layouts_[static_cast<std::size_t>(v.variable)];
      ParallelShape wanted = is ? *is : facts_.pinned(static_cast<std::size_t>(v.variable), shape);
      if (wanted != shape) return fail("a variable is {}, expected {}", to_string(wanted), to_string(shape));
      is = shape;
      return {};
    }
    auto n = static_cast<std::size_t>(v.node);
    const PatternNode& node = rule_.nodes[n];
    const std::string& op = node.op->name();
    if (logical_.computes(n)) {
      auto is = UNITY_TRY(layout(v));
      if (is && *is == shape) return {};
      return fail("{} is computed: its layout is {}, expected {}", op, is ? to_string(*is) : "open", to_string(shape));
    }
    Attributes attributes = UNITY_TRY(logical_.attributes_of(n));
    auto undo = [&](int& degree, std::int64_t d, bool multiplied) -> Result<void> {
      if (d < 1 || (multiplied && degree % d != 0)) return fail("{}: degree {} does not lead to {}", op, d, degree);
      degree = static_cast<int>(multiplied ? degree / d : degree * d);
      return {};
    };
    Result<void> done;
    if (op == "stack_partials") {
      if (shape.partials != static_cast<int>(node.inputs.size()))
        return fail("{} summands do not lead to {}", node.inputs.size(), to_string(shape));
      shape.partials = 1;
    } else if (op == "replicate") {
      done = undo(shape.copies, int_attribute(attributes, 0), true);
    } else if (op == "reduce") {
      done = undo(shape.partials, int_attribute(attributes, 0), false);
    } else {
      std::int64_t dim = int_attribute(attributes, 0), d = int_attribute(attributes, 1);
      if (dim < 0 || dim >= static_cast<std::int64_t>(shape.dims.size())) return fail("there is no dimension {}", dim);
      ParallelDim& at = shape.dims[static_cast<std::size_t>(dim)];
      bool micro = op == "pipeline" || op == "batch";
      done = undo(micro ? at.micro : at.degree, d, op == "partition" || op == "pipeline");
      if (at.degree > at.size) return fail("degree {} is too large for size {}", at.degree, at.size);
    }
    if (!done.ok()) return done.error();
    for (PatternValue in : node.inputs) {
      auto below = lay_out(in, shape);
      if (!below.ok()) return below.error();
    }
    return {};
  }

  // By how much the partitions under an operand split each of its dimensions, and how often it is replicated.
  void factors(PatternValue v, std::vector<int>& split, int& copies) {
    if (v.variable >= 0 || logical_.computes(static_cast<std::size_t>(v.node))) return;
    auto n = static_cast<std::size_t>(v.node);
    auto attributes = logical_.attributes_of(n);
    if (!attributes.ok()) return;
    if (rule_.nodes[n].op->name() == "replicate") copies *= static_cast<int>(int_attribute(*attributes, 0));
    if (rule_.nodes[n].op->name() == "partition") {
      auto dim = static_cast<std::size_t>(int_attribute(*attributes, 0));
      if (dim < split.size()) split[dim] *= static_cast<int>(int_attribute(*attributes, 1));
    }
    for (PatternValue in : rule_.nodes[n].inputs) factors(in, split, copies);
  }

  // What the parallelization operators over an operator take away of its results.
  void demands(PatternValue v, const AxisTable& table, std::vector<int>& split, int& summed) {
    for (std::size_t m = 0; m < rule_.source_nodes; ++m) {
      const PatternNode& user = rule_.nodes[m];
      if (logical_.computes(m) || std::find(user.inputs.begin(), user.inputs.end(), v) == user.inputs.end()) continue;
      auto attributes = logical_.attributes_of(m);
      if (!attributes.ok()) continue;
      if (user.op->name() == "reduce") summed *= static_cast<int>(int_attribute(*attributes, 0));
      if (user.op->name() == "combine") {
        const auto& dims = table.outputs[0].dims;
        auto dim = static_cast<std::size_t>(int_attribute(*attributes, 0));
        int axis = dim < dims.size() ? split_axis(table, dims[dim]) : -1;
        if (axis >= 0) split[static_cast<std::size_t>(axis)] *= static_cast<int>(int_attribute(*attributes, 1));
      }
      demands({-1, static_cast<int>(m), 0}, table, split, summed);
    }
  }

  // A sharding of the operator that agrees with the operands whose layouts are known gives those of the others.
  Result<void> choose_layouts(std::size_t n) {
    const PatternNode& node = rule_.nodes[n];
    const AxisTable& table = logical_.table_of(n);
    const auto before = layouts_;
    const auto results_before = results_;
    Error last = fail("{}: no sharding was found", node.op->name());
    for (int t = 0; t < kSampleProposals; ++t) {
      layouts_ = before;
      results_ = results_before;
      auto done = propose_layouts(n, table);
      if (done.ok()) {
        if (auto shape = layout({-1, static_cast<int>(n), 0}); shape.ok())
          return {};
        else
          last = shape.error();
        continue;
      }
      last = done.error();
    }
    return last;
  }

  Result<void> propose_layouts(std::size_t at, const AxisTable& table) {
    const PatternNode& node = rule_.nodes[at];
    std::vector<std::optional<ParallelShape>> known(node.inputs.size());
    Sharding sharding;
    sharding.degrees.assign(table.axes.size(), 0);
    sharding.micro.assign(table.axes.size(), 1);
    std::vector<int> least(table.axes.size(), 1);
    int copies = 1;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      known[i] = UNITY_TRY(layout(node.inputs[i]));
      std::vector<int> split(table.inputs[i].dims.size(), 1);
      int of_operand = 1;
      if (!known[i]) factors(node.inputs[i], split, of_operand);
      copies = std::max(copies, of_operand);
      for (std::size_t j = 0; j < table.inputs[i].dims.size(); ++j) {
        int axis = split_axis(table, table.inputs[i].dims[j]);
        if (axis < 0) continue;
        auto a = static_cast<std::size_t>(axis);
        least[a] = std::max(least[a], split[j]);
        if (known[i]) sharding.degrees[a] = known[i]->dims[j].degree, sharding.micro[a] = known[i]->dims[j].micro;
      }
      if (known[i] && known[i]->partials > 1 && table.inputs[i].linear) sharding.passing = known[i]->partials;
    }
    std::vector<int> demanded(table.axes.size(), 1);
    int summed = 1;
    demands({-1, static_cast<int>(at), 0}, table, demanded, summed);
    for (std::size_t a = 0; a < table.axes.size(); ++a) least[a] = std::max(least[a], demanded[a]);
    if (summed > 1) {
      std::vector<std::size_t> reductions;
      for (std::size_t a = 0; a < table.axes.size(); ++a)
        if (table.axes[a].role == AxisRole::reduction && can_split(table, static_cast<int>(a))) reductions.push_back(a);
      bool through = table.linearity != Linearity::none && (reductions.empty() || draw_.chance(40));
      if (through && sharding.passing == 1)
        sharding.passing = summed;
      else if (!reductions.empty())
        least[draw_.of(reductions)] = summed;
    }
    bool random = !options_.serial && draw_.chance(50);
    for (std::size_t a = 0; a < table.axes.size(); ++a) {
      if (sharding.degrees[a] != 0) continue;
      int d = least[a] * (random && draw_.chance(35) ? draw_.of(options_.degrees) : 1);
      sharding.degrees[a] = can_split(table, static_cast<int>(a)) && d <= table.axes[a].size ? d : 1;
    }
    bool fresh_partial = random && sharding.passing == 1 && table.linearity != Linearity::none && draw_.chance(20);
    if (fresh_partial) sharding.passing = draw_.of(options_.degrees);
    sharding.copies = random && draw_.chance(50) ? draw_.of(options_.degrees) : draw_.chance(50) ? copies : 1;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (!known[i] || table.inputs[i].shape_only) continue;
      Sharding once = sharding;
      once.copies = 1;
      int needed = required_input_shape(table, once, i, known[i]->partials > 1).copies;
      if (known[i]->copies % needed != 0) return fail("operand {} has too few copies", i);
      sharding.copies = known[i]->copies / needed;
    }
    std::vector<std::size_t> linear;
    for (std::size_t i = 0; i < known.size(); ++i)
      if (table.inputs[i].linear && !table.inputs[i].shape_only) linear.push_back(i);
    bool some_known =
        std::any_of(linear.begin(), linear.end(), [&](std::size_t i) { return known[i] && known[i]->partials > 1; });
    std::size_t chosen = linear.empty() ? 0 : draw_.of(linear);
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i]) continue;
      bool partial = table.inputs[i].linear && sharding.passing > 1 &&
                     (table.linearity == Linearity::joint || (!some_known && i == chosen));
      ParallelShape shape = required_input_shape(table, sharding, i, partial);
      auto done = lay_out(node.inputs[i], shape);
      if (!done.ok()) return done.error();
    }
    return {};
  }

  const Rule& rule_;
  const ConditionFacts& facts_;
  const SampleOptions& options_;
  Draw draw_;
  LogicalSample logical_;
  std::vector<std::optional<ParallelShape>> layouts_;  // by value variable
  std::vector<std::vector<ParallelShape>> results_;    // layouts of source nodes' results
};

}  // namespace

InstanceSampler::InstanceSampler(const Rule& rule, SampleOptions options)
    : rule_(rule), options_(std::move(options)), facts_(std::make_shared<Facts>(rule)) {}

std::optional<Instantiation> InstanceSampler::next() {
  for (int t = 0; t < options_.tries; ++t) {
    auto attempt = Attempt(rule_, *facts_, options_, combine(options_.seed, draws_++)).run();
    if (attempt.ok()) return std::move(*attempt);
    obstacle_ = attempt.error().message;
  }
  return std::nullopt;
}

}  // namespace unity
