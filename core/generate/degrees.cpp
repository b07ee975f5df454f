#include "core/generate/degrees.h"

#include <algorithm>
#include <array>

namespace unity {
namespace {

constexpr std::array<int, 4> kPrimes = {3, 5, 7, 11};
constexpr int kFree = 13;  // a degree of an operand that no degree of the rule meets
constexpr std::int64_t kScale = 4LL * 3 * 5 * 7 * 11 * 13;
constexpr std::size_t kMostAssignments = 2000;
constexpr std::size_t kMostSlots = 6;  // of more degrees, all are the same one
constexpr std::array<const char*, 4> kNames = {"d", "e", "f", "g"};

// A degree in the pattern: of an operator, or of an operand's layout.
struct DegreeSlot {
  std::size_t node = 0, attribute = 0;
  std::int64_t literal = 2;
  bool target = false;
};

// What a slot becomes: a literal (both -1), a class, or the product of two.
struct Choice {
  int one = -1, other = -1;
};

class DegreeNamer {
 public:
  explicit DegreeNamer(const PairPattern& pattern) : p_(pattern) {
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      auto specs = p_.nodes[n].op.op->attributes();
      if (p_.nodes[n].op.op->category() != OpCategory::parallelization) continue;
      for (std::size_t i = 0; i < specs.size(); ++i)
        if (specs[i].name == "degree" && int_attribute(p_.nodes[n].op.attributes, i) > 1)
          slots_.push_back({n, i, int_attribute(p_.nodes[n].op.attributes, i), n >= p_.source_nodes});
    }
    for (const PairPattern::Node& node : p_.nodes)
      for (const AttributeSpec& spec : node.op.op->attributes())
        first_dim_only_ = first_dim_only_ || spec.name == "shape";
    for (const ParallelShape& layout : p_.layouts) {
      scaled_.push_back(layout);
      for (std::size_t i = 0; i < layout.dims.size(); ++i)
        if (i == 0 || !first_dim_only_) scaled_.back().dims[i].size *= kScale;
    }
  }

  bool run(AttributeTexts& attributes) {
    if (slots_.empty()) return false;
    if (slots_.size() <= kMostSlots)
      enumerate(0, 0, {});
    else
      assignments_.push_back({std::vector<Choice>(slots_.size(), Choice{0, -1}), 1, {slots_[0].literal}});
    // As few literals as may be, then as many variables.
    auto rank = [](const Assignment& a) {
      int literals = 0;
      for (const Choice& c : a.choices) literals += c.one < 0;
      return std::pair(literals, -a.classes);
    };
    std::stable_sort(assignments_.begin(), assignments_.end(),
                     [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    for (const Assignment& a : assignments_) {
      if (a.classes == 0 || !holds(a)) continue;
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        const Choice& c = a.choices[s];
        if (c.one < 0) continue;
        std::string text = kNames[static_cast<std::size_t>(c.one)];
        if (c.other >= 0) text += std::string("*") + kNames[static_cast<std::size_t>(c.other)];
        attributes[slots_[s].node][slots_[s].attribute] = text;
      }
      return true;
    }
    return false;
  }

 private:
  struct Assignment {
    std::vector<Choice> choices;  // by slot
    int classes = 0;
    Integers literals;  // by class: what all its slots are here
  };

  void enumerate(std::size_t s, int classes, Assignment a) {
    if (assignments_.size() >= kMostAssignments) return;
    if (s == slots_.size()) {
      a.classes = classes;
      assignments_.push_back(std::move(a));
      return;
    }
    auto with = [&](Choice c, int more) {
      Assignment next = a;
      next.choices.push_back(c);
      if (more > classes) next.literals.push_back(slots_[s].literal);
      enumerate(s + 1, more, std::move(next));
    };
    if (classes < static_cast<int>(kPrimes.size())) with({classes, -1}, classes + 1);
    for (int c = 0; c < classes; ++c)
      if (a.literals[static_cast<std::size_t>(c)] == slots_[s].literal) with({c, -1}, classes);
    if (slots_[s].target && slots_[s].literal == 4)
      for (int c = 0; c < classes; ++c)
        for (int e = c; e < classes; ++e)
          if (a.literals[static_cast<std::size_t>(c)] == 2 && a.literals[static_cast<std::size_t>(e)] == 2)
            with({c, e}, classes);
    with({-1, -1}, classes);
  }

  static int value(const Choice& c) {
    return kPrimes[static_cast<std::size_t>(c.one)] * (c.other < 0 ? 1 : kPrimes[static_cast<std::size_t>(c.other)]);
  }

  // The values that a factor of an operand's layout may take.
  std::vector<int> factors(int literal, const Assignment& a) const {
    std::vector<int> values = {literal, kFree};
    for (int c = 0; c < a.classes; ++c) {
      if (a.literals[static_cast<std::size_t>(c)] == literal) values.push_back(kPrimes[static_cast<std::size_t>(c)]);
      if (literal == 4 && a.literals[static_cast<std::size_t>(c)] == 2) {
        values.push_back(kPrimes[static_cast<std::size_t>(c)] * kFree);
        for (int e = c; e < a.classes; ++e)
          if (a.literals[static_cast<std::size_t>(e)] == 2) values.push_back(value({c, e}));
      }
    }
    return values;
  }

  // For all layouts of the operands: where the source is well-typed, the target is too and has the same shapes. And
  // there are such layouts.
  bool holds(const Assignment& a) {
    std::vector<int*> places;
    std::vector<ParallelShape> layouts = scaled_;
    for (ParallelShape& s : layouts) {
      for (ParallelDim& d : s.dims) {
        if (d.degree > 1) places.push_back(&d.degree);
        if (d.micro > 1) places.push_back(&d.micro);
      }
      if (s.copies > 1) places.push_back(&s.copies);
      if (s.partials > 1) places.push_back(&s.partials);
    }
    std::vector<std::vector<int>> values;
    for (int* place : places) values.push_back(factors(*place, a));
    std::vector<std::size_t> at(places.size(), 0);
    int typed = 0;
    for (;;) {
      for (std::size_t i = 0; i < places.size(); ++i) *places[i] = values[i][at[i]];
      std::vector<std::vector<ParallelShape>> results;
      if (type(a, layouts, 0, p_.source_nodes, results)) {
        ++typed;
        auto source = outputs(p_.source_outputs, layouts, results);
        if (!type(a, layouts, p_.source_nodes, p_.nodes.size(), results) ||
            outputs(p_.target_outputs, layouts, results) != source)
          return false;
      }
      std::size_t i = 0;
      while (i < at.size() && ++at[i] == values[i].size()) at[i++] = 0;
      if (i == at.size()) break;
    }
    return typed > 0;
  }

  static std::vector<ParallelShape> outputs(const std::vector<PatternValue>& of,
                                            const std::vector<ParallelShape>& layouts,
                                            const std::vector<std::vector<ParallelShape>>& results) {
    std::vector<ParallelShape> shapes;
    for (PatternValue v : of)
      shapes.push_back(v.variable >= 0 ? layouts[static_cast<std::size_t>(v.variable)]
                                       : results[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)]);
    return shapes;
  }

  bool type(const Assignment& a, const std::vector<ParallelShape>& layouts, std::size_t first, std::size_t last,
            std::vector<std::vector<ParallelShape>>& results) const {
    results.resize(p_.nodes.size());
    for (std::size_t n = first; n < last; ++n) {
      const PairPattern::Node& node = p_.nodes[n];
      Attributes attributes = node.op.attributes;
      for (std::size_t s = 0; s < slots_.size(); ++s)
        if (slots_[s].node == n && a.choices[s].one >= 0)
          attributes[slots_[s].attribute] = std::int64_t{value(a.choices[s])};
      for (AttributeValue& v : attributes)
        if (auto* list = std::get_if<Integers>(&v)) {
          if (node.op.op->name() == "split")
            for (std::int64_t& size : *list) size *= first_dim_only_ && int_attribute(attributes, 0) != 0 ? 1 : kScale;
          if (node.op.op->name() == "reshape" && !list->empty()) (*list)[0] *= kScale;
        }
      std::vector<ParallelShape> operands;
      for (const PatternValue& v : node.inputs) operands.push_back(outputs({v}, layouts, results)[0]);
      auto typed = infer_parallel_shapes(*node.op.op, attributes, operands);
      if (!typed.ok()) return false;
      results[n] = std::move(*typed);
    }
    return true;
  }

  const PairPattern& p_;
  std::vector<DegreeSlot> slots_;
  std::vector<ParallelShape> scaled_;
  bool first_dim_only_ = false;
  std::vector<Assignment> assignments_;
};

}  // namespace

bool name_degrees(const PairPattern& pattern, AttributeTexts& attributes) {
  return DegreeNamer(pattern).run(attributes);
}

}  // namespace unity
