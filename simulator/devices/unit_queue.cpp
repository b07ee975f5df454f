#include "simulator/devices/unit_queue.h"

#include <algorithm>
#include <cmath>

#include "simulator/engine/held_bytes.h"

namespace unity {

UnitQueue::UnitQueue(const Topology& topology) : physicals_(topology.physical_devices.size()) {
  std::vector<int> logical(physicals_.size());
  std::vector<bool> interrupts(physicals_.size());
  for (const Device& d : topology.devices) {
    ++logical[d.physical];
    const DeviceSpec& spec = topology.specs[d.spec];
    if (spec.kind != "cpu" || spec.interference > 0) interrupts[d.physical] = true;
  }
  for (std::size_t p = 0; p < physicals_.size(); ++p) {
    const PhysicalDevice& physical = topology.physical_devices[p];
    const double units = physical.units;
    if (logical[p] < 2 || interrupts[p] || physical.fair_share(logical[p]) > 1 || units != std::floor(units)) continue;
    physicals_[p].units = static_cast<std::size_t>(units);
    physicals_[p].free.resize(physicals_[p].units);
  }
}

void UnitQueue::touch(std::size_t physical) {
  if (physicals_[physical].touched) return;
  physicals_[physical].touched = true;
  touched_.push_back(physical);
}

void UnitQueue::add(std::size_t physical, const Waiting& waiting) {
  physicals_[physical].waiting.push_back(waiting);
  touch(physical);
}

void UnitQueue::finish(std::size_t physical, std::uint32_t task, DeviceId device, Stream stream) {
  std::size_t units = 1;
  if (auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.task == task; });
      held != held_.end())
    units = held->units, held_.erase(held);
  std::vector<Lane>& free = physicals_[physical].free;
  free.insert(free.end(), units, {device, stream});
  touch(physical);
}

std::optional<UnitQueue::Taken> UnitQueue::next() {
  for (; !touched_.empty(); touched_.pop_back()) {
    Physical& p = physicals_[touched_.back()];
    if (p.free.empty() || p.waiting.empty()) {
      p.touched = false;
      continue;
    }
    auto unit_of = [&](const Waiting& w) { return std::find(p.free.begin(), p.free.end(), Lane{w.device, w.stream}); };
    auto rank = [&](const Waiting& w) {
      return w.stream == Stream::communication ? 0 : unit_of(w) != p.free.end() ? 1 : 2;
    };
    auto best = std::min_element(p.waiting.begin(), p.waiting.end(),
                                 [&](const Waiting& a, const Waiting& b) { return rank(a) < rank(b); });
    const Waiting taken = *best;
    auto unit = unit_of(taken);
    p.free.erase(unit != p.free.end() ? unit : p.free.begin());
    p.waiting.erase(best);
    const std::size_t helpers = std::min<std::size_t>(taken.helpers, p.units);
    const std::size_t more = std::min(helpers - 1, p.free.size());
    p.free.erase(p.free.begin(), p.free.begin() + static_cast<std::ptrdiff_t>(more));
    if (more > 0) held_.push_back({taken.task, 1 + more});
    return Taken{taken.task, static_cast<double>(helpers) / static_cast<double>(1 + more)};
  }
  return std::nullopt;
}

std::size_t UnitQueue::bytes() const {
  std::size_t bytes = held_bytes(physicals_, held_, touched_);
  for (const Physical& p : physicals_) bytes += held_bytes(p.free, p.waiting);
  return bytes;
}

UnitQueue::State UnitQueue::state() const {
  State state;
  for (const Physical& p : physicals_)
    if (p.units > 0) state.free.push_back(p.free), state.waiting.push_back(p.waiting);
  state.held = held_;
  return state;
}

void UnitQueue::resume(const State& state) {
  std::size_t i = 0;
  for (Physical& p : physicals_)
    if (p.units > 0) p.free = state.free[i], p.waiting = state.waiting[i], p.touched = false, ++i;
  held_ = state.held;
  touched_.clear();
}

}  // namespace unity
