// What proofs of equality start from, asserted to Z3. Private to this folder: it shows Z3.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/verify/terms.h"

namespace unity {

// A call of an operator of which the axis table is known: where schemas and facts about shapes come from.
struct KnownCall {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<Shape> inputs;
  std::vector<z3::expr> terms;  // of the attributes
};

struct Assertion {
  std::string name;
  z3::expr formula;
};

// One for all signatures of a rule: what several ask for is written once.
class Theory {
 public:
  explicit Theory(Language& language) : language_(language), context_(language.context()) {}

  Language& language() { return language_; }
  z3::context& context() { return context_; }
  const std::vector<Assertion>& assertions() const { return assertions_; }

  void clear() { assertions_.clear(); }
  void add(const std::string& name, const z3::expr& formula) { assertions_.push_back({name, formula}); }
  // What `adds` adds, which is the same for the same key: called at the first time only.
  void add_once(const std::string& key, const std::function<void()>& adds);
  // Both directions, as far as a side binds all variables. `bound`: terms for attribute variables, where not any value
  // will do. `guards`: under which alone it holds.
  void add_axiom(const std::string& name, const Rule& axiom, const std::vector<std::optional<z3::expr>>& bound,
                 std::vector<z3::expr> guards = {});
  // What a well-typed call of this structure says of sizes.
  void add_shape_facts(const KnownCall& call);
  // Facts about shapes and schemas of each call, once for each structure.
  void add_calls(const std::vector<KnownCall>& calls);
  // The call as in a graph; false when it is ill-typed, and then nothing is added to `calls`.
  bool add_concrete(std::string_view op, Attributes attributes, std::vector<Shape> inputs,
                    std::vector<KnownCall>& calls);
  void add_background();

 private:
  void add_direction(const std::string& name, Reading& reading, PatternValue from, PatternValue to,
                     const std::vector<z3::expr>& variables, const std::vector<z3::expr>& guards, bool one_way);

  Language& language_;
  z3::context& context_;
  std::vector<Assertion> assertions_;
  std::map<std::string, std::vector<Assertion>> once_;
  std::vector<z3::expr> kept_;  // whose ids stand in keys
};

// How many of the goals, in their order, are shown to follow, and from which of the assertions.
struct Consequence {
  std::size_t shown = 0;
  std::set<std::size_t> from;
};
Consequence consequence(z3::context& context, const std::vector<Assertion>& assertions,
                        const std::vector<z3::expr>& goals, unsigned steps);

// The stated axioms of which one side can occur, with what they bring in, until nothing is added; `operators` grows.
// With `own`, those that bring in nothing.
std::vector<const Rule*> relevant_axioms(std::set<std::string>& operators, bool own);

}  // namespace unity
