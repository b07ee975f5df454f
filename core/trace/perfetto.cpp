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

void write_trace(const Trace& trace, const TraceLabels& labels, std::int64_t base, bool name_source, Writer& writer) {
  std::set<std::pair<DeviceId, std::uint8_t>> threads;
  std::set<DeviceId> devices;
  for (const Span& s : trace.spans) threads.insert({s.device, s.stream}), devices.insert(s.device);
  for (const MemorySample& m : trace.memory) devices.insert(m.device);
  for (DeviceId d : devices) {
    std::string name = label(labels.devices, d.value, "device");
    if (name_source) name += " (" + trace.source + ")";
    writer.event(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", base + d.value,
                             json_text(name)));
    writer.event(fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
                             base + d.value));
  }
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
  for (const MemorySample& m : trace.memory)
    writer.event(fmt::format(R"({{"ph":"C","name":"memory","pid":{},"ts":{},"args":{{"bytes":{}}}}})",
                             base + m.device.value, microseconds(m.time), m.used.count));
  if (labels.arrows.empty()) return;
  std::map<TaskId, const Span*> spans;  // the first of each task
  for (const Span& s : trace.spans) spans.insert({s.task, &s});
  std::int64_t arrow = base;
  for (const auto& [from, to] : labels.arrows) {
    auto a = spans.find(from), b = spans.find(to);
    if (a == spans.end() || b == spans.end()) continue;
    const Span &source = *a->second, &target = *b->second;
    writer.event(fmt::format(R"({{"ph":"s","name":"after","cat":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})",
                             arrow, base + source.device.value, source.stream, microseconds(source.end)));
    writer.event(
        fmt::format(R"({{"ph":"f","bp":"e","name":"after","cat":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})",
                    arrow, base + target.device.value, target.stream, microseconds(target.start)));
    ++arrow;
  }
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
