// Files of rewrite rules as TASO and FlexFlow ship them, in protobuf's wire format or as JSON (either may be gzipped).
//
// Format (proto2; JSON has the same fields by name, and names in place of the numbers of types and keys):
//   RuleCollection { 1: repeated Rule rule }
//   Rule           { 1: repeated Operator srcOp   2: repeated Operator dstOp   3: repeated MapOutput mappedOutput }
//   Operator       { 1: type   2: repeated Tensor input   3: repeated Parameter para }
//   Tensor         { 1: opId   2: tsId }     opId >= 0: an operator of the same side; below 0: a variable of both sides
//   Parameter      { 1: key    2: value }
//   MapOutput      { 1: srcOpId   2: dstOpId   3: srcTsId   4: dstTsId }
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace unity {

struct PeerTensor {
  std::int64_t op = 0;
  std::int64_t output = 0;
  auto operator<=>(const PeerTensor&) const = default;
};

struct PeerOperator {
  std::string type;  // "CONV2D"
  std::vector<PeerTensor> inputs;
  std::map<std::string, std::int64_t> parameters;  // "KERNEL_H": 3
  bool operator==(const PeerOperator&) const = default;
};

// The value of the target replaces the value of the source.
struct PeerMapping {
  PeerTensor source, target;
  bool operator==(const PeerMapping&) const = default;
};

struct PeerRule {
  std::vector<PeerOperator> source, target;  // operands come before their users
  std::vector<PeerMapping> outputs;
  bool operator==(const PeerRule&) const = default;
};

// How dimensions are numbered. FlexFlow counts the replica dimension as dimension 0; TASO has none.
enum class PeerNumbering : std::uint8_t { taso, flexflow };

struct PeerFile {
  std::vector<PeerRule> rules;
  PeerNumbering numbering = PeerNumbering::taso;
};

// The file's format and numbering show in its content: FlexFlow's has LINEAR or parallelization operators. InputError,
// with the byte or the line and the reason, for files that are cut off or malformed, for operators that use a value
// before it is computed, and for results that do not exist.
PeerFile read_peer_rules(const std::string& path);
PeerFile parse_peer_rules(std::string_view content, const std::string& file);

namespace detail {
std::vector<PeerRule> parse_wire(std::string_view content, const std::string& file);
std::vector<PeerRule> parse_json(std::string_view content, const std::string& file);
// Names of types and keys, by number.
const std::vector<std::string>& peer_types();
const std::vector<std::string>& peer_keys();
}  // namespace detail

}  // namespace unity
