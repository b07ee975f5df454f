#include "core/rewrite/import/peer_rules.h"

#include <algorithm>

#include <zlib.h>

#include "core/base/text.h"

namespace unity {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 28;  // unpacked; the files of TASO and FlexFlow have less than 2^24
constexpr std::size_t kMostOperators = 100;  // hostile files must not exhaust the stack; rules have fewer than ten

// Error says what inflating met; bytes after the end of the stream are left alone.
std::string gunzip(std::string_view content, const std::string& file) {
  z_stream stream{};
  UNITY_CHECK(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK, "zlib does not start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  std::string result;
  int state = Z_OK;
  while (state == Z_OK) {
    char block[1 << 14];
    stream.next_out = reinterpret_cast<Bytef*>(block);
    stream.avail_out = sizeof block;
    state = inflate(&stream, Z_NO_FLUSH);
    result.append(block, sizeof block - stream.avail_out);
    if (result.size() > kLargest) {
      inflateEnd(&stream);
      throw_input_error("{}: gzip: found more than {} bytes, expected a file of rules", file, kLargest);
    }
  }
  std::string reason = stream.msg ? stream.msg : "the file is cut off";
  std::size_t at = stream.total_in;
  inflateEnd(&stream);
  if (state != Z_STREAM_END) throw_input_error("{}: byte {}: gzip: {}", file, at, reason);
  return result;
}

// Results of an operator, as far as users tell.
std::int64_t results_of(const PeerOperator& op) {
  auto count = op.parameters.find("NUM_OUTPUTS");
  return op.type == "SPLIT" ? (count == op.parameters.end() ? 2 : count->second) : 1;
}

void check_value(const PeerTensor& v, const std::vector<PeerOperator>& side, std::int64_t end,
                 const std::string& what) {
  if (v.op < 0) {
    if (v.output < 0) throw_input_error("{}: found result {} of a variable", what, v.output);
    return;
  }
  if (v.op >= end) throw_input_error("{}: found operator {}, expected one of the {} before it", what, v.op, end);
  std::int64_t results = results_of(side[static_cast<std::size_t>(v.op)]);
  if (v.output < 0 || v.output >= results)
    throw_input_error("{}: found result {} of operator {}, which has {}", what, v.output, v.op, results);
}

void check_rule(const PeerRule& rule, const std::string& where) {
  for (bool source : {true, false}) {
    const std::vector<PeerOperator>& side = source ? rule.source : rule.target;
    if (side.size() > kMostOperators)
      throw_input_error("{}: found {} operators on one side, expected at most {}", where, side.size(), kMostOperators);
    for (std::size_t i = 0; i < side.size(); ++i)
      for (std::size_t k = 0; k < side[i].inputs.size(); ++k)
        check_value(
            side[i].inputs[k], side, static_cast<std::int64_t>(i),
            fmt::format("{}: {} operator {} ({}), input {}", where, source ? "source" : "target", i, side[i].type, k));
  }
  if (rule.outputs.empty()) throw_input_error("{}: found no mapped output, expected at least one", where);
  for (std::size_t i = 0; i < rule.outputs.size(); ++i)
    for (bool source : {true, false}) {
      const std::vector<PeerOperator>& side = source ? rule.source : rule.target;
      check_value(source ? rule.outputs[i].source : rule.outputs[i].target, side,
                  static_cast<std::int64_t>(side.size()),
                  fmt::format("{}: {} of mapped output {}", where, source ? "source" : "target", i));
    }
}

bool is_flexflow(const std::vector<PeerRule>& rules) {
  static const std::vector<std::string> kOnly = {"LINEAR", "PARTITION", "COMBINE", "REPLICATE", "REDUCE"};
  auto shows = [](const PeerOperator& op) { return std::find(kOnly.begin(), kOnly.end(), op.type) != kOnly.end(); };
  return std::any_of(rules.begin(), rules.end(), [&](const PeerRule& rule) {
    return std::any_of(rule.source.begin(), rule.source.end(), shows) ||
           std::any_of(rule.target.begin(), rule.target.end(), shows);
  });
}

}  // namespace

namespace detail {

const std::vector<std::string>& peer_types() {
  static const std::vector<std::string> types = {
      "INPUT",        "WEIGHT",        "ANY",       "CONV2D",      "DROPOUT",      "LINEAR",
      "POOL2D_MAX",   "POOL2D_AVG",    "RELU",      "SIGMOID",     "TANH",         "BATCHNORM",
      "CONCAT",       "SPLIT",         "RESHAPE",   "TRANSPOSE",   "EW_ADD",       "EW_MUL",
      "MATMUL",       "MUL",           "ENLARGE",   "MERGE_GCONV", "CONSTANT_IMM", "CONSTANT_ICONV",
      "CONSTANT_ONE", "CONSTANT_POOL", "PARTITION", "COMBINE",     "REPLICATE",    "REDUCE",
      "EMBEDDING"};
  return types;
}

const std::vector<std::string>& peer_keys() {
  static const std::vector<std::string> keys = {
      "OP_TYPE",           "NUM_INPUTS",   "NUM_OUTPUTS",    "GROUP",  "KERNEL_H", "KERNEL_W", "STRIDE_H",
      "STRIDE_W",          "PAD",          "ACTI",           "NUMDIM", "AXIS",     "PERM",     "OUTSHUFFLE",
      "MERGE_GCONV_COUNT", "PARALLEL_DIM", "PARALLEL_DEGREE"};
  return keys;
}

}  // namespace detail

PeerFile parse_peer_rules(std::string_view content, const std::string& file) {
  std::string unpacked;
  if (content.starts_with("\x1f\x8b")) content = unpacked = gunzip(content, file);  // once: some unpack to themselves
  std::size_t start = content.find_first_not_of(" \t\r\n");
  bool json = start != std::string_view::npos && (content[start] == '{' || content[start] == '[');
  PeerFile result;
  result.rules = json ? detail::parse_json(content, file) : detail::parse_wire(content, file);
  if (result.rules.empty()) throw_input_error("{}: found no rules", file);
  for (std::size_t r = 0; r < result.rules.size(); ++r)
    check_rule(result.rules[r], fmt::format("{}: rule {}", file, r));
  result.numbering = is_flexflow(result.rules) ? PeerNumbering::flexflow : PeerNumbering::taso;
  return result;
}

PeerFile read_peer_rules(const std::string& path) { return parse_peer_rules(read_file(path), path); }

}  // namespace unity
