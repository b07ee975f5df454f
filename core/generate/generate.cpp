#include "core/generate/generate.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/generate/generalise.h"
#include "core/generate/journal.h"
#include "core/generate/sharding.h"

namespace unity {
namespace {

constexpr std::string_view kSharding = "sharding";  // the family of sharding.h
constexpr std::size_t kRound = 16;                  // candidates that are worked on at once
constexpr std::uint64_t kSecondSeed = 1000;
constexpr int kInstancesOfProof = 5;         // times as many instances as a form stood while it was made
constexpr std::size_t kMostOccurrences = 8;  // pairs of one candidate that are looked at

struct Candidate {
  std::string text;  // the pair as a rule with its literal attributes: what makes candidates the same
  std::size_t family = 0;
  int larger_side = 0, target_operators = 0, variables = 0;
  std::vector<std::pair<int, int>> pairs;
};

class Generator {
 public:
  explicit Generator(const GenerateOptions& options)
      : options_(options), journal_(options.resume_directory, combine(options.seed, options.proofs)) {}

  GenerateResult run() {
    auto start = std::chrono::steady_clock::now();
    std::vector<Family> families = options_.families ? *options_.families : default_families();
    std::vector<std::optional<FamilyGraphs>> made(families.size());
    parallel_for(families.size(), options_.jobs, [&](std::size_t i) { made[i].emplace(families[i]); });
    for (auto& family : made) families_.push_back(std::move(*family));
    for (const Rule& rule : options_.given) {
      names_.insert(rule.name);
      bodies_.insert(body(rule));
      draw(rule, FamilyGraphs::Roads::proved);
    }
    if (options_.sharding) shard();
    int largest = 0;
    for (const Family& f : families) largest = std::max(largest, f.size);
    for (int size = 1; size <= 2 * largest; ++size) work_on(collect(size), size);
    report();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  // The pairs of `size` operators together that no rule derives, by what they are as rules.
  std::vector<Candidate> collect(int size) {
    std::vector<std::map<std::string, Candidate>> found(families_.size());
    parallel_for(families_.size(), options_.jobs, [&](std::size_t f) {
      const FamilyGraphs& graphs = families_[f];
      for (int source = 0; source < graphs.size(); ++source) {
        auto [first, last] = graphs.equals(source);
        std::vector<int> open;
        for (int target = first; target < last; ++target)
          if (target != source && graphs.operators(source) + graphs.operators(target) == size &&
              graphs.fate(source, target) == PairFate::open)
            open.push_back(target);
        if (open.empty()) continue;
        std::vector<int> reached = graphs.reach(source, options_.steps, FamilyGraphs::Roads::tested);
        for (int target : open) {
          if (std::binary_search(reached.begin(), reached.end(), target)) continue;
          PairPattern pattern = graphs.pattern(source, target);
          for (std::size_t v = 0; v < pattern.values.size(); ++v) pattern.values[v] = fmt::format("x{}", v + 1);
          std::string text = rule_text(pattern, "candidate", literal_attributes(pattern), {});
          int to = graphs.operators(target), larger = std::max(to, graphs.operators(source));
          Candidate& c =
              found[f]
                  .try_emplace(text, Candidate{text, f, larger, to, static_cast<int>(pattern.values.size()), {}})
                  .first->second;
          if (c.pairs.size() < kMostOccurrences) c.pairs.emplace_back(source, target);
        }
      }
    });
    // Sides of equal size first: what commutes makes longer ones follow. Then the smaller target; then more variables,
    // of which pairs with a variable in several places are cases.
    std::map<std::tuple<int, int, int, std::string>, Candidate> all;
    for (auto& family : found)
      for (auto& [text, c] : family)
        all.emplace(std::tuple(c.larger_side, c.target_operators, -c.variables, text), std::move(c));
    std::vector<Candidate> candidates;
    for (auto& [key, c] : all) candidates.push_back(std::move(c));
    result_.candidates += static_cast<std::int64_t>(candidates.size());
    return candidates;
  }

  bool derived(const Candidate& c) const {
    for (auto [source, target] : c.pairs) {
      std::vector<int> reached = families_[c.family].reach(source, options_.steps, FamilyGraphs::Roads::tested);
      if (!std::binary_search(reached.begin(), reached.end(), target)) return false;
    }
    return true;
  }

  void work_on(const std::vector<Candidate>& candidates, int size) {
    for (std::size_t next = 0; next < candidates.size();) {
      std::vector<const Candidate*> round;
      for (; next < candidates.size() && round.size() < kRound; ++next)
        if (derived(candidates[next]))
          ++result_.derived_later;
        else
          round.push_back(&candidates[next]);
      std::vector<JournalEntry> entries(round.size());
      parallel_for(round.size(), options_.jobs, [&](std::size_t i) {
        const Candidate& c = *round[i];
        PairPattern pattern = families_[c.family].pattern(c.pairs[0].first, c.pairs[0].second);
        entries[i] = examine(c.text, pattern, "candidate");
      });
      for (std::size_t i = 0; i < round.size(); ++i) {
        journal_.write(round[i]->text, entries[i]);
        settle(*round[i], entries[i], size);
      }
      say(fmt::format("size {}: {} of {} candidates, {} rules kept", size, next, candidates.size(),
                      result_.kept.size()));
    }
  }

  // How operators may be split: every pair becomes a rule, so that it is there by its name, unless one of this name
  // says it already.
  void shard() {
    std::vector<NamedPattern> patterns = sharding_patterns();
    result_.shardings = static_cast<std::int64_t>(patterns.size());
    std::map<std::string, std::vector<Rule>> kept;
    for (std::size_t next = 0; next < patterns.size();) {
      std::vector<const NamedPattern*> round;
      std::set<std::string> names;  // of a round, each once: what it keeps may say the next one
      for (; next < patterns.size() && round.size() < kRound && names.insert(patterns[next].name).second; ++next)
        round.push_back(&patterns[next]);
      std::vector<std::optional<JournalEntry>> entries(round.size());
      std::vector<std::string> texts(round.size());
      parallel_for(round.size(), options_.jobs, [&](std::size_t i) {
        const auto& [name, pattern] = *round[i];
        auto there = kept.find(name);
        if (there != kept.end() && std::any_of(there->second.begin(), there->second.end(),
                                               [&](const Rule& rule) { return gives(rule, *round[i]); }))
          return;
        texts[i] = literal_text(*round[i]);
        entries[i] = examine(texts[i], pattern, name);
      });
      for (std::size_t i = 0; i < round.size(); ++i) {
        if (!entries[i]) {
          ++result_.derived_later;
          continue;
        }
        const JournalEntry& e = *entries[i];
        journal_.write(texts[i], e);
        if (e.verdict == JournalEntry::Verdict::contradicted)
          result_.contradicted.push_back({texts[i], std::string(kSharding), e.why});
        else
          settle(e, std::string(kSharding), static_cast<int>(round[i]->pattern.nodes.size()));
        if (e.verdict == JournalEntry::Verdict::kept) kept[round[i]->name].push_back(journal_.parse(e));
      }
      say(fmt::format("shardings: {} of {}, {} rules kept", next, patterns.size(), result_.kept.size()));
    }
  }

  // Generalises and proves: depends on nothing but the pair.
  JournalEntry examine(const std::string& text, const PairPattern& pattern, const std::string& name) const {
    if (auto known = journal_.find(text)) return *known;
    Generalised general = generalise(pattern, name, {options_.seed, options_.instances});
    if (general.forms.empty()) return {JournalEntry::Verdict::contradicted, {}, general.why, true};
    // Every form says what the last one says: where that has no proof, no other is asked for one.
    const std::size_t last = general.forms.size() - 1;
    std::optional<ProofOutcome> of_last;
    JournalEntry entry;
    for (std::size_t i = 0; i <= last; ++i) {
      const Rule& form = general.forms[i];
      ProofOutcome outcome = i == last && of_last ? *of_last : test(form);
      if (outcome.proved) return {JournalEntry::Verdict::kept, print(form), {}, false};
      if (entry.rule.empty() || (entry.wrong && !outcome.wrong))
        entry = {JournalEntry::Verdict::unproved, print(form), outcome.why, outcome.wrong};
      if (outcome.wrong || of_last || i == last) continue;
      of_last = test(general.forms[last]);
      if (!of_last->proved && !of_last->wrong) break;
    }
    return entry;
  }

  // Proofs are for the signatures that a few instances show: many more instances come first.
  ProofOutcome test(const Rule& form) const {
    GeneraliseOptions many{options_.seed + kSecondSeed, kInstancesOfProof * options_.instances};
    std::string why;
    return plausible(form, many, &why) ? prove(form) : ProofOutcome{false, why, true};
  }

  ProofOutcome prove(const Rule& rule) const {
    if (!options_.prove) return {true, {}, false};
    try {
      return options_.prove(rule);
    } catch (const InputError& e) {
      return {false, e.what(), true};  // an instance can not be evaluated: an index is out of range
    }
  }

  void settle(const Candidate& c, const JournalEntry& entry, int size) {
    const std::string& family = families_[c.family].family().name;
    if (derived(c)) {
      ++result_.derived_later;
      return;
    }
    // What can not be proved, or not be said in general, is asked once and not again as a part of larger pairs.
    auto give_up = [&] {
      for (auto [source, target] : c.pairs) families_[c.family].add_road(source, target);
    };
    if (entry.verdict == JournalEntry::Verdict::contradicted) {
      give_up();
      result_.contradicted.push_back({c.text, family, entry.why});
      return;
    }
    if (!settle(entry, family, size)) {
      give_up();
      ++result_.same_rule;
    } else if (!derived(c)) {
      give_up();  // the rule's conditions leave out some of the pairs
    }
  }

  // Keeps what is proved, and draws the rule's roads. False when it is there already.
  bool settle(const JournalEntry& entry, const std::string& family, int size) {
    Rule rule = journal_.parse(entry);
    if (family != kSharding) rule.name = rule_name(rule);
    if (!bodies_.insert(body(rule)).second) return false;
    if (entry.verdict == JournalEntry::Verdict::unproved) {
      result_.unproved.push_back({entry.rule, family, entry.why});
      if (!entry.wrong) draw(rule, FamilyGraphs::Roads::tested);
      return true;
    }
    // A second opinion on the proof: the rule applied to every graph of every family.
    if (std::int64_t wrong = draw(rule, FamilyGraphs::Roads::proved); wrong > 0) {
      result_.disproved.push_back({entry.rule, family, fmt::format("{} graphs get another value", wrong)});
      return true;
    }
    if (options_.prove) rule.proof = Proof::proved;
    std::string name = rule.name;
    for (int i = 2; !names_.insert(rule.name).second; ++i) rule.name = fmt::format("{}_{}", name, i);
    std::string subject = pattern_subject(rule);
    result_.kept.push_back({std::move(rule), family, std::move(subject), size});
    return true;
  }

  // What the rule says, whatever its name and the names of its variables.
  static std::string body(Rule rule) {
    for (std::size_t v = 0; v < rule.values.size(); ++v) rule.values[v] = fmt::format("x{}", v + 1);
    rule.name = "body";
    return print(rule);
  }

  // Draws the rule's roads in all families, unless it is wrong somewhere; returns how often.
  std::int64_t draw(const Rule& rule, FamilyGraphs::Roads kind) {
    std::vector<FamilyGraphs::RuleRoads> found(families_.size());
    parallel_for(families_.size(), options_.jobs, [&](std::size_t f) { found[f] = families_[f].roads_of(rule); });
    std::int64_t wrong = 0;
    for (std::size_t f = 0; f < families_.size(); ++f) wrong += found[f].wrong;
    for (std::size_t f = 0; wrong == 0 && f < families_.size(); ++f) families_[f].add(found[f], kind);
    return wrong;
  }

  void report() {
    result_.families.resize(families_.size());
    parallel_for(families_.size(), options_.jobs, [&](std::size_t f) {
      const FamilyGraphs& graphs = families_[f];
      FamilyReport& report = result_.families[f];
      report.family = graphs.family().name;
      report.enumeration = graphs.enumeration().counts;
      for (int source = 0; source < graphs.size(); ++source) {
        std::vector<int> reached = graphs.reach(source, options_.steps, FamilyGraphs::Roads::proved);
        std::vector<int> tested = graphs.reach(source, options_.steps, FamilyGraphs::Roads::tested);
        auto [first, last] = graphs.equals(source);
        for (int target = first; target < last; ++target) {
          if (target == source) continue;
          PairFate fate = graphs.fate(source, target);
          if (fate == PairFate::open && std::binary_search(tested.begin(), tested.end(), target))
            fate = std::binary_search(reached.begin(), reached.end(), target) ? PairFate::derived : PairFate::waiting;
          if (fate == PairFate::nonlinear && std::binary_search(reached.begin(), reached.end(), target))
            ++report.nonlinear_derived;
          ++report.pairs[static_cast<std::size_t>(fate)];
        }
      }
    });
  }

  const GenerateOptions& options_;
  Journal journal_;
  std::vector<FamilyGraphs> families_;
  std::set<std::string> names_, bodies_;
  GenerateResult result_;
};

}  // namespace

double GenerateResult::completeness() const {
  std::int64_t derived = 0, open = 0;
  for (const FamilyReport& f : families) {
    derived += f.pairs[static_cast<std::size_t>(PairFate::derived)];
    open += f.pairs[static_cast<std::size_t>(PairFate::open)] + f.pairs[static_cast<std::size_t>(PairFate::waiting)];
  }
  return derived + open == 0 ? 1 : static_cast<double>(derived) / static_cast<double>(derived + open);
}

GenerateResult generate(const GenerateOptions& options) { return Generator(options).run(); }

void write_rules(const GenerateResult& result, const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const GeneratedRule& g : result.kept) {
    std::string& text = files[g.subject];
    text += (text.empty() ? "# Generated by `unity rules generate`.\n\n" : "\n") + print(g.rule);
  }
  std::filesystem::create_directories(directory);
  for (const auto& [subject, text] : files)
    write_file_atomically(std::filesystem::path(directory) / (subject + ".rules"), text);
}

}  // namespace unity
