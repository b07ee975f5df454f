#include <algorithm>

#include <catch2/catch.hpp>

#include "core/ops/box_index.h"
#include "tests/support/dice.h"

namespace unity::test {
namespace {

// The boxes of a tensor that is split into parts of any size; some are left out, some come twice.
std::vector<Box> parts(const Dims& dims, Dice& dice) {
  std::vector<Box> boxes = {whole_box(dims)};
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::vector<std::int64_t> cuts = {0, dims[d]};
    for (std::size_t n = dice.below(5); n > 0; --n)
      cuts.push_back(static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(dims[d]) + 1)));
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Box> finer;
    for (const Box& box : boxes)
      for (std::size_t c = 1; c < cuts.size(); ++c) {
        finer.push_back(box);
        finer.back().offset[d] = cuts[c - 1];
        finer.back().extent[d] = cuts[c] - cuts[c - 1];
      }
    boxes = std::move(finer);
  }
  std::vector<Box> some;
  for (const Box& box : boxes)
    for (std::size_t n = dice.below(4) == 0 ? dice.below(3) : 1; n > 0; --n) some.push_back(box);
  if (some.empty()) some.push_back(boxes[0]);
  return some;
}

Box any_box(const Dims& dims, Dice& dice) {
  Box box = whole_box(dims);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    box.offset[d] = static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(dims[d])));
    box.extent[d] = static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(dims[d] - box.offset[d]) + 1));
  }
  return box;
}

}  // namespace

TEST_CASE("an index of boxes finds those that meet a box") {
  const std::uint64_t seed = GENERATE(range(1, 201));
  CAPTURE(seed);
  Dice dice(seed);
  Dims dims;
  for (std::size_t rank = dice.below(4); rank > 0; --rank)
    dims.push_back(1 + static_cast<std::int64_t>(dice.below(12)));
  std::vector<Box> boxes = parts(dims, dice);
  // Some that overlap: then there is no grid.
  if (dice.below(3) == 0) boxes.push_back(any_box(dims, dice));
  BoxIndex index(boxes);
  REQUIRE(index.numbers().size() == boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i)
    CHECK(index.boxes()[static_cast<std::size_t>(index.numbers()[i])] == boxes[i]);
  for (int question = 0; question < 10; ++question) {
    Box box = any_box(dims, dice);
    CAPTURE(to_string(box));
    std::vector<int> met;
    for (std::size_t b = 0; b < index.boxes().size(); ++b)
      if (!intersect(index.boxes()[b], box).empty()) met.push_back(static_cast<int>(b));
    CHECK(index.meeting(box) == met);
    for (int b : met)
      CHECK(common_elements(index.boxes()[static_cast<std::size_t>(b)], box) ==
            intersect(index.boxes()[static_cast<std::size_t>(b)], box).elements());
  }
  if (index.on_grid())
    for (std::size_t a = 0; a < index.boxes().size(); ++a)
      for (std::size_t b = 0; b < a; ++b) CHECK(intersect(index.boxes()[a], index.boxes()[b]).empty());
}

TEST_CASE("an index of the parts of an evenly split tensor is a grid") {
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 6; ++j) boxes.push_back({{i * 2, j * 3}, {2, 3}});
  BoxIndex index(boxes);
  CHECK(index.on_grid());
  CHECK(index.meeting({{3, 5}, {2, 4}}) == std::vector<int>{7, 8, 13, 14});
}

}  // namespace unity::test
