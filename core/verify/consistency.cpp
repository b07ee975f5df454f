// Whether axioms contradict each other, and which follow from the others.
#include <set>

#include "core/rewrite/axioms.h"
#include "core/verify/check_axioms.h"
#include "core/verify/logic.h"
#include "core/verify/theory.h"

namespace unity {

std::vector<int> inconsistent_ranks(double seconds) {
  std::vector<int> ranks;
  for (int rank = 1; rank <= 4; ++rank) {
    z3::context context;
    Language language(context);
    Theory theory(language);
    auto tensor = [&](const std::string& name) { return context.constant(name.c_str(), language.tensor()); };
    z3::expr x = tensor("x"), y = tensor("y");
    for (const z3::expr& t : {x, y}) {
      theory.add("rule", language.typed(t));
      theory.add("rule", language.rank(t) == rank);
      for (int i = 0; i < rank; ++i) theory.add("rule", language.dim(t, i) == language.dim(x, i));
    }
    std::vector<KnownCall> calls;
    for (const Operator* op : all_operators())
      if (op->category() == OpCategory::compute)
        for (const Example& e : op->examples())
          theory.add_concrete(op->name(), complete_attributes(op->name(), op->attributes(), e.attributes).value(),
                              e.inputs, calls);
    theory.add_calls(calls);
    // Each stated axiom, and a well-typed left side of its own, on tensors among which x and y are.
    for (const Rule& axiom : operator_axioms()) {
      theory.add_axiom(axiom.name, axiom, {});
      std::vector<z3::expr> values;
      for (std::size_t v = 0; v < axiom.values.size(); ++v)
        values.push_back(v == 0 ? x : v == 1 ? y : tensor(axiom.name + "." + axiom.values[v]));
      std::vector<std::optional<z3::expr>> attributes;
      auto kinds = attribute_kinds(axiom);
      for (std::size_t a = 0; a < axiom.attributes.size(); ++a)
        attributes.emplace_back(
            context.constant((axiom.name + "." + axiom.attributes[a]).c_str(), language.sort_of(kinds[a])));
      Reading reading(language, axiom, values, attributes);
      for (PatternValue v : axiom.source_outputs) {
        z3::expr left = reading.value(v);
        z3::expr seen = context.bool_const((axiom.name + " is seen").c_str());
        theory.add("rule", seen == language.typed(left));
      }
    }
    theory.add_background();
    if (consequence(context, theory.assertions(), {x == y}, ProofLimit{seconds, {}}.steps()).shown > 0)
      ranks.push_back(rank);
  }
  return ranks;
}

std::vector<std::string> redundant_axioms(double seconds) {
  std::vector<std::string> names;
  for (const Rule& axiom : operator_axioms()) {
    SampleOptions options;
    options.serial = true;
    auto at = InstanceSampler(axiom, options).next();
    if (!at || at->fault != InstanceFault::none) continue;
    InstanceSignature signature = signature_of(axiom, at->instance);
    if (EqualityProver(axiom, ProofLimit{seconds, axiom.name}).prove(at->instance, signature).proved)
      names.push_back(axiom.name);
  }
  return names;
}

}  // namespace unity
