#include "core/rewrite/import/classify.h"

#include <array>
#include <map>
#include <mutex>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

// Conditions on the layouts of variables, weakest first; each list holds those before it.
std::vector<std::vector<std::string>> ladder(const Translation& translation, const PeerRule& rule) {
  std::vector<std::string> conditions;
  std::vector<std::vector<std::string>> steps = {conditions};
  auto for_each_dimension = [&](auto&& f) {
    for (const std::string& v : translation.rule.values)
      for (int i = 0; i < translation.rank; ++i) f(v, i);
  };
  std::map<int, std::int64_t> parts;  // by dimension
  for (const auto* side : {&rule.source, &rule.target})
    for (const PeerOperator& op : *side)
      if (op.type == "PARTITION") {
        auto [at, added] = parts.emplace(op.parameters.at("PARALLEL_DIM") - 1, 1);
        at->second *= op.parameters.at("PARALLEL_DEGREE");
      }
  for_each_dimension([&](const std::string& v, int i) {
    if (parts.contains(i))
      conditions.push_back(fmt::format("divides(degree({0}, {1})*{2}, dim({0}, {1}))", v, i, parts[i]));
  });
  if (!conditions.empty()) steps.push_back(conditions);
  for (const std::string& v : translation.rule.values) conditions.push_back(fmt::format("partials({}) == 1", v));
  steps.push_back(conditions);
  for_each_dimension(
      [&](const std::string& v, int i) { conditions.push_back(fmt::format("degree({}, {}) == 1", v, i)); });
  for (const std::string& v : translation.rule.values) conditions.push_back(fmt::format("copies({}) == 1", v));
  steps.push_back(conditions);
  return steps;
}

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

Rule with(const Translation& translation, const std::vector<std::string>& conditions, std::string* text = nullptr) {
  std::string all = translation.text;
  if (!conditions.empty()) {
    all.pop_back();
    all += ", " + join(conditions) + "\n";
  }
  Rule rule = parse_rules(all, translation.rule.name).front();
  if (text) *text = std::move(all);
  return rule;
}

// It is the values that are wrong, not the types.
bool wrong_values(const Finding& finding) {
  return finding.counterexample && !finding.counterexample->target.outputs().empty() &&
         finding.counterexample->source.shape(finding.counterexample->source.outputs()[0]) ==
             finding.counterexample->target.shape(finding.counterexample->target.outputs()[0]);
}

// Sizes and groups for which a rule holds that is wrong otherwise.
std::string restriction(const Translation& translation, const std::vector<std::string>& layouts, const Prover& prover) {
  std::vector<std::string> one_group;
  for (const std::string& g : translation.groups) one_group.push_back(g + " == 1");
  std::vector<std::string> both = one_group;
  both.insert(both.end(), translation.alike.begin(), translation.alike.end());
  for (const std::vector<std::string>& tried : {one_group, translation.alike, both}) {
    if (tried.empty()) continue;
    std::vector<std::string> conditions = layouts;
    conditions.insert(conditions.end(), tried.begin(), tried.end());
    if (prover(with(translation, conditions)).verdict == ImportVerdict::proved) return join(tried);
  }
  return "";
}

void judge(const Translation& translation, const PeerRule& peer, const Prover& prover, ImportedRule& result) {
  auto take = [&](Finding finding, const std::vector<std::string>& conditions) {
    result.verdict = finding.verdict;
    result.why = std::move(finding.why);
    result.conditions = join(conditions);
    result.rule = with(translation, conditions, &result.text);
    result.record = std::move(finding.record);
    result.counterexample = finding.counterexample ? counterexample_text(*finding.counterexample) : "";
  };
  auto steps = ladder(translation, peer);
  for (const std::vector<std::string>& conditions : steps) {
    Finding finding = prover(with(translation, conditions));
    bool first = conditions.empty(), wrong = wrong_values(finding);
    ImportVerdict verdict = finding.verdict;
    // A type that is wrong somewhere leaves the question open, so that a later answer counts.
    bool open = result.verdict == ImportVerdict::refuted;
    if (first || wrong || verdict == ImportVerdict::proved || (open && verdict == ImportVerdict::unknown))
      take(std::move(finding), conditions);
    if (wrong) {
      result.holds_where = restriction(translation, steps.back(), prover);
      if (!result.holds_where.empty()) result.why += "; they agree where " + result.holds_where;
      return;
    }
    if (verdict == ImportVerdict::proved || (first && verdict == ImportVerdict::ill_typed)) return;
  }
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
    Translation translation = translate(file.rules[i], file.numbering, fmt::format("imported_{}", i));
    if (translation.kind == Translation::Kind::rule) {
      judge(translation, file.rules[i], prover, result[i]);
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
