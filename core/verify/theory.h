// What proofs of equality start from, asserted to Z3. Private to this folder: it shows Z3.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/verify/prover.h"
#include "core/verify/terms.h"

namespace unity {

// A call of an operator of which the axis table is known: where schemas and facts about shapes come from.
struct KnownCall {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<Shape> inputs;
  std::vector<z3::expr> terms;  // of the attributes
};

class Theory {
 public:
  explicit Theory(const ProofLimit& limit);

  Language& language() { return language_; }
  z3::context& context() { return context_; }

  void add(const std::string& name, const z3::expr& formula);
  // Both directions, as far as a side binds all variables. `bound`: terms for attribute variables, where not any value
  // will do.
  void add_axiom(const std::string& name, const Rule& axiom, const std::vector<std::optional<z3::expr>>& bound);
  // What a well-typed call of this structure says of sizes.
  void add_shape_facts(const KnownCall& call);
  // Facts about shapes and schemas of each call, once for each structure.
  void add_calls(const std::vector<KnownCall>& calls);
  // The call as in a graph; false when it is ill-typed, and then nothing is added to `calls`.
  bool add_concrete(std::string_view op, Attributes attributes, std::vector<Shape> inputs,
                    std::vector<KnownCall>& calls);
  void add_background();

  // Whether the equation follows; then adds the names of what it follows from.
  bool proves(const z3::expr& goal, std::set<std::string>& used);

 private:
  void add_direction(const std::string& name, Reading& reading, PatternValue from, PatternValue to,
                     const std::vector<z3::expr>& variables, const std::vector<z3::expr>& guards);

  z3::context context_;
  Language language_;
  z3::solver solver_;
  std::vector<std::string> names_;
};

// The stated axioms of which one side can occur, with what they bring in, until nothing is added; `operators` grows.
// With `own`, those that bring in nothing.
std::vector<const Rule*> relevant_axioms(std::set<std::string>& operators, bool own);

}  // namespace unity
