#include "core/plan/overlap.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/hash.h"

namespace unity {
namespace {

constexpr int kSegmentsLater = 2;  // in which a gradient may come, for which what it is computed from is kept

// What is computed again, operators of the forward pass: in the place of its first use.
void delay_until_used(const std::vector<PooledTask>& tasks, std::vector<OverlapPlace>& places) {
  std::set<std::int32_t> forward;
  for (const PooledTask& t : tasks)
    if (t.task.kind == TaskKind::compute && t.task.phase == Phase::forward) forward.insert(t.task.op);
  auto again = [&](const Task& t) {
    return t.kind == TaskKind::compute && t.phase == Phase::backward && forward.contains(t.op);
  };
  std::vector<std::optional<OverlapPlace>> first_use(tasks.size());
  for (std::size_t i = tasks.size(); i-- > 0;) {
    if (again(tasks[i].task) && first_use[i]) places[i] = *first_use[i];
    for (std::size_t d : tasks[i].after)
      if (!first_use[d] || places[i] < *first_use[d]) first_use[d] = places[i];
  }
}

// By task: the micro-batch, counted on from iteration to iteration, of which it is, or the last of those that it needs.
std::vector<int> micro_batches(const std::vector<PooledTask>& tasks) {
  int count = 1;
  for (const PooledTask& t : tasks) count = std::max(count, t.task.micro + 1);
  std::vector<int> micro(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& t = tasks[i].task;
    micro[i] = t.iteration * count + t.micro;
    if (t.kind != TaskKind::compute)
      for (std::size_t d : tasks[i].after) micro[i] = std::max(micro[i], micro[d]);
  }
  return micro;
}

// By participant: whether it sends in an all-to-all in which it receives nothing.
std::vector<bool> only_send(const Communication& c) {
  std::vector<bool> sends(c.participants.size(), false), receives = sends;
  for (const Exchange& e : c.exchanges)
    sends[static_cast<std::size_t>(e.from)] = receives[static_cast<std::size_t>(e.to)] = true;
  for (std::size_t k = 0; k < sends.size(); ++k) sends[k] = sends[k] && !receives[k];
  return sends;
}

// What a device has in a segment of a micro-batch.
struct Segment {
  double communicated = 0;             // for later segments, and not hidden yet: in FLOPs that take as long
  bool sent = false;                   // to others that send nothing, such as the stage before
  std::vector<std::size_t> gradients;  // of weights, that no one has put behind a communication
};

// Gradients of weights go behind communications of their segment or of one of the next ones: the latest first, until
// they are as much work; all behind what is sent, for which other devices may wait.
void hide_communications(const Program& program, const std::vector<PooledTask>& tasks,
                         const std::vector<bool>& of_weights, std::vector<OverlapPlace>& places) {
  using Where = std::tuple<DeviceId, int, int>;  // device, micro-batch, segment
  struct WhereHash {
    std::size_t operator()(const Where& where) const {
      const auto& [device, micro, segment] = where;
      return combine(static_cast<Hash>(device.value) << 32 | static_cast<Hash>(micro), static_cast<Hash>(segment));
    }
  };
  std::unordered_map<Where, Segment, WhereHash> segments;
  const std::vector<int> micro_batch = micro_batches(tasks);
  auto at = [&](DeviceId device, std::size_t i) -> Segment& {
    return segments[{device, micro_batch[i], places[i].segment}];
  };
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& t = tasks[i].task;
    if (t.phase != Phase::backward) continue;
    if (t.kind == TaskKind::compute && of_weights[i]) at(t.device, i).gradients.push_back(i);
    if (t.kind != TaskKind::communicate || of_weights[i]) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    double each = static_cast<double>(communication_bytes(c).count) / static_cast<double>(c.participants.size());
    std::vector<bool> passes_on;
    if (!c.exchanges.empty()) passes_on = only_send(c);
    for (std::size_t k = 0; k < c.participants.size(); ++k) {
      Segment& segment = at(c.participants[k].device, i);
      segment.communicated += kFlopsPerByteSent * each;
      segment.sent = segment.sent || c.kind == CollectiveKind::send || (!passes_on.empty() && passes_on[k]);
    }
  }
  std::vector<std::pair<Where, Segment*>> last_first;
  for (auto& [where, segment] : segments) last_first.emplace_back(where, &segment);
  std::sort(last_first.begin(), last_first.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  // Each segment has its own first.
  for (int earlier = 0; earlier <= kSegmentsLater; ++earlier)
    for (const auto& [where, here] : last_first) {
      auto [device, micro, segment] = where;
      auto from = segments.find({device, micro, segment - earlier});
      if (from == segments.end()) continue;
      std::vector<std::size_t>& gradients = from->second.gradients;
      double& left = here->communicated;
      while (!gradients.empty() && (left > 0 || (here->sent && earlier == 0))) {
        const Task& t = tasks[gradients.back()].task;
        left -= about_work(t);
        places[gradients.back()].segment = segment, places[gradients.back()].behind = true;
        gradients.pop_back();
      }
    }
}

}  // namespace

std::vector<bool> gradients_of_weights(const std::vector<PooledTask>& tasks) {
  std::vector<bool> result(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) result[i] = tasks[i].task.phase == Phase::backward;
  for (std::size_t i = tasks.size(); i-- > 0;) {
    const Task& t = tasks[i].task;
    if (t.phase == Phase::update || (result[i] && t.kind != TaskKind::compute)) continue;
    for (std::size_t d : tasks[i].after) result[d] = false;
  }
  return result;
}

std::vector<OverlapPlace> overlap_places(const Program& program, const std::vector<PooledTask>& tasks, int at_once) {
  std::vector<bool> of_weights = gradients_of_weights(tasks);
  std::vector<OverlapPlace> places(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& t = tasks[i].task;
    OverlapPlace& place = places[i];
    for (std::size_t d : tasks[i].after) {
      bool communicated = tasks[d].task.kind == TaskKind::communicate && !of_weights[d];
      place.segment = std::max(place.segment, places[d].segment + (communicated ? 1 : 0));
    }
    if (t.kind == TaskKind::compute) place.micro = t.micro % at_once;
    for (std::size_t d : tasks[i].after) place = std::max(place, places[d]);
  }
  delay_until_used(tasks, places);
  hide_communications(program, tasks, of_weights, places);
  for (std::size_t i = 0; i < tasks.size(); ++i)
    for (std::size_t d : tasks[i].after) places[i] = std::max(places[i], places[d]);
  return places;
}

}  // namespace unity
