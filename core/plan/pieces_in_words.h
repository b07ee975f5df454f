// What a communication moves, for messages.
#pragma once

#include <string>

#include "core/plan/program.h"

namespace unity {

// Its pieces, of all parts, held in that type: "2 x f32[6, 4], f32[4] (208 B)". Equal ones in a row are counted, and of
// many different ones the first named.
std::string pieces_in_words(const Communication& communication, DType held);

}  // namespace unity
