// Reading rule files of TASO and FlexFlow.
#include <random>

#include <catch2/catch.hpp>
#include <zlib.h>

#include "core/base/text.h"
#include "core/rewrite/import/translate.h"
#include "tests/support/paths.h"
#include "tests/support/peer_files.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

using namespace test;

std::string sample() { return read_file(UNITY_SOURCE_DIR "/tests/data/rules/linear.json"); }

// The rule of linear.json.
const PeerRule kColumns =
    peer_rule({linear({-1}, {-4}), partition(2, {0})}, {replicate(0, {-1}), partition(1, {-4}), linear({0}, {1})});

std::string error_of(const std::string& content) {
  try {
    parse_peer_rules(content, "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string gzipped(const std::string& content) {
  std::string result(content.size() / 100 + 2 * std::min<std::size_t>(content.size(), 10'000) + 100, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

TEST_CASE("JSON and wire format hold the same rules, gzipped or not") {
  std::vector<PeerRule> expected = {kColumns};
  CHECK(parse_peer_rules(sample(), "f").rules == expected);
  CHECK(parse_peer_rules(wire(expected), "f").rules == expected);
  CHECK(parse_peer_rules(gzipped(sample()), "f").rules == expected);
  CHECK(parse_peer_rules(gzipped(wire(expected)), "f").rules == expected);
}

TEST_CASE("a rule file is unpacked once") {
  CHECK_THAT(error_of(gzipped(gzipped(sample()))), Catch::Contains("expected a rule file"));
}

TEST_CASE("a small file that unpacks to hundreds of megabytes is refused") {
  CHECK(error_of(gzipped(std::string(300'000'000, ' '))) ==
        "f: gzip: found more than 268435456 bytes, expected a file of rules");
}

TEST_CASE("JSON that is nested deep is refused") {
  CHECK_THAT(error_of("{\"rule\": " + std::string(100'000, '[')), Catch::Contains("nested deeper than 100"));
}

TEST_CASE("parallelization operators and LINEAR show that a file is FlexFlow's") {
  CHECK(parse_peer_rules(wire({kColumns}), "f").numbering == PeerNumbering::flexflow);
  PeerRule taso = peer_rule({relu({-1}), relu({0})}, {relu({-1})});
  CHECK(parse_peer_rules(wire({taso}), "f").numbering == PeerNumbering::taso);
  CHECK(parse_peer_rules(wire({taso, kColumns}), "f").numbering == PeerNumbering::flexflow);
}

TEST_CASE("negative numbers are read in 64 and in 32 bits") {
  // Tensor -1 as a varint of ten bytes, and as one of five (2^32 - 1).
  std::string tensor = number_field(1, -1) + number_field(2, 0);
  CHECK(tensor.size() == 11 + 2);
  auto rule = [](const std::string& v) {
    std::string op = message_field(1, number_field(1, 8) + message_field(2, v));
    std::string map = message_field(3, number_field(1, 0) + number_field(2, 0));
    return message_field(1, op + replaced(op, op.substr(0, 1), "\x12") + map);
  };
  auto expected = peer_rule({relu({-1})}, {relu({-1})});
  CHECK(parse_peer_rules(rule(tensor), "f").rules == std::vector{expected});
  CHECK(parse_peer_rules(rule(number_field(1, 0xffffffff)), "f").rules == std::vector{expected});
}

TEST_CASE("a wire file that is cut off anywhere is refused with the byte") {
  std::string one = wire({kColumns}), two = one + one;
  for (std::size_t length = 1; length < two.size(); ++length) {
    if (length == one.size()) continue;  // one whole rule
    INFO("length " << length);
    CHECK_THAT(error_of(two.substr(0, length)), Catch::Matchers::Contains("cut off"));
  }
  // The second rule begins after the first: its length is one byte further on, its content after two bytes of length.
  CHECK(error_of(two.substr(0, two.size() - 1)) ==
        fmt::format("f: byte {}: found a message of {} bytes where {} are left: the file is cut off", one.size() + 1,
                    one.size() - 3, one.size() - 4));
  CHECK(error_of("") == "f: found no rules");
}

TEST_CASE("files of other kinds are refused") {
  CHECK_THAT(error_of("rule a relu(x) => x"), Catch::Matchers::StartsWith("f: byte 0: found"));
  CHECK_THAT(error_of("\x89PNG\r\n"), Catch::Matchers::StartsWith("f: byte 0: found"));
  CHECK(error_of(std::string("\x08\x07\x12\x00", 4)) ==
        "f: byte 0: found wire type 0 in field 1, expected 2");  // an ONNX model
  CHECK(error_of(number_field(7, 1)) ==
        "f: byte 0: found field 7 of RuleCollection, expected a rule file of TASO or FlexFlow");
  CHECK(error_of("\x1f\x8b\x08") == "f: byte 3: gzip: the file is cut off");
}

TEST_CASE("numbers without a meaning are refused") {
  PeerRule rule = kColumns;
  std::string bytes = wire({rule});
  // The type of the first operator, 5 (LINEAR), is the fifth byte after the lengths of rule (2) and operator (1).
  std::size_t at = bytes.find(number_field(1, 5)) + 1;
  bytes[at] = 77;
  CHECK(error_of(bytes) == fmt::format("f: byte {}: found operator type 77, expected 0 to 30", at - 1));
}

TEST_CASE("JSON that is cut off or malformed is refused with line and column") {
  std::string text = sample();
  CHECK(error_of(text.substr(0, text.find("\"srcOp\""))) == "f:7:7: the JSON is cut off");
  CHECK_THAT(error_of(replaced(text, "\"rule\": [", "\"rule\": [,")), Catch::Matchers::StartsWith("f:3:12: found"));
}

TEST_CASE("JSON with wrong names and values is refused with their place") {
  std::string text = sample();
  CHECK(error_of(replaced(text, "OP_LINEAR", "OP_LINEER")) ==
        "f: $.rule[0].srcOp[0].type: unknown name 'OP_LINEER' (did you mean 'LINEAR'?)");
  CHECK(error_of(replaced(text, "\"opId\": -1", "\"opId\": \"x\"")) ==
        "f: $.rule[0].srcOp[0].input[0].opId: found \"x\", expected an integer");
  CHECK(error_of(replaced(text, "\"key\"", "\"kay\"")) == "f: $.rule[0].srcOp[0].para[0]: there is no \"key\"");
  CHECK(error_of("{\"rules\": []}") == "f: $: there is no \"rule\"");
}

TEST_CASE("operands that are not computed before, and results that do not exist, are refused") {
  CHECK(error_of(wire({peer_rule({relu({0})}, {relu({-1})})})) ==
        "f: rule 0: source operator 0 (RELU), input 0: found operator 0, expected one of the 0 before it");
  PeerRule rule = kColumns;
  rule.outputs[0].target.output = 1;
  CHECK(error_of(wire({kColumns, rule})) ==
        "f: rule 1: target of mapped output 0: found result 1 of operator 2, which has 1");
  rule.outputs.clear();
  CHECK(error_of(wire({rule})) == "f: rule 0: found no mapped output, expected at least one");
}

TEST_CASE("files with random errors are refused, or read as rules that are judged") {
  std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  PeerRule convolutions = peer_rule({conv2d({-1}, {-2}), conv2d({-1}, {-3}), concat(1, 4, {0}, {1}), relu({2})},
                                    {concat(0, 4, {-2}, {-3}), conv2d({-1}, {0}), relu({1})});
  const std::string files[] = {wire({kColumns, convolutions}), sample()};
  int refused = 0, read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = files[i % 2];
    for (int errors = 1 + static_cast<int>(random() % 3); errors > 0; --errors)
      bytes[random() % bytes.size()] = static_cast<char>(random() % (i % 2 ? 128 : 256));
    try {
      PeerFile file = parse_peer_rules(bytes, "f");
      for (const PeerRule& rule : file.rules)
        for (PeerNumbering numbering : {PeerNumbering::taso, PeerNumbering::flexflow}) translate(rule, numbering, "r");
      ++read;
    } catch (const InputError& error) {
      CHECK(std::string_view(error.what()).starts_with("f:"));
      ++refused;
    }
  }
  CHECK(refused > 300);
  CHECK(read > 100);
}

}  // namespace
}  // namespace unity
