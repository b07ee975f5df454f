// Movement where only some blocks of devices are lowered (device_blocks.h).

#include <map>
#include <utility>

#include "core/plan/movement.h"

namespace unity {

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

}  // namespace unity
