// Protobuf's wire format: a message is a sequence of (field << 3 | wire type) and value, where wire type 0 is a varint
// and 2 a length with so many bytes. The position of every byte is known, so that errors can say it.
#include "core/base/error.h"
#include "core/rewrite/import/peer_rules.h"

namespace unity::detail {
namespace {

class WireReader {
 public:
  WireReader(std::string_view bytes, std::size_t offset, const std::string& file)
      : bytes_(bytes), offset_(offset), file_(file) {}

  bool at_end() const { return at_ == bytes_.size(); }

  struct Field {
    int number = 0;
    int type = 0;
    std::size_t at = 0;
  };
  Field field() {
    std::size_t at = at_;
    std::uint64_t key = varint();
    if (key >> 3 == 0 || key >> 3 > 1000) fail(at, "found field number {}, expected a rule file", key >> 3);
    return {static_cast<int>(key >> 3), static_cast<int>(key & 7), at};
  }

  // A varint, or a varint-coded enumeration; negative numbers take ten bytes, or five of a fixed 32-bit field.
  std::int64_t integer(const Field& field) {
    expect(field, 0);
    auto value = static_cast<std::int64_t>(varint());
    constexpr std::int64_t k32 = std::int64_t{1} << 32;
    return value >= k32 / 2 && value < k32 ? value - k32 : value;
  }

  WireReader message(const Field& field) {
    expect(field, 2);
    std::size_t at = at_;
    std::uint64_t length = varint();
    if (length > bytes_.size() - at_)
      fail(at, "found a message of {} bytes where {} are left: the file is cut off", length, bytes_.size() - at_);
    WireReader inner(bytes_.substr(at_, length), offset_ + at_, file_);
    at_ += length;
    return inner;
  }

  template <class... Args>
  [[noreturn]] void fail(std::size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    throw_input_error("{}: byte {}: {}", file_, offset_ + at, fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] void unknown(const Field& field, std::string_view message) const {
    fail(field.at, "found field {} of {}, expected a rule file of TASO or FlexFlow", field.number, message);
  }

 private:
  void expect(const Field& field, int type) const {
    if (field.type != type)
      fail(field.at, "found wire type {} in field {}, expected {}", field.type, field.number, type);
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    std::size_t start = at_;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) fail(start, "a number ends after {} bytes: the file is cut off", at_ - start);
      auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail(start, "found a number of more than 10 bytes, expected a rule file");
  }

  std::string_view bytes_;
  std::size_t offset_;
  const std::string& file_;
  std::size_t at_ = 0;
};

using Field = WireReader::Field;

const std::string& named(const WireReader& in, const Field& field, const std::vector<std::string>& names,
                         std::int64_t number, std::string_view what) {
  if (number < 0 || number >= static_cast<std::int64_t>(names.size()))
    in.fail(field.at, "found {} {}, expected 0 to {}", what, number, names.size() - 1);
  return names[static_cast<std::size_t>(number)];
}

PeerTensor read_tensor(WireReader in) {
  PeerTensor tensor;
  while (!in.at_end()) {
    Field field = in.field();
    if (field.number == 1)
      tensor.op = in.integer(field);
    else if (field.number == 2)
      tensor.output = in.integer(field);
    else
      in.unknown(field, "Tensor");
  }
  return tensor;
}

void read_parameter(WireReader in, PeerOperator& op) {
  std::string key;
  std::int64_t value = 0;
  while (!in.at_end()) {
    Field field = in.field();
    if (field.number == 1)
      key = named(in, field, peer_keys(), in.integer(field), "key");
    else if (field.number == 2)
      value = in.integer(field);
    else
      in.unknown(field, "Parameter");
  }
  op.parameters[key.empty() ? peer_keys()[0] : key] = value;
}

PeerOperator read_operator(WireReader in) {
  PeerOperator op;
  op.type = peer_types()[0];
  while (!in.at_end()) {
    Field field = in.field();
    if (field.number == 1)
      op.type = named(in, field, peer_types(), in.integer(field), "operator type");
    else if (field.number == 2)
      op.inputs.push_back(read_tensor(in.message(field)));
    else if (field.number == 3)
      read_parameter(in.message(field), op);
    else
      in.unknown(field, "Operator");
  }
  return op;
}

PeerMapping read_mapping(WireReader in) {
  PeerMapping mapping;
  while (!in.at_end()) {
    Field field = in.field();
    if (field.number < 1 || field.number > 4) in.unknown(field, "MapOutput");
    std::int64_t* to[] = {&mapping.source.op, &mapping.target.op, &mapping.source.output, &mapping.target.output};
    *to[field.number - 1] = in.integer(field);
  }
  return mapping;
}

PeerRule read_rule(WireReader in) {
  PeerRule rule;
  while (!in.at_end()) {
    Field field = in.field();
    if (field.number == 1)
      rule.source.push_back(read_operator(in.message(field)));
    else if (field.number == 2)
      rule.target.push_back(read_operator(in.message(field)));
    else if (field.number == 3)
      rule.outputs.push_back(read_mapping(in.message(field)));
    else
      in.unknown(field, "Rule");
  }
  return rule;
}

}  // namespace

std::vector<PeerRule> parse_wire(std::string_view content, const std::string& file) {
  WireReader in(content, 0, file);
  std::vector<PeerRule> rules;
  while (!in.at_end()) {
    Field field = in.field();
    if (field.number != 1) in.unknown(field, "RuleCollection");
    rules.push_back(read_rule(in.message(field)));
  }
  return rules;
}

}  // namespace unity::detail
