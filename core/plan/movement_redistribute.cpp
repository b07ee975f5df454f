// What devices that hold a value send to those that want it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/plan/movement.h"

namespace unity {

constexpr std::size_t kMostTransfers = 8'000'000;       // of one value, some 200 bytes each
constexpr std::size_t kMostTransfersOfFew = 1'000'000;  // for a score from few devices

// What redistribute() does where many devices hold a part each of what their group wants: without a transfer for each
// pair of them.
bool Movements::gather(PlacementIndex value, const std::vector<PieceRef>& sources, const BoxIndex& boxes,
                       const std::vector<Requirement>& open, std::vector<PieceIndex>& result) {
  if (sources.size() != open.size() || !boxes.on_grid()) return false;
  struct Group {
    std::map<DeviceId, std::pair<PieceIndex, std::size_t>>
        members;  // what each holds, and which requirement is its own
    std::int64_t elements = 0;
  };
  std::unordered_map<DeviceId, const PieceRef*> held;
  for (const PieceRef& ref : sources)
    if (!held.emplace(piece(ref.piece).device, &ref).second) return false;
  std::unordered_map<Key, Group, KeyHash> groups;  // by summand, copy and box
  std::unordered_set<std::int64_t> taken;          // copy, box
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Requirement& r = open[i];
    auto own = held.find(r.device);
    if (own == held.end()) return false;
    const PieceRef& ref = *own->second;
    const Piece& p = piece(ref.piece);
    std::int64_t box = boxes.numbers()[static_cast<std::size_t>(&ref - sources.data())];
    if (ref.partial != r.partial || p.box == r.box || !r.box.contains(p.box) ||
        !taken.insert((static_cast<std::int64_t>(r.partial) << 40) + (static_cast<std::int64_t>(p.copy) << 20) + box)
             .second)
      return false;
    held.erase(own);
    Group& group = groups[{p.copy, r.partial, r.box}];
    group.members.emplace(r.device, std::pair(ref.piece, i));
    group.elements += p.box.elements();
  }
  std::map<DeviceId, const Group*> in_order;
  for (const auto& [key, group] : groups) {
    if (group.elements != key.box.elements()) return false;
    in_order.emplace(group.members.begin()->first, &group);
  }
  for (const auto& [first, group] : in_order) {
    std::vector<PieceIndex> from, to;
    std::vector<Box> pieces;
    for (const auto& [device, move] : group->members) {
      const Requirement& r = open[move.second];
      PieceIndex target = result[move.second] = new_piece(value, device, r.box, r.partial, piece(move.first).copy);
      from.push_back(move.first), to.push_back(target);
      pieces.push_back(piece(move.first).box);
    }
    emit_collective(value, CollectiveKind::all_gather, std::move(from), std::move(to), std::move(pieces));
  }
  return true;
}

// Where as many devices want all of something as others hold a part of it (or several times as many): each gets a part,
// and they gather the rest from one another. Sent by every holder to everyone, it would leave these as often.
bool Movements::send_and_gather(PlacementIndex value, const std::vector<PieceRef>& sources, const BoxIndex& boxes,
                                const std::vector<Requirement>& open, std::vector<PieceIndex>& result) {
  if (!boxes.on_grid() || boxes.boxes().size() != sources.size() || open.size() % sources.size() != 0) return false;
  const Requirement& wanted = open[0];
  std::map<DeviceId, PieceIndex> holders;
  std::int64_t elements = 0;
  for (const PieceRef& ref : sources) {
    const Piece& p = piece(ref.piece);
    if (ref.partial != wanted.partial || !wanted.box.contains(p.box) || !holders.emplace(p.device, ref.piece).second)
      return false;
    elements += p.box.elements();
  }
  std::map<DeviceId, std::size_t> wanting;
  for (std::size_t i = 0; i < open.size(); ++i)
    if (open[i].partial != wanted.partial || open[i].box != wanted.box || holders.contains(open[i].device) ||
        !wanting.emplace(open[i].device, i).second)
      return false;
  if (elements != wanted.box.elements()) return false;
  for (auto next = wanting.begin(); next != wanting.end();) {
    std::vector<PieceRef> parts;
    std::vector<Box> part_boxes;
    std::vector<Requirement> group;
    std::vector<std::size_t> numbers;
    for (auto [from, source] : holders) {
      const Piece& p = piece(source);
      PieceIndex target = new_piece(value, next->first, p.box, wanted.partial, p.copy);
      emit_send(value, source, target, p.box);
      parts.push_back({target, wanted.partial, p.copy});
      part_boxes.push_back(p.box);
      group.push_back(open[next->second]);
      numbers.push_back(next->second);
      ++next;
    }
    std::vector<PieceIndex> gathered(group.size(), -1);
    UNITY_CHECK(gather(value, parts, BoxIndex(part_boxes), group, gathered), "{}: parts that can not be gathered",
                placement(value).name);
    for (std::size_t k = 0; k < group.size(); ++k) result[numbers[k]] = gathered[k];
  }
  return true;
}

// Which of several holders that are as near a device receives from, so that all of them send. Where those that hold
// something and those that want it are apart (two stages of a pipeline), the one at the same place among its own.
class Movements::Spread {
 public:
  Spread(Movements& movements, const std::vector<PieceRef>& sources, const std::vector<Requirement>& open)
      : devices_(static_cast<std::int64_t>(movements.topology_.device_count())) {
    for (const PieceRef& ref : sources) from_.take(movements.piece(ref.piece).device.value);
    for (const Requirement& r : open) to_.take(r.device.value);
  }
  // The less, the better.
  std::int64_t rank(DeviceId from, DeviceId to) const {
    if (from_.last >= to_.first && to_.last >= from_.first) return (from.value - to.value + devices_) % devices_;
    return std::abs((from.value - from_.first) * to_.count() - (to.value - to_.first) * from_.count());
  }

 private:
  struct Span {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
    void take(std::int64_t device) { first = std::min(first, device), last = std::max(last, device); }
    std::int64_t count() const { return last - first + 1; }
  };
  std::int64_t devices_;
  Span from_, to_;
};

void Movements::redistribute(PlacementIndex value, const std::vector<PieceRef>& sources,
                             const std::vector<Requirement>& open, std::vector<PieceIndex>& result) {
  using Local = std::pair<std::pair<DeviceId, int>, PieceIndex>;  // by device and summand
  std::vector<Local> local;
  for (const PieceRef& ref : sources) local.push_back({{piece(ref.piece).device, ref.partial}, ref.piece});
  std::stable_sort(local.begin(), local.end(), [](const Local& a, const Local& b) { return a.first < b.first; });
  std::vector<Transfer> transfers;
  std::vector<Box> held;
  for (const PieceRef& ref : sources) held.push_back(piece(ref.piece).box);
  const BoxIndex boxes(held);
  if (gather(value, sources, boxes, open, result) || send_and_gather(value, sources, boxes, open, result)) return;
  std::vector<std::vector<const PieceRef*>> holders(boxes.boxes().size());
  for (std::size_t k = 0; k < sources.size(); ++k)
    holders[static_cast<std::size_t>(boxes.numbers()[k])].push_back(&sources[k]);
  const Spread spread(*this, sources, open);
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Requirement& r = open[i];
    int own_copy = -1;
    const std::pair place(r.device, r.partial);
    auto begin = std::lower_bound(local.begin(), local.end(), place,
                                  [](const Local& a, const std::pair<DeviceId, int>& b) { return a.first < b; });
    auto end = std::find_if(begin, local.end(), [&](const Local& l) { return l.first != place; });
    if (begin != end) own_copy = piece(std::prev(end)->second).copy;
    PieceIndex around = -1;  // the first of its own that contains what is wanted
    if (std::cmp_greater(end - begin, kFewOfADevice)) {
      const PieceRef *same = nullptr, *first = nullptr;
      for (int number : boxes.meeting(r.box)) {
        const Box& box = boxes.boxes()[static_cast<std::size_t>(number)];
        if (!box.contains(r.box)) continue;
        for (const PieceRef* ref : holders[static_cast<std::size_t>(number)]) {
          if (ref->partial != r.partial || piece(ref->piece).device != r.device) continue;
          if (box == r.box) same = std::max(same, ref);
          first = first ? std::min(first, ref) : ref;
        }
      }
      if (same) result[i] = same->piece;
      if (first) around = first->piece;
    } else {
      for (auto own = begin; own != end; ++own)
        if (piece(own->second).box == r.box) result[i] = own->second;
      for (auto own = begin; own != end && around < 0; ++own)
        if (piece(own->second).box.contains(r.box)) around = own->second;
    }
    if (result[i] < 0 && around >= 0) {
      result[i] = new_piece(value, r.device, r.box, r.partial, own_copy);
      emit_local(value, around, result[i], r.box);
    }
    if (result[i] >= 0) continue;
    result[i] = new_piece(value, r.device, r.box, r.partial, std::max(own_copy, 0));
    // For every distinct box of the sources that meets the requirement, the best of its copies: on the same device,
    // else of the same copy as what this device holds, else nearest, else spread over devices.
    std::vector<std::pair<const Box*, PieceIndex>> best;
    for (int number : boxes.meeting(r.box)) {
      const Box& box = boxes.boxes()[static_cast<std::size_t>(number)];
      std::array<std::int64_t, 4> best_rank{};
      PieceIndex chosen = -1;
      for (const PieceRef* ref : holders[static_cast<std::size_t>(number)]) {
        if (ref->partial != r.partial) continue;
        const Piece& s = piece(ref->piece);
        std::array<std::int64_t, 4> rank = {s.device == r.device ? 0 : 1, s.copy == own_copy ? 0 : 1,
                                            -topology_.distance_level(s.device, r.device),
                                            spread.rank(s.device, r.device)};
        if (chosen < 0 || rank < best_rank) best_rank = rank, chosen = ref->piece;
      }
      if (chosen < 0) continue;
      best.emplace_back(&box, chosen);
    }
    std::sort(best.begin(), best.end(), [](const auto& x, const auto& y) { return BoxLess()(*x.first, *y.first); });
    // Where copies were added up apart, one may be in parts and another whole: then the parts are left out.
    auto within_another = [&](const Box& box) {
      return !boxes.on_grid() && std::any_of(best.begin(), best.end(), [&](const auto& other) {
        return other.first->elements() > box.elements() && !intersect(intersect(*other.first, box), r.box).empty();
      });
    };
    std::int64_t covered = 0;
    for (auto& [box, choice] : best) {
      if (within_another(*box)) continue;
      Box part = intersect(*box, r.box);
      covered += part.elements();
      transfers.push_back({choice, i, part});
    }
    if (transfers.size() > (blocks_.all() ? kMostTransfers : kMostTransfersOfFew))
      throw TooMany{placement(value).name, transfers.size()};
    UNITY_CHECK(covered == r.box.elements(), "{}: {} of {} required elements of {} are held", placement(value).name,
                covered, r.box.elements(), to_string(r.box));
  }
  if (transfers.empty()) return;

  // Devices that exchange something with one another form a component; each becomes one collective where it can.
  std::map<DeviceId, DeviceId> parent;
  auto find = [&](DeviceId d) {
    while (parent.try_emplace(d, d).first->second != d) d = parent[d];
    return d;
  };
  for (const Transfer& t : transfers) {
    DeviceId a = find(piece(t.source).device), b = find(open[t.requirement].device);
    if (a != b) parent[std::max(a, b)] = std::min(a, b);
  }
  std::map<DeviceId, std::vector<Transfer>> components;
  for (Transfer& t : transfers) components[find(open[t.requirement].device)].push_back(std::move(t));
  for (auto& [root, component] : components) emit_component(value, open, result, component);
}

void Movements::emit_component(PlacementIndex value, const std::vector<Requirement>& open,
                               const std::vector<PieceIndex>& targets, const std::vector<Transfer>& transfers) {
  std::map<DeviceId, std::set<PieceIndex>> sources_at;
  std::map<DeviceId, std::set<std::size_t>> requirements_at;
  std::set<DeviceId> senders, receivers, devices;
  for (const Transfer& t : transfers) {
    DeviceId from = piece(t.source).device, to = open[t.requirement].device;
    sources_at[from].insert(t.source);
    requirements_at[to].insert(t.requirement);
    devices.insert(from), devices.insert(to);
    if (from != to) senders.insert(from), receivers.insert(to);
  }
  bool one_each =
      std::all_of(sources_at.begin(), sources_at.end(), [](const auto& s) { return s.second.size() == 1; }) &&
      std::all_of(requirements_at.begin(), requirements_at.end(), [](const auto& r) { return r.second.size() == 1; });
  const Box& wanted = open[transfers[0].requirement].box;
  bool same_box = std::all_of(transfers.begin(), transfers.end(),
                              [&](const Transfer& t) { return open[t.requirement].box == wanted; });

  if (one_each && sources_at.size() == devices.size() && requirements_at.size() == devices.size()) {
    bool gather = same_box && transfers.size() == devices.size() * devices.size() &&
                  std::all_of(transfers.begin(), transfers.end(),
                              [&](const Transfer& t) { return piece(t.source).box == t.box; });
    std::vector<PieceIndex> from, to;
    std::map<DeviceId, std::int32_t> number;
    for (DeviceId d : devices) {
      number[d] = static_cast<std::int32_t>(from.size());
      from.push_back(*sources_at[d].begin());
      to.push_back(targets[*requirements_at[d].begin()]);
    }
    std::vector<Box> pieces;
    if (gather) {
      for (PieceIndex p : from) pieces.push_back(piece(p).box);
      return emit_collective(value, CollectiveKind::all_gather, from, to, pieces);
    }
    if (senders.size() == devices.size() && receivers.size() == devices.size()) {
      std::vector<Exchange> exchanges;
      for (const Transfer& t : transfers)
        exchanges.push_back({number[piece(t.source).device], number[open[t.requirement].device], t.box});
      for (std::size_t i = 0; i < from.size(); ++i) pieces.push_back(Box{});
      return emit_collective(value, CollectiveKind::all_to_all, from, to, pieces, exchanges);
    }
  }
  // One source to several devices that all want the same of it.
  if (same_box && transfers.size() >= 2 && requirements_at.size() == transfers.size() &&
      std::all_of(transfers.begin(), transfers.end(),
                  [&](const Transfer& t) { return t.source == transfers[0].source; })) {
    std::vector<PieceIndex> from(transfers.size() + 1, -1), to = {-1};
    from[0] = transfers[0].source;
    for (const Transfer& t : transfers) to.push_back(targets[t.requirement]);
    return emit_collective(value, CollectiveKind::broadcast, from, to, std::vector<Box>(to.size(), wanted));
  }
  for (const Transfer& t : transfers) {
    PieceIndex target = targets[t.requirement];
    if (piece(t.source).device == piece(target).device) {
      emit_local(value, t.source, target, t.box);
    } else {
      emit_send(value, t.source, target, t.box);
    }
  }
}

}  // namespace unity
