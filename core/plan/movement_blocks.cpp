// Movement where only some blocks of devices are lowered (device_blocks.h).

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/plan/movement.h"

namespace unity {

constexpr double kNearlyEqual = 1.01;

bool Movements::within_block(PlacementIndex value, int sum, const std::vector<Requirement>& requirements) {
  const Met& known = met(value, sum);
  std::vector<const Requirement*> open;
  for (const Requirement& r : requirements)
    if (!known.met.contains({r.device.value, r.partial, r.box})) open.push_back(&r);
  if (open.empty()) return true;
  if (sum > 1) return false;
  std::unordered_map<DeviceId, std::vector<const PieceRef*>> held_on;
  std::size_t count = 0;
  for (const PieceRef& ref : placement(value).pieces)
    if (here(ref.piece)) held_on[piece(ref.piece).device].push_back(&ref), ++count;
  std::unordered_set<Key, KeyHash> held_so;  // where devices hold many pieces, as in micro-batches
  if (count > kFewOfADevice * held_on.size())
    for (const auto& [device, refs] : held_on)
      for (const PieceRef* ref : refs) held_so.insert({device.value, ref->partial, piece(ref->piece).box});
  std::erase_if(open, [&](const Requirement* r) {
    if (held_so.contains({r->device.value, r->partial, r->box})) return true;
    return std::any_of(held_on[r->device].begin(), held_on[r->device].end(), [&](const PieceRef* ref) {
      return ref->partial == r->partial && piece(ref->piece).box.contains(r->box);
    });
  });
  std::map<std::pair<int, int>, BoxIndex> in_block;  // by block and summand
  for (const Requirement* r : open) {
    std::pair key(blocks_.block(r->device), r->partial);
    auto held = in_block.find(key);
    if (held == in_block.end()) {
      std::vector<Box> boxes;
      for (int d = key.first * blocks_.size; d < (key.first + 1) * blocks_.size; ++d)
        for (const PieceRef* ref : held_on[DeviceId(d)])
          if (ref->partial == r->partial) boxes.push_back(piece(ref->piece).box);
      held = in_block.emplace(key, BoxIndex(boxes)).first;
    }
    std::int64_t covered = 0;
    for (int number : held->second.meeting(r->box))
      covered += common_elements(held->second.boxes()[static_cast<std::size_t>(number)], r->box);
    if (covered != r->box.elements()) return false;
  }
  return true;
}

bool Movements::add_elsewhere(PlacementIndex value) {
  if (!placement(value).elsewhere) return false;
  std::vector<Held> held = std::exchange(placement(value).elsewhere, nullptr)();
  bool needs_gradient = placement(value).needs_gradient;
  placement(value).known_elsewhere = true;
  for (Held& h : held) {
    PieceIndex piece = add_piece({h.device, std::move(h.box), h.partial, h.copy, {}, {}, needs_gradient, {}});
    placement(value).pieces.push_back({piece, h.partial, h.copy});
  }
  return true;
}

void Movements::know_elsewhere(PlacementIndex value) {
  if (blocks_.all()) return;
  if (!placement(value).known_elsewhere && !add_elsewhere(value)) throw Unclear{};
}

bool Movements::all_alike_join(const std::vector<DeviceId>& devices) const {
  const int first = blocks_.block(devices[0]);
  if (std::all_of(devices.begin(), devices.end(), [&](DeviceId d) { return blocks_.block(d) == first; })) return true;
  // Not even one device of each.
  if (alike_[static_cast<std::size_t>(blocks_.lowered(devices[0]))] > static_cast<int>(devices.size())) return false;
  std::vector<int> members(blocks_.stands_for.size(), 0);
  for (DeviceId d : devices) ++members[static_cast<std::size_t>(blocks_.block(d))];
  for (std::size_t b = 0; b < members.size(); ++b)
    if (members[b] != members[static_cast<std::size_t>(blocks_.stands_for[b])]) return false;
  return true;
}

void Movements::check_blocks(const Communication& communication) const {
  if (blocks_.all()) return;
  std::vector<DeviceId> devices;
  for (const Participant& p : communication.participants) devices.push_back(p.device);
  if (!all_alike_join(devices)) throw Unclear{};
}

// Whether a communication is to be emitted: lowered devices are in it.
bool Movements::takes_part(PlacementIndex value, CollectiveKind kind, const std::vector<PieceIndex>& sources,
                           const std::vector<PieceIndex>& targets, const std::vector<Box>& pieces) {
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < sources.size(); ++i)
    devices.push_back(piece(sources[i] >= 0 ? sources[i] : targets[i]).device);
  if (!all_alike_join(devices)) {
    Hash what = combine(mix(static_cast<Hash>(value)), static_cast<Hash>(kind));
    std::int64_t elements = 0;
    for (const Box& box : pieces) elements += box.elements();
    note_crossing(what, elements, devices);
    auto lowered = std::count_if(devices.begin(), devices.end(), [&](DeviceId d) { return here(d); });
    if (lowered != 0 && lowered != static_cast<std::ptrdiff_t>(devices.size())) throw Unclear{};
    return lowered != 0;
  }
  auto lowered = [&](PieceIndex p) { return p >= 0 && here(p); };
  bool sends = std::any_of(sources.begin(), sources.end(), lowered);
  bool receives = std::any_of(targets.begin(), targets.end(), lowered);
  if (!sends && !receives) return false;
  // Lowered devices have to have a part on both sides, or the other side's time is not known.
  bool root = kind == CollectiveKind::reduce || kind == CollectiveKind::broadcast;
  if (!sends || !receives || (root && !here(sources[0]))) throw Unclear{};
  return true;
}

void Movements::note_crossing(Hash what, std::int64_t elements, const std::vector<DeviceId>& devices) {
  if (crossings_checked_) throw Unclear{};
  for (DeviceId d : devices)
    what = combine(what, static_cast<Hash>(blocks_.lowered(d) * blocks_.size + d.value % blocks_.size));
  auto [crossing, first] = crossings_.try_emplace(what, Crossing{{}, elements, elements});
  ++crossing->second.times[blocks_.block(devices[0])];
  crossing->second.least = std::min(crossing->second.least, elements);
  crossing->second.most = std::max(crossing->second.most, elements);
  for (DeviceId a : devices)
    for (DeviceId b : devices) {
      if (blocks_.block(a) == blocks_.block(b)) continue;
      auto [partner, fresh] = partners_.try_emplace({blocks_.block(a), blocks_.lowered(b)}, blocks_.block(b));
      if (partner->second != blocks_.block(b)) throw Unclear{};
      crossing_.emplace(a, b);
    }
}

void Movements::check_crossings() {
  crossings_checked_ = true;
  for (const auto& [what, crossing] : crossings_) {
    const std::map<int, int>& times = crossing.times;
    int kind = blocks_.stands_for[static_cast<std::size_t>(times.begin()->first)];
    if (static_cast<int>(times.size()) != alike_[static_cast<std::size_t>(kind)]) throw Unclear{};
    for (const auto& [block, count] : times)
      if (count != times.begin()->second) throw Unclear{};
    // Parts of weights may differ by an element, or a row.
    if (static_cast<double>(crossing.most) > kNearlyEqual * static_cast<double>(crossing.least)) throw Unclear{};
  }
  if (!crossings_.empty()) check_links();
}

// What the lowered blocks exchange meets on each link what the others exchange on the links in its place.
void Movements::check_links() const {
  auto lowered = [&](DeviceId d) { return DeviceId(blocks_.lowered(d) * blocks_.size + d.value % blocks_.size); };
  std::unordered_map<LinkId, LinkId> model;
  std::unordered_map<LinkId, Hash> used;  // by what: equal when it is the same, in any order
  for (auto [from, to] : crossing_) {
    DeviceId a = lowered(from), b = lowered(to);
    std::vector<LinkId> own = topology_.route(from, to), like = topology_.route(a, b);
    if (own.size() != like.size()) throw Unclear{};
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Link &x = topology_.links[own[i].index()], &y = topology_.links[like[i].index()];
      if (x.bandwidth.rate != y.bandwidth.rate || x.latency != y.latency) throw Unclear{};
      if (model.try_emplace(own[i], like[i]).first->second != like[i]) throw Unclear{};
      used[own[i]] += combine(combine(mix(static_cast<Hash>(a.value)), static_cast<Hash>(b.value)), i);
      auto owner = blocks_.owners->find(own[i]), owner_like = blocks_.owners->find(like[i]);
      bool owned = owner != blocks_.owners->end();
      if (owned != (owner_like != blocks_.owners->end())) throw Unclear{};
      if (owned && blocks_.stands_for[static_cast<std::size_t>(owner->second)] != owner_like->second) throw Unclear{};
    }
  }
  for (const auto& [link, like] : model)
    if (used.at(link) != used.at(like)) throw Unclear{};
}

void Movements::check_natural_order(const TaskGrid& parts, const Dims& dims) const {
  if (blocks_.all()) return;
  auto devices = static_cast<int>(topology_.device_count());
  int count = task_count(parts);
  if (parts.empty() || count != devices || blocks_.size % (count / parts[0].degree) != 0) throw Unclear{};
  if (parts[0].kind == GridDim::Kind::axis && dims[static_cast<std::size_t>(parts[0].axis)] % parts[0].degree != 0)
    throw Unclear{};
}

}  // namespace unity
