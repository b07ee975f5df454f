#include "core/rewrite/library.h"

#include <filesystem>

#include "core/base/text.h"
#include "core/rewrite/library_text.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

constexpr std::string_view kImport = "import";

void require_proofs(std::vector<Rule>& rules, const std::vector<ProofRecord>& proofs, const std::string& file) {
  for (Rule& rule : rules) {
    auto checked = check_proof(rule, proofs);
    if (!checked.ok()) throw InputError(fmt::format("{}: {}", file, checked.error().message));
    rule.proof = Proof::proved;
    rule.signatures = (*checked)->signatures;
  }
}

}  // namespace

const std::vector<RuleFile>& rule_files() {
  static const std::vector<RuleFile> files = [] {
    std::vector<RuleFile> all;
    for (const LibraryText& text : library_texts())
      if (text.name != kImport)
        all.push_back({text.name, parse_rules(text.rules, fmt::format("rules/{}.rules", text.name)),
                       parse_proofs(text.proofs, fmt::format("rules/{}.proofs", text.name))});
    return all;
  }();
  return files;
}

const std::vector<Rule>& rule_library() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (const RuleFile& file : rule_files()) {
      std::vector<Rule> proved = file.rules;
      require_proofs(proved, file.proofs, fmt::format("rules/{}.rules", file.name));
      std::move(proved.begin(), proved.end(), std::back_inserter(all));
    }
    return all;
  }();
  return rules;
}

const std::vector<Rule>& import_rules() {
  static const std::vector<Rule> rules = [] {
    for (const LibraryText& text : library_texts())
      if (text.name == kImport) return parse_rules(text.rules, "rules/import.rules");
    return std::vector<Rule>();
  }();
  return rules;
}

std::string proofs_path(const std::string& rules_path) {
  return std::filesystem::path(rules_path).replace_extension(".proofs").string();
}

std::vector<Rule> load_proved_rules(const std::string& path) {
  std::vector<Rule> rules = load_rules(path);
  std::string proofs = proofs_path(path);
  if (!std::filesystem::exists(proofs))
    throw InputError(fmt::format("{}: its proofs are missing, expected {}; run `unity rules verify {} --write`", path,
                                 proofs, path));
  require_proofs(rules, parse_proofs(read_file(proofs), proofs), path);
  return rules;
}

}  // namespace unity
