// Finding shapes and attributes at which a rule's source is well-typed: first logical shapes, operator by operator,
// then layouts, from the shardings of the operators back through the parallelization operators to the variables.
#include <algorithm>
#include <utility>

#include "core/base/random.h"
#include "core/rewrite/sampler_facts.h"

namespace unity {
namespace {

constexpr int kProposals = 24;  // of operands of one operator, in one attempt
const Integers kSizes = {4, 6, 12, 2, 3, 8};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : key_(RandomKey(seed)) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_below(key_, index_++, static_cast<std::uint64_t>(n)));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class List>
  const auto& of(const List& items) {
    return items[static_cast<std::size_t>(below(static_cast<std::int64_t>(items.size())))];
  }

 private:
  RandomKey key_;
  std::uint64_t index_ = 0;
};

class Attempt {
 public:
  Attempt(const Rule& rule, const InstanceSampler::Facts& facts, const SampleOptions& options, std::uint64_t seed)
      : rule_(rule),
        of_nodes_(facts.nodes),
        facts_(facts.conditions),
        known_(facts.conditions.known()),
        options_(options),
        draw_(seed),
        equal_size_(draw_.chance(25) ? draw_.of(kSizes) : 0),
        alike_(facts.conditions.has_likeness() && draw_.chance(75)),
        leaves_(rule.values.size()),
        nodes_(rule.source_nodes),
        attributes_(rule.attributes.size()),
        layouts_(rule.values.size()),
        results_(rule.source_nodes) {}

  Result<Instantiation> run() {
    for (const auto& [variable, value] : options_.attributes)
      attributes_.at(static_cast<std::size_t>(variable)) = value;
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) {
      if (!computes(n)) continue;
      auto chosen = choose_logical(n);
      if (!chosen.ok()) return chosen.error();
    }
    for (std::size_t n : stacks()) alike(n);
    for (std::size_t v = 0; v < leaves_.size(); ++v)
      if (!leaves_[v].node.valid()) add_leaf(v, {fit(v, random_dims(rank()), known_), DType::f32});
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) {
      auto chosen = choose_attributes(n, nullptr);
      if (!chosen.ok()) return chosen.error();
    }
    for (int p : rule_.parameters) {
      auto& attribute = attributes_[static_cast<std::size_t>(p)];
      if (!attribute) attribute = std::int64_t{draw_.of(options_.degrees)};
    }
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) {
      if (!computes(n)) continue;
      auto chosen = choose_layouts(n);
      if (!chosen.ok()) return chosen.error();
    }
    for (std::size_t n : stacks()) {
      PatternValue stack{-1, static_cast<int>(n), 0};
      if (UNITY_TRY(layout(stack))) continue;
      ParallelShape shape = random_layout(pcg_.shape(known(stack).value()));
      for (PatternValue in : rule_.nodes[n].inputs)
        if (auto is = UNITY_TRY(layout(in))) shape = *is;
      shape.partials = static_cast<int>(rule_.nodes[n].inputs.size());
      auto done = lay_out(stack, shape);
      if (!done.ok()) return done.error();
    }
    std::vector<ParallelShape> variables;
    for (std::size_t v = 0; v < layouts_.size(); ++v)
      variables.push_back(layouts_[v] ? *layouts_[v]
                                      : facts_.pinned(v, supplied(v, random_layout(pcg_.shape(leaves_[v])))));
    std::vector<AttributeValue> attributes;
    for (auto& attribute : attributes_) attributes.push_back(attribute ? *attribute : std::int64_t{1});
    Instantiation result = instantiate(rule_, variables, attributes);
    if (result.fault == InstanceFault::source || result.fault == InstanceFault::condition)
      return fail("{}", result.why);
    return result;
  }

 private:
  bool computes(std::size_t n) const { return rule_.nodes[n].op->category() == OpCategory::compute; }
  // In some attempts all sizes are equal: then transpositions and permutations of dimensions are well-typed anywhere.
  std::int64_t size() { return equal_size_ ? equal_size_ : draw_.of(kSizes); }
  std::int64_t rank() { return 1 + draw_.below(options_.max_rank); }
  Dims random_dims(std::int64_t rank) {
    Dims dims;
    for (std::int64_t i = 0; i < rank; ++i) dims.push_back(size());
    return dims;
  }

  // ---- Logical shapes, in a graph without parallelism

  Dims fit(std::size_t v, Dims dims, ConditionFacts::Known& known) {
    return facts_.fit(
        v, std::move(dims), known, [this] { return size(); }, alike_);
  }

  void add_leaf(std::size_t v, const Shape& shape) {
    auto leaf =
        pcg_.try_add(get_operator("input"), {shape.dims, std::string(to_string(shape.dtype))}, {}, {}, rule_.values[v]);
    leaves_[v] = {leaf.value(), 0};
  }

  // The value in the graph, once all variables under it are known.
  std::optional<ValueRef> known(PatternValue v) {
    if (v.variable >= 0) {
      ValueRef leaf = leaves_[static_cast<std::size_t>(v.variable)];
      return leaf.node.valid() ? std::optional(leaf) : std::nullopt;
    }
    auto n = static_cast<std::size_t>(v.node);
    if (!nodes_[n].valid() && !computes(n)) {
      for (PatternValue in : rule_.nodes[n].inputs)
        if (auto from = known(in))
          nodes_[n] = pcg_.try_add(get_operator("replicate"), {std::int64_t{1}}, {*from}).value();
    }
    return nodes_[n].valid() ? std::optional(ValueRef{nodes_[n], v.output}) : std::nullopt;
  }

  // The variables that stand, through parallelization operators, in the place of an operand.
  void variables_of(PatternValue v, std::vector<std::size_t>& variables) const {
    if (v.variable >= 0)
      variables.push_back(static_cast<std::size_t>(v.variable));
    else if (!computes(static_cast<std::size_t>(v.node)))
      for (PatternValue in : rule_.nodes[static_cast<std::size_t>(v.node)].inputs) variables_of(in, variables);
  }

  // The nodes that need operands of one shape.
  std::vector<std::size_t> stacks() const {
    std::vector<std::size_t> found;
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      if (!computes(n) && rule_.nodes[n].inputs.size() > 1) found.push_back(n);
    return found;
  }

  void alike(std::size_t stack) {
    std::vector<std::size_t> variables;
    variables_of({-1, static_cast<int>(stack), 0}, variables);
    Shape shape{random_dims(rank()), DType::f32};
    for (PatternValue in : rule_.nodes[stack].inputs)
      if (auto ref = known(in)) shape = pcg_.shape(*ref).shape();
    for (std::size_t v : variables)
      if (!leaves_[v].node.valid()) add_leaf(v, {fit(v, shape.dims, known_), shape.dtype});
  }

  Bindings bindings() const { return {pcg_, nodes_, leaves_, attributes_}; }

  // The value that a condition `variable == ..` gives.
  std::optional<AttributeValue> given(int variable) const {
    for (const Condition& c : rule_.conditions) {
      if (c.kind != Condition::Kind::equal) continue;
      for (auto [one, other] : {std::pair(&c.left, &c.right), std::pair(&c.right, &c.left)}) {
        if (one->kind != Expression::Kind::variable || one->variable != variable) continue;
        auto value = evaluate(*other, rule_, bindings());
        if (value.ok()) return *value;
      }
    }
    return std::nullopt;
  }

  AttributeValue random_attribute(const AttributeSpec& spec, const PatternNode& node,
                                  std::optional<AttributeValue> of_example) {
    if (node.op->category() == OpCategory::parallelization)
      return spec.name == "dim" ? draw_.below(2 + draw_.below(2)) : std::int64_t{draw_.of(options_.degrees)};
    // Flags are as often set as not, and lists of dimensions in any order: what an attribute decides must be seen.
    if (spec.kind == AttributeKind::integer && spec.name.starts_with("transpose")) return draw_.below(2);
    if (of_example && draw_.chance(80)) {
      auto* list = std::get_if<Integers>(&*of_example);
      if (list && draw_.chance(40))
        for (std::size_t i = list->size(); i > 1; --i)
          std::swap((*list)[i - 1], (*list)[static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(i)))]);
      return *of_example;
    }
    switch (spec.kind) {
      case AttributeKind::integer:
        return draw_.below(4);
      case AttributeKind::real:
        return draw_.of(std::vector<double>{2, 3, 0.5, 1, -1});
      case AttributeKind::integers: {
        Integers list;
        for (std::int64_t i = 1 + draw_.below(3); i > 0; --i) list.push_back(draw_.below(4));
        return list;
      }
      default:
        if (spec.required) return of_example ? *of_example : AttributeValue(std::string());
        return spec.fallback;
    }
  }

  // Values for those attribute variables that stand alone in this node.
  Result<Attributes> choose_attributes(std::size_t n, const Example* example) {
    const PatternNode& node = rule_.nodes[n];
    const std::vector<AttributeSpec>& specs = of_nodes_[n].specs;
    Attributes all;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!node.attributes[i]) {
        all.push_back(specs[i].fallback);
        continue;
      }
      const Expression& e = *node.attributes[i];
      if (e.kind == Expression::Kind::variable && !attributes_[static_cast<std::size_t>(e.variable)]) {
        auto value = given(e.variable);
        std::optional<AttributeValue> of_example;
        if (example && i < example->attributes.size()) of_example = example->attributes[i];
        attributes_[static_cast<std::size_t>(e.variable)] =
            value ? *value : random_attribute(specs[i], node, of_example);
      }
      all.push_back(UNITY_TRY(evaluate(e, rule_, bindings())));
    }
    return all;
  }

  // Attributes of the node, with the proposed shapes for those variables that have none.
  Result<Attributes> with_operands(std::size_t n, const std::vector<std::optional<Shape>>& of_variable,
                                   const Example* example) {
    Pcg pcg = pcg_;
    auto leaves = leaves_;
    for (std::size_t v = 0; v < of_variable.size(); ++v)
      if (of_variable[v]) add_leaf(v, *of_variable[v]);
    auto attributes = choose_attributes(n, example);
    pcg_ = std::move(pcg);
    leaves_ = std::move(leaves);
    return attributes;
  }

  Result<void> choose_logical(std::size_t n) {
    const PatternNode& node = rule_.nodes[n];
    const auto attributes_before = attributes_;
    std::vector<std::optional<Shape>> operands;
    for (PatternValue v : node.inputs) {
      auto ref = known(v);
      operands.push_back(ref ? std::optional(pcg_.shape(*ref).shape()) : std::nullopt);
    }
    const std::vector<Example>& examples = of_nodes_[n].examples;
    Error last = fail("{}: no operands were found", node.op->name());
    const bool sized = sized_by_operands(n);
    for (int t = 0; t < kProposals; ++t) {
      attributes_ = attributes_before;
      const Example* example = examples.empty() || draw_.chance(25) ? nullptr : &draw_.of(examples);
      Result<Attributes> attributes = Attributes();
      if (!sized) attributes = choose_attributes(n, example);
      if (!attributes.ok()) {
        last = attributes.error();
        continue;
      }
      std::vector<Shape> shapes =
          example ? from_example(*example, of_nodes_[n].tables[static_cast<std::size_t>(example - examples.data())],
                                 operands)
                  : from_known(operands);
      for (std::size_t i = 0; i < shapes.size(); ++i)
        if (of_nodes_[n].indices[i] && !operands[i]) shapes[i].dtype = DType::i32;
      // One variable in two places has one shape.
      std::vector<std::optional<Shape>> of_variable(leaves_.size());
      ConditionFacts::Known known_sizes = known_;
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        std::vector<std::size_t> variables;
        variables_of(node.inputs[i], variables);
        for (std::size_t v : variables) {
          if (leaves_[v].node.valid()) continue;
          if (!of_variable[v]) of_variable[v] = {fit(v, shapes[i].dims, known_sizes), shapes[i].dtype};
          shapes[i] = *of_variable[v];
        }
      }
      if (sized) {
        attributes = with_operands(n, of_variable, example);
        if (!attributes.ok()) {
          last = attributes.error();
          continue;
        }
      }
      auto table = node.op->axes(*attributes, shapes);
      if (!table.ok()) {
        last = table.error();
        continue;
      }
      if (static_cast<int>(table->outputs.size()) != node.results) {
        last = fail("{} has {} results, expected {}", node.op->name(), table->outputs.size(), node.results);
        continue;
      }
      known_ = std::move(known_sizes);
      for (std::size_t v = 0; v < of_variable.size(); ++v)
        if (of_variable[v]) add_leaf(v, *of_variable[v]);
      std::vector<ValueRef> inputs;
      for (PatternValue v : node.inputs) inputs.push_back(known(v).value());
      nodes_[n] = UNITY_TRY(pcg_.try_add(*node.op, std::move(*attributes), std::move(inputs)));
      return {};
    }
    return last;
  }

  // The example's operands, with the sizes of its axes drawn anew or taken from what is known.
  std::vector<Shape> from_example(const Example& example, std::optional<AxisTable> table,
                                  const std::vector<std::optional<Shape>>& operands) {
    std::vector<Shape> shapes = example.inputs;
    if (table) {
      for (Axis& axis : table->axes)
        if (axis.size > 1 && axis.role != AxisRole::window && (equal_size_ || draw_.chance(40))) axis.size = size();
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i] || operands[i]->dims.size() != table->inputs[i].dims.size()) continue;
        for (std::size_t j = 0; j < operands[i]->dims.size(); ++j) {
          const DimAxes& dim = table->inputs[i].dims[j];
          if (dim.axes.size() == 1 && !dim.window)
            table->axes[static_cast<std::size_t>(dim.axes[0])].size = operands[i]->dims[j];
        }
      }
      for (std::size_t i = 0; i < operands.size(); ++i) shapes[i].dims = operand_shape(*table, table->inputs[i]).dims;
    }
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i]) shapes[i] = *operands[i];
    return shapes;
  }

  // Whether a condition gives an attribute of the node once its operands are there.
  bool sized_by_operands(std::size_t n) const {
    for (const auto& e : rule_.nodes[n].attributes) {
      if (!e || e->kind != Expression::Kind::variable || attributes_[static_cast<std::size_t>(e->variable)]) continue;
      for (const Condition& c : rule_.conditions)
        for (auto [one, other] : {std::pair(&c.left, &c.right), std::pair(&c.right, &c.left)})
          if (c.kind == Condition::Kind::equal && one->kind == Expression::Kind::variable &&
              one->variable == e->variable && other->kind == Expression::Kind::list && !given(e->variable))
            return true;
    }
    return false;
  }

  // Shapes like those of a known operand, else any.
  std::vector<Shape> from_known(const std::vector<std::optional<Shape>>& operands) {
    std::vector<Shape> shapes(operands.size());
    Shape like{random_dims(rank()), DType::f32};
    for (const auto& operand : operands)
      if (operand && draw_.chance(75)) like = *operand;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      shapes[i] = operands[i] ? *operands[i] : like;
      if (operands[i]) continue;
      for (std::int64_t& size : shapes[i].dims)
        if (draw_.chance(15)) size = this->size();
      if (draw_.chance(20) && shapes[i].dims.size() > 1)
        shapes[i].dims.erase(
            shapes[i].dims.begin(),
            shapes[i].dims.begin() + 1 + draw_.below(static_cast<std::int64_t>(shapes[i].dims.size()) - 1));
    }
    return shapes;
  }

  // ---- Layouts

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
    for (int t = 0; t < kProposals; ++t) {
      std::vector<std::optional<ParallelShape>> made(rule_.source_nodes);
      bool changed = false;
      for (std::size_t n = 0; n < rule_.source_nodes && !changed; ++n) {
        const PatternNode& node = rule_.nodes[n];
        if (computes(n) || node.inputs.size() != 1) continue;
        PatternValue in = node.inputs[0];
        if (in.variable == static_cast<int>(variable))
          made[n] = shape;
        else if (in.node >= 0)
          made[n] = made[static_cast<std::size_t>(in.node)];
        auto attributes = choose_attributes(n, nullptr);
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
      results_[n] =
          UNITY_TRY(infer_parallel_shapes(*rule_.nodes[n].op, UNITY_TRY(choose_attributes(n, nullptr)), inputs));
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
    if (computes(n)) {
      auto is = UNITY_TRY(layout(v));
      if (is && *is == shape) return {};
      return fail("{} is computed: its layout is {}, expected {}", op, is ? to_string(*is) : "open", to_string(shape));
    }
    Attributes attributes = UNITY_TRY(choose_attributes(n, nullptr));
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
    if (v.variable >= 0 || computes(static_cast<std::size_t>(v.node))) return;
    auto n = static_cast<std::size_t>(v.node);
    auto attributes = choose_attributes(n, nullptr);
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
      if (computes(m) || std::find(user.inputs.begin(), user.inputs.end(), v) == user.inputs.end()) continue;
      auto attributes = choose_attributes(m, nullptr);
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
    const AxisTable& table = *pcg_[nodes_[n]].table;
    const auto before = layouts_;
    const auto results_before = results_;
    Error last = fail("{}: no sharding was found", node.op->name());
    for (int t = 0; t < kProposals; ++t) {
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
  const std::vector<InstanceSampler::Facts::OfNode>& of_nodes_;
  const ConditionFacts& facts_;
  ConditionFacts::Known known_;
  const SampleOptions& options_;
  Draw draw_;
  std::int64_t equal_size_;                                // 0: sizes differ
  bool alike_;                                             // variables that conditions liken have one shape
  Pcg pcg_;                                                // logical
  std::vector<ValueRef> leaves_;                           // by value variable
  std::vector<NodeId> nodes_;                              // by source node
  std::vector<std::optional<AttributeValue>> attributes_;  // by attribute variable
  std::vector<std::optional<ParallelShape>> layouts_;      // by value variable
  std::vector<std::vector<ParallelShape>> results_;        // layouts of source nodes' results
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
