// Lists of integers that are short almost always: sizes by dimension, places, list attributes.
#pragma once

#include <cstdint>

#include <absl/container/inlined_vector.h>

namespace unity {

// Up to four are held in place, and copied at once. There is no operator<=>; a defaulted one of a class with such a
// member names its result.
using Integers = absl::InlinedVector<std::int64_t, 4>;

}  // namespace unity
