#include "core/rewrite/import/classify.h"

#include <array>
#include <mutex>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

// Every part of every tensor is as large as the others.
bool parts_are_equal(const Pcg& pcg) {
  for (const Node& node : pcg.nodes())
    for (const ParallelShape& shape : node.outputs)
      for (const ParallelDim& dim : shape.dims)
        if (dim.size % (static_cast<std::int64_t>(dim.degree) * dim.micro) != 0) return false;
  return true;
}

// Some instances of the rule at which parts are equal: many rules of a library ask for that.
std::vector<RuleInstance> instances_of(const Rule& rule, const ImportOptions& options) {
  std::vector<RuleInstance> result;
  SampleOptions sample;
  sample.seed = options.seed;
  sample.degrees = {1, 1, 2, 4};
  InstanceSampler sampler(rule, sample);
  for (int tries = 0; tries < 8 * options.instances && static_cast<int>(result.size()) < options.instances; ++tries) {
    auto instance = sampler.next();
    if (!instance) break;
    bool usable = instance->fault == InstanceFault::none && parts_are_equal(instance->instance.source) &&
                  parts_are_equal(instance->instance.target);
    if (usable) result.push_back(std::move(instance->instance));
  }
  return result;
}

std::string counterexample_text(const RuleInstance& instance) {
  std::string text = "source " + print(instance.source);
  if (!instance.target.outputs().empty()) text += "target " + print(instance.target);
  return text;
}

Rule with(const Translation& translation, const std::vector<std::string>& conditions) {
  std::string text = translation.text;
  text.pop_back();
  return parse_rules(text + ", " + join(conditions) + "\n", translation.rule.name).front();
}

// Sizes and groups for which a rule holds that is wrong otherwise.
std::string restriction(const Translation& translation, const Translation& one_group, const Prover& prover) {
  auto proved = [&](const Rule& rule) { return prover(rule).verdict == ImportVerdict::proved; };
  bool grouped = !translation.groups.empty(), sized = !translation.alike.empty();
  if (grouped && proved(one_group.rule)) return "convolutions have one group";
  if (sized && proved(with(translation, translation.alike))) return join(translation.alike);
  if (grouped && sized && proved(with(one_group, one_group.alike)))
    return "convolutions have one group, " + join(one_group.alike);
  return "";
}

void judge(const Translation& translation, const Translation& one_group, const Prover& prover, ImportedRule& result) {
  Finding finding = prover(translation.rule);
  result.verdict = finding.verdict;
  result.why = std::move(finding.why);
  result.applies = std::move(finding.partial);
  result.text = translation.text;
  result.rule = translation.rule;
  result.record = std::move(finding.record);
  if (result.verdict != ImportVerdict::refuted) return;
  if (finding.counterexample) result.counterexample = counterexample_text(*finding.counterexample);
  result.holds_where = restriction(translation, one_group, prover);
  if (!result.holds_where.empty()) result.why += "; they agree where " + result.holds_where;
}

void derive(DerivationSearch& search, const ImportOptions& options, ImportedRule& result) {
  std::optional<Derivation> longest;
  for (const RuleInstance& instance : instances_of(*result.rule, options)) {
    Derivation found = search.derive(instance, options.steps);
    if (!found) return;
    if (!longest || found.steps.size() > longest->steps.size()) longest = std::move(found);
  }
  if (!longest) return;
  result.steps = static_cast<int>(longest->steps.size());
  for (const AppliedRule& step : longest->steps)
    result.derivation.push_back((step.backward ? "<" : "") + search.rules()[step.rule].name);
}

}  // namespace

std::string_view to_string(ImportVerdict verdict) {
  constexpr std::array<std::string_view, 5> kNames = {"proved", "refuted", "ill-typed", "unsupported", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::vector<ImportedRule> classify(const PeerFile& file, const Prover& prover, std::span<const Rule> library,
                                   const ImportOptions& options) {
  std::vector<ImportedRule> result(file.rules.size());
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(result.size(), options.jobs, [&](std::size_t i) {
    result[i].index = i;
    auto translated = [&](bool one_group) {
      return translate(file.rules[i], file.numbering, fmt::format("{}_{}", options.name, i), one_group);
    };
    Translation translation = translated(false);
    if (translation.kind == Translation::Kind::rule) {
      judge(translation, translated(true), prover, result[i]);
    } else {
      result[i].verdict =
          translation.kind == Translation::Kind::unsupported ? ImportVerdict::unsupported : ImportVerdict::ill_typed;
      result[i].why = translation.why;
    }
    std::lock_guard lock(mutex);
    if (options.progress) options.progress(++done, result.size());
  });
  DerivationSearch search(library);
  for (ImportedRule& rule : result)
    if (rule.verdict == ImportVerdict::proved) derive(search, options, rule);
  return result;
}

}  // namespace unity
