#include "gui/panels/rules/rules.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "core/base/text.h"
#include "core/rewrite/library.h"
#include "core/search/explain.h"
#include "core/search/substitution.h"
#include "gui/session/rewriting.h"

namespace unity::gui {

const std::vector<RuleEntry>& rule_entries() {
  static const std::vector<RuleEntry> all = [] {
    std::vector<RuleEntry> entries;
    for (const RuleFile& file : rule_files())
      for (const Rule& rule : file.rules) {
        RuleEntry entry{&rule, file.name, nullptr, {}};
        Result<const ProofRecord*> proof = check_proof(rule, file.proofs);
        if (proof.ok()) {
          entry.proof = *proof;
          entry.status = (*proof)->degrees == "all" ? "proved for all degrees"
                                                    : fmt::format("proved for degrees {}", (*proof)->degrees);
        } else {
          entry.status = proof.error().message;
        }
        entries.push_back(std::move(entry));
      }
    return entries;
  }();
  return all;
}

std::vector<std::size_t> search_rules(const std::vector<RuleEntry>& entries, const std::string& query) {
  std::istringstream in(query);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string text = entries[i].file + " " + entries[i].rule->name;
    for (const PatternNode& node : entries[i].rule->nodes) text += " " + node.op->name();
    if (std::all_of(words.begin(), words.end(),
                    [&](const std::string& word) { return text.find(word) != std::string::npos; }))
      found.push_back(i);
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> rule_facts(const RuleEntry& entry) {
  std::vector<std::pair<std::string, std::string>> facts = {{"file", entry.file + ".rules"}, {"status", entry.status}};
  std::vector<std::string> conditions;
  for (const Condition& c : entry.rule->conditions) conditions.push_back(print(c, *entry.rule));
  if (!conditions.empty()) facts.emplace_back("where", join(conditions));
  if (!entry.proof) return facts;
  const ProofRecord& proof = *entry.proof;
  facts.emplace_back(
      "proved by", fmt::format("{} in {:.3g} s; {} instances evaluated", proof.prover, proof.seconds, proof.instances));
  facts.emplace_back("axioms", proof.axioms.empty() ? "none" : join(proof.axioms));
  facts.emplace_back("shapes", join(proof.shapes, "; "));
  return facts;
}

RulePlaces rule_places(const Plan& plan, const Topology& topology, const Rule& rule, const std::atomic<bool>* stop) {
  RulePlaces places;
  places.graph = &plan.pcg;
  std::vector<Match> matches = find_matches(plan.pcg, rule);
  Integers degrees;
  for (int d : degrees_of_devices(static_cast<int>(topology.device_count()))) degrees.push_back(d);
  std::unordered_map<std::string, std::vector<Parameters>> known;
  for (std::size_t m = 0; m < matches.size() && !(stop && *stop); ++m) {
    const Match& match = matches[m];
    std::vector<Parameters> fitting;
    if (m < RulePlaces::kChoices) {
      std::string kind;
      for (NodeId id : match.nodes) {
        const Node& n = plan.pcg[id];
        kind += without_indices(n.name) + " " + n.op->name() + " " + to_string(plan.mappings[id.index()]) + " ";
        for (ValueRef v : n.inputs) kind += to_string(plan.pcg.shape(v));
      }
      auto [at, fresh] = known.try_emplace(kind);
      if (fresh)
        for (Parameters& p : parameter_choices(plan.pcg, rule, match, degrees))
          if (rewrite_plan(plan, topology, rule, match, p).ok()) at->second.push_back(std::move(p));
      fitting = at->second;
      if (fitting.empty()) {
        ++places.ill_typed;
        continue;
      }
    }
    places.numbers.push_back(static_cast<int>(m));
    places.labels.push_back(plan.pcg[match.root()].name);
    if (m < RulePlaces::kChoices) places.choices.push_back(std::move(fitting));
    places.matches.push_back(match);
  }
  return places;
}

std::vector<bool> rules_that_match(const Pcg& pcg, const std::vector<RuleEntry>& entries,
                                   const std::atomic<bool>* stop) {
  MatchIndex index(pcg);
  std::vector<bool> match(entries.size(), false);
  for (std::size_t i = 0; i < entries.size() && !(stop && *stop); ++i)
    match[i] = !find_matches(index, *entries[i].rule).empty();
  return match;
}

namespace {

// "shard" of shard_matmul_b0: what rules that follow from axis tables do. Other rules stand for themselves.
std::string kind_of(const std::string& rule) {
  for (const char* kind : {"shard", "spread", "replicate", "reduce"})
    if (rule.starts_with(std::string(kind) + "_")) return kind;
  return rule;
}

}  // namespace

std::vector<DerivationLine> derivation_lines(const Plan& plan, bool together) {
  std::unordered_map<std::string, std::vector<NodeId>> by_label;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i)
    if (!plan.pcg.nodes()[i].is_parallelization())
      by_label[plan.pcg.nodes()[i].name].emplace_back(static_cast<std::int64_t>(i));
  std::vector<DerivationLine> lines;
  std::int64_t time = 0;
  for (std::size_t i = 0; i < plan.derivation.size(); ++i) {
    const DerivationStep& step = plan.derivation[i];
    bool more = together && !lines.empty() && lines.back().after == 0 && lines.back().degree == step.degree &&
                kind_of(lines.back().rule) == kind_of(step.rule);
    if (more)
      ++lines.back().count;
    else
      lines.push_back({static_cast<int>(i), 1, step.rule, step.where, step.degree, time, 0, {}});
    DerivationLine& line = lines.back();
    if (step.iteration_ps > 0) line.after = time = step.iteration_ps;
    if (auto nodes = by_label.find(step.where); nodes != by_label.end())
      line.nodes.insert(line.nodes.end(), nodes->second.begin(), nodes->second.end());
  }
  return lines;
}

}  // namespace unity::gui
