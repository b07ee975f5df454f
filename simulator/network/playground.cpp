#include "simulator/network/playground.h"

#include <charconv>
#include <cmath>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "simulator/engine/event_queue.h"
#include "simulator/network/network.h"

namespace unity {
namespace {

using nlohmann::json;

DeviceId find_device(const std::string& name, const Topology& topology, const std::string& flow) {
  int number = -1;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) {
    if (number >= 0 && static_cast<std::size_t>(number) < topology.device_count()) return DeviceId(number);
    throw_input_error("flow '{}': found device {}, expected 0 to {}", flow, number, topology.device_count() - 1);
  }
  std::vector<std::string> names;
  for (std::size_t d = 0; d < topology.device_count(); ++d) {
    if (topology.devices[d].name == name) return DeviceId(static_cast<std::int64_t>(d));
    names.push_back(topology.devices[d].name);
  }
  throw_input_error("flow '{}': unknown device '{}'{}", flow, name, suggestion(name, names));
}

template <class T>
T quantity(const json& value, const std::string& where, double scale, Result<T> (*parse)(std::string_view)) {
  if (value.is_number()) return T{static_cast<std::int64_t>(std::llround(value.get<double>() * scale))};
  if (!value.is_string())
    throw_input_error("{}: found {}, expected a number or a text with a unit", where, value.type_name());
  Result<T> parsed = parse(value.get<std::string>());
  if (!parsed.ok()) throw_input_error("{}: {}", where, parsed.error().message);
  return *parsed;
}

std::string device_text(const json& value, const std::string& where) {
  if (value.is_number_integer()) return fmt::format("{}", value.get<std::int64_t>());
  if (!value.is_string()) throw_input_error("{}: found {}, expected a device", where, value.type_name());
  return value.get<std::string>();
}

class FlowSimulation {
 public:
  FlowSimulation(const std::vector<PlaygroundFlow>& flows, const Topology& topology)
      : given_(flows), network_(topology), state_(flows.size()) {
    std::unordered_map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const PlaygroundFlow& f = flows[i];
      if (!index.emplace(f.id, i).second) throw_input_error("flow '{}' is given twice", f.id);
      if (f.bytes.count < 0) throw_input_error("flow '{}': negative number of bytes", f.id);
      if (f.start.count < 0) throw_input_error("flow '{}': negative start", f.id);
      State& s = state_[i];
      DeviceId from = find_device(f.src, topology, f.id), to = find_device(f.dst, topology, f.id);
      for (LinkId l : topology.route(from, to)) s.uses.push_back({static_cast<std::uint32_t>(l.value), 1});
      s.latency = topology.latency(from, to);
      s.ready = f.start;
    }
    for (std::size_t i = 0; i < flows.size(); ++i)
      for (const std::string& before : flows[i].after) {
        auto found = index.find(before);
        if (found == index.end()) throw_input_error("flow '{}': after unknown flow '{}'", flows[i].id, before);
        state_[found->second].followers.push_back(i);
        ++state_[i].waiting;
      }
  }

  std::vector<Picoseconds> run() {
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (state_[i].waiting == 0) depart(i);
    while (!queue_.empty()) {
      Picoseconds now = queue_.next_time();
      while (!queue_.empty() && queue_.next_time() == now) handle(queue_.pop(), now);
      for (FlowIndex f : network_.settle(now))
        queue_.push(network_.end(f), {false, flow_of_[f], f, network_.version(f)});
    }
    std::vector<Picoseconds> ends;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      if (!state_[i].done)
        throw_input_error("flow '{}' never starts: it waits for itself, or for a flow that does", given_[i].id);
      ends.push_back(state_[i].end);
    }
    return ends;
  }

 private:
  struct State {
    std::vector<LinkUse> uses;
    Picoseconds latency, ready, end;
    std::vector<std::size_t> followers;
    std::size_t waiting = 0;
    bool done = false;
  };
  struct Event {
    bool enters;  // else: has drained
    std::size_t flow;
    FlowIndex index;
    std::uint32_t version;
  };

  void depart(std::size_t i) { queue_.push(state_[i].ready + state_[i].latency, {true, i, 0, 0}); }

  void handle(const Event& event, Picoseconds now) {
    if (event.enters && !state_[event.flow].uses.empty() && given_[event.flow].bytes.count > 0) {
      FlowIndex f = network_.start(state_[event.flow].uses, static_cast<double>(given_[event.flow].bytes.count), now);
      if (flow_of_.size() <= f) flow_of_.resize(f + 1);
      flow_of_[f] = event.flow;
      return;
    }
    if (!event.enters) {
      if (network_.version(event.index) != event.version) return;
      network_.finish(event.index);
    }
    State& s = state_[event.flow];
    s.end = now;
    s.done = true;
    for (std::size_t follower : s.followers) {
      State& next = state_[follower];
      next.ready = std::max(next.ready, now);
      if (--next.waiting == 0) depart(follower);
    }
  }

  const std::vector<PlaygroundFlow>& given_;
  Network network_;
  EventQueue<Event> queue_;
  std::vector<State> state_;
  std::vector<std::size_t> flow_of_;  // by FlowIndex
};

}  // namespace

std::vector<Picoseconds> simulate_flows(const std::vector<PlaygroundFlow>& flows, const Topology& topology) {
  return FlowSimulation(flows, topology).run();
}

std::vector<PlaygroundFlow> flows_from_json(const std::string& text, const std::string& file) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::parse_error& e) {
    throw_input_error("{}: byte {}: malformed or truncated JSON", file, e.byte);
  }
  if (!root.is_object() || !root.contains("flows") || !root["flows"].is_array())
    throw_input_error("{}: found {}, expected an object with a list \"flows\"", file, root.type_name());
  root = json(root["flows"]);
  std::vector<PlaygroundFlow> flows;
  for (std::size_t i = 0; i < root.size(); ++i) {
    if (!root[i].is_object())
      throw_input_error("{}: flow {}: found {}, expected an object", file, i, root[i].type_name());
    PlaygroundFlow flow;
    flow.id = fmt::format("{}", i);
    bool source = false, target = false, bytes = false;
    for (const auto& [key, value] : root[i].items()) {
      std::string where = fmt::format("{}: flow {}: {}", file, i, key);
      if (key == "id") {
        flow.id = device_text(value, where);
      } else if (key == "src") {
        flow.src = device_text(value, where), source = true;
      } else if (key == "dst") {
        flow.dst = device_text(value, where), target = true;
      } else if (key == "bytes") {
        flow.bytes = quantity<Bytes>(value, where, 1, parse_bytes), bytes = true;
      } else if (key == "start_s") {
        flow.start = quantity<Picoseconds>(value, where, 1e12, parse_time);
      } else if (key == "after") {
        if (!value.is_array()) throw_input_error("{}: found {}, expected a list of ids", where, value.type_name());
        for (const json& id : value) flow.after.push_back(device_text(id, where));
      } else {
        throw_input_error("{}: flow {}: unknown key '{}'{}", file, i, key,
                          suggestion(key, {"id", "src", "dst", "bytes", "start_s", "after"}));
      }
    }
    if (!source || !target || !bytes)
      throw_input_error("{}: flow {}: key '{}' is missing", file, i, !source ? "src" : !target ? "dst" : "bytes");
    flows.push_back(std::move(flow));
  }
  return flows;
}

}  // namespace unity
