#include "simulator/network/playground.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "core/base/nesting.h"
#include "core/base/text.h"

namespace unity {
namespace {

using nlohmann::json;

// "FILE:LINE: flow 'ID'", for messages.
struct FlowName {
  const PlaygroundFlow& flow;
  const std::string& file;
  std::string text() const {
    return flow.line ? fmt::format("{}:{}: flow '{}'", file, flow.line, flow.id) : fmt::format("flow '{}'", flow.id);
  }
};

// Finds devices by name or number.
class Devices {
 public:
  explicit Devices(const Topology& topology) : topology_(topology) {
    for (std::size_t d = 0; d < topology.device_count(); ++d)
      by_name_.emplace(topology.devices[d].name, DeviceId(static_cast<std::int64_t>(d)));
  }

  DeviceId find(const std::string& name, const FlowName& flow) const {
    std::int64_t number = -1;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) {
      if (number >= 0 && static_cast<std::size_t>(number) < topology_.device_count()) return DeviceId(number);
      throw_input_error("{}: found device {}, expected 0 to {}", flow.text(), number, topology_.device_count() - 1);
    }
    if (auto found = by_name_.find(name); found != by_name_.end()) return found->second;
    std::vector<std::string> names;
    for (const Device& device : topology_.devices) names.push_back(device.name);
    throw_input_error("{}: unknown device '{}'{}", flow.text(), name, suggestion(name, names));
  }

 private:
  const Topology& topology_;
  std::unordered_map<std::string, DeviceId> by_name_;
};

// Where in a file a value stands. Becomes text only for a message.
struct Place {
  const std::string& file;
  int line;
  std::size_t flow;
  const char* key = nullptr;

  Place of(const std::string& k) const { return {file, line, flow, k.c_str()}; }
  std::string text() const {
    return fmt::format("{}:{}: flow {}{}{}", file, line, flow, key ? ": " : "", key ? key : "");
  }
};

// A whole number of `T`, given in units of 1 / scale.
template <class T>
T quantity(const json& value, const Place& place, double scale, Result<T> (*parse)(std::string_view)) {
  if (value.is_number()) {
    double count = std::round(value.get<double>() * scale);
    if (!(std::abs(count) < 9e18)) throw_input_error("{}: found {}, which is out of range", place.text(), value.dump());
    if (value.is_number_integer() && scale == 1) return T{value.get<std::int64_t>()};
    return T{static_cast<std::int64_t>(count)};
  }
  if (!value.is_string())
    throw_input_error("{}: found {}, expected a number or a text with a unit", place.text(), value.type_name());
  Result<T> parsed = parse(value.get<std::string>());
  if (!parsed.ok()) throw_input_error("{}: {}", place.text(), parsed.error().message);
  return *parsed;
}

// A name: a text, or a number as it is written.
std::string name_of(const json& value, const Place& place, const char* expected) {
  if (value.is_number()) return value.dump();
  if (!value.is_string()) throw_input_error("{}: found {}, expected {}", place.text(), value.type_name(), expected);
  return value.get<std::string>();
}

int line_at(const std::string& text, std::size_t byte) {
  return 1 + static_cast<int>(std::count(
                 text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size())), '\n'));
}

// The line on which each element of the list "flows" begins. The text is valid JSON.
std::vector<int> lines_of_flows(const std::string& text) {
  std::vector<int> lines;
  int line = 1, depth = 0;
  std::string last;  // text at depth 1
  bool in_list = false, expect = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\n') ++line;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    if (in_list && expect && c != ']') {
      lines.push_back(line);
      expect = false;
    }
    if (c == '"') {
      std::size_t begin = ++i;
      for (; text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      if (depth == 1) last = text.substr(begin, i - begin);
    } else if (c == '{' || c == '[') {
      if (c == '[' && depth == 1 && last == "flows") in_list = expect = true;
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 1) in_list = false;
    } else if (c == ',' && in_list && depth == 2) {
      expect = true;
    }
  }
  return lines;
}

PlaygroundFlow flow_from_json(const json& entry, const Place& place) {
  if (!entry.is_object()) throw_input_error("{}: found {}, expected an object", place.text(), entry.type_name());
  PlaygroundFlow flow;
  flow.line = place.line;
  flow.id = fmt::format("{}", place.flow);
  flow.numeric_id = true;
  bool source = false, target = false, bytes = false;
  for (auto it = entry.begin(); it != entry.end(); ++it) {
    const std::string& key = it.key();
    const json& value = it.value();
    Place where = place.of(key);
    if (key == "id") {
      flow.id = name_of(value, where, "a text or a number");
      flow.numeric_id = value.is_number();
    } else if (key == "src") {
      flow.src = name_of(value, where, "a device"), source = true;
    } else if (key == "dst") {
      flow.dst = name_of(value, where, "a device"), target = true;
    } else if (key == "bytes") {
      flow.bytes = quantity<Bytes>(value, where, 1, parse_bytes), bytes = true;
    } else if (key == "start_s") {
      flow.start = quantity<Picoseconds>(value, where, 1e12, parse_time);
    } else if (key == "after") {
      if (!value.is_array()) throw_input_error("{}: found {}, expected a list of ids", where.text(), value.type_name());
      for (const json& id : value) flow.after.push_back(name_of(id, where, "a list of ids"));
    } else {
      throw_input_error("{}: unknown key '{}'{}", place.text(), key,
                        suggestion(key, {"id", "src", "dst", "bytes", "start_s", "after"}));
    }
  }
  if (!source || !target || !bytes)
    throw_input_error("{}: key '{}' is missing", place.text(), !source ? "src" : !target ? "dst" : "bytes");
  return flow;
}

// Collects keys as they are parsed, of which nlohmann::json keeps the last value only.
class Keys {
 public:
  bool operator()(int, json::parse_event_t event, const json& parsed) {
    using enum json::parse_event_t;
    bool begins = event == object_start || event == array_start;
    if (keys_.size() == 2 && (begins || event == value)) ++flows_;
    if (begins) keys_.emplace_back();
    if (event == object_end || event == array_end) keys_.pop_back();
    if (event == key && !keys_.back().insert(parsed.get<std::string>()).second && !twice_)
      twice_ = {keys_.size() > 2 ? flows_ : 0, parsed.get<std::string>()};
    return true;
  }
  // A key that was given twice, with the number of its flow from 1 on, or 0.
  const std::optional<std::pair<std::size_t, std::string>>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the lists and objects that are not at their end
  std::size_t flows_ = 0;
  std::optional<std::pair<std::size_t, std::string>> twice_;
};

}  // namespace

TransferGraph transfers_of(const std::vector<PlaygroundFlow>& flows, const Topology& topology,
                           const std::string& file) {
  std::unordered_map<std::string_view, TransferIndex> index;
  index.reserve(flows.size());
  for (std::size_t i = 0; i < flows.size(); ++i)
    if (!index.emplace(flows[i].id, static_cast<TransferIndex>(i)).second)
      throw_input_error("{} is given twice", FlowName{flows[i], file}.text());
  TransferGraph graph;
  Devices devices(topology);
  DeviceRoutes routes(topology, graph);
  std::vector<TransferIndex> after;
  for (const PlaygroundFlow& f : flows) {
    FlowName name{f, file};
    if (f.bytes.count < 0) throw_input_error("{}: found {} bytes, expected at least 0", name.text(), f.bytes.count);
    if (f.start.count < 0)
      throw_input_error("{}: found a start of {} s, expected at least 0", name.text(), f.start.seconds());
    after.clear();
    for (const std::string& before : f.after) {
      auto found = index.find(before);
      if (found == index.end()) throw_input_error("{}: comes after unknown flow '{}'", name.text(), before);
      after.push_back(found->second);
    }
    DeviceId from = devices.find(f.src, name), to = devices.find(f.dst, name);
    graph.add(routes(from, to), static_cast<double>(f.bytes.count), after, f.start);
  }
  if (auto waiting = never_starts(graph))
    throw_input_error("{} never starts: it waits for itself, or for a flow that does",
                      FlowName{flows[*waiting], file}.text());
  return graph;
}

std::vector<Picoseconds> simulate_flows(const std::vector<PlaygroundFlow>& flows, const Topology& topology,
                                        const std::string& file) {
  return simulate_transfers(transfers_of(flows, topology, file), topology);
}

std::vector<PlaygroundFlow> flows_from_json(const std::string& text, const std::string& file) {
  refuse_deep_json(text, file);
  json root;
  Keys keys;
  try {
    root = json::parse(text, std::ref(keys));
  } catch (const json::parse_error& e) {
    throw_input_error("{}:{}: byte {}: malformed or truncated JSON", file, line_at(text, e.byte), e.byte);
  } catch (const json::out_of_range&) {
    throw_input_error("{}: found a number that is out of range", file);
  }
  const auto& twice = keys.twice();
  if (twice && twice->first == 0) throw_input_error("{}: key '{}' is given twice", file, twice->second);
  if (root.is_object())
    for (const auto& [key, value] : root.items())
      if (key != "flows") throw_input_error("{}: unknown key '{}'{}", file, key, suggestion(key, {"flows"}));
  if (!root.is_object() || !root.contains("flows") || !root["flows"].is_array())
    throw_input_error("{}: found {}, expected an object with a list \"flows\"", file,
                      root.is_object() ? "an object without it" : root.type_name());
  std::vector<int> lines = lines_of_flows(text);
  auto place = [&](std::size_t flow) { return Place{file, flow < lines.size() ? lines[flow] : 1, flow}; };
  if (twice) throw_input_error("{}: key '{}' is given twice", place(twice->first - 1).text(), twice->second);
  const json& list = root["flows"];
  std::vector<PlaygroundFlow> flows;
  flows.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) flows.push_back(flow_from_json(list[i], place(i)));
  return flows;
}

}  // namespace unity
