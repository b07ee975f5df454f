#include "tests/support/simulator_build.h"

namespace unity::test {

MachineBuilder::MachineBuilder(int devices) {
  topology.name = "test";
  DeviceSpec spec;
  spec.name = "unit";
  spec.peak[DType::f32] = {1e12};
  spec.memory_bandwidth = {1e12};
  spec.memory = {1'000'000'000};
  topology.specs = {spec};
  topology.levels = {{"device", devices}};
  for (int i = 0; i < devices; ++i) {
    topology.physical_devices.push_back({1});
    topology.vertices.push_back({"d" + std::to_string(i), DeviceId(i)});
    topology.devices.push_back({0, static_cast<std::size_t>(i), VertexId(i), "d" + std::to_string(i)});
  }
}

VertexId MachineBuilder::add_switch(const std::string& name) {
  topology.vertices.push_back({name, DeviceId{}});
  return VertexId(static_cast<std::int64_t>(topology.vertices.size()) - 1);
}

void MachineBuilder::link(VertexId a, VertexId b, double gigabytes_per_second, double microseconds) {
  Link link{a, b, {gigabytes_per_second * 1e9}, from_seconds(microseconds * 1e-6), LinkKind::nvlink};
  topology.links.push_back(link);
  std::swap(link.from, link.to);
  topology.links.push_back(link);
}

Topology MachineBuilder::finish() {
  topology.finish();
  return topology;
}

Topology all_pairs(int devices, double gigabytes_per_second, double microseconds) {
  MachineBuilder m(devices);
  for (int a = 0; a < devices; ++a)
    for (int b = a + 1; b < devices; ++b) m.link(m.device(a), m.device(b), gigabytes_per_second, microseconds);
  return m.finish();
}

Topology ring_machine(int devices, double gigabytes_per_second, double microseconds) {
  MachineBuilder m(devices);
  for (int a = 0; a < (devices == 2 ? 1 : devices); ++a)
    m.link(m.device(a), m.device((a + 1) % devices), gigabytes_per_second, microseconds);
  return m.finish();
}

ProgramBuilder::ProgramBuilder(int devices) {
  program.name = "test";
  program.devices = devices;
}

BufferId ProgramBuilder::buffer(int device, std::int64_t elements, BufferCategory category) {
  ProgramTensor tensor;
  tensor.name = "t" + std::to_string(program.tensors.size());
  tensor.dims = {elements};
  program.tensors.push_back(tensor);
  program.buffers.push_back(
      {static_cast<std::int32_t>(program.tensors.size()) - 1, DeviceId(device), whole_box({elements}), category, 0});
  return BufferId(static_cast<std::int64_t>(program.buffers.size()) - 1);
}

TaskId ProgramBuilder::add(Task task, const std::vector<TaskId>& after, const std::vector<BufferId>& operands) {
  task.operands_begin = static_cast<std::uint32_t>(program.operands.size());
  program.operands.insert(program.operands.end(), operands.begin(), operands.end());
  task.operands_end = static_cast<std::uint32_t>(program.operands.size());
  task.dependencies_begin = static_cast<std::uint32_t>(program.dependencies.size());
  program.dependencies.insert(program.dependencies.end(), after.begin(), after.end());
  task.dependencies_end = static_cast<std::uint32_t>(program.dependencies.size());
  program.tasks.push_back(task);
  return TaskId(static_cast<std::int64_t>(program.tasks.size()) - 1);
}

TaskId ProgramBuilder::compute(int device, double microseconds, std::vector<TaskId> after,
                               std::vector<BufferId> operands, Stream stream) {
  Task task;
  task.kind = TaskKind::zero;  // its operands are all buffers it uses
  task.stream = stream;
  task.device = DeviceId(device);
  task.flops = microseconds * 1e6;
  return add(task, after, operands);
}

TaskId ProgramBuilder::communicate(CollectiveKind kind, std::vector<int> devices, std::int64_t elements,
                                   std::vector<TaskId> after) {
  Communication c;
  c.kind = kind;
  c.name = "t";
  auto n = static_cast<std::int64_t>(devices.size());
  bool pieces = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  for (int d : devices) c.participants.push_back({DeviceId(d), {}, {}, whole_box({pieces ? elements / n : elements})});
  program.communications.push_back(c);
  Task task;
  task.kind = TaskKind::communicate;
  task.stream = Stream::communication;
  task.device = DeviceId(devices.front());
  task.op = static_cast<std::int32_t>(program.communications.size()) - 1;
  return add(task, after, {});
}

TaskId ProgramBuilder::all_to_all(std::vector<int> devices, std::int64_t elements_per_pair, std::vector<TaskId> after) {
  TaskId id = communicate(CollectiveKind::all_to_all, devices, 0, after);
  Communication& c = program.communications.back();
  auto n = static_cast<std::int32_t>(devices.size());
  for (std::int32_t from = 0; from < n; ++from)
    for (std::int32_t to = 0; to < n; ++to)
      if (from != to) c.exchanges.push_back({from, to, whole_box({elements_per_pair})});
  return id;
}

}  // namespace unity::test
