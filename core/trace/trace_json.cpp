#include "core/trace/trace_json.h"

#include <charconv>
#include <limits>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/nesting.h"
#include "core/base/text.h"

namespace unity {
namespace {

using nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  const json& member(const json& object, const char* key) const {
    auto found = object.find(key);
    if (found == object.end()) throw_input_error("{}: key '{}' is missing", file_, key);
    return *found;
  }
  std::string text(const json& object, const char* key) const {
    const json& value = member(object, key);
    if (!value.is_string()) throw_input_error("{}: {}: found {}, expected a text", file_, key, value.type_name());
    return value.get<std::string>();
  }
  std::int64_t integer(const json& value, const std::string& where) const {
    if (!value.is_number_integer())
      throw_input_error("{}: {}: found {}, expected a whole number", file_, where, value.type_name());
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
      throw_input_error("{}: {}: found {}, expected at most {}", file_, where, value.get<std::uint64_t>(),
                        std::numeric_limits<std::int64_t>::max());
    return value.get<std::int64_t>();
  }
  // A list of lists of `width` whole numbers.
  template <class Use>
  void rows(const json& object, const char* key, std::size_t width, Use use) const {
    const json& list = member(object, key);
    if (!list.is_array()) throw_input_error("{}: {}: found {}, expected a list", file_, key, list.type_name());
    std::vector<std::int64_t> row(width);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].is_array() || list[i].size() != width)
        throw_input_error("{}: {}[{}]: expected a list of {} whole numbers", file_, key, i, width);
      for (std::size_t k = 0; k < width; ++k) row[k] = integer(list[i][k], fmt::format("{}[{}][{}]", key, i, k));
      use(row, fmt::format("{}[{}]", key, i));
    }
  }
  // [link, name, bytes per second, bytes]
  LinkUsage link(const json& row, const std::string& where) const {
    if (!row.is_array() || row.size() != 4 || !row[1].is_string() || !row[2].is_number())
      throw_input_error("{}: {}: expected [link, name, bytes per second, bytes]", file_, where);
    LinkUsage link{LinkId(integer(row[0], where + "[0]")), row[1], {row[2]}, {integer(row[3], where + "[3]")}};
    check_id(row[0].get<std::int64_t>(), "link", where);
    if (!(link.bandwidth.rate > 0) || link.bytes.count < 0)
      throw_input_error("{}: {}: negative bytes, or no bandwidth", file_, where);
    return link;
  }
  // A number of a task, device or link, which have 31 bits.
  void check_id(std::int64_t id, const char* of, const std::string& where) const {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
      throw_input_error("{}: {}: found {} {}, expected 0 to {}", file_, where, of, id,
                        std::numeric_limits<std::int32_t>::max());
  }
  const std::string& file() const { return file_; }

 private:
  const std::string& file_;
};

}  // namespace

std::string trace_to_json(const Trace& trace) {
  json spans = json::array(), memory = json::array(), links = json::array(), link_use = json::array();
  for (const Span& s : trace.spans)
    spans.push_back({s.task.value, s.device.value, s.stream, s.start.count, s.end.count});
  for (const MemorySample& m : trace.memory) memory.push_back({m.device.value, m.time.count, m.category, m.used.count});
  for (const LinkUsage& l : trace.links) links.push_back({l.link.value, l.name, l.bandwidth.rate, l.bytes.count});
  for (const LinkSample& s : trace.link_use) link_use.push_back({s.link.value, s.time.count, s.use});
  json root = {{"format", "unity-trace"},
               {"version", Trace::kVersion},
               {"source", trace.source},
               {"program", fmt::format("{:016x}", trace.program)},
               {"iteration_ps", trace.iteration.count},
               {"spans", std::move(spans)},
               {"memory", std::move(memory)},
               {"links", std::move(links)},
               {"link_use", std::move(link_use)}};
  return root.dump() + "\n";
}

Trace trace_from_json(const std::string& text, const std::string& file) {
  refuse_deep_json(text, file);
  json root;
  try {
    root = json::parse(text);
  } catch (const json::parse_error& e) {
    throw_input_error("{}: byte {}: malformed or truncated JSON", file, e.byte);
  } catch (const json::out_of_range&) {
    throw_input_error("{}: found a number that is out of range", file);
  }
  Reader reader(file);
  if (!root.is_object())
    throw_input_error("{}: found {}, expected an object with 'format': 'unity-trace'", file, root.type_name());
  if (std::string format = reader.text(root, "format"); format != "unity-trace")
    throw_input_error("{}: format: found '{}', expected 'unity-trace'", file, format);
  std::int64_t version = reader.integer(reader.member(root, "version"), "version");
  if (version < 1 || version > Trace::kVersion)
    throw_input_error("{}: version: found {}, expected 1 to {}", file, version, Trace::kVersion);
  Trace trace;
  trace.source = reader.text(root, "source");
  std::string program = reader.text(root, "program");
  auto [end, error] = std::from_chars(program.data(), program.data() + program.size(), trace.program, 16);
  if (error != std::errc() || end != program.data() + program.size() || program.empty())
    throw_input_error("{}: program: found '{}', expected a hexadecimal hash", file, program);
  trace.iteration = {reader.integer(reader.member(root, "iteration_ps"), "iteration_ps")};
  reader.rows(root, "spans", 5, [&](const std::vector<std::int64_t>& row, const std::string& where) {
    reader.check_id(row[0], "task", where), reader.check_id(row[1], "device", where);
    if (row[2] < 0 || row[2] > 255) throw_input_error("{}: {}: stream {}, expected 0 to 255", file, where, row[2]);
    if (row[4] < row[3]) throw_input_error("{}: {}: ends before it starts", file, where);
    trace.spans.push_back({TaskId(row[0]), DeviceId(row[1]), static_cast<std::uint8_t>(row[2]), {row[3]}, {row[4]}});
  });
  bool categories = version > 2;
  reader.rows(root, "memory", categories ? 4 : 3, [&](const std::vector<std::int64_t>& row, const std::string& where) {
    reader.check_id(row[0], "device", where);
    if (categories && (row[2] < 0 || row[2] > 255))
      throw_input_error("{}: {}: category {}, expected 0 to 255", file, where, row[2]);
    auto category = categories ? static_cast<std::uint8_t>(row[2]) : MemorySample::kAll;
    trace.memory.push_back({DeviceId(row[0]), category, {row[1]}, {row.back()}});
  });
  if (version == 1) return trace;
  const json& links = reader.member(root, "links");
  if (!links.is_array()) throw_input_error("{}: links: found {}, expected a list", file, links.type_name());
  for (std::size_t i = 0; i < links.size(); ++i)
    trace.links.push_back(reader.link(links[i], fmt::format("links[{}]", i)));
  reader.rows(root, "link_use", 3, [&](const std::vector<std::int64_t>& row, const std::string& where) {
    reader.check_id(row[0], "link", where);
    if (row[2] < 0 || row[2] > LinkSample::kFull)
      throw_input_error("{}: {}: use {}, expected 0 to {}", file, where, row[2], LinkSample::kFull);
    trace.link_use.push_back({LinkId(row[0]), {row[1]}, static_cast<std::int32_t>(row[2])});
  });
  return trace;
}

void save_trace(const Trace& trace, const std::string& path) { write_file_atomically(path, trace_to_json(trace)); }

Trace load_trace(const std::string& path) { return trace_from_json(read_file(path), path); }

}  // namespace unity
