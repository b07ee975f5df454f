// Movement where only some blocks of devices are lowered (device_blocks.h).

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/plan/movement.h"

namespace unity {

bool Movements::within_block(PlacementIndex value, int sum, const std::vector<Requirement>& requirements) {
  const Met& known = met(value, sum);
  std::vector<const Requirement*> open;
  for (const Requirement& r : requirements)
    if (!known.met.contains({r.device.value, r.partial, r.box})) open.push_back(&r);
  if (open.empty()) return true;
  if (sum > 1) return false;
  std::unordered_map<DeviceId, std::vector<const PieceRef*>> held_on;
  for (const PieceRef& ref : placement(value).pieces)
    if (here(ref.piece)) held_on[piece(ref.piece).device].push_back(&ref);
  std::erase_if(open, [&](const Requirement* r) {
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
  for (Held& h : held) {
    PieceIndex piece = add_piece({h.device, std::move(h.box), h.partial, h.copy, {}, {}, needs_gradient, {}});
    placement(value).pieces.push_back({piece, h.partial, h.copy});
  }
  return true;
}

void Movements::know_elsewhere(PlacementIndex value) {
  if (blocks_.all()) return;
  const std::vector<PieceRef>& pieces = placement(value).pieces;
  bool known = std::any_of(pieces.begin(), pieces.end(), [&](const PieceRef& ref) { return !here(ref.piece); });
  if (!known && !add_elsewhere(value)) throw Unclear{};
}

void Movements::check_blocks(const Communication& communication) const {
  if (blocks_.all()) return;
  std::map<int, int> members;  // by block
  for (const Participant& p : communication.participants) ++members[blocks_.block(p.device)];
  if (members.size() == 1) return;
  for (std::size_t b = 0; b < blocks_.stands_for.size(); ++b) {
    auto model = members.find(blocks_.stands_for[b]), own = members.find(static_cast<int>(b));
    int wanted = model == members.end() ? 0 : model->second, found = own == members.end() ? 0 : own->second;
    if (wanted != found) throw Unclear{};
  }
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
