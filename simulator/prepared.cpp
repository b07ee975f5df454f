#include "simulator/prepared.h"

#include <algorithm>
#include <cmath>

#include "core/base/longest_time.h"
#include "core/base/random.h"

namespace unity {
namespace {

// What the time of each task is multiplied by.
class NoiseFactors {
 public:
  NoiseFactors(const Noise& noise, std::size_t devices)
      : jitter_(noise.jitter), key_(noise.seed), slowness_(devices, 1.0) {
    if (!(noise.jitter >= 0 && noise.jitter < 10))
      throw_input_error("jitter: found {}, expected at least 0 and less than 10", noise.jitter);
    for (const auto& [device, factor] : noise.stragglers) {
      if (!device.valid() || device.index() >= devices)
        throw_input_error("straggler: found device {}, expected 0 to {}", device, devices - 1);
      if (!(factor > 0 && std::isfinite(factor)))
        throw_input_error("straggler: device {}: found factor {}, expected more than 0", device, factor);
      slowness_[device.index()] *= factor;
    }
    quiet_ = noise.jitter == 0 && noise.stragglers.empty();
  }

  Picoseconds apply(Picoseconds time, DeviceId device, std::size_t task) const {
    if (quiet_) return time;
    double factor = slowness_[device.index()];
    if (jitter_ > 0) factor *= std::exp(jitter_ * random_normal(key_, task) - jitter_ * jitter_ / 2);
    return scaled(time, factor);
  }

 private:
  double jitter_;
  RandomKey key_;
  std::vector<double> slowness_;  // by device
  bool quiet_ = true;
};

std::shared_ptr<const CollectiveChoice> host_copy(const Program& program, const Task& task,
                                                  const CollectiveCache& cache) {
  bool out = program.copies_to_host(task);
  if (!out && !program.copies_from_host(task)) return nullptr;
  return cache.host_copy(task.device, out, {std::llround(task.bytes)});
}

}  // namespace

PreparedProgram prepare(const Program& program, const CollectiveCache& cache, const SimulationOptions& options) {
  const Topology& topology = cache.topology();
  UNITY_CHECK(static_cast<std::size_t>(program.devices) <= topology.device_count(), "a program for {} devices on {}",
              program.devices, topology.device_count());
  check_options(options.collectives, topology);
  NoiseFactors noise(options.noise, topology.device_count());
  PreparedProgram prepared{&program, TaskGraph(program), TaskBuffers(program), {}, {}, {}, {}, {}};
  TaskTimes times(program, topology);
  prepared.times.resize(program.tasks.size());
  prepared.flows.resize(program.tasks.size(), PreparedProgram::kNoFlow);
  prepared.choices.resize(program.communications.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    TaskId id(static_cast<std::int64_t>(t));
    const Task& task = program.tasks[t];
    if (auto copy = host_copy(program, task, cache)) {
      prepared.times[t] = {copy->predicted(), false};
      prepared.flows[t] = static_cast<std::uint32_t>(prepared.choices.size());
      prepared.choices.push_back(std::move(copy));
    } else if (task.kind != TaskKind::communicate) {
      prepared.times[t] = times.time(id);
      prepared.times[t].alone = noise.apply(prepared.times[t].alone, task.device, t);
    } else if (auto measured = times.communication(id)) {
      prepared.times[t] = {*measured, true};
    } else {
      auto index = static_cast<std::size_t>(task.op);
      prepared.flows[t] = static_cast<std::uint32_t>(index);
      prepared.choices[index] = cache.choose(program.communications[index], options.collectives);
      prepared.times[t].measured = prepared.choices[index]->reason == ChoiceReason::measured;
    }
  }
  for (std::size_t d = 0; d < topology.device_count(); ++d)
    prepared.handovers.push_back(times.handover(DeviceId(static_cast<std::int64_t>(d))));
  prepared.step_overhead = times.step_overhead();
  prepared.capacities = link_capacities(topology);
  check_times(prepared);
  return prepared;
}

void check_times(const PreparedProgram& prepared) {
  const Picoseconds handover = *std::max_element(prepared.handovers.begin(), prepared.handovers.end());
  double seconds = prepared.step_overhead.seconds();
  for (std::size_t t = 0; t < prepared.times.size(); ++t) {
    seconds += prepared.times[t].alone.seconds() + handover.seconds();
    if (prepared.program->tasks[t].kind == TaskKind::communicate && prepared.flows[t] != PreparedProgram::kNoFlow)
      seconds += prepared.choices[prepared.flows[t]]->predicted().seconds();
  }
  if (seconds >= kLongestTime.seconds())
    throw_input_error("{}: tasks take {:.3g} s one after the other, expected less than {:.3g} s",
                      prepared.program->name, seconds, kLongestTime.seconds());
}

}  // namespace unity
