#include "simulator/devices/shared_compute.h"

#include <algorithm>
#include <cmath>

#include "simulator/engine/held_bytes.h"

namespace unity {

SharedCompute::SharedCompute(const Topology& topology, std::size_t communications)
    : devices_(topology.device_count()),
      shared_(topology.physical_devices.size()),
      physicals_(topology.physical_devices.size()),
      users_(topology.device_count() + communications) {
  std::vector<bool> profiled(physicals_.size()), interferes(physicals_.size());
  for (const Device& d : topology.devices) {
    physical_.push_back(d.physical);
    ++physicals_[d.physical].logical;
    interferes[d.physical] = interferes[d.physical] || topology.specs[d.spec].interference > 0;
    profiled[d.physical] = profiled[d.physical] || topology.specs[d.spec].profile;
  }
  for (std::size_t p = 0; p < physicals_.size(); ++p) {
    physicals_[p].units = topology.physical_devices[p].units;
    int logical = physicals_[p].logical;
    physicals_[p].share = topology.physical_devices[p].fair_share(logical);
    shared_[p] =
        logical > physicals_[p].units || physicals_[p].share > 1 || (logical > 1 && profiled[p]) || interferes[p];
  }
  if (std::find(interferes.begin(), interferes.end(), true) == interferes.end()) return;
  for (const Device& d : topology.devices) interference_.push_back(topology.specs[d.spec].interference);
  communicating_.resize(devices_);
}

std::size_t SharedCompute::bytes() const {
  std::size_t busy = 0;
  for (const Physical& physical : physicals_) busy += held_bytes(physical.busy);
  return busy + held_bytes(physical_, shared_, interference_, communicating_, physicals_, users_, touched_, changed_);
}

SharedCompute::State SharedCompute::state(std::span<const std::uint32_t> users, Picoseconds now) const {
  State state;
  std::vector<std::pair<std::size_t, std::uint32_t>> order;  // physical device and the place there; place
  for (std::uint32_t u : users) {
    const User& user = users_[u];
    const std::vector<std::uint32_t>& busy = physicals_[user.physical].busy;
    auto at = static_cast<std::size_t>(std::find(busy.begin(), busy.end(), u) - busy.begin());
    order.push_back({user.physical * users_.size() + at, static_cast<std::uint32_t>(state.users.size())});
    state.users.push_back(
        {user.remaining, user.rate, user.threads, user.most, now - user.since, user.end - now, user.physical});
  }
  std::sort(order.begin(), order.end());
  for (const auto& [at, place] : order) state.busy.push_back(place);
  return state;
}

void SharedCompute::resume(const State& state, std::span<const std::uint32_t> users, Picoseconds now) {
  for (std::size_t i = 0; i < users.size(); ++i) {
    const State::User& from = state.users[i];
    users_[users[i]] = {from.remaining, from.rate,      from.threads,    from.most,
                        from.physical,  now - from.age, now + from.left, users_[users[i]].version + 1};
  }
  for (std::uint32_t place : state.busy) physicals_[state.users[place].physical].busy.push_back(users[place]);
}

void SharedCompute::touch(std::size_t physical) {
  if (physicals_[physical].touched) return;
  physicals_[physical].touched = true;
  touched_.push_back(physical);
}

void SharedCompute::begin(std::uint32_t index, std::size_t physical, double threads, double most, double work,
                          Picoseconds now) {
  User& user = users_[index];
  user.remaining = work;
  user.rate = 0;
  user.threads = threads;
  user.most = most;
  user.physical = physical;
  user.since = now;
  ++user.version;
  physicals_[physical].busy.push_back(index);
  touch(physical);
}

std::uint32_t SharedCompute::start(DeviceId device, Picoseconds work, Picoseconds now) {
  std::uint32_t index = user(device);
  std::size_t physical = physical_[device.index()];
  double share = physicals_[physical].share;
  begin(index, physical, share, share, static_cast<double>(work.count), now);
  return index;
}

std::uint32_t SharedCompute::start_communication(std::size_t communication, std::size_t physical, Picoseconds alone,
                                                 Picoseconds now) {
  std::uint32_t index = user_of_communication(communication);
  begin(index, physical, 1, 1, static_cast<double>(alone.count), now);
  return index;
}

void SharedCompute::finish(std::uint32_t user) {
  std::erase(physicals_[users_[user].physical].busy, user);
  ++users_[user].version;
  touch(users_[user].physical);
}

void SharedCompute::communicates(const Communication& communication, bool begins) {
  if (interference_.empty()) return;
  for (const Participant& p : communication.participants) {
    communicating_[p.device.index()] += begins ? 1 : -1;
    touch(physical_[p.device.index()]);
  }
}

std::span<const std::uint32_t> SharedCompute::settle(Picoseconds now) {
  changed_.clear();
  for (std::size_t p : touched_) {
    Physical& physical = physicals_[p];
    physical.touched = false;
    double threads = 0;
    for (std::uint32_t u : physical.busy) threads += users_[u].threads;
    double of_thread = std::min(1.0, physical.units / threads);
    for (std::uint32_t u : physical.busy) {
      User& user = users_[u];
      double rate = user.most * of_thread;
      if (!communicating_.empty() && u < devices_ && communicating_[u] > 0) rate *= 1 - interference_[u];
      if (user.rate == rate) continue;
      user.remaining = std::max(0.0, user.remaining - user.rate * static_cast<double>((now - user.since).count));
      user.since = now;
      user.rate = rate;
      double left = std::ceil(user.remaining / rate - 1e-6);
      if (!(left + static_cast<double>(now.count) <= 9.2e18))
        throw_input_error("a task of {:.3g} s at a rate of {:.3g}: found an end after more than 106 days",
                          user.remaining * 1e-12, rate);
      user.end = now + Picoseconds{static_cast<std::int64_t>(left)};
      ++user.version;
      changed_.push_back(u);
    }
  }
  touched_.clear();
  return changed_;
}

}  // namespace unity
