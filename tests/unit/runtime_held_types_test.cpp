#include <catch2/catch.hpp>

#include "runtime/held_types.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

TEST_CASE("in bf16, what travels in one communication is held in one type") {
  // A matrix and a vector, from device 0 to device 1: alone in bf16 and f32, together in f32.
  for (bool together : {false, true}) {
    CAPTURE(together);
    ProgramByHand h;
    const std::int32_t matrix = h.tensor("matrix", {4, 2}), vector = h.tensor("vector", {4});
    auto send = [&](std::int32_t tensor, const Box& box) {
      return std::vector<Participant>{{DeviceId(0), h.buffer(tensor, 0, box), {}, box},
                                      {DeviceId(1), {}, h.buffer(tensor, 1, box), box}};
    };
    std::vector<Participant> of_matrix = send(matrix, whole_box({4, 2})), of_vector = send(vector, whole_box({4}));
    Communication c{.kind = CollectiveKind::send, .participants = of_matrix};
    if (together) c.joined = {of_vector};
    h.communicate(c, {});
    if (!together) h.communicate({.kind = CollectiveKind::send, .participants = of_vector}, {});
    const std::vector<DType> types = held_types(h.program, Precision::bf16);
    CHECK(types[static_cast<std::size_t>(vector)] == DType::f32);
    CHECK(types[static_cast<std::size_t>(matrix)] == (together ? DType::f32 : DType::bf16));
    CHECK(held_types(h.program, Precision::f64)[static_cast<std::size_t>(vector)] == DType::f64);
  }
}
