#include "core/generate/generalise.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/generate/degrees.h"
#include "core/graph/lexer.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

// A rule in the making.
struct Form {
  AttributeTexts attributes;
  std::vector<std::string> conditions;
  std::map<std::int64_t, std::string> named_dims;  // that are not literals any more, and their names
};

constexpr int kFewest = 3;                     // instances that make a form plausible
constexpr std::int64_t kManyPoints = 1 << 16;  // of an instance's loops: evaluated only where there are too few others
constexpr std::int64_t kLargestWindow = 3;     // of a kernel, which may be a condition

bool is_list(const AttributeValue& v) { return std::holds_alternative<Integers>(v); }

class Generaliser {
 public:
  Generaliser(const PairPattern& pattern, std::string name, const GeneraliseOptions& options)
      : p_(pattern), name_(std::move(name)), options_(options) {
    for (const PairPattern::Node& node : p_.nodes) specs_.push_back(node.op.op->attributes());
    linearise();
    for (const ParallelShape& layout : p_.layouts) variables_.push_back(layout.shape());
  }

  Generalised run() {
    Generalised result;
    Form form{literal_attributes(p_), {}, {}};
    name_degrees(p_, form.attributes);
    target_reals(form);
    if (!start(form, result.why)) return result;
    Form literal = form;
    Form plain = form;  // its attributes stay
    generalise_attributes(form);
    for (Form* f : {&plain, &form}) {
      generalise_dims(*f);
      last_dims(*f);
      drop_conditions(*f);
    }
    Form at_ranks = form;
    for (Form* f : {&at_ranks, &literal})
      for (std::size_t v = 0; v < p_.values.size(); ++v)
        add(*f, fmt::format("rank({}) == {}", p_.values[v], variables_[v].dims.size()));
    // Where operands may broadcast, few instances show that it is only right for operands of one shape.
    Form alike = at_ranks, alike_literal = literal;
    for (Form* f : {&alike, &alike_literal}) add_alike(*f);
    Form windows = alike_literal;
    add_windows(windows);
    Form along = alike_along_dims(alike);
    for (const Form& f : {form, along, at_ranks, plain, literal, alike, alike_literal, windows}) {
      auto rule = parse(f);
      if (rule && (result.forms.empty() || print(result.forms.back()) != print(*rule)))
        result.forms.push_back(std::move(*rule));
    }
    return result;
  }

 private:
  // ---- Rules of forms

  std::string text(const Form& form) const { return rule_text(p_, name_, form.attributes, form.conditions); }

  std::optional<Rule> parse(const Form& form) const {
    try {
      return std::move(parse_rules(text(form), "generated").front());
    } catch (const InputError&) {
      return std::nullopt;  // a condition on a name that this form does not bind
    }
  }

  bool holds(const Form& form, std::string* why = nullptr) const {
    auto rule = parse(form);
    return rule && plausible(*rule, options_, why);
  }

  bool adopt(Form& form, Form changed) const {
    if (!holds(changed)) return false;
    form = std::move(changed);
    return true;
  }

  // ---- What the pattern says

  static void add(Form& form, std::string condition) {
    if (std::find(form.conditions.begin(), form.conditions.end(), condition) == form.conditions.end())
      form.conditions.push_back(std::move(condition));
  }

  // Operands that have one shape here have one shape.
  void add_alike(Form& form) const {
    for (std::size_t v = 0; v < p_.values.size(); ++v)
      for (std::size_t w = v + 1; w < p_.values.size(); ++w)
        if (variables_[v] == variables_[w])
          for (std::size_t i = 0; i < variables_[v].dims.size(); ++i)
            add(form, fmt::format("dim({0}, {2}) == dim({1}, {2})", p_.values[v], p_.values[w], i));
  }

  // Dimensions of one element have one, and those in which operands of one rank differ have the sizes that they have
  // here: kernels of 1 x 1 beside those of 3 x 3.
  void add_windows(Form& form) const {
    auto add_size = [&](std::size_t v, std::size_t i) {
      add(form, fmt::format("dim({}, {}) == {}", p_.values[v], i, variables_[v].dims[i]));
    };
    for (std::size_t v = 0; v < p_.values.size(); ++v)
      for (std::size_t i = 0; i < variables_[v].dims.size(); ++i) {
        if (variables_[v].dims[i] == 1) add_size(v, i);
        for (std::size_t w = 0; w < p_.values.size(); ++w)
          if (variables_[w].dims.size() == variables_[v].dims.size() && variables_[w].dims[i] < variables_[v].dims[i] &&
              variables_[v].dims[i] <= kLargestWindow)
            add_size(v, i);
      }
  }

  void add_layout(Form& form, std::size_t v, const ParallelShape& layout) const {
    add(form, fmt::format("partials({}) == {}", p_.values[v], layout.partials));
    add(form, fmt::format("copies({}) == {}", p_.values[v], layout.copies));
    for (std::size_t i = 0; i < layout.dims.size(); ++i)
      add(form, fmt::format("degree({}, {}) == {}", p_.values[v], i, layout.dims[i].degree));
  }

  // ---- Variables that stand in several places

  // A pair may have one leaf in several places only because there was no other: then each place is a variable of its
  // own.
  void linearise() {
    for (std::size_t v = 0; v < p_.values.size(); ++v) {
      std::vector<PatternValue*> source = places(p_, v, true), target = places(p_, v, false);
      if (source.size() < 2 || source.size() > 3 || target.size() > 3) continue;
      std::vector<std::size_t> to(target.size(), 0);  // which place of the source each place of the target is
      for (bool more = true; more;) {
        PairPattern split = p_;
        std::vector<int> variables = {static_cast<int>(v)};
        while (variables.size() < source.size()) {
          variables.push_back(static_cast<int>(split.values.size()));
          split.values.push_back(unused(split, p_.values[v]));
          split.layouts.push_back(split.layouts[v]);
        }
        std::vector<PatternValue*> from = places(split, v, true), into = places(split, v, false);
        for (std::size_t k = 0; k < from.size(); ++k) from[k]->variable = variables[k];
        for (std::size_t k = 0; k < into.size(); ++k) into[k]->variable = variables[to[k]];
        AttributeTexts literals = literal_attributes(split);
        name_degrees(split, literals);
        if (plausible(parse_rules(rule_text(split, name_, literals, {}), "generated").front(), options_)) {
          p_ = std::move(split);
          break;
        }
        std::size_t k = 0;
        while (k < to.size() && ++to[k] == source.size()) to[k++] = 0;
        more = k < to.size();
      }
    }
  }

  static std::vector<PatternValue*> places(PairPattern& p, std::size_t variable, bool source) {
    std::vector<PatternValue*> found;
    auto visit = [&](PatternValue& v) {
      if (v.variable == static_cast<int>(variable)) found.push_back(&v);
    };
    for (std::size_t n = source ? 0 : p.source_nodes; n < (source ? p.source_nodes : p.nodes.size()); ++n)
      for (PatternValue& v : p.nodes[n].inputs) visit(v);
    if (!source)
      for (PatternValue& v : p.target_outputs) visit(v);
    return found;
  }

  static std::string unused(const PairPattern& p, const std::string& name) {
    std::string unused = name;
    for (int i = 2; std::find(p.values.begin(), p.values.end(), unused) != p.values.end(); ++i)
      unused = fmt::format("{}{}", name, i);
    return unused;
  }

  // ---- The first form that stands: without conditions; at these ranks; with operands of one shape; with these
  // windows; of serial operands; of operands in the layouts that they have here

  bool start(Form& form, std::string& why) const {
    Form ranks = form;
    for (std::size_t v = 0; v < p_.values.size(); ++v)
      add(ranks, fmt::format("rank({}) == {}", p_.values[v], variables_[v].dims.size()));
    Form alike = ranks;
    add_alike(alike);
    Form windows = ranks, alike_windows = alike;
    for (Form* f : {&windows, &alike_windows}) add_windows(*f);
    Form serial = alike, here = alike;
    for (std::size_t v = 0; v < p_.values.size(); ++v) {
      const ParallelShape& layout = p_.layouts[v];
      add_layout(serial, v, ::unity::serial(layout.shape()));
      add_layout(here, v, layout);
    }
    for (const Form& f : {form, ranks, alike, windows, alike_windows, serial, here})
      for (Form& sized : list_choices(f))
        if (holds(sized, &why)) {
          form = std::move(sized);
          return true;
        }
    return false;
  }

  // ---- Lists of sizes: those of the source become variables, those of the target what variables' shapes say

  static constexpr std::size_t kMostChoices = 12;

  bool is_sizes(std::size_t n, std::size_t i) const {
    const std::string& name = specs_[n][i].name;
    const std::string& op = p_.nodes[n].op.op->name();
    return is_list(p_.nodes[n].op.attributes[i]) && ((op == "split" && name == "sizes") || op == "reshape");
  }

  // "dim(x, 0)*dim(x, 1)" for 6, where x is [2, 3, 4]: neighbouring dimensions that a reshape joins.
  std::optional<std::string> product_text(std::size_t v, std::int64_t size) const {
    const Dims& dims = variables_[v].dims;
    for (std::size_t first = 0; first < dims.size(); ++first) {
      std::int64_t product = dims[first];
      std::string text = fmt::format("dim({}, {})", p_.values[v], first);
      for (std::size_t j = first + 1; j < dims.size() && product < size; ++j) {
        product *= dims[j];
        text += fmt::format("*dim({}, {})", p_.values[v], j);
      }
      if (product == size) return text;
    }
    return std::nullopt;
  }

  // "[dim(x, 0), 24]" for [4, 24]: each size is that of a dimension of a variable, if there is one.
  std::vector<std::string> size_texts(const Integers& sizes, std::int64_t dim) const {
    std::vector<std::vector<std::string>> choices;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      std::vector<std::string> texts;
      for (bool same_dim : {true, false})
        for (std::size_t step = 0; step < p_.values.size(); ++step) {
          std::size_t v = (step + k) % p_.values.size();
          const Dims& dims = variables_[v].dims;
          for (std::size_t j = 0; j < dims.size(); ++j) {
            bool like = dim >= 0 ? static_cast<std::int64_t>(j) == dim : j == k;
            if (dims[j] == sizes[k] && like == same_dim) texts.push_back(fmt::format("dim({}, {})", p_.values[v], j));
          }
        }
      for (std::size_t v = 0; v < p_.values.size() && texts.empty(); ++v)
        if (auto product = product_text(v, sizes[k])) texts.push_back(*product);
      if (texts.empty()) texts.push_back(std::to_string(sizes[k]));
      choices.push_back(std::move(texts));
    }
    // All combinations, the first choices first.
    std::vector<std::string> lists;
    std::vector<std::size_t> at(sizes.size(), 0);
    while (lists.size() < kMostChoices) {
      std::vector<std::string> items;
      for (std::size_t k = 0; k < sizes.size(); ++k) items.push_back(choices[k][at[k]]);
      lists.push_back(fmt::format("[{}]", fmt::join(items, ", ")));
      std::size_t k = sizes.size();
      while (k > 0 && ++at[k - 1] == choices[k - 1].size()) at[--k] = 0;
      if (k == 0) break;
    }
    return lists;
  }

  std::vector<Form> list_choices(const Form& form) const {
    std::vector<Form> forms = {form};
    std::map<std::string, std::string> bound;                              // literal list of the source: its variable
    std::vector<std::pair<std::string, std::vector<std::string>>> source;  // variable, what it may equal
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      for (std::size_t i = 0; i < specs_[n].size(); ++i) {
        if (!is_sizes(n, i)) continue;
        const auto& sizes = std::get<Integers>(p_.nodes[n].op.attributes[i]);
        std::string literal = to_string(p_.nodes[n].op.attributes[i]);
        std::int64_t dim = p_.nodes[n].op.op->name() == "split" ? int_attribute(p_.nodes[n].op.attributes, 0) : -1;
        auto known = bound.find(literal);
        if (known != bound.end()) {
          for (Form& f : forms) f.attributes[n][i] = known->second;
        } else if (n < p_.source_nodes) {
          std::string variable = bound.empty() ? "s" : fmt::format("s{}", bound.size() + 1);
          bound[literal] = variable;
          for (Form& f : forms) f.attributes[n][i] = variable;
          source.emplace_back(variable, size_texts(sizes, dim));
        } else {
          std::vector<Form> more;
          for (const Form& f : forms)
            for (const std::string& list : size_texts(sizes, dim)) {
              more.push_back(f);
              more.back().attributes[n][i] = list;
            }
          forms = std::move(more);
        }
      }
    // Without conditions on the source's lists, then with them.
    std::vector<Form> all = forms;
    for (const auto& [variable, lists] : source) {
      std::vector<Form> more;
      for (const Form& f : forms)
        for (const std::string& list : lists) {
          more.push_back(f);
          more.back().conditions.insert(more.back().conditions.begin(), fmt::format("{} == {}", variable, list));
        }
      forms = std::move(more);
    }
    if (!source.empty()) all.insert(all.end(), forms.begin(), forms.end());
    if (all.size() > 4 * kMostChoices) all.resize(4 * kMostChoices);
    return all;
  }

  // ---- Attributes

  // Reals of the target that are products or sums of two of the source.
  void target_reals(Form& form) const {
    std::vector<std::pair<std::size_t, std::size_t>> source;
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      for (std::size_t i = 0; i < specs_[n].size(); ++i) {
        const auto* real = std::get_if<double>(&p_.nodes[n].op.attributes[i]);
        if (!real) continue;
        if (n < p_.source_nodes) {
          source.emplace_back(n, i);
          continue;
        }
        auto value = [&](std::pair<std::size_t, std::size_t> s) {
          return std::get<double>(p_.nodes[s.first].op.attributes[s.second]);
        };
        if (std::any_of(source.begin(), source.end(), [&](auto s) { return value(s) == *real; })) continue;
        for (std::size_t s = 0; s < source.size(); ++s)
          for (std::size_t t = s + 1; t < source.size(); ++t)
            if (bool product = value(source[s]) * value(source[t]) == *real;
                product || value(source[s]) + value(source[t]) == *real) {
              form.attributes[source[s].first][source[s].second] = "f";
              form.attributes[source[t].first][source[t].second] = "g";
              form.attributes[n][i] = product ? "f*g" : "f + g";
            }
      }
  }

  bool is_layout(std::size_t n) const { return p_.nodes[n].op.op->category() == OpCategory::parallelization; }
  bool is_dim(std::size_t n, std::size_t i) const {
    return specs_[n][i].name == "dim" && specs_[n][i].kind == AttributeKind::integer;
  }

  // The same literal of the same attribute, everywhere, becomes a variable.
  void generalise_attributes(Form& form) const {
    std::map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> groups;
    AttributeTexts literals = literal_attributes(p_);
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      for (std::size_t i = 0; i < specs_[n].size(); ++i)
        if (!is_layout(n) && !is_dim(n, i) && form.attributes[n][i] == literals[n][i])
          groups[fmt::format("{} {} {}", p_.nodes[n].op.op->name(), specs_[n][i].name,
                             to_string(p_.nodes[n].op.attributes[i]))]
              .emplace_back(n, i);
    std::map<std::string, int> used;
    for (const auto& [key, slots] : groups) {
      if (slots.front().first >= p_.source_nodes) continue;
      const std::string& attribute = specs_[slots.front().first][slots.front().second].name;
      std::string variable = used[attribute]++ ? fmt::format("{}{}", attribute, used[attribute]) : attribute;
      Form changed = form;
      for (auto [n, i] : slots) changed.attributes[n][i] = variable;
      auto rule = parse(changed);
      const auto& [node, slot] = slots.front();
      if (rule && plausible(*rule, options_, nullptr, variable, p_.nodes[node].op.attributes[slot]))
        form = std::move(changed);
      else
        --used[attribute];
    }
  }

  Integers dims_in(bool source_only) const {
    Integers dims;
    for (std::size_t n = 0; n < (source_only ? p_.source_nodes : p_.nodes.size()); ++n)
      for (std::size_t i = 0; i < specs_[n].size(); ++i)
        if (is_dim(n, i)) dims.push_back(int_attribute(p_.nodes[n].op.attributes, i));
    std::sort(dims.begin(), dims.end());
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
    return dims;
  }

  void write_dim(Form& form, std::int64_t dim, const std::string& source, const std::string& target) const {
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      for (std::size_t i = 0; i < specs_[n].size(); ++i)
        if (is_dim(n, i) && int_attribute(p_.nodes[n].op.attributes, i) == dim)
          form.attributes[n][i] = n < p_.source_nodes ? source : target;
    form.named_dims[dim] = source;
  }

  static void without_ranks(Form& form) {
    std::erase_if(form.conditions, [](const std::string& c) { return c.starts_with("rank("); });
  }

  void generalise_dims(Form& form) const {
    Integers dims = dims_in(true);
    const std::array<std::string, 4> kNames = {"a", "b", "c", "e"};
    if (dims.empty() || dims.size() > 3) return;
    Form all = form;
    for (std::size_t k = 0; k < dims.size(); ++k) write_dim(all, dims[k], kNames[k], kNames[k]);
    for (std::size_t k = 0; k < dims.size(); ++k)
      for (std::size_t m = k + 1; m < dims.size(); ++m) add(all, fmt::format("{} != {}", kNames[k], kNames[m]));
    Form free = all;
    without_ranks(free);
    if (adopt(form, std::move(free)) || adopt(form, std::move(all)) || dims.size() == 1) return;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      Form one = form;
      write_dim(one, dims[k], kNames[k], kNames[k]);
      for (std::int64_t other : dims)
        if (other != dims[k]) add(one, fmt::format("{} != {}", kNames[k], other));
      adopt(form, std::move(one));
    }
  }

  // A dimension that is the last one of a variable, at any rank of it.
  void last_dims(Form& form) const {
    for (std::int64_t dim : dims_in(false)) {
      if (form.named_dims.contains(dim)) continue;
      for (std::size_t v = 0; v < p_.values.size(); ++v) {
        if (static_cast<std::int64_t>(variables_[v].dims.size()) != dim + 1) continue;
        std::string last = fmt::format("rank({}) - 1", p_.values[v]);
        Integers source = dims_in(true);
        bool bound = std::find(source.begin(), source.end(), dim) != source.end();
        Form changed = form;
        write_dim(changed, dim, bound ? "z" : last, bound ? "z" : last);
        without_ranks(changed);
        if (bound) changed.conditions.push_back(fmt::format("z == {}", last));
        for (std::size_t w = 0; w < p_.values.size(); ++w)
          if (w != v) add(changed, fmt::format("rank({}) == {}", p_.values[w], variables_[w].dims.size()));
        if (adopt(form, std::move(changed))) break;
      }
    }
  }

  // What stands beside each other in an operator may broadcast there, and then not where a side joins or splits: at any
  // rank, equal sizes are needed in the dimensions that are named. Few instances show it, so it is not asked of them.
  Form alike_along_dims(const Form& alike) const {
    Form form = alike;
    std::erase_if(form.conditions,
                  [](const std::string& c) { return c.starts_with("dim(") || c.starts_with("rank("); });
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      const PairPattern::Node& node = p_.nodes[n];
      bool joins = std::any_of(specs_[n].begin(), specs_[n].end(), [](const auto& spec) { return spec.name == "dim"; });
      if (joins || node.inputs.size() != 2 || node.inputs[0].variable < 0 || node.inputs[1].variable < 0) continue;
      auto v = static_cast<std::size_t>(node.inputs[0].variable), w = static_cast<std::size_t>(node.inputs[1].variable);
      if (v == w || variables_[v] != variables_[w]) continue;
      add(form, fmt::format("rank({}) == rank({})", p_.values[v], p_.values[w]));
      for (const auto& [dim, name] : form.named_dims)
        add(form, fmt::format("dim({0}, {2}) == dim({1}, {2})", p_.values[v], p_.values[w], name));
    }
    return form;
  }

  void drop_conditions(Form& form) const {
    for (std::size_t i = 0; i < form.conditions.size();) {
      Form changed = form;
      changed.conditions.erase(changed.conditions.begin() + static_cast<std::ptrdiff_t>(i));
      if (!adopt(form, std::move(changed))) ++i;
    }
  }

  PairPattern p_;
  std::string name_;
  GeneraliseOptions options_;
  std::vector<std::vector<AttributeSpec>> specs_;
  std::vector<Shape> variables_;
};

}  // namespace

static bool equal(const RuleInstance& instance, std::uint64_t seed) {
  try {
    return evaluates_equal(instance, seed);
  } catch (const InputError&) {
    return false;  // an index that the target's table has not
  }
}

bool plausible(const Rule& rule, const GeneraliseOptions& options, std::string* why, const std::string& varied,
               const AttributeValue& from) {
  InstanceSampler sampler(rule, {options.seed, 4, {1, 1, 2, 3, 4, 6}, 60, false});
  auto attribute = static_cast<std::size_t>(std::find(rule.attributes.begin(), rule.attributes.end(), varied) -
                                            rule.attributes.begin());
  int found = 0, others = 0;
  auto stands = [&](const RuleInstance& instance) {
    ++found;
    if (attribute < rule.attributes.size() && instance.attributes[attribute] != from) ++others;
    if (equal(instance, options.seed)) return true;
    if (why) *why = "an instance has other values";
    return false;
  };
  std::vector<RuleInstance> large;
  for (int i = 0; i < 2 * options.instances && found < options.instances; ++i) {
    auto next = sampler.next();
    if (!next) break;
    if (next->fault == InstanceFault::target) continue;  // no application
    if (next->fault != InstanceFault::none) {
      if (why) *why = next->why;
      return false;
    }
    if (loop_points(next->instance) > kManyPoints) {
      if (large.size() < kFewest) large.push_back(std::move(next->instance));
    } else if (!stands(next->instance)) {
      return false;
    }
  }
  for (const RuleInstance& instance : large)
    if (found < kFewest && !stands(instance)) return false;
  if (found < std::min(kFewest, options.instances)) {
    if (why) *why = fmt::format("{} instances were found: {}", found, sampler.obstacle());
    return false;
  }
  return attribute == rule.attributes.size() || others > 0;
}

Generalised generalise(const PairPattern& pattern, const std::string& name, const GeneraliseOptions& options) {
  return Generaliser(pattern, name, options).run();
}

}  // namespace unity
