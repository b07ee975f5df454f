#include "core/trace/perfetto.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace unity {
namespace {

constexpr std::int64_t kProcessesPerTrace = 1'000'000;
constexpr std::int64_t kLinkProcess = kProcessesPerTrace - 1;
constexpr std::int64_t kArrowsPerProcess = 1000;  // so many ids of arrows for each process that a trace may have

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string label(std::span<const std::string> labels, std::int32_t index, std::string_view kind) {
  auto i = static_cast<std::size_t>(index);
  return i < labels.size() ? labels[i] : fmt::format("{} {}", kind, index);
}

std::string microseconds(Picoseconds time) {
  std::int64_t whole = time.count / 1'000'000, rest = time.count % 1'000'000;
  return fmt::format("{}{}.{:06}", time.count < 0 && whole == 0 ? "-" : "", whole, rest < 0 ? -rest : rest);
}

std::string stream_name(std::uint8_t stream) {
  constexpr std::array<const char*, 3> kNames = {"compute", "communication", "copy"};
  return stream < kNames.size() ? kNames[stream] : fmt::format("stream {}", stream);
}

std::string category_name(std::uint8_t category) {
  constexpr std::array<const char*, 5> kNames = {"weight", "gradient", "optimizer_state", "activation", "input"};
  if (category == MemorySample::kAll) return "bytes";
  return category < kNames.size() ? kNames[category] : fmt::format("category {}", category);
}

class Writer {
 public:
  void event(const std::string& json) {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    out_ += json;
  }
  std::string take() && { return std::move(out_) + "\n]}\n"; }

 private:
  std::string out_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  bool first_ = true;
};

void name_process(std::int64_t process, const std::string& name, Writer& writer) {
  writer.event(
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process, json_text(name)));
  writer.event(
      fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", process));
}

// An event for each time at which something changes, with all that the device has in use then.
void write_memory(const Trace& trace, std::int64_t base, Writer& writer) {
  std::map<DeviceId, std::map<std::uint8_t, Bytes>> used;
  for (const MemorySample& m : trace.memory) used[m.device][m.category] = {};
  for (std::size_t i = 0; i < trace.memory.size(); ++i) {
    const MemorySample& m = trace.memory[i];
    used[m.device][m.category] = m.used;
    bool more =
        i + 1 < trace.memory.size() && trace.memory[i + 1].device == m.device && trace.memory[i + 1].time == m.time;
    if (more) continue;
    std::string series;
    for (const auto& [category, bytes] : used[m.device])
      series += fmt::format(R"({}"{}":{})", series.empty() ? "" : ",", category_name(category), bytes.count);
    writer.event(fmt::format(R"({{"ph":"C","name":"memory","pid":{},"ts":{},"args":{{{}}}}})", base + m.device.value,
                             microseconds(m.time), series));
  }
}

void write_links(const Trace& trace, std::int64_t base, const std::string& suffix, Writer& writer) {
  if (trace.link_use.empty()) return;
  name_process(base + kLinkProcess, "links" + suffix, writer);
  std::map<LinkId, std::string> names;
  for (const LinkUsage& l : trace.links) names[l.link] = json_text(l.name);
  for (const LinkSample& s : trace.link_use) {
    auto name = names.find(s.link);
    writer.event(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"use":{}}}}})",
                             name == names.end() ? fmt::format("\"link {}\"", s.link) : name->second,
                             base + kLinkProcess, microseconds(s.time), s.fraction()));
  }
}

// Spans by task; those of one task by device.
class TaskSpans {
 public:
  explicit TaskSpans(const Trace& trace) {
    for (const Span& s : trace.spans) spans_[s.task].push_back(&s);
    for (auto& [task, spans] : spans_)
      std::stable_sort(spans.begin(), spans.end(),
                       [](const Span* one, const Span* other) { return one->device < other->device; });
  }
  // On a device that both have, else the first of each; null where one has none.
  std::pair<const Span*, const Span*> between(TaskId from, TaskId to) const {
    auto a = spans_.find(from), b = spans_.find(to);
    if (a == spans_.end() || b == spans_.end()) return {};
    for (auto source = a->second.begin(), target = b->second.begin();
         source != a->second.end() && target != b->second.end();) {
      if ((*source)->device == (*target)->device) return {*source, *target};
      ++((*source)->device < (*target)->device ? source : target);
    }
    return {a->second.front(), b->second.front()};
  }

 private:
  std::map<TaskId, std::vector<const Span*>> spans_;
};

// Flows are bound to the spans around their ends: the middle of the first is surely inside, and viewers draw from its
// end.
void write_arrows(const Trace& trace, std::span<const std::pair<TaskId, TaskId>> arrows, std::int64_t base,
                  Writer& writer) {
  if (arrows.empty()) return;
  TaskSpans spans(trace);
  std::int64_t arrow = base * kArrowsPerProcess;
  for (const auto& [from, to] : arrows) {
    auto [source, target] = spans.between(from, to);
    if (!source) continue;
    Picoseconds middle{source->start.count + (source->end - source->start).count / 2};
    writer.event(fmt::format(R"({{"ph":"s","name":"after","cat":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})",
                             arrow, base + source->device.value, source->stream, microseconds(middle)));
    writer.event(
        fmt::format(R"({{"ph":"f","bp":"e","name":"after","cat":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})",
                    arrow, base + target->device.value, target->stream, microseconds(target->start)));
    ++arrow;
  }
}

void write_trace(const Trace& trace, const TraceLabels& labels, std::int64_t base, bool name_source, Writer& writer) {
  std::set<std::pair<DeviceId, std::uint8_t>> threads;
  std::set<DeviceId> devices;
  for (const Span& s : trace.spans) threads.insert({s.device, s.stream}), devices.insert(s.device);
  for (const MemorySample& m : trace.memory) devices.insert(m.device);
  std::string suffix = name_source ? " (" + trace.source + ")" : "";
  for (DeviceId d : devices) name_process(base + d.value, label(labels.devices, d.value, "device") + suffix, writer);
  for (const auto& [d, stream] : threads)
    writer.event(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                             base + d.value, stream, json_text(stream_name(stream))));
  for (const Span& s : trace.spans)
    writer.event(fmt::format(
        R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"task":{}}}}})",
        json_text(label(labels.names, s.task.value, "task")),
        json_text(static_cast<std::size_t>(s.task.value) < labels.categories.size() ? labels.categories[s.task.index()]
                                                                                    : stream_name(s.stream)),
        base + s.device.value, s.stream, microseconds(s.start), microseconds(s.end - s.start), s.task.value));
  write_memory(trace, base, writer);
  write_links(trace, base, suffix, writer);
  write_arrows(trace, labels.arrows, base, writer);
}

}  // namespace

std::string trace_to_perfetto(const Trace& trace, const TraceLabels& labels) {
  const Trace* one = &trace;
  return traces_to_perfetto({&one, 1}, labels);
}

std::string traces_to_perfetto(std::span<const Trace* const> traces, const TraceLabels& labels) {
  Writer writer;
  for (std::size_t i = 0; i < traces.size(); ++i)
    write_trace(*traces[i], labels, static_cast<std::int64_t>(i) * kProcessesPerTrace, traces.size() > 1, writer);
  return std::move(writer).take();
}

}  // namespace unity
