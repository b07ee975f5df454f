#include "simulator/devices/task_times.h"

#include <algorithm>

#include "core/base/longest_time.h"
#include "core/plan/collective_key.h"
#include "simulator/collectives/measured.h"
#include "simulator/devices/roofline.h"

namespace unity {
namespace {

// Of the sum to which a task adds its result (core/plan/accumulation.h).
double added_bytes(const Program& program, const Task& task) {
  if (task.kind != TaskKind::compute || !program.ops[static_cast<std::size_t>(task.op)].op->accumulates()) return 0;
  return static_cast<double>(program.bytes_of(program.operands_of(task).back()).count);
}

DType result_type(const Program& program, const Task& task) {
  auto operands = program.operands_of(task);
  return operands.empty() ? DType::f32 : program.tensor_of(operands.back()).dtype;
}

// use(a buffer, how many of its bytes a task touches). Of a large table that rows are looked up in, or taken off, the
// task touches no more than it does of all its operands.
template <class Use>
void for_each_buffer(const Program& program, const Task& task, Use&& use_bytes) {
  if (task.kind != TaskKind::communicate) {
    for (BufferId b : program.operands_of(task))
      use_bytes(b, std::min(task.bytes, static_cast<double>(program.bytes_of(b).count)));
    return;
  }
  auto use = [&](BufferId b) { use_bytes(b, static_cast<double>(program.bytes_of(b).count)); };
  const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
  for (std::size_t part = 0; part < c.part_count(); ++part)
    for (const Participant& p : c.part(part)) {
      if (p.send.valid()) use(p.send);
      if (p.receive.valid() && p.receive != p.send) use(p.receive);
    }
}

// By task: the share of its operands' bytes that was last touched longer ago than `cache` bytes, or by another stream,
// in an iteration that follows another one. Logical devices share the caches of their physical one.
std::vector<float> cold_shares(const Program& program, const Topology& topology, double cache) {
  std::vector<double> touched_of_physical(topology.physical_devices.size());
  auto touched = [&](BufferId b) -> double& {
    return touched_of_physical[topology.device(program.buffer(b).device).physical];
  };
  std::vector<double> last(program.buffers.size(), -1);
  std::vector<Stream> stream(program.buffers.size(), Stream::compute);
  std::vector<float> shares(program.tasks.size());
  for (int round = 0; round < 2; ++round)
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      double all = 0, cold = 0;
      for_each_buffer(program, program.tasks[t], [&](BufferId b, double bytes) {
        double now = touched(b);
        all += bytes;
        if (last[b.index()] < 0 || now - last[b.index()] > cache || stream[b.index()] != program.tasks[t].stream)
          cold += bytes;
      });
      for_each_buffer(program, program.tasks[t], [&](BufferId b, double bytes) {
        double& now = touched(b);
        now += bytes;
        last[b.index()] = now;
        stream[b.index()] = program.tasks[t].stream;
      });
      shares[t] = all > 0 ? static_cast<float>(cold / all) : 0;
    }
  return shares;
}

DeviceSpec with_rates(DeviceSpec spec, const ProfileSection& section, const std::string& op) {
  if (section.peak > 0) {
    double factor = section.peak / spec.peak.at(DType::f32).rate;
    for (auto& [dtype, rate] : spec.peak) rate.rate *= factor;
    auto curve = section.efficiency.find(op);
    if (curve == section.efficiency.end()) curve = section.efficiency.find("matmul");
    if (curve != section.efficiency.end()) spec.matmul_efficiency = curve->second;
  }
  if (section.elementwise_peak > 0) spec.elementwise_peak = {section.elementwise_peak};
  if (section.memory_bandwidth > 0) {
    spec.memory_bandwidth = {section.memory_bandwidth};
    auto curve = section.efficiency.find("memory");
    if (curve != section.efficiency.end()) spec.memory_efficiency = curve->second;
  }
  if (section.task_overhead > 0) spec.launch_overhead = bounded_seconds(section.task_overhead);
  return spec;
}

}  // namespace

bool on_one_physical(const Topology& topology, std::span<const DeviceId> devices) {
  return std::all_of(devices.begin(), devices.end(),
                     [&](DeviceId d) { return topology.device(d).physical == topology.device(devices[0]).physical; });
}

DeviceSpec measured_rates(const Topology& topology, DeviceId device, const std::string& op) {
  const ProfileSection* section = section_of(topology, device);
  return section ? with_rates(topology.spec(device), *section, op) : topology.spec(device);
}

std::optional<Picoseconds> measured_collective(const Topology& topology, CollectiveKind kind,
                                               std::span<const DeviceId> group, Bytes bytes) {
  const MeasuredCollectives* collectives = collectives_measured_on(topology, group[0]);
  if (collectives)
    if (auto points = collectives->find(collective_name(kind, group, topology)))
      return bounded_seconds(seconds_at(*points, static_cast<double>(bytes.count)).warm);
  const ProfileSection* section = section_of(topology, group[0]);
  if (!section || !on_one_physical(topology, group) || (collectives && collectives->comm == "mpi")) return std::nullopt;
  auto curve = section->curves.find(fmt::format("{} of {}", to_string(kind), group.size()));
  if (curve == section->curves.end() || curve->second.empty()) return std::nullopt;
  return bounded_seconds(seconds_at(curve->second, static_cast<double>(bytes.count)).warm);
}

TaskTimes::TaskTimes(const Program& program, const Topology& topology)
    : program_(program), topology_(topology), keys_(program) {
  std::int64_t cache = 0;
  for (std::size_t d = 0; d < topology.device_count(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    const DeviceSpec& spec = topology.spec(device);
    sections_.push_back(section_of(topology, device));
    handovers_.push_back(sections_[d] && sections_[d]->handover > 0 ? bounded_seconds(sections_[d]->handover)
                                                                    : spec.handover);
    if (sections_[d]) step_overhead_ = std::max(step_overhead_, bounded_seconds(sections_[d]->step_overhead));
    if (spec.profile) cache = std::max(cache, spec.profile->cache.count);
  }
  if (std::any_of(topology.specs.begin(), topology.specs.end(),
                  [](const DeviceSpec& s) { return s.profile != nullptr; }))
    cold_ = cold_shares(program, topology, static_cast<double>(cache));
}

std::optional<TaskSeconds> TaskTimes::measured(TaskId id, const ProfileSection& section) {
  const Task& task = program_.tasks[id.index()];
  if (auto found = section.tasks.find(keys_.of(task)); found != section.tasks.end())
    return TaskSeconds{found->second.warm, found->second.cold};
  TaskCurve which = task_curve(program_, task);
  if (which.name.empty()) return std::nullopt;
  auto curve = section.curves.find(which.name);
  if (curve == section.curves.end() || curve->second.empty()) return std::nullopt;
  return seconds_at(curve->second, which.amount);
}

std::optional<TaskSeconds> TaskTimes::measured_communication(TaskId id) {
  const Task& task = program_.tasks[id.index()];
  const ProfileSection* section = sections_[task.device.index()];
  const MeasuredCollectives* collectives = collectives_measured_on(topology_, task.device);
  bool threads = !collectives || collectives->comm != "mpi";  // as when the section's tasks were measured
  if (section && threads)
    if (auto found = section->tasks.find(keys_.of(task)); found != section->tasks.end())
      return TaskSeconds{found->second.warm, found->second.cold};
  if (collectives) {
    CollectiveKey key = collective_key(program_.communications[static_cast<std::size_t>(task.op)], topology_);
    if (auto points = collectives->find(key.name)) return seconds_at(*points, key.bytes);
  }
  return section && threads ? measured(id, *section) : std::nullopt;
}

Picoseconds TaskTimes::estimate(const DeviceSpec& spec, const Task& task) {
  DType dtype = result_type(program_, task);
  double added = added_bytes(program_, task);
  if (last_.spec != &spec || last_.flops != task.flops || last_.bytes != task.bytes || last_.added != added ||
      last_.dtype != dtype)
    last_ = {&spec, task.flops, task.bytes, added, dtype, roofline_time(spec, task.flops, task.bytes, dtype, added)};
  return last_.time;
}

TaskTimes::Time TaskTimes::time(TaskId id) {
  const Task& task = program_.tasks[id.index()];
  const DeviceSpec& spec = topology_.spec(task.device);
  const ProfileSection* section = sections_[task.device.index()];
  const std::optional<TaskSeconds> seconds = section ? measured(id, *section) : std::nullopt;
  if (!seconds && spec.host_bandwidth.rate > 0 && (program_.copies_to_host(task) || program_.copies_from_host(task)))
    return {spec.launch_overhead + bounded_seconds(task.bytes / spec.host_bandwidth.rate), false};
  if (!section) return {estimate(spec, task), false};
  if (seconds) {
    double share = cold_[id.index()];
    const double spans = seconds->warm * (1 - share) + seconds->cold * share;
    return {bounded_seconds(std::max(0.0, spans + section->task_overhead)), true};
  }
  std::string op = task.kind == TaskKind::compute ? program_.ops[static_cast<std::size_t>(task.op)].op->name() : "";
  auto [found, fresh] = specs_.try_emplace({section, op.starts_with("conv2d") ? "conv2d" : "matmul"});
  if (fresh) found->second = measured_rates(topology_, task.device, found->first.second);
  return {estimate(found->second, task), false};
}

std::optional<Picoseconds> TaskTimes::communication(TaskId id) {
  const Task& task = program_.tasks[id.index()];
  if (!topology_.spec(task.device).profile || !on_one_physical(topology_, program_.devices_of(id))) return std::nullopt;
  std::optional<TaskSeconds> seconds = measured_communication(id);
  if (!seconds) return std::nullopt;
  double share = cold_[id.index()];
  return bounded_seconds(seconds->warm * (1 - share) + seconds->cold * share);
}

}  // namespace unity
