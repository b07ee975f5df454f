#include <catch2/catch.hpp>

#include "core/plan/pieces_in_words.h"

using namespace unity;

namespace {

Participant of(int device, Box piece) { return {DeviceId(device), BufferId(), BufferId(), std::move(piece)}; }

}  // namespace

TEST_CASE("what a communication moves is said with shapes and bytes") {
  Communication gather{.kind = CollectiveKind::all_gather};
  gather.participants = {of(0, {{0, 0}, {6, 4}}), of(1, {{6, 0}, {6, 4}})};
  CHECK(pieces_in_words(gather, DType::f32) == "2 x f32[6, 4] (192 B)");
  CHECK(pieces_in_words(gather, DType::bf16) == "2 x bf16[6, 4] (96 B)");
  gather.participants[1].piece.extent = {5, 4};
  CHECK(pieces_in_words(gather, DType::f32) == "f32[6, 4], f32[5, 4] (176 B)");
  // Everyone has the whole of what is reduced; two tensors in one call.
  Communication sum{.kind = CollectiveKind::all_reduce};
  sum.participants = {of(0, {{0, 0}, {6, 4}}), of(1, {{0, 0}, {6, 4}})};
  sum.joined = {{of(0, {{0}, {4}}), of(1, {{0}, {4}})}};
  CHECK(pieces_in_words(sum, DType::f32) == "f32[6, 4], f32[4] (112 B)");
  Communication exchange{.kind = CollectiveKind::all_to_all};
  for (int i = 1; i <= 6; ++i) exchange.exchanges.push_back({0, 1, {{0}, {i}}});
  CHECK(pieces_in_words(exchange, DType::f64) == "f64[1], f64[2], f64[3], f64[4] and 2 more (168 B)");
}
