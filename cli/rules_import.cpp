// unity rules import: what the rule files of TASO and FlexFlow are worth.
#include "cli/rules_import.h"

#include <cctype>
#include <filesystem>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/rules_verify.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/import/classify.h"
#include "core/rewrite/library.h"
#include "core/verify/verify.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string file, output;
  VerifyOptions verify;
  ImportOptions import;
  bool json = false;
};

Finding prove_or_refute(const Rule& rule, const VerifyOptions& options) {
  static const std::map<Verdict, ImportVerdict> kVerdicts = {{Verdict::proved, ImportVerdict::proved},
                                                             {Verdict::refuted, ImportVerdict::refuted},
                                                             {Verdict::ill_typed, ImportVerdict::ill_typed},
                                                             {Verdict::unknown, ImportVerdict::unknown}};
  Verification found = verify(rule, options);
  return {kVerdicts.at(found.verdict), std::move(found.why), std::move(found.partial), std::move(found.record),
          std::move(found.counterexample)};
}

// The library, and what follows from axis tables (which the library names where it has it).
std::vector<Rule> all_rules() {
  std::vector<Rule> rules = rule_library();
  for (Rule& rule : derived_rules()) rules.push_back(std::move(rule));
  return rules;
}

std::string origin(const ImportedRule& rule) {
  if (!rule.steps) return "not derived";
  if (*rule.steps == 1) return rule.library_rule();
  return fmt::format("derived in {} steps: {}", *rule.steps, join(rule.derivation));
}

ordered_json entry(const ImportedRule& rule) {
  ordered_json json = {{"index", rule.index}, {"verdict", to_string(rule.verdict)}};
  if (rule.rule) json["name"] = rule.rule->name;
  if (rule.steps) json["steps"] = *rule.steps;
  if (rule.steps == 1) json["library_rule"] = rule.library_rule();
  if (!rule.derivation.empty()) json["derivation"] = rule.derivation;
  if (!rule.applies.empty()) json["not_where"] = rule.applies;
  if (!rule.why.empty()) json["why"] = rule.why;
  if (!rule.holds_where.empty()) json["holds_where"] = rule.holds_where;
  if (!rule.counterexample.empty()) json["counterexample"] = rule.counterexample;
  if (!rule.text.empty()) json["text"] = rule.text;
  return json;
}

void write_rules(const Options& o, const std::vector<ImportedRule>& rules) {
  std::string text = fmt::format("# The rules of {} that are proved.\n", o.file), proofs;
  for (const ImportedRule& rule : rules) {
    if (rule.verdict != ImportVerdict::proved) continue;
    text += "\n" + rule.text;
    proofs += print(rule.record);
  }
  // Proofs first: rules without them would be refused, were this cut off between the two.
  write_file_atomically(proofs_path(o.output), proofs);
  write_file_atomically(o.output, text);
}

// Rules of several files do not get the same names.
std::string name_of_rules(const std::string& file) {
  std::string name = "imported_" + std::filesystem::path(file).stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

void run_import(Options& o) {
  if (!o.output.empty()) {
    if (!o.output.ends_with(".rules"))
      throw_input_error("rules import: found output '{}', expected a name that ends in .rules", o.output);
    require_writable(o.output);
  }
  PeerFile file = read_peer_rules(o.file);
  o.import.name = name_of_rules(o.file);
  Progress progress("import");
  o.import.progress = [&](std::size_t done, std::size_t all) {
    progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(all));
  };
  std::vector<ImportedRule> rules = classify(
      file, [&](const Rule& rule) { return prove_or_refute(rule, o.verify); }, all_rules(), o.import);
  progress.clear();
  if (!o.output.empty()) write_rules(o, rules);

  std::map<ImportVerdict, std::int64_t> counts;
  std::int64_t known = 0;
  for (const ImportedRule& rule : rules) ++counts[rule.verdict], known += rule.steps.has_value();
  if (o.json) {
    ordered_json entries = ordered_json::array(), by_verdict;
    for (const ImportedRule& rule : rules) entries.push_back(entry(rule));
    for (ImportVerdict v : {ImportVerdict::proved, ImportVerdict::refuted, ImportVerdict::ill_typed,
                            ImportVerdict::unsupported, ImportVerdict::unknown})
      by_verdict[std::string(to_string(v))] = counts[v];
    by_verdict["derived"] = known;
    fmt::print("{}\n", ordered_json({{"file", o.file}, {"rules", entries}, {"counts", by_verdict}}).dump(2));
    return;
  }
  Table table({"rule", "verdict", "in our library, or why not"});
  table.left(1).left(2);
  for (const ImportedRule& rule : rules)
    table.add({fmt::format("{}", rule.index), std::string(to_string(rule.verdict)),
               rule.verdict == ImportVerdict::proved ? origin(rule) : rule.why});
  table.print();
  for (const ImportedRule& rule : rules)
    if (!rule.counterexample.empty())
      fmt::print("\ncounterexample to rule {}\n{}{}", rule.index, rule.text, rule.counterexample);
  fmt::print(
      "{} rules: {} proved ({} of them in the library or derived from it in at most {} steps), {} refuted, {} "
      "ill-typed, {} unsupported, {} unknown\n",
      rules.size(), counts[ImportVerdict::proved], known, o.import.steps, counts[ImportVerdict::refuted],
      counts[ImportVerdict::ill_typed], counts[ImportVerdict::unsupported], counts[ImportVerdict::unknown]);
}

}  // namespace

void add_rules_import(CLI::App& rules) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(rules, "import", "Prove or refute the rules of TASO's and FlexFlow's files",
                                  "  unity rules import graph_subst.pb\n"
                                  "  unity rules import graph_subst_3_v2.json --json\n"
                                  "  unity rules import graph_subst.pb -o taso.rules");
  command->add_option("FILE", o->file, "Rules in protobuf's wire format or as JSON, gzipped or not")->required();
  output_file(command->add_option("-o,--output", o->output,
                                  "Write the proved rules to NAME.rules, and their proofs beside it"));
  between(0, 10, command->add_option("--steps", o->import.steps, "Applications in a derivation, at most"))
      ->capture_default_str();
  add_seconds(*command, o->verify.seconds);
  add_instances(*command, o->verify.instances);
  from_zero(command->add_option("--seed", o->verify.seed, "Of the instances"))->capture_default_str();
  add_jobs(*command, o->import.jobs);
  add_json(*command, o->json);
  command->callback([o] { run_import(*o); });
}

}  // namespace unity::cli
