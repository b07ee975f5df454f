#include "simulator/analysis/bounds.h"

#include <algorithm>
#include <array>

#include "core/machine/profile.h"
#include "simulator/devices/shared_compute.h"
#include "simulator/devices/unit_queue.h"
#include "simulator/simulate.h"

namespace unity {
namespace {

// What a task takes at least, and its work on one unit of compute (shared_compute.h).
struct LeastTime {
  double seconds = 0, work = 0;
};

LeastTime least_time(const PreparedProgram& prepared, const SharedCompute& compute, std::size_t t) {
  const Task& task = prepared.program->tasks[t];
  double alone = prepared.times[t].alone.seconds();
  if (task.stream != Stream::compute || !compute.shared(task.device)) return {alone, 0};
  double share = compute.share(task.device);
  return prepared.times[t].measured ? LeastTime{alone, alone * share} : LeastTime{alone / share, alone};
}

DType type_of(const Program& program, const Task& task) {
  auto operands = program.operands_of(task);
  return operands.empty() ? DType::f32 : program.tensor_of(operands.back()).dtype;
}

// Rates of a device with all the units that it may use.
struct Rates {
  std::map<DType, double> peak;
  double f32 = 0, memory = 0;
  double of(DType dtype) const {
    auto found = peak.find(dtype);
    return found == peak.end() ? f32 : found->second;
  }
};

Rates rates_of(const Topology& topology, const SharedCompute& compute, DeviceId device, std::size_t neighbours) {
  const DeviceSpec& spec = topology.spec(device);
  double units = 1;
  if (compute.shared(device)) {
    double all = topology.physical_devices[topology.device(device).physical].units;
    units = std::min(compute.share(device), all / static_cast<double>(neighbours));
  }
  double f32 = spec.peak.at(DType::f32).rate, factor = units, memory = spec.memory_bandwidth.rate * units;
  if (const ProfileSection* section = section_of(topology, device)) {
    if (section->peak > 0) factor = section->peak / f32;
    if (section->memory_bandwidth > 0) memory = section->memory_bandwidth;
  }
  Rates rates{{}, f32 * factor, memory};
  for (const auto& [dtype, rate] : spec.peak) rates.peak[dtype] = rate.rate * factor;
  return rates;
}

// Of all devices.
Rates machine_rates(const Topology& topology) {
  SharedCompute compute(topology, 0);
  std::vector<std::size_t> logical(topology.physical_devices.size());
  for (const Device& d : topology.devices) ++logical[d.physical];
  Rates all;
  std::vector<Rates> each;
  for (std::size_t d = 0; d < topology.device_count(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    each.push_back(rates_of(topology, compute, device, logical[topology.device(device).physical]));
    for (const auto& [dtype, rate] : each.back().peak) all.peak[dtype] = 0;
  }
  for (const Rates& rates : each) {
    for (auto& [dtype, rate] : all.peak) rate += rates.of(dtype);
    all.f32 += rates.f32;
    all.memory += rates.memory;
  }
  return all;
}

Picoseconds busiest_device(const PreparedProgram& prepared, const Topology& topology) {
  SharedCompute compute(topology, 0);
  std::vector<std::array<double, kStreams>> streams(topology.device_count());
  std::vector<double> work(topology.physical_devices.size());
  const Program& program = *prepared.program;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    if (task.kind == TaskKind::communicate) continue;
    LeastTime least = least_time(prepared, compute, t);
    streams[task.device.index()][static_cast<std::size_t>(task.stream)] += least.seconds;
    work[topology.device(task.device).physical] += least.work;
  }
  double most = 0;
  for (const auto& device : streams)
    for (double seconds : device) most = std::max(most, seconds);
  for (std::size_t p = 0; p < work.size(); ++p) most = std::max(most, work[p] / topology.physical_devices[p].units);
  return from_seconds(most);
}

// What was measured in bf16 or TF32 is faster than the peaks of a device file, which are of element types.
bool knows_peaks(const Topology& topology) {
  for (std::size_t d = 0; d < topology.device_count(); ++d) {
    const DeviceId device(static_cast<std::int64_t>(d));
    const ProfileSection* section = section_of(topology, device);
    if (!section || section->peak > 0) continue;
    const Precision precision = topology.spec(device).profile->precision;
    if (precision != Precision::f32 && precision != Precision::f64) return false;
  }
  return true;
}

Picoseconds whole_machine(const Program& program, const Topology& topology) {
  if (!knows_peaks(topology)) return {};
  double bytes = 0;
  for (const Task& task : program.tasks)
    if (task.kind != TaskKind::communicate && task.stream == Stream::compute) bytes += task.bytes;
  double memory = bytes / machine_rates(topology).memory;
  return from_seconds(std::max(seconds_at_peak(executed_flops(program), topology).value(), memory));
}

Picoseconds busiest_link(const PreparedProgram& prepared) {
  double most = 0;
  std::vector<double> bytes = link_bytes(prepared);
  for (std::size_t l = 0; l < bytes.size(); ++l) most = std::max(most, bytes[l] / prepared.capacities[l].rate);
  return from_seconds(most);
}

Picoseconds free_communication(const PreparedProgram& prepared, const Topology& topology) {
  PreparedProgram free = prepared;
  auto nothing = std::make_shared<const CollectiveChoice>();
  free.choices.assign(prepared.program->communications.size(), nothing);
  for (std::size_t t = 0; t < free.flows.size(); ++t) {
    const Task& task = prepared.program->tasks[t];  // copies to and from hosts: alone on the idle machine
    bool communicates = task.kind == TaskKind::communicate;
    free.flows[t] = communicates ? static_cast<std::uint32_t>(task.op) : PreparedProgram::kNoFlow;
  }
  // Where tasks wait for cores, some may come later because others wait less. With a core for each device none does.
  Topology enough = topology;
  UnitQueue queue(topology);
  for (std::size_t p = 0; p < enough.physical_devices.size(); ++p)
    if (queue.queues(p)) enough.physical_devices[p].units = 0;
  for (const Device& d : enough.devices)
    if (queue.queues(d.physical)) ++enough.physical_devices[d.physical].units;
  Picoseconds iteration = simulate_folded(free, enough, {.trace = false}).iteration;
  return std::max(iteration, busiest_device(prepared, topology));
}

// Measured ones take what was measured, all others no less than their links are busy.
Picoseconds least_time(const CollectiveChoice& choice, const Topology& topology) {
  Picoseconds predicted = choice.predicted();
  return choice.shape ? std::min(predicted, choice.shape->least_time(topology, choice.bytes)) : predicted;
}

Picoseconds longest_chain(const PreparedProgram& prepared, const Topology& topology) {
  SharedCompute compute(topology, 0);
  const Program& program = *prepared.program;
  std::vector<double> ends(program.tasks.size());
  double longest = 0;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    double begin = 0, takes = 0;
    for (TaskId d : program.dependencies_of(task)) begin = std::max(begin, ends[d.index()]);
    if (task.kind != TaskKind::communicate)
      takes = least_time(prepared, compute, t).seconds;
    else if (const auto& choice = prepared.choices[static_cast<std::size_t>(task.op)])
      takes = least_time(*choice, topology).seconds();
    else
      takes = prepared.times[t].alone.seconds();
    ends[t] = begin + takes;
    longest = std::max(longest, ends[t]);
  }
  return from_seconds(longest);
}

}  // namespace

Picoseconds LowerBounds::largest() const {
  return std::max({busiest_device, whole_machine, busiest_link, free_communication, longest_chain});
}

LowerBounds lower_bounds(const PreparedProgram& prepared, const Topology& topology) {
  return {busiest_device(prepared, topology), whole_machine(*prepared.program, topology), busiest_link(prepared),
          free_communication(prepared, topology), longest_chain(prepared, topology)};
}

std::vector<double> link_bytes(const PreparedProgram& prepared) {
  std::vector<double> bytes(prepared.capacities.size());
  for (const auto& choice : prepared.choices) {
    if (!choice || !choice->shape) continue;
    for (const CollectivePhase& phase : choice->shape->phases)
      for (const LinkUse& use : phase.pattern->uses) bytes[use.link] += phase.share * choice->bytes * use.times;
  }
  return bytes;
}

std::optional<double> seconds_at_peak(const std::map<DType, double>& flops, const Topology& topology) {
  if (!knows_peaks(topology)) return std::nullopt;
  Rates machine = machine_rates(topology);
  double seconds = 0;
  for (const auto& [dtype, amount] : flops) seconds += amount / machine.of(dtype);
  return seconds;
}

std::map<DType, double> executed_flops(const Program& program) {
  std::map<DType, double> flops;
  for (const Task& task : program.tasks)
    if (task.kind != TaskKind::communicate && task.stream == Stream::compute)
      flops[type_of(program, task)] += task.flops;
  return flops;
}

}  // namespace unity
