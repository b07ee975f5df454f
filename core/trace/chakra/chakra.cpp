#include "core/trace/chakra/chakra.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <execution_trace.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <nlohmann/json.hpp>

namespace unity {
namespace {

// Numbers of the format.
enum NodeType : std::int32_t { kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7 };

std::int64_t collective_type(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 0;
    case CollectiveKind::reduce:
      return 1;
    case CollectiveKind::all_gather:
      return 2;
    case CollectiveKind::broadcast:
      return 5;
    case CollectiveKind::all_to_all:
      return 6;
    case CollectiveKind::reduce_scatter:
      return 7;
    case CollectiveKind::send:
      break;
  }
  UNITY_CHECK(false, "a {} is no collective", to_string(kind));
  return -1;
}

std::int64_t held_bytes(const Communication& c) {
  std::int64_t elements = 0;
  if (c.kind == CollectiveKind::all_to_all) {
    std::vector<std::int64_t> sent(c.participants.size());
    for (const Exchange& e : c.exchanges) sent[static_cast<std::size_t>(e.from)] += e.box.elements();
    for (std::int64_t of_one : sent) elements = std::max(elements, of_one);
  } else if (c.kind == CollectiveKind::all_gather) {
    for (const Participant& p : c.participants) elements = std::max(elements, p.piece.elements());
  } else {
    elements = elements_moved(c);
  }
  return elements * static_cast<std::int64_t>(size_of(c.dtype));
}

// Numbers of the groups of devices that communicate.
class Groups {
 public:
  explicit Groups(const Program& program) {
    std::vector<std::int32_t> all;
    for (std::int32_t d = 0; d < program.devices; ++d) all.push_back(d);
    numbers_[all] = 0;
    for (const Communication& c : program.communications) {
      std::vector<std::int32_t> ranks = ranks_of(c);
      if (c.kind == CollectiveKind::send || numbers_.contains(ranks)) continue;
      numbers_[ranks] = static_cast<int>(in_order_.size()) + 1;
      in_order_.push_back(std::move(ranks));
    }
  }
  int of(const Communication& c) const { return numbers_.at(ranks_of(c)); }
  const std::vector<std::vector<std::int32_t>>& in_order() const { return in_order_; }  // from 1 on

 private:
  static std::vector<std::int32_t> ranks_of(const Communication& c) {
    std::vector<std::int32_t> ranks;
    for (const Participant& p : c.participants) ranks.push_back(p.device.value);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  std::map<std::vector<std::int32_t>, int> numbers_;
  std::vector<std::vector<std::int32_t>> in_order_;
};

// A file in the making.
class Writer {
 public:
  void add(const google::protobuf::MessageLite& message) {
    google::protobuf::io::StringOutputStream stream(&bytes_);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
    message.SerializeToCodedStream(&coded);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

chakra::Attribute& attribute(chakra::Node& node, const char* name) {
  chakra::Attribute& a = *node.add_attributes();
  a.set_name(name);
  return a;
}

std::uint64_t microseconds(Picoseconds time) { return static_cast<std::uint64_t>((time.count + 500'000) / 1'000'000); }

void describe_communication(const Communication& c, TaskId task, DeviceId device, const Groups& groups,
                            chakra::Node& node) {
  if (c.kind == CollectiveKind::send) {
    DeviceId from = c.participants[0].device, to = c.participants[1].device;
    node.set_type(device == from ? kSend : kReceive);
    attribute(node, "comm_src").set_int32_val(from.value);
    attribute(node, "comm_dst").set_int32_val(to.value);
    attribute(node, "comm_tag").set_int32_val(task.value);
    attribute(node, "comm_size").set_int64_val(held_bytes(c));
    return;
  }
  node.set_type(kCollective);
  attribute(node, "comm_type").set_int64_val(collective_type(c.kind));
  attribute(node, "comm_size").set_int64_val(held_bytes(c));
  attribute(node, "pg_name").set_string_val(std::to_string(groups.of(c)));
  if (c.kind == CollectiveKind::broadcast || c.kind == CollectiveKind::reduce)
    attribute(node, "root_rank").set_int32_val(c.participants[0].device.value);
}

}  // namespace

std::vector<std::string> chakra_traces(const Program& program, const Trace& times) {
  if (times.program != program_hash(program))
    throw_input_error("the trace is of another program: found {:016x}, expected {:016x}", times.program,
                      program_hash(program));
  std::map<std::pair<TaskId, DeviceId>, const Span*> spans;
  for (const Span& s : times.spans) spans[{s.task, s.device}] = &s;
  Groups groups(program);
  auto devices = static_cast<std::size_t>(program.devices);
  std::vector<Writer> writers(devices);
  chakra::Metadata metadata;
  metadata.set_version("0.0.4");
  for (Writer& writer : writers) writer.add(metadata);
  std::vector<std::array<TaskId, 3>> last(devices);  // by device and stream
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    TaskId id(static_cast<std::int64_t>(t));
    const Task& task = program.tasks[t];
    for (DeviceId device : program.devices_of(id)) {
      chakra::Node node;
      node.set_id(t);
      node.set_name(program.task_name(id));
      for (TaskId d : program.dependencies_of(task)) {
        std::vector<DeviceId> on = program.devices_of(d);
        if (std::find(on.begin(), on.end(), device) != on.end()) node.add_data_dependencies(d.index());
      }
      TaskId& before = last[device.index()][static_cast<std::size_t>(task.stream)];
      if (before.valid()) node.add_control_dependencies(before.index());
      before = id;
      auto span = spans.find({id, device});
      Picoseconds start, duration;
      if (span != spans.end()) start = span->second->start, duration = span->second->end - start;
      node.set_start_microseconds(microseconds(start));
      node.set_duration_microseconds(std::max<std::uint64_t>(microseconds(duration), duration.count > 0));
      attribute(node, "is_cpu_op").set_bool_val(false);
      if (task.kind == TaskKind::communicate) {
        describe_communication(program.communications[static_cast<std::size_t>(task.op)], id, device, groups, node);
      } else {
        node.set_type(kCompute);
        attribute(node, "num_ops").set_int64_val(std::llround(task.flops));
        attribute(node, "tensor_size").set_uint64_val(static_cast<std::uint64_t>(std::llround(task.bytes)));
      }
      attribute(node, "duration_picoseconds").set_int64_val(duration.count);
      writers[device.index()].add(node);
    }
  }
  std::vector<std::string> files;
  for (Writer& writer : writers) files.push_back(writer.take());
  return files;
}

std::string chakra_groups(const Program& program) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  const Groups of_program(program);
  int number = 0;
  for (const std::vector<std::int32_t>& ranks : of_program.in_order()) groups[std::to_string(++number)] = ranks;
  return groups.dump() + "\n";
}

}  // namespace unity
