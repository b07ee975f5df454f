// `unity rules`: the library, rules of the user's, and what is wrong with them.
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace {

using nlohmann::json;

using namespace command;

// Two sound rules, two wrong ones, and one that no shape satisfies.
const char* const kMixed = R"(
rule matmul_by_columns
  partition(1, d, matmul(x, w)) => matmul(replicate(d, x), partition(1, d, w))
  where rank(x) == 2
rule scale_of_scale
  scale(f, scale(g, x)) => scale(f*g, x)
rule wrong_operand
  sub(x, y) => sub(y, x)
rule wrong_dimension
  partition(0, d, matmul(x, w)) => matmul(replicate(d, x), partition(1, d, w))
  where rank(x) == 2
rule impossible
  matmul(x, w) => matmul(x, w)
  where rank(w) == 3
)";

}  // namespace

TEST_CASE("rules of a file are proved, refuted with a counterexample, or ill-typed") {
  Folder folder;
  std::string path = folder.write("mixed.rules", kMixed);
  Outcome outcome = unity("rules verify " + path + " --json");
  CHECK(outcome.code == 1);
  json found = json::parse(outcome.out);
  CHECK(found["total"] == 5);
  CHECK(found["proved"] == 2);
  CHECK(found["refuted"] == 2);
  CHECK(found["ill_typed"] == 1);
  CHECK(found["unknown"] == 0);
  CHECK(found["rules"][0]["degrees"] == "all");
  CHECK(found["rules"][2]["counterexample"]["source"].get<std::string>().find("sub(") != std::string::npos);
  CHECK(outcome.err.find("3 of 5 rules are not proved") != std::string::npos);
}

TEST_CASE("a proved file of rules may be searched with") {
  Folder folder;
  std::string path = folder.write("mine.rules", "rule mine\n  scale(f, scale(g, x)) => scale(f*g, x)\n");
  std::string search = "search mlp-mnist --topology laptop --json --rules " + path;
  Outcome unproved = unity(search);
  CHECK(unproved.code == 2);
  CHECK(unproved.err.find("mine.proofs") != std::string::npos);
  CHECK(unity("rules verify " + path + " --write").code == 0);
  CHECK(fs::exists(folder.file("mine.proofs")));
  CHECK(unity(search).code == 0);
  folder.write("mine.rules", "rule mine\n  scale(f, scale(g, x)) => scale(g*f, x)\n");
  Outcome stale = unity(search);
  CHECK(stale.code == 2);
  CHECK(stale.err.find("proof of rule mine is stale") != std::string::npos);
}

TEST_CASE("proofs on record stay where a rule was not asked for, or is not proved in less time") {
  Folder folder;
  auto proofs = [&](const std::string& name) {
    std::string text = read(folder.file(name + ".proofs"));
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("\nproof ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  std::string two =
      folder.write("two.rules",
                   "rule r1\n  relu(relu(x)) => relu(x)\n"
                   "rule r2\n  matmul(matmul(x, y), z) => matmul(x, matmul(y, z))\n  where rank(x) == 2\n");
  std::string other = folder.write("other.rules", "rule r3\n  scale(f, scale(g, x)) => scale(f*g, x)\n");
  REQUIRE(unity("rules verify " + two + " " + other + " --write").code == 0);
  REQUIRE(proofs("two") == 2);
  CHECK(unity("rules verify " + two + " " + other + " --rule r1 --write").code == 0);
  CHECK(proofs("two") == 2);
  CHECK(proofs("other") == 1);
  CHECK(unity("rules verify " + two + " --seconds 1e-9 --write").code == 1);
  CHECK(proofs("two") == 2);
  // That of a rule whose text changed goes.
  folder.write("two.rules", "rule r1\n  relu(relu(x)) => relu(x)\nrule r2\n  scale(f, scale(g, x)) => scale(g*f, x)\n");
  CHECK(unity("rules verify " + two + " --rule r1 --write").code == 0);
  CHECK(proofs("two") == 1);
  folder.write("two.proofs", "proof r1 of nothing");
  check_refused("rules verify " + two + " --write", {"two.proofs:1:10"});
}

TEST_CASE("a file may repeat rules of the library, but not take their names for others") {
  Folder folder;
  std::string same = folder.write("same.rules", "rule maximum\n  maximum(x, x) => x\n");
  REQUIRE(unity("rules verify " + same + " --write").code == 0);
  const std::string search = "search mlp-mnist --topology laptop --budget 1 --json --rules ";
  CHECK(unity(search + same + " --rules " + same).code == 0);
  std::string other = folder.write("other.rules", "rule maximum\n  relu(relu(x)) => relu(x)\n");
  REQUIRE(unity("rules verify " + other + " --write").code == 0);
  Outcome refused = unity(search + other);
  CHECK(refused.code == 2);
  CHECK(refused.err.find("rule 'maximum' is there already with another text") != std::string::npos);
}

TEST_CASE("a generation that is resumed with another limit proves anew") {
  Folder folder;
  const std::string generate = "rules generate --families bags --json --resume " + folder.file("work") + " -o ";
  json first = json::parse(unity(generate + folder.file("one")).out);
  REQUIRE(!first["kept"].empty());
  json again = json::parse(unity(generate + folder.file("two")).out);
  CHECK(again["kept"] == first["kept"]);
  json hurried = json::parse(unity(generate + folder.file("three") + " --seconds 1e-9").out);
  CHECK(hurried["kept"].size() < first["kept"].size());
  CHECK(!hurried["unproved"].empty());
}

TEST_CASE("rules are listed by operator, and shown with their proofs") {
  json all = json::parse(unity("rules list --json").out),
       conv = json::parse(unity("rules list --operator conv2d --json").out);
  CHECK(conv.size() > 1);
  CHECK(conv.size() < all.size());
  for (const json& rule : conv) CHECK(rule["text"].get<std::string>().find("conv2d(") != std::string::npos);
  for (const json& rule : all) CHECK(rule["proof"] == "proved");
  std::string name = conv[0]["name"];
  json shown = json::parse(unity("rules show " + name + " --json").out);
  CHECK(shown["fresh"] == true);
  CHECK(shown["proof"]["prover"].get<std::string>().find("Z3") == 0);
}

TEST_CASE("what is asked of rules and can not be is refused") {
  Folder folder;
  check_refused("rules", {"subcommand"});
  check_refused("rules list --operator conv2", {"'conv2d'"});
  check_refused("rules list --subject matmull", {"expected one of"});
  check_refused("rules show no_such_rule", {"unknown rule 'no_such_rule'", "; unity rules list names all "});
  CHECK(unity("rules show no_such_rule").err.size() < 400);
  check_refused("rules show merge_matmul",
                {"unknown rule 'merge_matmul' (did you mean 'merge_matmuls'", "?); unity rules list"});
  check_refused("rules verify --rule no_such_rule", {"unknown rule"});
  check_refused("rules verify --write", {"needs the rule files"});
  for (const char* command : {"verify", "import any.pb"}) {
    check_refused(std::string("rules ") + command + " --instances 0", {"expected a number from 1 to 10000"});
    check_refused(std::string("rules ") + command + " --instances 2000000000", {"expected a number from 1 to 10000"});
    check_refused(std::string("rules ") + command + " --seconds 5000", {"expected a number from 0 to 4000"});
    check_refused(std::string("rules ") + command + " -j -3", {"found '-3', expected a whole number"});
  }
  check_refused("rules generate --steps -1", {"expected a number from 0 to 10"});
  check_refused("rules generate --seconds 0", {"expected a number above 0"});
  check_refused("rules verify missing.rules", {"missing.rules"});
  auto refused_text = [&](const std::string& text, const std::string& said) {
    check_refused("rules verify " + folder.write("bad.rules", text), {said});
  };
  refused_text("rule r\n  relu(x) => relu(y)\n", "bad.rules:2:19: unbound name 'y'");
  refused_text("rule r\n  relu(x, y) => relu(x)\n", "bad.rules:2:3: relu: found 2 operands, expected 1");
  refused_text("rule r\n  rellu(x) => relu(x)\n", "unknown operator 'rellu'");
}
