// unity rules: the library of substitutions, their proofs, and how they are made.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/graphviz.h"
#include "cli/options.h"
#include "cli/rules_generate.h"
#include "cli/rules_import.h"
#include "cli/rules_verify.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_dot.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string name, op, subject, dot, svg;
  bool json = false;
};

bool mentions(const Rule& rule, const std::string& op) {
  return std::any_of(rule.nodes.begin(), rule.nodes.end(), [&](const PatternNode& n) { return n.op->name() == op; });
}

const ProofRecord* proof_of(const RuleFile& file, const Rule& rule) {
  auto found =
      std::find_if(file.proofs.begin(), file.proofs.end(), [&](const ProofRecord& p) { return p.rule == rule.name; });
  return found == file.proofs.end() ? nullptr : &*found;
}

ordered_json proof_json(const ProofRecord* p) {
  if (!p) return nullptr;
  return {{"prover", p->prover}, {"seconds", p->seconds}, {"degrees", p->degrees},
          {"shapes", p->shapes}, {"axioms", p->axioms},   {"instances", p->instances}};
}

// Operators of source and target: "3 => 4".
std::string size_text(const Rule& rule) {
  return fmt::format("{} => {}", rule.source_nodes, rule.nodes.size() - rule.source_nodes);
}

void list(const Options& o) {
  if (!o.op.empty() && !find_operator(o.op))
    throw_input_error("rules list: unknown operator '{}'{}", o.op, suggestion(o.op, operator_names()));
  std::vector<std::string> subjects;
  for (const RuleFile& file : rule_files()) subjects.push_back(file.name);
  if (!o.subject.empty() && std::find(subjects.begin(), subjects.end(), o.subject) == subjects.end())
    throw_input_error("rules list: unknown subject '{}', expected one of {}", o.subject, join(subjects));
  Table table({"rule", "subject", "operators", "proof", "degrees", "seconds"});
  table.left(1).left(2).left(3).left(4);
  ordered_json entries = ordered_json::array();
  for (const RuleFile& file : rule_files()) {
    if (!o.subject.empty() && file.name != o.subject) continue;
    for (const Rule& rule : file.rules) {
      if (!o.op.empty() && !mentions(rule, o.op)) continue;
      const ProofRecord* proof = proof_of(file, rule);
      std::string state = check_proof(rule, file.proofs).ok() ? "proved" : proof ? "stale" : "unproved";
      table.add({rule.name, file.name, size_text(rule), state, proof ? proof->degrees : "",
                 proof ? fmt::format("{:.3f}", proof->seconds) : ""});
      entries.push_back({{"name", rule.name}, {"subject", file.name}, {"proof", state}, {"text", print(rule)}});
    }
  }
  if (o.json)
    fmt::print("{}\n", entries.dump(2));
  else
    table.print();
}

// " (did you mean 'a', 'b'?)", of the few that are nearest; nothing when none is near.
std::string near(const std::string& name, std::vector<std::string> known) {
  constexpr std::size_t kFew = 3;
  std::vector<std::string> found;
  while (found.size() < kFew) {
    std::string next = nearest_name(name, known);
    if (next.empty()) break;
    std::erase(known, next);
    found.push_back("'" + next + "'");
  }
  return found.empty() ? "" : fmt::format(" (did you mean {}?)", join(found));
}

void show(const Options& o) {
  std::vector<std::string> known;
  for (const RuleFile& file : rule_files())
    for (const Rule& rule : file.rules) {
      known.push_back(rule.name);
      if (rule.name != o.name) continue;
      if (!o.dot.empty()) write_file_atomically(o.dot, to_dot(rule));
      if (!o.svg.empty()) write_svg(to_dot(rule), o.svg);
      const ProofRecord* proof = proof_of(file, rule);
      auto fresh = check_proof(rule, file.proofs);
      if (o.json) {
        fmt::print("{}\n", ordered_json({{"rule", rule.name},
                                         {"subject", file.name},
                                         {"text", print(rule)},
                                         {"proof", proof_json(proof)},
                                         {"fresh", fresh.ok()}})
                               .dump(2));
      } else {
        fmt::print("{}\n{}", print(rule), proof ? print(*proof) : "");
        if (!fresh.ok()) fmt::print("{}\n", fresh.error().message);
      }
      return;
    }
  throw_input_error("rules show: unknown rule '{}'{}; unity rules list names all {}", o.name, near(o.name, known),
                    known.size());
}

void add_list_of_rules(CLI::App& rules) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(rules, "list", "List the rules of the library",
                                  "  unity rules list --operator conv2d\n"
                                  "  unity rules list --subject parallelization");
  command->add_option("--operator", o->op, "Only rules in which this operator occurs");
  command->add_option("--subject", o->subject, "Only rules of one file");
  add_json(*command, o->json);
  command->callback([o] { list(*o); });
}

void add_show_rule(CLI::App& rules) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(rules, "show", "Show a rule and its proof", "  unity rules show fuse_matmul_relu --svg rule.svg");
  command->add_option("NAME", o->name, "The rule's name")->required();
  output_file(command->add_option("--dot", o->dot, "Write source and target in Graphviz's language to a file"));
  output_file(
      command->add_option("--svg", o->svg, "Draw source and target side by side to a file (needs Graphviz's dot)"));
  add_json(*command, o->json);
  command->callback([o] {
    require_writable(o->dot);
    require_writable(o->svg);
    show(*o);
  });
}

}  // namespace

void add_rules(CLI::App& app) {
  CLI::App* rules = add_command(app, "rules", "The library of substitutions and their proofs",
                                "  unity rules list --operator matmul\n"
                                "  unity rules show fuse_matmul_relu");
  rules->require_subcommand(1);
  add_list_of_rules(*rules);
  add_show_rule(*rules);
  add_rules_generate(*rules);
  add_rules_verify(*rules);
  add_rules_import(*rules);
}

}  // namespace unity::cli
