#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/nesting.h"
#include "core/base/text.h"
#include "core/rewrite/import/peer_rules.h"

namespace unity::detail {
namespace {

using nlohmann::json;

// A part of the document and the way to it, for messages.
struct At {
  const json& value;
  std::string path;

  At operator[](const char* key) const {
    if (!value.is_object() || !value.contains(key)) throw_input_error("{}: there is no \"{}\"", path, key);
    return {value.at(key), fmt::format("{}.{}", path, key)};
  }
  std::vector<At> items(const char* key) const {
    std::vector<At> result;
    if (value.is_object() && !value.contains(key)) return result;
    At list = (*this)[key];
    if (!list.value.is_array()) throw_input_error("{}: found {}, expected a list", list.path, list.value.type_name());
    for (std::size_t i = 0; i < list.value.size(); ++i)
      result.push_back({list.value[i], fmt::format("{}[{}]", list.path, i)});
    return result;
  }
  std::int64_t integer(const char* key) const {
    At at = (*this)[key];
    if (!at.value.is_number_integer()) throw_input_error("{}: found {}, expected an integer", at.path, at.value.dump());
    return at.value.get<std::int64_t>();
  }
  // "OP_LINEAR" is LINEAR.
  std::string name(const char* key, const std::string& prefix, const std::vector<std::string>& known) const {
    At at = (*this)[key];
    if (!at.value.is_string()) throw_input_error("{}: found {}, expected a name", at.path, at.value.dump());
    std::string text = at.value.get<std::string>();
    std::string bare = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    if (std::find(known.begin(), known.end(), bare) == known.end())
      throw_input_error("{}: unknown name '{}'{}", at.path, text, suggestion(bare, known));
    return bare;
  }
};

PeerOperator read_operator(const At& at) {
  PeerOperator op;
  op.type = at.name("type", "OP_", peer_types());
  for (const At& input : at.items("input")) op.inputs.push_back({input.integer("opId"), input.integer("tsId")});
  for (const At& parameter : at.items("para"))
    op.parameters[parameter.name("key", "PM_", peer_keys())] = parameter.integer("value");
  return op;
}

}  // namespace

std::vector<PeerRule> parse_json(std::string_view content, const std::string& file) {
  refuse_deep_json(content, file);
  json document;
  try {
    document = json::parse(content);
  } catch (const json::parse_error& why) {
    std::string_view before = content.substr(0, why.byte == 0 ? 0 : why.byte - 1);
    auto line = std::count(before.begin(), before.end(), '\n') + 1;
    std::size_t start = before.rfind('\n');
    std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    bool cut = why.byte > content.size();
    throw_input_error("{}:{}:{}: {}", file, line, column,
                      cut ? "the JSON is cut off" : "found something that is not JSON");
  } catch (const json::out_of_range&) {
    throw_input_error("{}: found a number that is out of range", file);
  }
  std::vector<PeerRule> rules;
  At root{document, file + ": $"};
  root["rule"];
  for (const At& at : root.items("rule")) {
    PeerRule rule;
    for (const At& op : at.items("srcOp")) rule.source.push_back(read_operator(op));
    for (const At& op : at.items("dstOp")) rule.target.push_back(read_operator(op));
    for (const At& output : at.items("mappedOutput"))
      rule.outputs.push_back({{output.integer("srcOpId"), output.integer("srcTsId")},
                              {output.integer("dstOpId"), output.integer("dstTsId")}});
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace unity::detail
