#include "core/verify/theory.h"

#include <algorithm>

#include "core/rewrite/axioms.h"
#include "core/rewrite/signature.h"
#include "core/verify/schemas.h"
#include "core/verify/shape_facts.h"

namespace unity {
namespace {

void collect_constants(const z3::expr& e, std::set<unsigned>& ids, std::set<unsigned>& seen) {
  if (!seen.insert(Z3_get_ast_id(e.ctx(), e)).second || !e.is_app()) return;
  if (e.num_args() == 0) ids.insert(Z3_get_ast_id(e.ctx(), e));
  for (unsigned i = 0; i < e.num_args(); ++i) collect_constants(e.arg(i), ids, seen);
}
std::set<unsigned> constants_of(const std::vector<z3::expr>& terms) {
  std::set<unsigned> ids, seen;
  for (const z3::expr& t : terms) collect_constants(t, ids, seen);
  return ids;
}

std::vector<z3::expr> used_in(const std::vector<z3::expr>& variables, const std::set<unsigned>& ids) {
  std::vector<z3::expr> used;
  for (const z3::expr& v : variables)
    if (ids.contains(Z3_get_ast_id(v.ctx(), v))) used.push_back(v);
  return used;
}

void add_operators(const Rule& axiom, const std::vector<PatternValue>& side, std::set<std::string>& names) {
  for (PatternValue v : side) {
    if (v.node < 0) continue;
    const PatternNode& node = axiom.nodes[static_cast<std::size_t>(v.node)];
    if (node.op->category() == OpCategory::compute) names.insert(node.op->name());
    if (node.op->name() == "stack_partials") names.insert("add");
    add_operators(axiom, node.inputs, names);
  }
}

}  // namespace

// `bound`: terms for attribute variables, where not any value will do. `guards`: under which alone it holds.
void Theory::add_axiom(const std::string& name, const Rule& axiom, const std::vector<std::optional<z3::expr>>& bound,
                       std::vector<z3::expr> guards) {
  std::vector<z3::expr> values, variables;
  std::vector<std::optional<z3::expr>> attributes;
  for (const std::string& x : axiom.values)
    variables.push_back(values.emplace_back(context_.constant((x + "!").c_str(), language_.tensor())));
  auto kinds = attribute_kinds(axiom);
  for (std::size_t a = 0; a < axiom.attributes.size(); ++a) {
    attributes.push_back(a < bound.size() ? bound[a] : std::nullopt);
    if (attributes[a]) continue;
    attributes[a] = context_.constant((axiom.attributes[a] + "!").c_str(), language_.sort_of(kinds[a]));
    variables.push_back(*attributes[a]);
  }
  Reading reading(language_, axiom, values, attributes);
  for (const Condition& c : axiom.conditions) {
    auto guard = reading.condition(c);
    UNITY_CHECK(guard, "axiom {}: a condition is out of reach of proofs", axiom.name);
    guards.push_back(*guard);
  }
  for (std::size_t o = 0; o < axiom.source_outputs.size(); ++o) {
    PatternValue left = axiom.source_outputs[o], right = axiom.target_outputs[o];
    add_direction(name, reading, right, left, variables, guards, axiom.one_way);
    if (!axiom.one_way) add_direction(name, reading, left, right, variables, guards, false);
  }
}

// What a well-typed call of this structure says of sizes.
void Theory::add_shape_facts(const KnownCall& call) {
  auto table = call.op->axes(call.attributes, call.inputs);
  if (!table.ok()) return;
  ShapeFacts facts = shape_facts(*call.op, call.attributes, call.inputs, *table);
  std::vector<z3::expr> variables;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    variables.push_back(context_.constant(fmt::format("x{}!", i).c_str(), language_.tensor()));
  auto dim = [&](OperandDim d) { return language_.dim(variables[static_cast<std::size_t>(d.operand)], d.dim); };
  z3::expr_vector ranks(context_), structure(context_);
  for (std::size_t i = 0; i < variables.size(); ++i)
    ranks.push_back(language_.rank(variables[i]) == static_cast<int>(call.inputs[i].dims.size()));
  for (const auto& [a, b] : facts.aligned) structure.push_back(dim(a) == dim(b));
  for (OperandDim d : facts.ones) structure.push_back(dim(d) == 1);
  for (std::size_t o = 0; o < facts.outputs.size(); ++o) {
    z3::expr result =
        language_.call(*call.op, call.terms, variables, static_cast<int>(o), static_cast<int>(facts.outputs.size()));
    z3::expr_vector always(context_), here(context_);
    for (const auto& [a, b] : facts.required) always.push_back(dim(a) == dim(b));
    here.push_back(language_.rank(result) == static_cast<int>(facts.outputs[o].size()));
    for (std::size_t j = 0; j < facts.outputs[o].size(); ++j) {
      const SizeSource& source = facts.outputs[o][j];
      z3::expr size = language_.dim(result, static_cast<int>(j));
      if (source.kind == SizeSource::Kind::one) here.push_back(size == 1);
      if (source.kind == SizeSource::Kind::operand) here.push_back(size == dim(source.dims[0]));
      if (source.kind == SizeSource::Kind::element)
        here.push_back(size == language_.element(call.terms[static_cast<std::size_t>(source.attribute)], source.index));
      if (source.kind == SizeSource::Kind::sum) {
        z3::expr sum = dim(source.dims[0]);
        for (std::size_t k = 1; k < source.dims.size(); ++k) sum = sum + dim(source.dims[k]);
        here.push_back(size == sum);
      }
    }
    z3::expr typed = language_.typed(result) && z3::mk_and(ranks);
    z3::expr body = z3::implies(typed, z3::mk_and(always) && z3::implies(z3::mk_and(structure), z3::mk_and(here)));
    add(fmt::format("shape({})", call.op->name()), language_.forall(variables, {result}, body));
  }
}

void Theory::add_once(const std::string& key, const std::function<void()>& adds) {
  auto found = once_.find(key);
  if (found == once_.end()) {
    std::vector<Assertion> before = std::move(assertions_);
    assertions_.clear();
    adds();
    found = once_.emplace(key, std::move(assertions_)).first;
    assertions_ = std::move(before);
  }
  assertions_.insert(assertions_.end(), found->second.begin(), found->second.end());
}

void Theory::add_background() {
  add_once(fmt::format("background {}", language_.symbols()), [&] {
    for (const auto& [name, formula] : language_.background()) add(name, formula);
  });
}

// Where a term of the form of `from` occurs and is well-typed, it equals `to`; `one_way`: or where one of the form of
// `to` occurs.
void Theory::add_direction(const std::string& name, Reading& reading, PatternValue from, PatternValue to,
                           const std::vector<z3::expr>& variables, const std::vector<z3::expr>& guards, bool one_way) {
  if (from.node < 0) return;
  Reading::Abstraction abstraction;
  z3::expr pattern = reading.pattern(from, abstraction), result = reading.value(to);
  std::vector<z3::expr> all = variables;
  all.insert(all.end(), abstraction.variables.begin(), abstraction.variables.end());
  std::vector<z3::expr> premises = guards;
  premises.insert(premises.end(), abstraction.equations.begin(), abstraction.equations.end());
  std::vector<z3::expr> formulas = premises;
  formulas.push_back(pattern), formulas.push_back(result);
  std::vector<z3::expr> needed = used_in(all, constants_of(formulas));
  auto binds_all = [&](const z3::expr& term) { return used_in(needed, constants_of({term})).size() == needed.size(); };
  if (one_way) {
    z3::expr_vector premise(context_);
    premise.push_back(language_.typed(pattern));
    for (const z3::expr& p : premises) premise.push_back(p);
    for (const z3::expr& trigger : {pattern, result})
      if (binds_all(trigger))
        add(name, language_.forall(needed, {trigger}, z3::implies(z3::mk_and(premise), pattern == result)));
    return;
  }
  if (!binds_all(pattern)) return;
  auto state = [&](const z3::expr& trigger) {
    z3::expr_vector premise(context_);
    premise.push_back(language_.typed(trigger));
    for (const z3::expr& p : premises) premise.push_back(p);
    add(name, language_.forall(needed, {trigger}, z3::implies(z3::mk_and(premise), pattern == result)));
  };
  state(pattern);
  // An equation with a variable is also used to expand it, where an operand of the call occurs.
  if (to.node < 0)
    for (unsigned i = 0; i < pattern.num_args(); ++i)
      if (pattern.arg(i).is_app() && pattern.arg(i).num_args() > 0 && binds_all(pattern.arg(i)) &&
          z3::eq(pattern.arg(i).get_sort(), language_.tensor()))
        state(pattern.arg(i));
}

void Theory::add_calls(const std::vector<KnownCall>& calls) {
  std::set<std::string> stated;
  for (const KnownCall& call : calls) {
    std::string key = call.op->name();
    for (const z3::expr& t : call.terms) {
      key += fmt::format(" {}", Z3_get_ast_id(context_, t));
      kept_.push_back(t);
    }
    key += fmt::format("; {}", hash_structure(call.op->axes(call.attributes, call.inputs).value()));
    if (!stated.insert(key).second) continue;
    add_once(key, [&] {
      add_shape_facts(call);
      auto specs = call.op->attributes();
      for (const Schema& schema : schemas_of(*call.op, call.attributes, call.inputs)) {
        std::vector<std::optional<z3::expr>> bound;
        std::vector<z3::expr> guards;
        for (int a : schema.at_values) {
          const auto i = static_cast<std::size_t>(a);
          guards.push_back(call.terms[i] == language_.constant(call.attributes[i], specs[i].kind));
        }
        for (int a : schema.attributes)
          bound.push_back(a >= 0 ? std::optional(call.terms[static_cast<std::size_t>(a)]) : std::nullopt);
        add_axiom(schema.name, schema.axiom, bound, std::move(guards));
      }
    });
  }
}

bool Theory::add_concrete(std::string_view op, Attributes attributes, std::vector<Shape> inputs,
                          std::vector<KnownCall>& calls) {
  KnownCall call{&get_operator(op), std::move(attributes), std::move(inputs), {}};
  if (!call.op->axes(call.attributes, call.inputs).ok()) return false;
  auto specs = call.op->attributes();
  for (std::size_t i = 0; i < specs.size(); ++i)
    call.terms.push_back(language_.constant(call.attributes[i], specs[i].kind));
  calls.push_back(std::move(call));
  return true;
}

Consequence consequence(z3::context& context, const std::vector<Assertion>& assertions,
                        const std::vector<z3::expr>& goals, unsigned steps) {
  z3::solver solver(context, z3::solver::simple());
  z3::params params(context);
  params.set("auto_config", false);
  params.set("mbqi", false);
  params.set("random_seed", 1u);
  params.set("unsat_core", true);
  params.set("rlimit", steps);
  solver.set(params);
  for (std::size_t i = 0; i < assertions.size(); ++i) solver.add(assertions[i].formula, fmt::format("#{}", i).c_str());
  Consequence found;
  for (const z3::expr& goal : goals) {
    solver.push();
    solver.add(!goal, "#goal");
    if (solver.check() != z3::unsat) break;
    z3::expr_vector core = solver.unsat_core();
    for (unsigned i = 0; i < core.size(); ++i) {
      std::string id = core[static_cast<int>(i)].decl().name().str().substr(1);
      if (id != "goal") found.from.insert(std::stoul(id));
    }
    ++found.shown;
    solver.pop();
  }
  return found;
}

std::vector<const Rule*> relevant_axioms(std::set<std::string>& operators, bool own) {
  const std::vector<Rule>& all = operator_axioms();
  std::vector<bool> taken(all.size(), false);
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (taken[i]) continue;
      std::set<std::string> left, right;
      add_operators(all[i], all[i].source_outputs, left);
      add_operators(all[i], all[i].target_outputs, right);
      auto within = [&](const std::set<std::string>& side) {
        return std::includes(operators.begin(), operators.end(), side.begin(), side.end());
      };
      if (own ? !within(left) || !within(right) : !within(left) && (right.empty() || !within(right))) continue;
      taken[i] = more = true;
      operators.insert(left.begin(), left.end());
      operators.insert(right.begin(), right.end());
    }
  }
  std::vector<const Rule*> axioms;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (taken[i]) axioms.push_back(&all[i]);
  return axioms;
}

}  // namespace unity
