#include "core/plan/pieces_in_words.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace unity {

std::string pieces_in_words(const Communication& c, DType held) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::pair<std::string, int>> pieces;
  auto add = [&](const Box& box) {
    std::string shape = fmt::format("{}[{}]", to_string(held), fmt::join(box.extent, ", "));
    if (!pieces.empty() && pieces.back().first == shape)
      ++pieces.back().second;
    else
      pieces.emplace_back(std::move(shape), 1);
  };
  const bool each = c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::reduce_scatter;
  for (const Exchange& e : c.exchanges) add(e.box);
  for (std::size_t i = 0; i < c.part_count() && c.kind != CollectiveKind::all_to_all; ++i)
    for (const Participant& p : c.part(i)) {
      add(p.piece);
      if (!each) break;
    }
  std::string text;
  for (std::size_t i = 0; i < std::min(pieces.size(), kNamed); ++i)
    text += fmt::format("{}{}{}", i > 0 ? ", " : "", pieces[i].second > 1 ? fmt::format("{} x ", pieces[i].second) : "",
                        pieces[i].first);
  if (pieces.size() > kNamed) text += fmt::format(" and {} more", pieces.size() - kNamed);
  return fmt::format("{} ({})", text, to_string(Bytes{elements_moved(c) * size_of(held)}));
}

}  // namespace unity
