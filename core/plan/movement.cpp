#include "core/plan/movement.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace unity {

std::size_t Movements::KeyHash::operator()(const Key& key) const {
  return combine(static_cast<Hash>(key.device) << 32 | static_cast<std::uint32_t>(key.partial), BoxHash()(key.box));
}

PlacementIndex Movements::add_placement(Placement placement) {
  placements_.push_back(std::move(placement));
  return static_cast<PlacementIndex>(placements_.size()) - 1;
}

PieceIndex Movements::add_piece(Piece piece) {
  pieces_.push_back(std::move(piece));
  return static_cast<PieceIndex>(pieces_.size()) - 1;
}

Movements::Met& Movements::met(PlacementIndex value, int sum) {
  return met_[static_cast<std::int64_t>(value) << 24 | static_cast<std::int64_t>(sum)];
}

PieceIndex Movements::new_piece(PlacementIndex value, DeviceId device, const Box& box, int partial, int copy) {
  const Placement& p = placement(value);
  BufferId buffer;
  if (here(device)) buffer = emitter_.buffer(p.tensor, device, box, BufferCategory::activation, partial);
  return add_piece({device, box, partial, copy, buffer, {}, p.needs_gradient, {}});
}

std::vector<PieceIndex> Movements::provide(PlacementIndex value, int sum,
                                           const std::vector<Requirement>& requirements) {
  Met& known = met(value, sum);
  std::vector<PieceIndex> result(requirements.size(), -1);
  std::vector<Requirement> open;
  std::unordered_map<Key, std::size_t, KeyHash> open_index;
  for (const Requirement& r : requirements) {
    Key key{r.device.value, r.partial, r.box};
    if (!known.met.contains(key) && open_index.emplace(key, open.size()).second) open.push_back(r);
  }
  if (!open.empty()) {
    if (std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.value == value; }))
      emit_waiting();
    std::vector<PieceIndex> provided(open.size(), -1);
    if (sum == 1) {
      redistribute(value, placement(value).pieces, open, provided);
    } else if (!add_up_everywhere(value, sum, open, known.summed, provided)) {
      add_up_partials(value, sum, open, known.summed);
      redistribute(value, known.summed, open, provided);
    }
    for (std::size_t i = 0; i < open.size(); ++i)
      known.met.emplace(Key{open[i].device.value, open[i].partial, open[i].box}, provided[i]);
  }
  for (std::size_t i = 0; i < requirements.size(); ++i)
    result[i] = known.met.at({requirements[i].device.value, requirements[i].partial, requirements[i].box});
  return result;
}

// What add_up_partials() and redistribute() do where each device holds a summand of one box, and wants that box.
bool Movements::add_up_everywhere(PlacementIndex value, int sum, const std::vector<Requirement>& open,
                                  std::vector<PieceRef>& summed, std::vector<PieceIndex>& result) {
  const std::vector<PieceRef>& held = placement(value).pieces;
  if (!summed.empty() || held.size() != open.size() || held.size() < 2) return false;
  const Box box = piece(held[0].piece).box;
  struct Member {
    int copy;
    DeviceId device;
    PieceIndex piece;
    std::size_t requirement;
  };
  std::vector<Member> members;
  std::vector<std::pair<DeviceId, std::size_t>> wanting;  // requirements by device
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Piece& p = piece(held[i].piece);
    if (held[i].partial / sum != 0 || open[i].partial != 0 || p.box != box || open[i].box != box) return false;
    members.push_back({held[i].copy, p.device, held[i].piece, 0});
    wanting.emplace_back(open[i].device, i);
  }
  std::sort(wanting.begin(), wanting.end());
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.device < b.device; });
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].device != wanting[i].first || (i > 0 && wanting[i].first == wanting[i - 1].first)) return false;
    members[i].requirement = wanting[i].second;
  }
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.copy < b.copy; });
  for (auto begin = members.begin(), end = begin; begin != members.end(); begin = end) {
    end = std::find_if(begin, members.end(), [&](const Member& m) { return m.copy != begin->copy; });
    if (end - begin < 2) return false;
  }
  for (auto begin = members.begin(), end = begin; begin != members.end(); begin = end) {
    end = std::find_if(begin, members.end(), [&](const Member& m) { return m.copy != begin->copy; });
    const int copy = piece(begin->piece).copy;
    std::vector<PieceIndex> from, to;
    for (auto m = begin; m != end; ++m) {
      PieceIndex target = result[m->requirement] = new_piece(value, m->device, box, 0, copy);
      from.push_back(m->piece), to.push_back(target);
      summed.push_back({target, 0, copy});
    }
    std::vector<Box> pieces(from.size(), box);
    emit_collective(value, CollectiveKind::all_reduce, std::move(from), std::move(to), std::move(pieces), {},
                    placement(value).monoid);
  }
  return true;
}

// Adds up groups of `sum` summands, box by box of the sources, choosing per box the collective that suits who needs it.
void Movements::add_up_partials(PlacementIndex value, int sum, const std::vector<Requirement>& open,
                                std::vector<PieceRef>& summed) {
  struct Group {
    std::map<int, std::vector<PieceIndex>> by_copy;
  };
  const Monoid monoid = placement(value).monoid;
  std::map<std::pair<int, Box>, Group, decltype([](const auto& a, const auto& b) {
             return a.first != b.first ? a.first < b.first : BoxLess()(a.second, b.second);
           })>
      groups;
  for (const PieceRef& ref : placement(value).pieces) {
    const Piece& p = piece(ref.piece);
    groups[{ref.partial / sum, p.box}].by_copy[ref.copy].push_back(ref.piece);
  }
  std::vector<Box> wanted_boxes, group_boxes;
  for (const Requirement& r : open) wanted_boxes.push_back(r.box);
  for (const auto& [key, group] : groups) group_boxes.push_back(key.second);
  const BoxIndex wanted_index(wanted_boxes);
  std::vector<std::vector<std::size_t>> wanting(wanted_index.boxes().size());
  for (std::size_t i = 0; i < open.size(); ++i)
    wanting[static_cast<std::size_t>(wanted_index.numbers()[i])].push_back(i);
  // Where no two groups meet, what one of them added up is nothing to the others.
  const bool apart = BoxIndex(group_boxes).on_grid();
  const std::size_t before = summed.size();
  for (auto& [key, group] : groups) {
    const auto& [partial, box] = key;
    auto known = apart ? summed.begin() + static_cast<std::ptrdiff_t>(before) : summed.end();
    bool done = std::any_of(summed.begin(), known, [&](const PieceRef& ref) {
      return ref.partial == partial && !intersect(piece(ref.piece).box, box).empty();
    });
    if (done) continue;
    // One member per device: summands that share a device are added up there first.
    std::vector<std::vector<PieceIndex>> members_of_copy;
    for (auto& [copy, pieces] : group.by_copy) {
      std::map<DeviceId, std::vector<PieceIndex>> by_device;
      for (PieceIndex p : pieces) by_device[piece(p).device].push_back(p);
      std::vector<PieceIndex> members;
      for (auto& [device, local] : by_device) {
        if (local.size() == 1) {
          members.push_back(local[0]);
          continue;
        }
        PieceIndex target = new_piece(value, device, box, partial, copy);
        add_up_here(value, local, target);
        members.push_back(target);
      }
      members_of_copy.push_back(std::move(members));
    }
    // Each requirement is served by the copy that its device is a member of, else by one in turn.
    std::vector<std::vector<const Requirement*>> wanted(members_of_copy.size());
    std::map<DeviceId, std::size_t> copy_at;
    for (std::size_t c = 0; c < members_of_copy.size(); ++c)
      for (PieceIndex m : members_of_copy[c]) copy_at.try_emplace(piece(m).device, c);
    std::vector<std::size_t> meeting;
    for (int number : wanted_index.meeting(box)) {
      const std::vector<std::size_t>& more = wanting[static_cast<std::size_t>(number)];
      meeting.insert(meeting.end(), more.begin(), more.end());
    }
    std::sort(meeting.begin(), meeting.end());
    std::size_t turn = 0;
    for (std::size_t i : meeting) {
      const Requirement& r = open[i];
      if (r.partial != partial) continue;
      auto member = copy_at.find(r.device);
      wanted[member != copy_at.end() ? member->second : turn++ % members_of_copy.size()].push_back(&r);
    }
    for (std::size_t c = 0; c < members_of_copy.size(); ++c) {
      if (wanted[c].empty()) continue;
      const std::vector<PieceIndex>& members = members_of_copy[c];
      int copy = piece(members[0]).copy;
      if (members.size() == 1) {
        summed.push_back({members[0], partial, copy});
        continue;
      }
      std::map<DeviceId, std::vector<Box>> inside;  // what members need of this box
      std::set<DeviceId> devices;
      for (PieceIndex m : members) devices.insert(piece(m).device);
      for (const Requirement* r : wanted[c])
        if (devices.contains(r->device)) inside[r->device].push_back(intersect(r->box, box));
      bool scattered = inside.size() == members.size();
      std::int64_t covered = 0;
      std::vector<Box> first_boxes;
      for (auto& [device, boxes] : inside) first_boxes.push_back(boxes[0]);
      BoxIndex firsts(first_boxes);
      bool disjoint = firsts.on_grid() && firsts.boxes().size() == first_boxes.size();
      for (auto& [device, boxes] : inside) {
        scattered = scattered && boxes.size() == 1;
        covered += boxes[0].elements();
        if (disjoint || !scattered) continue;
        for (auto& [other, others] : inside)
          if (other != device && !intersect(boxes[0], others[0]).empty()) scattered = false;
      }
      scattered = scattered && covered == box.elements();
      std::vector<PieceIndex> targets(members.size(), -1);
      std::vector<Box> pieces(members.size(), box);
      if (scattered) {
        for (std::size_t i = 0; i < members.size(); ++i) {
          pieces[i] = inside[piece(members[i]).device][0];
          targets[i] = new_piece(value, piece(members[i]).device, pieces[i], partial, copy);
        }
        emit_collective(value, CollectiveKind::reduce_scatter, members, targets, pieces, {}, monoid);
      } else if (inside.size() >= 2) {
        for (std::size_t i = 0; i < members.size(); ++i)
          targets[i] = new_piece(value, piece(members[i]).device, box, partial, copy);
        emit_collective(value, CollectiveKind::all_reduce, members, targets, pieces, {}, monoid);
      } else {
        std::vector<PieceIndex> ordered = members;  // the root comes first
        if (!inside.empty())
          std::stable_partition(ordered.begin(), ordered.end(),
                                [&](PieceIndex m) { return piece(m).device == inside.begin()->first; });
        targets[0] = new_piece(value, piece(ordered[0]).device, box, partial, copy);
        emit_collective(value, CollectiveKind::reduce, ordered, targets, pieces, {}, monoid);
      }
      for (PieceIndex t : targets)
        if (t >= 0) summed.push_back({t, partial, copy});
    }
  }
}

// Summands of one box on one device: target = their sum, or their maximum.
void Movements::add_up_here(PlacementIndex value, const std::vector<PieceIndex>& summands, PieceIndex target) {
  if (!here(target)) return;
  const Box box = piece(target).box;
  if (placement(value).monoid == Monoid::sum) {
    for (PieceIndex s : summands) {
      TaskList after = piece(s).writers;
      append(after, piece(target).writers);
      piece(target).writers = {s == summands[0]
                                   ? emitter_.copy(piece(s).buffer, piece(target).buffer, box, after)
                                   : emitter_.accumulate(piece(s).buffer, piece(target).buffer, box, after)};
    }
  } else {
    if (maximum_ < 0) {
      maximum_ = static_cast<std::int32_t>(emitter_.program().ops.size());
      emitter_.program().ops.push_back({&get_operator("maximum"), {}, {}, "largest", 2, {false, false}});
    }
    BufferId largest = piece(summands[0]).buffer;
    TaskList after = piece(summands[0]).writers;
    for (std::size_t i = 1; i < summands.size(); ++i) {
      append(after, piece(summands[i]).writers);
      BufferId next = i + 1 == summands.size() ? piece(target).buffer
                                               : emitter_.buffer(placement(value).tensor, piece(target).device, box,
                                                                 BufferCategory::activation, piece(target).partial);
      after = {emitter_.compute(maximum_, piece(target).device, {largest, piece(summands[i]).buffer}, {next}, after,
                                static_cast<double>(box.elements()))};
      largest = next;
    }
    piece(target).writers = after;
  }
  movements_.push_back({Movement::Kind::add_up, {}, summands, {target}, {box}, {}, value});
}

void Movements::emit_local(PlacementIndex value, PieceIndex source, PieceIndex target, const Box& box) {
  if (!here(target)) return;
  piece(target).writers.push_back(
      emitter_.copy(piece(source).buffer, piece(target).buffer, box, piece(source).writers));
  movements_.push_back({Movement::Kind::local, {}, {source}, {target}, {box}, {}, value});
}

void Movements::emit_send(PlacementIndex value, PieceIndex source, PieceIndex target, const Box& box) {
  if (in_rounds_)
    waiting_.push_back({value, source, target, box});
  else
    emit_collective(value, CollectiveKind::send, {source, -1}, {-1, target}, {box, box});
}

void Movements::end_rounds() {
  emit_waiting();
  in_rounds_ = false;
}

void Movements::emit_waiting() {
  if (waiting_.empty()) return;
  std::vector<Waiting> sends = std::exchange(waiting_, {});
  bool of_one_value =
      std::all_of(sends.begin(), sends.end(), [&](const Waiting& w) { return w.value == sends[0].value; });
  std::vector<std::size_t> round(sends.size(), 0), order(sends.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!of_one_value) {
    // The first round in which neither device is busy: of an edge colouring, at most twice as many as are needed.
    std::unordered_map<std::int32_t, std::vector<std::uint64_t>> busy;  // by device: a bit for each round
    for (std::size_t i = 0; i < sends.size(); ++i) {
      auto& from = busy[piece(sends[i].source).device.value];
      auto& to = busy[piece(sends[i].target).device.value];
      for (std::size_t word = 0;; ++word) {
        if (from.size() <= word) from.resize(word + 1, 0);
        if (to.size() <= word) to.resize(word + 1, 0);
        std::uint64_t both = from[word] | to[word];
        if (~both == 0) continue;
        int bit = std::countr_one(both);
        from[word] |= std::uint64_t{1} << bit, to[word] |= std::uint64_t{1} << bit;
        round[i] = word * 64 + static_cast<std::size_t>(bit);
        break;
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return round[a] < round[b]; });
  }
  for (std::size_t i : order) {
    const Waiting& w = sends[i];
    emit_collective(w.value, CollectiveKind::send, {w.source, -1}, {-1, w.target}, {w.box, w.box});
  }
}

void Movements::emit_collective(PlacementIndex value, CollectiveKind kind, std::vector<PieceIndex> sources,
                                std::vector<PieceIndex> targets, std::vector<Box> pieces,
                                std::vector<Exchange> exchanges, Monoid monoid) {
  Communication c{.kind = kind,
                  .monoid = monoid,
                  .exchanges = exchanges,
                  .dtype = placement(value).dtype,
                  .name = placement(value).name};
  emit_waiting();
  if (!blocks_.all() && !takes_part(value, kind, sources, targets, pieces)) return;
  TaskList after;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Participant p;
    p.piece = pieces[i];
    if (sources[i] >= 0) {
      p.device = piece(sources[i]).device, p.send = piece(sources[i]).buffer;
      append(after, piece(sources[i]).writers);
    }
    if (targets[i] >= 0) p.device = piece(targets[i]).device, p.receive = piece(targets[i]).buffer;
    c.participants.push_back(std::move(p));
  }
  TaskId task = emitter_.communicate(std::move(c), after);
  for (PieceIndex t : targets)
    if (t >= 0) piece(t).writers.push_back(task);
  movements_.push_back({Movement::Kind::collective, kind, std::move(sources), std::move(targets), std::move(pieces),
                        std::move(exchanges), value});
}

}  // namespace unity
