// unity rules verify: proves the rules of the library, or of files.
#include "cli/rules_verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"
#include "core/verify/check_axioms.h"
#include "core/verify/verify.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::vector<std::string> files, names, models;
  VerifyOptions verify;
  int jobs = 0;
  bool write = false, axioms = false, json = false;
};

struct Subject {
  std::string path;  // of the file; empty: of the library
  const Rule* rule = nullptr;
  Verification found;
};

std::vector<RuleFile> files_of(const Options& o) {
  if (o.files.empty()) return rule_files();
  std::vector<RuleFile> files;
  for (const std::string& path : o.files) files.push_back({path, load_rules(path), {}});
  return files;
}

ordered_json counterexample_json(const std::optional<RuleInstance>& instance) {
  if (!instance) return nullptr;
  return {{"source", print(instance->source)},
          {"target", instance->target.size() ? ordered_json(print(instance->target)) : ordered_json()}};
}

ordered_json verdict_json(const Subject& s) {
  ordered_json entry = {{"name", s.rule->name}, {"verdict", to_string(s.found.verdict)}};
  if (s.found.verdict == Verdict::proved) {
    const ProofRecord& r = s.found.record;
    entry.update({{"seconds", r.seconds},
                  {"degrees", r.degrees},
                  {"shapes", r.shapes},
                  {"axioms", r.axioms},
                  {"instances", r.instances}});
  } else {
    entry.update({{"why", s.found.why}, {"counterexample", counterexample_json(s.found.counterexample)}});
  }
  return entry;
}

ordered_json axioms_json(const std::vector<AxiomCheck>& checks, const std::vector<std::string>& not_axioms,
                         const std::vector<int>& inconsistent, const std::vector<std::string>& redundant) {
  ordered_json axioms = ordered_json::array();
  std::int64_t faults = 0, evaluated = 0;
  for (const AxiomCheck& c : checks) {
    faults += !c.fault.empty(), evaluated += c.evaluated;
    axioms.push_back({{"name", c.name},
                      {"text", c.text},
                      {"shapes", c.shapes},
                      {"typed", c.typed},
                      {"evaluated", c.evaluated},
                      {"fault", c.fault.empty() ? ordered_json() : ordered_json(c.fault)}});
  }
  return {{"total", checks.size()},
          {"faults", faults},
          {"evaluated", evaluated},
          {"refuted_schemas", not_axioms},
          {"inconsistent_ranks", inconsistent},
          {"redundant", redundant},
          {"axioms", axioms}};
}

// Each axiom exactly on small tensors, then whether they contradict each other, then which follow from the others.
void run_axioms(const Options& o) {
  auto begin = std::chrono::steady_clock::now();
  std::vector<AxiomCheck> checks = check_axioms();
  std::vector<std::string> not_axioms = refuted_schemas();
  std::vector<int> inconsistent = inconsistent_ranks();
  std::vector<std::string> redundant = redundant_axioms();
  ordered_json found = axioms_json(checks, not_axioms, inconsistent, redundant);
  if (o.json) {
    fmt::print("{}\n", found.dump(2));
  } else {
    Table table({"axiom", "shapes", "well-typed", "evaluated", "fault"});
    table.left(4);
    for (const AxiomCheck& c : checks)
      table.add({c.name, grouped(c.shapes), grouped(c.typed), grouped(c.evaluated), c.fault});
    table.print();
    fmt::print("\n{} axioms and schemas, {} wrong, evaluated {} times in {:.1f} s\n", checks.size(),
               found["faults"].get<std::int64_t>(), grouped(found["evaluated"].get<std::int64_t>()),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    fmt::print("tables suggest, evaluation refutes, and proofs do not use: {}\n", join(not_axioms));
    fmt::print("two arbitrary tensors are proved equal at: {}\n", inconsistent.empty() ? "no rank" : "some rank");
    fmt::print("follow from the others: {}\n", redundant.empty() ? "none" : join(redundant));
  }
  if (found["faults"] != 0 || !inconsistent.empty())
    throw std::runtime_error("rules verify: an axiom does not hold, or they contradict each other");
}

// In their default sizes.
std::vector<Pcg> graphs_of(const std::vector<std::string>& models) {
  std::vector<Pcg> graphs;
  for (const std::string& model : models)
    for (const std::string& name : model == "all" ? model_names() : std::vector{model})
      graphs.push_back(build_model({name, {}}));
  return graphs;
}

// Whether proofs of the file are to be written; of one without rules there are none, which search wants to see.
bool is_among(const RuleFile& file, const std::vector<Subject>& subjects) {
  return file.rules.empty() ||
         std::any_of(subjects.begin(), subjects.end(), [&](const Subject& s) { return s.path == file.name; });
}

// What was proved now, and what is on record of the other rules, in the file's order. A proof stands until its rule is
// changed or refuted, though it is not found again in less time.
std::vector<ProofRecord> records_of(const RuleFile& file, const std::vector<Subject>& subjects) {
  std::vector<ProofRecord> records;
  for (const Rule& rule : file.rules) {
    auto asked = std::find_if(subjects.begin(), subjects.end(), [&](const Subject& s) { return s.rule == &rule; });
    Verdict verdict = asked == subjects.end() ? Verdict::unknown : asked->found.verdict;
    if (verdict == Verdict::proved)
      records.push_back(asked->found.record);
    else if (auto on_record = check_proof(rule, file.proofs); verdict == Verdict::unknown && on_record.ok())
      records.push_back(**on_record);
  }
  return records;
}

void run_verify(const Options& o) {
  if (o.axioms) {
    if (!o.files.empty() || !o.names.empty() || !o.models.empty() || o.write)
      throw_input_error(
          "rules verify: --axioms checks axioms, no rules: found files, names, models or --write with it");
    return run_axioms(o);
  }
  if (o.write && o.files.empty())
    throw_input_error("rules verify: --write needs the rule files whose proofs are to be written");
  std::vector<RuleFile> files = files_of(o);
  std::vector<Subject> subjects;
  std::vector<std::string> known;
  for (const RuleFile& file : files)
    for (const Rule& rule : file.rules) {
      known.push_back(rule.name);
      if (o.names.empty() || std::find(o.names.begin(), o.names.end(), rule.name) != o.names.end())
        subjects.push_back({o.files.empty() ? "" : file.name, &rule, {}});
    }
  for (const std::string& name : o.names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_input_error("rules verify: unknown rule '{}'{}", name, suggestion(name, known));
  if (o.write)
    for (RuleFile& file : files) {
      const std::string path = proofs_path(file.name);
      if (!is_among(file, subjects)) continue;
      require_writable(path);
      if (std::filesystem::exists(path)) file.proofs = parse_proofs(read_file(path), path);
    }

  VerifyOptions options = o.verify;
  std::vector<Pcg> graphs = graphs_of(o.models);
  for (const Pcg& graph : graphs) options.graphs.push_back(&graph);
  auto begin = std::chrono::steady_clock::now();
  Progress progress("verify");
  std::mutex mutex;
  std::int64_t done = 0;
  parallel_for(subjects.size(), o.jobs, [&](std::size_t i) {
    subjects[i].found = verify(*subjects[i].rule, options);
    std::lock_guard lock(mutex);
    progress.update(++done, static_cast<std::int64_t>(subjects.size()), subjects[i].rule->name);
  });
  progress.clear();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  std::map<Verdict, std::int64_t> counts;
  for (const Subject& s : subjects) ++counts[s.found.verdict];
  if (o.write)
    for (const RuleFile& file : files)
      if (is_among(file, subjects)) write_proofs(file.name, records_of(file, subjects));
  if (o.json) {
    ordered_json rules = ordered_json::array();
    for (const Subject& s : subjects) rules.push_back(verdict_json(s));
    fmt::print("{}\n", ordered_json({{"total", subjects.size()},
                                     {"proved", counts[Verdict::proved]},
                                     {"refuted", counts[Verdict::refuted]},
                                     {"ill_typed", counts[Verdict::ill_typed]},
                                     {"unknown", counts[Verdict::unknown]},
                                     {"seconds", seconds},
                                     {"prover", prover_version()},
                                     {"rules", rules}})
                           .dump(2));
  } else {
    Table table({"rule", "verdict", "why"});
    table.left(1).left(2);
    for (const Subject& s : subjects)
      if (s.found.verdict != Verdict::proved)
        table.add({s.rule->name, std::string(to_string(s.found.verdict)), s.found.why});
    if (counts[Verdict::proved] != static_cast<std::int64_t>(subjects.size())) table.print();
    for (const Subject& s : subjects)
      if (s.found.counterexample && subjects.size() == 1)
        fmt::print("\ncounterexample, source:\n{}target:\n{}", print(s.found.counterexample->source),
                   s.found.counterexample->target.size() ? print(s.found.counterexample->target) : "ill-typed\n");
    fmt::print("{} rules: {} proved, {} refuted, {} ill-typed, {} unknown; {:.1f} s with {}\n", subjects.size(),
               counts[Verdict::proved], counts[Verdict::refuted], counts[Verdict::ill_typed], counts[Verdict::unknown],
               seconds, prover_version());
  }
  std::size_t open = subjects.size() - static_cast<std::size_t>(counts[Verdict::proved]);
  if (open) throw std::runtime_error(fmt::format("rules verify: {} of {} rules are not proved", open, subjects.size()));
}

}  // namespace

void add_seconds(CLI::App& command, double& seconds) {
  constexpr double kMostSeconds = 4000;  // the prover counts its steps in 32 bits, a million a second
  above_zero(
      between(0, kMostSeconds, command.add_option("--seconds", seconds, "Limit for each question to the prover")))
      ->capture_default_str();
}

void add_instances(CLI::App& command, int& instances) {
  between(1, 10'000, command.add_option("--instances", instances, "Small instances of each rule that are evaluated"))
      ->capture_default_str();
}

void add_jobs(CLI::App& command, int& jobs) {
  from_zero(command.add_option("-j,--jobs", jobs, "Threads; 0: one for each core"))->capture_default_str();
}

void write_proofs(const std::string& rules_path, const std::vector<ProofRecord>& records) {
  std::string text = fmt::format("# What {} was proved from; written by `unity rules`.\n",
                                 rules_path.substr(rules_path.rfind('/') + 1));
  for (const ProofRecord& r : records) text += print(r);
  write_file_atomically(proofs_path(rules_path), text);
}

void add_rules_verify(CLI::App& rules) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(rules, "verify", "Prove rules, or show what is wrong with them",
                                  "  unity rules verify\n"
                                  "  unity rules verify my.rules --model all --write\n"
                                  "  unity rules verify --rule merge_matmuls --json");
  command->add_option("FILE", o->files, "Rule files; without any, the library");
  command->add_option("--rule", o->names, "Only rules of these names");
  add_seconds(*command, o->verify.seconds);
  add_instances(*command, o->verify.instances);
  from_zero(command->add_option("--seed", o->verify.seed, "Of the instances"))->capture_default_str();
  add_jobs(*command, o->jobs);
  command->add_flag(
      "--axioms", o->axioms,
      "Check what proofs start from instead: each axiom exactly on small tensors, consistency, redundancy");
  command->add_option("--model", o->models,
                      "Prove them also at the shapes with which they occur in this model; all: in every built-in one");
  command->add_flag("--write", o->write, "Write the proofs beside each file, as NAME.proofs");
  add_json(*command, o->json);
  command->callback([o] { run_verify(*o); });
}

}  // namespace unity::cli
