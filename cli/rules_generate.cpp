// unity rules generate: enumerates graphs, pairs equal ones, and writes down the rules that are proved.
#include "cli/rules_generate.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/rules_verify.h"
#include "cli/search_options.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/generate/generate.h"
#include "core/rewrite/axioms.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"
#include "core/verify/verify.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string output, families;
  std::vector<std::string> given;
  GenerateOptions generate;
  VerifyOptions verify{.seconds = 1};  // most candidates without a proof have none
  bool exhaustive = false, json = false;
};

ordered_json fates_json(const FamilyReport& family) {
  ordered_json fates;
  for (std::size_t f = 0; f < kPairFates; ++f)
    fates[std::string(to_string(static_cast<PairFate>(f)))] = family.pairs[f];
  return fates;
}

ordered_json rejected_json(const std::vector<RejectedCandidate>& rejected) {
  ordered_json all = ordered_json::array();
  for (const RejectedCandidate& r : rejected) all.push_back({{"family", r.family}, {"text", r.text}, {"why", r.why}});
  return all;
}

ordered_json family_json(const FamilyReport& f) {
  const EnumerationCounts& e = f.enumeration;
  return {{"family", f.family},       {"applications", e.applications},
          {"ill_typed", e.ill_typed}, {"duplicates", e.duplicates},
          {"terms", e.terms},         {"graphs_by_operators", e.graphs},
          {"classes", e.classes},     {"graphs_in_classes", e.class_graphs},
          {"pairs", fates_json(f)},   {"nonlinear_derived", f.nonlinear_derived}};
}

void print_json(const GenerateResult& result, std::int64_t proofs, const std::string& output) {
  ordered_json families = ordered_json::array(), kept = ordered_json::array();
  for (const FamilyReport& f : result.families) families.push_back(family_json(f));
  for (const GeneratedRule& r : result.kept)
    kept.push_back({{"name", r.rule.name}, {"subject", r.subject}, {"family", r.family}, {"size", r.size}});
  fmt::print("{}\n", ordered_json({{"seconds", result.seconds},
                                   {"completeness", result.completeness()},
                                   {"shardings", result.shardings},
                                   {"candidates", result.candidates},
                                   {"derived_later", result.derived_later},
                                   {"same_rule", result.same_rule},
                                   {"proofs", proofs},
                                   {"kept", kept},
                                   {"contradicted", rejected_json(result.contradicted)},
                                   {"unproved", rejected_json(result.unproved)},
                                   {"disproved", rejected_json(result.disproved)},
                                   {"families", families},
                                   {"directory", output}})
                         .dump(2));
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (std::int64_t n : counts) sum += n;
  return sum;
}

void print_tables(const GenerateResult& result, std::int64_t proofs, int steps) {
  Table table({"family", "applications", "ill-typed", "duplicates", "graphs", "classes", "in classes", "pairs",
               "derived", "open"});
  for (const FamilyReport& f : result.families) {
    const EnumerationCounts& e = f.enumeration;
    std::int64_t pairs = 0;
    for (std::int64_t n : f.pairs) pairs += n;
    auto fate = [&](PairFate p) { return grouped(f.pairs[static_cast<std::size_t>(p)]); };
    table.add({f.family, grouped(e.applications), grouped(e.ill_typed), grouped(e.duplicates),
               grouped(sum_of(e.graphs)), grouped(e.classes), grouped(e.class_graphs), grouped(pairs),
               fate(PairFate::derived), fate(PairFate::open)});
  }
  table.print();
  std::map<std::string, std::int64_t> subjects;
  for (const GeneratedRule& r : result.kept) ++subjects[r.subject];
  fmt::print("\n");
  Table kept({"subject", "rules"});
  for (const auto& [subject, n] : subjects) kept.add({subject, grouped(n)});
  kept.print();
  fmt::print(
      "\n{} rules kept of {} candidates and {} shardings ({} derived later, {} the same rule, {} contradicted, {} "
      "unproved); {} proofs\n",
      grouped(static_cast<std::int64_t>(result.kept.size())), grouped(result.candidates), grouped(result.shardings),
      grouped(result.derived_later), grouped(result.same_rule), result.contradicted.size(), result.unproved.size(),
      grouped(proofs));
  fmt::print("{:.2f}% of all pairs that could be rules are derived in at most {} step{}; {:.1f} s\n",
             100 * result.completeness(), steps, steps == 1 ? "" : "s", result.seconds);
}

// Rules that are there already: the hand-written ones of the library, unless files are named.
std::vector<Rule> given_rules(const std::vector<std::string>& paths) {
  std::vector<Rule> rules;
  for (const std::string& path : paths)
    for (Rule& rule : load_rules(path)) rules.push_back(std::move(rule));
  if (paths.empty())
    for (const RuleFile& file : rule_files())
      if (file.name == "definitions" || file.name == "named")
        rules.insert(rules.end(), file.rules.begin(), file.rules.end());
  return rules;
}

// Of all that decides what is proved.
Hash proofs_of(const VerifyOptions& options) {
  Hash hash = combine(combine(hash_number(options.seconds), options.seed), static_cast<Hash>(options.instances));
  for (const Rule& axiom : operator_axioms()) hash = combine(combine(hash, hash_rule(axiom)), axioms_hash(axiom, {}));
  return hash;
}

void run_generate(Options& o) {
  o.generate.families = default_families(o.exhaustive);
  if (!o.families.empty()) {
    std::vector<std::string> names = split_list("--families", o.families);
    o.generate.sharding = std::erase(names, "sharding") > 0;
    o.generate.families = names.empty() ? std::vector<Family>() : select_families(*o.generate.families, names);
  }
  if (!o.output.empty()) {
    std::error_code error;
    std::filesystem::create_directories(o.output, error);
    if (error) throw_input_error("{}: cannot be made a folder: {}", o.output, error.message());
    require_writable(o.output + "/any.rules");
  }
  o.generate.given = given_rules(o.given);
  o.generate.proofs = proofs_of(o.verify);
  std::mutex mutex;
  std::map<Hash, ProofRecord> records;  // by the rule's text, whatever its name
  auto key_of = [](Rule rule) {
    rule.name = "rule";
    return hash_rule(rule);
  };
  std::int64_t proofs = 0;
  o.generate.prove = [&](const Rule& rule) {
    Verification found = verify(rule, o.verify);
    std::lock_guard lock(mutex);
    ++proofs;
    if (found.verdict == Verdict::proved) records[key_of(rule)] = found.record;
    return ProofOutcome{found.verdict == Verdict::proved, found.why, found.verdict == Verdict::refuted};
  };
  Progress progress("generate");
  o.generate.progress = [&](const std::string& what) { progress.update(0, 0, what); };
  GenerateResult result = generate(o.generate);
  progress.clear();
  std::map<std::string, std::vector<ProofRecord>> by_subject;
  std::erase_if(result.kept, [&](const GeneratedRule& r) {
    if (o.output.empty()) return false;
    auto found = records.find(key_of(r.rule));
    if (found == records.end()) {  // proved by an earlier run, which this one resumes
      Verification again = verify(r.rule, o.verify);
      if (again.verdict != Verdict::proved) {
        result.unproved.push_back({print(r.rule), r.family, again.why});
        return true;
      }
      found = records.emplace(key_of(r.rule), again.record).first;
    }
    ProofRecord record = found->second;
    record.rule = r.rule.name, record.rule_hash = hash_rule(r.rule);
    by_subject[r.subject].push_back(std::move(record));
    return false;
  });
  if (!o.output.empty()) {
    // Proofs first: rules without them would be refused, were this cut off between the two.
    for (const auto& [subject, proved] : by_subject) write_proofs(o.output + "/" + subject + ".rules", proved);
    write_rules(result, o.output);
  }
  if (o.json)
    print_json(result, proofs, o.output);
  else
    print_tables(result, proofs, o.generate.steps);
}

}  // namespace

void add_rules_generate(CLI::App& rules) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(rules, "generate", "Enumerate graphs, pair equal ones, and prove the rules they give",
                                  "  unity rules generate -o rules\n"
                                  "  unity rules generate --families parallelization --json\n"
                                  "  unity rules generate --exhaustive --resume work -o rules");
  output_file(command->add_option("-o,--output", o->output,
                                  "Write a file of rules, and one of their proofs, for each subject to this folder"));
  command->add_option("--families", o->families,
                      "Only these families of operators, comma-separated; 'sharding': how operators may be split");
  command->add_option("--given", o->given,
                      "Files of rules that need not be generated (default: the library's hand-written ones)");
  command->add_option("--resume", o->generate.resume_directory,
                      "Keep what is finished in this folder, and go on from it");
  between(0, 10,
          command->add_option("--steps", o->generate.steps, "Applications of rules by which a pair counts as derived"))
      ->capture_default_str();
  from_zero(command->add_option("--seed", o->generate.seed, "Of random instances"))->capture_default_str();
  add_seconds(*command, o->verify.seconds);
  add_jobs(*command, o->generate.jobs);
  command->add_flag("--exhaustive", o->exhaustive,
                    "One operator more in each family, and all layouts of operands: takes hours");
  add_json(*command, o->json);
  command->callback([o] { run_generate(*o); });
}

}  // namespace unity::cli
