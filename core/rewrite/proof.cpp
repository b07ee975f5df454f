#include "core/rewrite/proof.h"

#include <algorithm>
#include <charconv>

#include "core/base/text.h"
#include "core/graph/lexer.h"
#include "core/rewrite/axioms.h"

namespace unity {
namespace {

Hash hash_in(TokenStream& tokens) {
  Token at = tokens.expect(TokenKind::text, "a hash in quotes");
  Hash hash = 0;
  auto [end, error] = std::from_chars(at.text.data(), at.text.data() + at.text.size(), hash, 16);
  if (error != std::errc() || end != at.text.data() + at.text.size() || at.text.empty())
    tokens.fail(at, fmt::format("found \"{}\", expected a hash of hexadecimal digits", at.text));
  return hash;
}

std::vector<std::string> texts_in(TokenStream& tokens) {
  std::vector<std::string> texts;
  tokens.expect("[");
  if (!tokens.is("]")) {
    do texts.push_back(tokens.expect(TokenKind::text, "a text in quotes").text);
    while (tokens.accept(","));
  }
  tokens.expect("]");
  return texts;
}

std::string quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(quote_text(text));
  return fmt::format("[{}]", join(all));
}

constexpr std::size_t kHashesALine = 5;

std::string hash_list(const std::vector<Hash>& hashes) {
  std::string text;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    text += fmt::format("{}\"{:016x}\"", i == 0 ? "" : i % kHashesALine ? ", " : ",\n    ", hashes[i]);
  return text;
}

std::vector<Hash> hashes_in(TokenStream& tokens) {
  std::vector<Hash> hashes;
  tokens.expect("[");
  if (!tokens.is("]")) {
    do hashes.push_back(hash_in(tokens));
    while (tokens.accept(","));
  }
  tokens.expect("]");
  return hashes;
}

}  // namespace

Hash hash_rule(const Rule& rule) { return hash_text(print(rule)); }

std::string print(const ProofRecord& r) {
  return fmt::format(
      "proof {}\n  rule=\"{:016x}\" axioms=\"{:016x}\" prover={} seconds={:.4f} instances={}\n"
      "  degrees={} shapes={}\n  signatures=[{}]\n  uses={}\n",
      r.rule, r.rule_hash, r.axioms_hash, quote_text(r.prover), r.seconds, r.instances, quote_text(r.degrees),
      quoted(r.shapes), hash_list(r.signatures), quoted(r.axioms));
}

std::vector<ProofRecord> parse_proofs(std::string_view text, const std::string& file) {
  TokenStream tokens(text, file);
  std::vector<ProofRecord> records;
  auto key = [&](std::string_view name) {
    tokens.expect(name);
    tokens.expect("=");
  };
  while (!tokens.at_end()) {
    ProofRecord r;
    tokens.expect("proof");
    r.rule = tokens.expect(TokenKind::identifier, "the name of a rule").text;
    key("rule"), r.rule_hash = hash_in(tokens);
    key("axioms"), r.axioms_hash = hash_in(tokens);
    key("prover"), r.prover = tokens.expect(TokenKind::text, "the prover's name in quotes").text;
    key("seconds");
    if (!(tokens.peek().kind == TokenKind::real || tokens.peek().kind == TokenKind::integer))
      tokens.fail_expected("a number of seconds");
    r.seconds = tokens.next().real;
    key("instances"), r.instances = static_cast<int>(tokens.expect(TokenKind::integer, "a number").integer);
    key("degrees"), r.degrees = tokens.expect(TokenKind::text, "degrees in quotes").text;
    key("shapes"), r.shapes = texts_in(tokens);
    key("signatures"), r.signatures = hashes_in(tokens);
    std::sort(r.signatures.begin(), r.signatures.end());
    key("uses"), r.axioms = texts_in(tokens);
    records.push_back(std::move(r));
  }
  return records;
}

Result<const ProofRecord*> check_proof(const Rule& rule, const std::vector<ProofRecord>& records) {
  auto record = std::find_if(records.begin(), records.end(), [&](const ProofRecord& r) { return r.rule == rule.name; });
  if (record == records.end()) return fail("rule {} has no proof on record; run `unity rules verify`", rule.name);
  if (record->rule_hash != hash_rule(rule))
    return fail("the proof of rule {} is stale: it is of text {:016x}, found {:016x}; run `unity rules verify`",
                rule.name, record->rule_hash, hash_rule(rule));
  Hash axioms = axioms_hash(rule, record->axioms);
  if (record->axioms_hash != axioms)
    return fail("the proof of rule {} is stale: it is from axioms {:016x}, found {:016x}; run `unity rules verify`",
                rule.name, record->axioms_hash, axioms);
  return &*record;
}

}  // namespace unity
