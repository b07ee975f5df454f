// Rule files of our own in the formats of TASO and FlexFlow.
#pragma once

#include <algorithm>
#include <string>

#include "core/rewrite/import/peer_rules.h"

namespace unity::test {

inline std::string varint(std::int64_t value) {
  std::string bytes;
  auto rest = static_cast<std::uint64_t>(value);
  do {
    bytes += static_cast<char>(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    rest >>= 7;
  } while (rest);
  return bytes;
}
inline std::string number_field(int field, std::int64_t value) { return varint(field << 3) + varint(value); }
inline std::string message_field(int field, const std::string& message) {
  return varint(field << 3 | 2) + varint(static_cast<std::int64_t>(message.size())) + message;
}

inline std::int64_t position(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) - names.begin();
}

inline std::string wire(const PeerOperator& op) {
  std::string bytes = number_field(1, position(detail::peer_types(), op.type));
  for (const PeerTensor& v : op.inputs) bytes += message_field(2, number_field(1, v.op) + number_field(2, v.output));
  for (const auto& [key, value] : op.parameters)
    bytes += message_field(3, number_field(1, position(detail::peer_keys(), key)) + number_field(2, value));
  return bytes;
}

inline std::string wire(const std::vector<PeerRule>& rules) {
  std::string bytes;
  for (const PeerRule& rule : rules) {
    std::string message;
    for (const PeerOperator& op : rule.source) message += message_field(1, wire(op));
    for (const PeerOperator& op : rule.target) message += message_field(2, wire(op));
    for (const PeerMapping& m : rule.outputs)
      message += message_field(3, number_field(1, m.source.op) + number_field(2, m.target.op) +
                                      number_field(3, m.source.output) + number_field(4, m.target.output));
    bytes += message_field(1, message);
  }
  return bytes;
}

// Variables are {-1}, {-2}, ..; results {0}, {1}, ..; one result of each side, that of the last operator.
inline PeerRule peer_rule(std::vector<PeerOperator> source, std::vector<PeerOperator> target) {
  PeerTensor from{static_cast<std::int64_t>(source.size()) - 1}, to{static_cast<std::int64_t>(target.size()) - 1};
  return {std::move(source), std::move(target), {{from, to}}};
}

inline PeerOperator partition(std::int64_t dim, PeerTensor x) {
  return {"PARTITION", {x}, {{"PARALLEL_DIM", dim}, {"PARALLEL_DEGREE", 2}}};
}
inline PeerOperator combined(std::int64_t dim, PeerTensor x) {
  return {"COMBINE", {x}, {{"PARALLEL_DIM", dim}, {"PARALLEL_DEGREE", 2}}};
}
inline PeerOperator replicate(std::int64_t dim, PeerTensor x) {
  return {"REPLICATE", {x}, {{"PARALLEL_DIM", dim}, {"PARALLEL_DEGREE", 2}}};
}
inline PeerOperator reduce(std::int64_t dim, PeerTensor x) {
  return {"REDUCE", {x}, {{"PARALLEL_DIM", dim}, {"PARALLEL_DEGREE", 2}}};
}
inline PeerOperator relu(PeerTensor x) { return {"RELU", {x}, {}}; }
inline PeerOperator add(PeerTensor x, PeerTensor y) { return {"EW_ADD", {x, y}, {}}; }
inline PeerOperator matmul(PeerTensor x, PeerTensor y, std::int64_t activation = 0) {
  return {"MATMUL", {x, y}, {{"ACTI", activation}}};
}
inline PeerOperator linear(PeerTensor x, PeerTensor w, std::int64_t activation = 0) {
  return {"LINEAR", {x, w}, {{"ACTI", activation}}};
}
inline PeerOperator concat(std::int64_t axis, std::int64_t rank, PeerTensor x, PeerTensor y) {
  return {"CONCAT", {x, y}, {{"NUM_INPUTS", 2}, {"AXIS", axis}, {"NUMDIM", rank}}};
}
inline PeerOperator split(std::int64_t axis, PeerTensor x) {
  return {"SPLIT", {x}, {{"NUM_OUTPUTS", 2}, {"AXIS", axis}}};
}
inline PeerOperator conv2d(PeerTensor x, PeerTensor w, std::int64_t padding = 0, std::int64_t stride = 1) {
  return {
      "CONV2D",
      {x, w},
      {{"KERNEL_H", 3}, {"KERNEL_W", 3}, {"STRIDE_H", stride}, {"STRIDE_W", stride}, {"PAD", padding}, {"ACTI", 0}}};
}

}  // namespace unity::test
