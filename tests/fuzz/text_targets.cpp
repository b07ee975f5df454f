// Texts in Unity's own language: graphs, rules, axioms, records of proofs.
#include "core/graph/text.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/library.h"
#include "core/rewrite/library_text.h"
#include "core/rewrite/proof.h"
#include "core/rewrite/rule_text.h"
#include "tests/fuzz/target.h"

namespace unity::fuzz {
namespace {

void run_pcg(std::string_view input) {
  accepted([&] {
    Pcg pcg = parse_pcg(input);
    std::string text = print(pcg);
    Pcg again = parse_pcg(text);
    require_equal(print(again), text, "a graph that is printed, parsed and printed");
    require(canonical_hash(again) == canonical_hash(pcg), "a printed graph is another one");
    require(check_well_formed(pcg).ok(), "accepted a graph that is not well-formed");
  });
}

std::vector<std::string> pcg_seeds() {
  std::vector<std::string> seeds = {
      tree_file("tests/golden/graph_megatron.pcg"),
      "pcg mlp {\n  x = input([64, 784])\n  w = weight([784, 512], init=\"normal\")\n"
      "  h = relu(matmul(partition(0, 2, x), replicate(2, w)))\n  (a, b) @ 7 \"halves\" = split(1, [256, 256], h)\n"
      "  return combine(0, 2, a), b\n}\n"};
  // Every operator once, on its first examples.
  for (const Operator* op : all_operators()) {
    int number = 0;
    for (const Example& example : op->examples()) {
      Pcg pcg;
      pcg.set_name("example");
      std::vector<ValueRef> inputs;
      for (const Shape& shape : example.inputs) {
        auto leaf = pcg.try_add(get_operator("input"), {shape.dims, std::string(to_string(shape.dtype))}, {},
                                OriginId(static_cast<std::int64_t>(pcg.size())), fmt::format("x{}", pcg.size()));
        if (leaf.ok()) inputs.push_back({*leaf, 0});
      }
      auto node = pcg.try_add(*op, example.attributes, inputs, OriginId(static_cast<std::int64_t>(pcg.size())), "y");
      if (!node.ok() || ++number > 2) continue;
      pcg.set_outputs({{*node, 0}});
      seeds.push_back(print(pcg));
    }
  }
  return seeds;
}

// On which rules are tried: elementwise, products, shards, a shared operand.
const std::vector<Pcg>& graphs_for_rules() {
  static const std::vector<Pcg> graphs = {
      parse_pcg("pcg a { x = input([12, 8]) w1 = weight([8, 4]) w2 = weight([8, 4]) y1 = matmul(x, w1) "
                "y2 = matmul(x, w2) z = relu(add(y1, y2)) return mul(z, y1), concat(1, y1, y2) }"),
      parse_pcg("pcg b { x = input([12, 8]) w = weight([8, 4]) "
                "y = reduce(2, matmul(partition(1, 2, x), partition(0, 2, w))) "
                "(a, b) = split(1, [2, 2], y) return softmax(1, transpose([1, 0], a)), scale(0.5, gelu(b)) }")};
  return graphs;
}

void try_rule(const Rule& rule) {
  for (const Pcg& pcg : graphs_for_rules()) {
    std::size_t tried = 0;
    for (const Match& match : find_matches(pcg, rule)) {
      for (const Parameters& parameters : parameter_choices(pcg, rule, match, {2, 3})) {
        auto after = apply(pcg, rule, match, parameters);
        if (after.ok()) require(check_well_formed(*after).ok(), "rule {} makes an ill-formed graph", rule.name);
        if (++tried >= 8) return;
      }
      if (++tried >= 8) return;
    }
  }
}

template <class Parse>
void check_rules(std::string_view input, Parse parse) {
  accepted([&] {
    std::vector<Rule> rules = parse(input, "f");
    std::string text;
    for (const Rule& rule : rules) text += print(rule);
    std::string again;
    for (const Rule& rule : parse(text, "f")) again += print(rule);
    require_equal(again, text, "rules that are printed, parsed and printed");
    for (const Rule& rule : rules) try_rule(rule);
  });
}

void run_rules(std::string_view input) { check_rules(input, parse_rules); }
void run_axioms(std::string_view input) {
  accepted([&] { (void)parse_axioms(input, "f"); });
}

// One rule a seed: the files of the library are long.
std::vector<std::string> rule_seeds() {
  std::vector<std::string> seeds;
  for (const RuleFile& file : rule_files())
    for (const Rule& rule : file.rules) seeds.push_back(print(rule));
  for (const Rule& rule : import_rules()) seeds.push_back(print(rule));
  seeds.emplace_back(
      "rule merge_matmuls\n  let y1 = matmul(x, w1), y2 = matmul(x, w2)\n"
      "  (y1, y2) => split(1, [dim(w1, 1), dim(w2, 1)], matmul(x, concat(1, w1, w2)))\n");
  return seeds;
}

std::vector<std::string> axiom_seeds() {
  std::vector<std::string> seeds;
  for (const Operator* op : all_operators())
    if (!op->axioms().empty()) seeds.emplace_back(op->axioms());
  return seeds;
}

void run_proofs(std::string_view input) {
  accepted([&] {
    std::string text;
    for (const ProofRecord& record : parse_proofs(input, "f")) text += print(record);
    std::string again;
    for (const ProofRecord& record : parse_proofs(text, "f")) again += print(record);
    require_equal(again, text, "proofs that are printed, parsed and printed");
  });
}

std::vector<std::string> proof_seeds() {
  std::vector<std::string> seeds;
  for (const RuleFile& file : rule_files())
    for (std::size_t i = 0; i < file.proofs.size() && i < 3; ++i) seeds.push_back(print(file.proofs[i]));
  return seeds;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"pcg", "printed, parsed and printed again it is the same graph, well-formed", run_pcg, pcg_seeds, 2048, "pcg"},
      {"rules", "printed, parsed and printed again they are the same; where they match they make well-formed graphs",
       run_rules, rule_seeds, 1024, "pcg"},
      {"axioms", "refused or read", run_axioms, axiom_seeds, 2048, "pcg"},
      {"proofs", "printed, parsed and printed again they are the same", run_proofs, proof_seeds, 2048, "proofs"},
  };
  return list;
}

}  // namespace unity::fuzz
