#include "core/rewrite/import/classify.h"

#include <algorithm>
#include <array>

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

// The rule holds wherever its types are right; where it does not say so, it must not be derived from rules that do.
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

class Classifier {
 public:
  Classifier(const PeerFile& file, const Prover& prover, std::span<const Rule> library, const ImportOptions& options)
      : file_(file), prover_(prover), search_(library), options_(options) {}

  ImportedRule run(std::size_t index) {
    ImportedRule result;
    result.index = index;
    Translation translation = translate(file_.rules[index], file_.numbering, fmt::format("imported_{}", index));
    if (translation.kind != Translation::Kind::rule) {
      result.verdict =
          translation.kind == Translation::Kind::unsupported ? ImportVerdict::unsupported : ImportVerdict::ill_typed;
      result.why = translation.why;
      return result;
    }
    judge(translation, result);
    if (result.verdict == ImportVerdict::proved) derive(result);
    return result;
  }

 private:
  static bool wrong_values(const Finding& finding) {
    return finding.counterexample && !finding.counterexample->target.outputs().empty();
  }

  void judge(const Translation& translation, ImportedRule& result) {
    std::optional<Finding> first;
    for (const std::vector<std::string>& conditions : ladder(translation, file_.rules[result.index])) {
      std::string text = translation.text;
      if (!conditions.empty()) {
        text.pop_back();
        text += ", " + join(conditions) + "\n";
      }
      Rule rule = parse_rules(text, translation.rule.name).front();
      Finding finding = prover_(rule);
      bool proved = finding.verdict == ImportVerdict::proved;
      if (!first || proved) {
        result.verdict = finding.verdict;
        result.why = finding.why;
        result.text = text;
        result.conditions = join(conditions);
        result.record = finding.record;
        if (finding.counterexample) result.counterexample = counterexample_text(*finding.counterexample);
        result.rule = std::move(rule);
      }
      if (proved) {
        result.counterexample.clear();
        return;
      }
      // What holds for no layout at all needs no further conditions, nor does what computes something else.
      if (finding.verdict == ImportVerdict::ill_typed || wrong_values(finding)) {
        result.verdict = finding.verdict;
        result.why = finding.why;
        if (finding.counterexample) result.counterexample = counterexample_text(*finding.counterexample);
        return;
      }
      if (!first) first = std::move(finding);
    }
  }

  void derive(ImportedRule& result) {
    std::optional<Derivation> longest;
    for (const RuleInstance& instance : instances_of(*result.rule, options_)) {
      Derivation found = search_.derive(instance, options_.steps);
      if (!found) return;
      if (!longest || found.steps.size() > longest->steps.size()) longest = std::move(found);
    }
    if (!longest) return;
    result.steps = static_cast<int>(longest->steps.size());
    for (const DerivationStep& step : longest->steps)
      result.derivation.push_back((step.backward ? "<" : "") + search_.rules()[step.rule].name);
  }

  const PeerFile& file_;
  const Prover& prover_;
  DerivationSearch search_;
  const ImportOptions& options_;
};

}  // namespace

std::string_view to_string(ImportVerdict verdict) {
  constexpr std::array<std::string_view, 5> kNames = {"proved", "refuted", "ill-typed", "unsupported", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::vector<ImportedRule> classify(const PeerFile& file, const Prover& prover, std::span<const Rule> library,
                                   const ImportOptions& options) {
  Classifier classifier(file, prover, library, options);
  std::vector<ImportedRule> result;
  for (std::size_t i = 0; i < file.rules.size(); ++i) {
    result.push_back(classifier.run(i));
    if (options.progress) options.progress(i + 1, file.rules.size());
  }
  return result;
}

}  // namespace unity
