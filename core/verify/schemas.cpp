#include "core/verify/schemas.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <span>

#include "core/base/text.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/rule_text.h"
#include "core/rewrite/signature.h"
#include "core/verify/evaluation.h"
#include "core/verify/shape_facts.h"

namespace unity {
namespace {

// An equation as text, and shapes at which to evaluate it: by value variable, in the order of their first use.
struct Candidate {
  std::string name, text;
  std::vector<std::pair<std::map<std::string, Shape>, std::map<std::string, AttributeValue>>> trials;
};

// Sizes of the two parts of a joined axis, and the groups in which they interleave.
constexpr std::array<std::array<std::int64_t, 3>, 6> kJoins = {
    {{2, 2, 1}, {2, 3, 1}, {3, 1, 1}, {4, 6, 1}, {2, 4, 2}, {6, 3, 3}}};

constexpr std::size_t kMostStated = 4;  // operands of concat, results of split, of which operators state axioms

class Writer {
 public:
  Writer(const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs, const AxisTable& table)
      : op_(op), attributes_(attributes), inputs_(inputs), table_(table) {
    facts_ = shape_facts(op, attributes, inputs, table);
  }

  std::vector<Candidate> run() {
    for (int a = 0; a < static_cast<int>(table_.axes.size()); ++a) shard(a);
    if (table_.linearity == Linearity::joint) linear(-1);
    if (table_.linearity == Linearity::multilinear)
      for (std::size_t i = 0; i < table_.inputs.size(); ++i)
        if (table_.inputs[i].linear && !table_.inputs[i].shape_only) linear(static_cast<int>(i));
    if (bool broadcasts = false; is_pointwise(broadcasts)) pointwise(broadcasts);
    if (op_.name() == "concat" && inputs_.size() > kMostStated) nested();
    if (op_.name() == "split" && table_.outputs.size() > kMostStated) rejoined();
    return std::move(candidates_);
  }

 private:
  // ---- Text

  std::string call(const std::vector<std::string>& operands) const {
    auto specs = op_.attributes();
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].required) arguments.push_back(fmt::format("a{}", i));
    arguments.insert(arguments.end(), operands.begin(), operands.end());
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (!specs[i].required) arguments.push_back(fmt::format("{}=a{}", specs[i].name, i));
    return fmt::format("{}({})", op_.name(), join(arguments));
  }

  // Equation of the results of the first call with those of the others, each joined by `joined(result, terms)`.
  template <class Join>
  std::string equation(const std::string& identifier, const std::string& whole, const std::vector<std::string>& parts,
                       Join&& joined) const {
    std::size_t results = table_.outputs.size();
    if (results == 1) return fmt::format("axiom {}\n  {} = {}\n", identifier, whole, joined(0, parts));
    std::vector<std::string> lets, left, right;
    auto names = [&](const std::string& prefix) {
      std::vector<std::string> all;
      for (std::size_t o = 0; o < results; ++o) all.push_back(fmt::format("{}{}", prefix, o));
      return all;
    };
    lets.push_back(fmt::format("({}) = {}", join(names("y")), whole));
    for (std::size_t p = 0; p < parts.size(); ++p)
      lets.push_back(fmt::format("({}) = {}", join(names(fmt::format("z{}_", p))), parts[p]));
    for (std::size_t o = 0; o < results; ++o) {
      std::vector<std::string> terms;
      for (std::size_t p = 0; p < parts.size(); ++p) terms.push_back(fmt::format("z{}_{}", p, o));
      right.push_back(joined(o, terms));
    }
    return fmt::format("axiom {}\n  let {}\n  ({}) = ({})\n", identifier, join(lets), join(names("y")), join(right));
  }

  // Where the structure is this one: ranks, sizes of 1 and equal sizes that types do not already ask for.
  // `names[i]`: the variables in the place of operand i.
  std::string where(const std::vector<std::vector<std::string>>& names, std::vector<std::string> conditions,
                    bool required_too = false) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      for (const std::string& x : names[i])
        conditions.push_back(fmt::format("rank({}) == {}", x, inputs_[i].dims.size()));
    auto each = [&](OperandDim d, auto&& f) {
      for (std::size_t p = 0; p < names[static_cast<std::size_t>(d.operand)].size(); ++p) f(p);
    };
    for (OperandDim d : facts_.ones)
      each(d, [&](std::size_t p) {
        conditions.push_back(fmt::format("dim({}, {}) == 1", names[static_cast<std::size_t>(d.operand)][p], d.dim));
      });
    auto equal = [&](const std::vector<std::pair<OperandDim, OperandDim>>& pairs) {
      for (const auto& [a, b] : pairs) {
        const auto &of_a = names[static_cast<std::size_t>(a.operand)],
                   &of_b = names[static_cast<std::size_t>(b.operand)];
        for (std::size_t p = 0; p < std::max(of_a.size(), of_b.size()); ++p)
          conditions.push_back(fmt::format("dim({}, {}) == dim({}, {})", of_a[std::min(p, of_a.size() - 1)], a.dim,
                                           of_b[std::min(p, of_b.size() - 1)], b.dim));
      }
    };
    equal(facts_.aligned);
    if (required_too) equal(facts_.required);
    return conditions.empty() ? "" : fmt::format("  where {}\n", join(conditions));
  }

  std::string x(std::size_t i) const { return fmt::format("x{}", i); }
  std::string identifier(const std::string& kind, const std::string& what) const {
    return fmt::format("{}_{}_{}", kind, op_.name(), what);
  }

  // ---- Equations

  // The one dimension that walks the axis alone: -1 when none walks it, -2 when it is walked in another way.
  int walker(const OperandAxes& operand, int axis) const {
    int found = -1;
    for (std::size_t j = 0; j < operand.dims.size(); ++j) {
      const DimAxes& dim = operand.dims[j];
      if (std::find(dim.axes.begin(), dim.axes.end(), axis) == dim.axes.end()) continue;
      bool alone = std::all_of(dim.axes.begin(), dim.axes.end(),
                               [&](int a) { return a == axis || table_.axes[static_cast<std::size_t>(a)].size == 1; });
      if (found != -1 || !alone || dim.window) return -2;
      found = static_cast<int>(j);
    }
    return found;
  }

  // Whether the size of a dimension is that of every result in some dimension.
  bool shows(const DimAxes& dim) const {
    if (dim.axes.size() != 1 || dim.window) return false;
    return std::all_of(table_.outputs.begin(), table_.outputs.end(), [&](const OperandAxes& out) {
      return std::any_of(out.dims.begin(), out.dims.end(),
                         [&](const DimAxes& d) { return d.axes == dim.axes && !d.window; });
    });
  }

  void shard(int axis) {
    const Axis& info = table_.axes[static_cast<std::size_t>(axis)];
    if (info.role != AxisRole::parallel && info.role != AxisRole::reduction) return;
    std::vector<std::string> whole, first, second, conditions;
    std::vector<std::vector<std::string>> names;
    std::vector<std::pair<std::size_t, int>> walkers;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i) {
      int dim = walker(table_.inputs[i], axis);
      if (dim == -2 || (table_.inputs[i].shape_only && dim >= 0)) return;
      if (dim < 0) {
        for (auto* list : {&whole, &first, &second}) list->push_back(x(i));
        names.push_back({x(i)});
        continue;
      }
      std::string a = x(i) + "a", b = x(i) + "b";
      whole.push_back(fmt::format("concat({}, {}, {}, groups=g)", dim, a, b));
      first.push_back(a), second.push_back(b);
      names.push_back({a, b});
      if (!walkers.empty())
        for (std::size_t p : {0, 1})
          conditions.push_back(fmt::format("dim({}, {}) == dim({}, {})", names[walkers[0].first][p], walkers[0].second,
                                           names[i][p], dim));
      walkers.emplace_back(i, dim);
      // Of the dimensions that no result shows to be equal.
      for (std::size_t j = 0; j < inputs_[i].dims.size(); ++j)
        if (static_cast<int>(j) != dim && !shows(table_.inputs[i].dims[j]))
          conditions.push_back(fmt::format("dim({}, {}) == dim({}, {})", a, j, b, j));
    }
    if (walkers.empty()) return;
    std::vector<int> dims;
    for (const OperandAxes& out : table_.outputs) {
      dims.push_back(walker(out, axis));
      if (dims.back() == -2) return;
    }
    Candidate c{fmt::format("shard({}.{})", op_.name(), info.name), {}, {}};
    c.text = equation(identifier("shard", info.name), call(whole), {call(first), call(second)},
                      [&](std::size_t o, const std::vector<std::string>& terms) {
                        if (dims[o] >= 0) return fmt::format("concat({}, {}, groups=g)", dims[o], join(terms));
                        return fmt::format("{}({})", info.monoid == Monoid::max ? "maximum" : "add", join(terms));
                      }) +
             where(names, conditions);
    for (auto [first_size, second_size, groups] : kJoins) {
      std::map<std::string, Shape> shapes;
      for (std::size_t i = 0; i < names.size(); ++i)
        for (const std::string& name : names[i]) shapes[name] = inputs_[i];
      for (auto [i, dim] : walkers) {
        shapes[names[i][0]].dims[static_cast<std::size_t>(dim)] = first_size;
        shapes[names[i][1]].dims[static_cast<std::size_t>(dim)] = second_size;
      }
      c.trials.push_back({shapes, {{"g", groups}}});
    }
    candidates_.push_back(std::move(c));
  }

  // `operand`: -1: all linear ones together.
  void linear(int operand) {
    std::vector<std::string> whole, first, second, scaled, plain, conditions;
    std::vector<std::vector<std::string>> names, plain_names;
    std::map<std::string, Shape> shapes, plain_shapes;
    for (std::size_t i = 0; i < table_.inputs.size(); ++i) {
      bool splits =
          table_.inputs[i].linear && !table_.inputs[i].shape_only && (operand < 0 || operand == static_cast<int>(i));
      std::string a = x(i) + "a", b = x(i) + "b";
      whole.push_back(splits ? fmt::format("add({}, {})", a, b) : x(i));
      first.push_back(splits ? a : x(i));
      second.push_back(splits ? b : x(i));
      scaled.push_back(splits ? fmt::format("scale(f, {})", x(i)) : x(i));
      plain.push_back(x(i));
      names.push_back(splits ? std::vector{a, b} : std::vector{x(i)});
      plain_names.push_back({x(i)});
      for (const std::string& name : names.back()) shapes[name] = inputs_[i];
      plain_shapes[x(i)] = inputs_[i];
      for (std::size_t j = 0; splits && j < inputs_[i].dims.size(); ++j)
        conditions.push_back(fmt::format("dim({}, {}) == dim({}, {})", a, j, b, j));
    }
    // Sums and multiples are of real numbers: not of an operand that may also hold others.
    for (const Example& e : op_.examples())
      for (std::size_t i = 0; i < names.size() && i < e.inputs.size(); ++i)
        if (names[i].size() > 1 && e.inputs[i].dtype != DType::f32) return;
    std::string which = operand < 0 ? "all" : std::to_string(operand);
    std::string name =
        operand < 0 ? fmt::format("linear({})", op_.name()) : fmt::format("linear({}.{})", op_.name(), operand);
    Candidate sum{name, {}, {{shapes, {}}}};
    sum.text = equation(identifier("linear", which), call(whole), {call(first), call(second)},
                        [](std::size_t, const std::vector<std::string>& terms) {
                          return fmt::format("add({})", join(terms));
                        }) +
               where(names, conditions);
    candidates_.push_back(std::move(sum));
    Candidate multiple{name, {}, {{plain_shapes, {{"f", 3.0}}}}};
    multiple.text = equation(identifier("homogeneous", which), call(scaled), {call(plain)},
                             [](std::size_t, const std::vector<std::string>& terms) {
                               return fmt::format("scale(f, {})", terms[0]);
                             }) +
                    where(plain_names, {});
    candidates_.push_back(std::move(multiple));
  }

  // Every dimension of the result walks an axis of its own; operands walk the same ones, have one element there
  // (`broadcasts`), or no dimensions. Not of what is told sizes or places by its attributes, and moves nothing only
  // where these happen to be the operand's: a slice of everything, a reshape to the same shape.
  bool is_pointwise(bool& broadcasts) const {
    if (table_.outputs.size() != 1 || table_.axes.empty()) return false;
    for (const AttributeSpec& spec : op_.attributes())
      if (spec.kind == AttributeKind::integers) return false;
    auto is = [&](const OperandAxes& o, bool input) {
      if (o.shape_only || (o.dims.size() != table_.axes.size() && !(input && o.dims.empty()))) return false;
      for (std::size_t j = 0; j < o.dims.size(); ++j) {
        if (input && o.dims[j].axes.empty() && !o.dims[j].window) {
          broadcasts = true;
          continue;
        }
        if (o.dims[j].window || o.dims[j].axes != std::vector<int>{static_cast<int>(j)} ||
            table_.axes[j].role != AxisRole::parallel)
          return false;
      }
      return true;
    };
    return is(table_.outputs[0], false) &&
           std::all_of(table_.inputs.begin(), table_.inputs.end(), [&](const OperandAxes& o) { return is(o, true); });
  }

  void pointwise(bool broadcasts) {
    std::vector<std::vector<std::string>> names;
    std::vector<std::string> plain;
    std::map<std::string, Shape> shapes;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      plain.push_back(x(i));
      names.push_back({x(i)});
      shapes[x(i)] = inputs_[i];
    }
    const Dims dims = operand_shape(table_, table_.outputs[0]).dims;
    Dims forward(dims.size()), reversed, turned, starts(dims.size(), 0), sizes(dims.size(), 1);
    for (std::size_t j = 0; j < dims.size(); ++j) forward[j] = static_cast<std::int64_t>(j);
    reversed.assign(forward.rbegin(), forward.rend());
    turned.assign(dims.rbegin(), dims.rend());
    starts[0] = dims[0] - 1;
    using Values = std::map<std::string, AttributeValue>;
    std::vector<std::tuple<std::string, std::string, std::vector<Values>>> movers = {
        {"transpose", "transpose(p, {})", {{{"p", forward}}, {{"p", reversed}}}},
        {"reshape", "reshape(s, {})", {{{"s", Dims{element_count(dims)}}}, {{"s", turned}}}},
        {"slice", "slice(b, s, {})", {{{"b", starts}, {"s", sizes}}, {{"b", Dims(dims.size(), 0)}, {"s", dims}}}}};
    if (broadcasts) movers.resize(1);
    for (const auto& [mover, form, values] : movers) {
      auto moved_one = [&, &form = form](const std::string& x) { return fmt::format(fmt::runtime(form), x); };
      std::vector<std::string> moved;
      for (std::size_t i = 0; i < plain.size(); ++i)
        moved.push_back(inputs_[i].dims.empty() ? plain[i] : moved_one(plain[i]));
      Candidate c{fmt::format("pointwise({})", op_.name()), {}, {}};
      c.text = equation(identifier("pointwise", mover), call(moved), {call(plain)},
                        [&](std::size_t, const std::vector<std::string>& terms) { return moved_one(terms[0]); }) +
               where(names, {}, true);
      for (const Values& value : values) c.trials.push_back({shapes, value});
      candidates_.push_back(std::move(c));
    }
  }

  // The joins of halves, of halves of these, and so on: by twos.
  static std::string joined_by_twos(std::span<const std::string> parts) {
    if (parts.size() == 1) return parts[0];
    const std::size_t half = (parts.size() + 1) / 2;
    return fmt::format("concat(d, {}, {}, groups=g)", joined_by_twos(parts.first(half)),
                       joined_by_twos(parts.subspan(half)));
  }

  void nested() {
    std::vector<std::string> parts;
    std::map<std::string, Shape> shapes;
    for (std::size_t i = 0; i < inputs_.size(); ++i) parts.push_back(x(i)), shapes[x(i)] = inputs_[i];
    Candidate c{"nested(concat)", {}, {}};
    c.text = fmt::format("axiom {}\n  concat(d, {}, groups=g) = {}\n",
                         identifier("nested", std::to_string(inputs_.size())), join(parts), joined_by_twos(parts));
    c.trials.push_back({shapes, {{"d", attributes_[0]}, {"g", attributes_[1]}}});
    for (auto& [name, shape] : shapes) shape = inputs_[0];
    for (std::size_t j = 0; j < inputs_[0].dims.size(); ++j)
      for (std::int64_t groups : {1, 2, 3})
        c.trials.push_back({shapes, {{"d", static_cast<std::int64_t>(j)}, {"g", groups}}});
    candidates_.push_back(std::move(c));
  }

  // The parts joined again.
  void rejoined() {
    std::vector<std::string> parts;
    for (std::size_t o = 0; o < table_.outputs.size(); ++o) parts.push_back(fmt::format("y{}", o));
    Candidate c{"nested(split)", {}, {}};
    c.text = fmt::format("axiom {}\n  let ({}) = split(d, s, x, groups=g)\n  concat(d, {}, groups=g) = x\n",
                         identifier("rejoined", std::to_string(parts.size())), join(parts), join(parts));
    c.trials.push_back({{{"x", inputs_[0]}}, {{"d", attributes_[0]}, {"s", attributes_[1]}, {"g", attributes_[2]}}});
    candidates_.push_back(std::move(c));
  }

  const Operator& op_;
  const Attributes& attributes_;
  const std::vector<Shape>& inputs_;
  const AxisTable& table_;
  ShapeFacts facts_;
  std::vector<Candidate> candidates_;
};

// The same structure with small sizes, where the operator takes them.
std::vector<Shape> shrunk(const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs,
                          const AxisTable& table) {
  AxisTable small = table;
  for (Axis& axis : small.axes)
    if (axis.size > 3 && axis.role != AxisRole::window) axis.size = 2 + axis.size % 2;
  std::vector<Shape> shapes;
  for (const OperandAxes& operand : small.inputs) shapes.push_back(operand_shape(small, operand));
  auto typed = op.axes(attributes, shapes);
  return typed.ok() && hash_structure(*typed) == hash_structure(table) ? shapes : inputs;
}

enum class Evaluation { equal, different, no_trial };

Evaluation evaluate_trials(const Schema& schema, const Candidate& candidate, const Attributes& attributes) {
  Evaluation found = Evaluation::no_trial;
  for (const auto& [shapes, free] : candidate.trials) {
    std::vector<ParallelShape> variables;
    for (const std::string& name : schema.axiom.values) variables.push_back(serial(shapes.at(name)));
    std::vector<AttributeValue> values;
    for (std::size_t a = 0; a < schema.axiom.attributes.size(); ++a)
      values.push_back(schema.attributes[a] >= 0 ? attributes[static_cast<std::size_t>(schema.attributes[a])]
                                                 : free.at(schema.axiom.attributes[a]));
    Instantiation at = instantiate(schema.axiom, variables, values);
    if (at.fault == InstanceFault::source || at.fault == InstanceFault::condition) continue;
    if (at.fault != InstanceFault::none) return Evaluation::different;
    for (std::uint64_t seed : {1, 2})
      if (!equal_values(at.instance, DType::mod, seed)) return Evaluation::different;
    found = Evaluation::equal;
  }
  return found;
}

// Whether the equation fails with another value of the attribute under which the operator's table stays the same.
bool depends_on(const Schema& schema, const Candidate& candidate, std::size_t attribute, const Operator& op,
                const Attributes& attributes, const std::vector<Shape>& inputs, const AxisTable& table) {
  const auto* value = std::get_if<std::int64_t>(&attributes[attribute]);
  if (!value) return false;
  const Hash structure = hash_structure(table);
  for (std::int64_t other : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, *value + 1, *value - 1,
                             *value * 2, *value / 2}) {
    if (other == *value) continue;
    Attributes others = attributes;
    others[attribute] = other;
    auto with_other = op.axes(others, inputs);
    if (!with_other.ok() || hash_structure(*with_other) != structure) continue;
    if (evaluate_trials(schema, candidate, others) == Evaluation::different) return true;
  }
  return false;
}

struct Derived {
  std::vector<Schema> holding, refuted;
};

Derived derive(const Operator& op, const Attributes& attributes, const std::vector<Shape>& at, const AxisTable& table) {
  Derived derived;
  std::vector<Shape> inputs = shrunk(op, attributes, at, table);
  AxisTable small = op.axes(attributes, inputs).value();
  for (Candidate& c : Writer(op, attributes, inputs, small).run()) {
    Schema schema{c.name, parse_axioms(c.text, "schemas of " + op.name()).front(), {}, {}};
    for (const std::string& name : schema.axiom.attributes)
      schema.attributes.push_back(name[0] == 'a' ? std::stoi(name.substr(1)) : -1);
    Evaluation found = evaluate_trials(schema, c, attributes);
    for (int a : schema.attributes)
      if (found == Evaluation::equal && a >= 0 &&
          depends_on(schema, c, static_cast<std::size_t>(a), op, attributes, inputs, small))
        schema.at_values.push_back(a);
    if (found == Evaluation::equal) derived.holding.push_back(std::move(schema));
    if (found == Evaluation::different) derived.refuted.push_back(std::move(schema));
  }
  return derived;
}

// Deriving evaluates, so what was derived is kept, for good.
const Derived& derived_from(const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs) {
  static std::mutex mutex;
  static std::map<Hash, Derived> kept;
  auto table = op.axes(attributes, inputs);
  static const Derived none;
  if (!table.ok()) return none;
  Hash key = combine(combine(hash_text(op.name()), hash_attributes(attributes)), hash_structure(*table));
  {
    std::lock_guard lock(mutex);
    if (auto found = kept.find(key); found != kept.end()) return found->second;
  }
  Derived derived = derive(op, attributes, inputs, *table);
  std::lock_guard lock(mutex);
  return kept.emplace(key, std::move(derived)).first->second;
}

}  // namespace

const std::vector<Schema>& schemas_of(const Operator& op, const Attributes& attributes,
                                      const std::vector<Shape>& inputs) {
  return derived_from(op, attributes, inputs).holding;
}

const std::vector<Schema>& refuted_schemas_of(const Operator& op, const Attributes& attributes,
                                              const std::vector<Shape>& inputs) {
  return derived_from(op, attributes, inputs).refuted;
}

}  // namespace unity
