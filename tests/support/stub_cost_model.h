// A cost model for core's tests, by hand: tasks take flops / 1e12 s, communications bytes / 1e10 s, one after the
// other.
#pragma once

#include <algorithm>

#include "core/search/cost_model.h"

namespace unity::test {

// n devices, all connected, at the same distance.
inline Topology uniform_topology(int n, Bytes memory = {std::int64_t{1} << 40}) {
  Topology t;
  t.name = "uniform";
  t.specs.push_back({.name = "test", .peak = {{DType::f32, {1e12}}}, .memory_bandwidth = {1e11}, .memory = memory});
  t.levels = {{"device", n}};
  for (int i = 0; i < n; ++i) {
    t.physical_devices.push_back({1});
    t.vertices.push_back({fmt::format("d{}", i), DeviceId(i)});
    t.devices.push_back({0, static_cast<std::size_t>(i), VertexId(i), fmt::format("d{}", i)});
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      if (i != j) t.links.push_back({VertexId(i), VertexId(j), {1e10}, {1000}, LinkKind::nvlink});
  t.finish();
  return t;
}

class StubCostModel final : public CostModel {
 public:
  explicit StubCostModel(Topology topology) : topology_(std::move(topology)) {}

  Score score(const Program& program) const override {
    std::vector<std::int64_t> busy(topology_.device_count(), 0);
    Score score;
    score.peak_memory.resize(topology_.device_count());
    for (std::size_t i = 0; i < program.tasks.size(); ++i)
      for (DeviceId d : program.devices_of(TaskId(static_cast<std::int64_t>(i)))) {
        const Task& t = program.tasks[i];
        busy[d.index()] += t.kind == TaskKind::communicate
                               ? collective_time(CollectiveKind::send, {}, {static_cast<std::int64_t>(t.bytes)}).count
                               : task_time(t, nullptr, d).count;
      }
    for (std::size_t b = 0; b < program.buffers.size(); ++b)
      score.peak_memory[program.buffers[b].device.index()] += program.bytes_of(BufferId(static_cast<std::int64_t>(b)));
    score.iteration = {*std::max_element(busy.begin(), busy.end())};
    score.communicated = program.communicated();
    return score;
  }
  Picoseconds task_time(const Task& task, const ProgramOp*, DeviceId) const override {
    return {1000 + static_cast<std::int64_t>(task.flops)};
  }
  Picoseconds collective_time(CollectiveKind, const std::vector<DeviceId>&, Bytes bytes) const override {
    return {1000 + bytes.count * 100};
  }
  const Topology& topology() const override { return topology_; }

 private:
  Topology topology_;
};

}  // namespace unity::test
