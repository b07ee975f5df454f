// Lists of integers that are short almost always: sizes by dimension, places, list attributes.
#pragma once

#include <cstdint>

// GCC 12, inlining it, warns of memory that is not there.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overread"
#endif
#include <boost/container/small_vector.hpp>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace unity {

// Up to four are held in place. There is no operator<=>; a defaulted one of a class with such a member names its
// result.
using Integers = boost::container::small_vector<std::int64_t, 4>;

}  // namespace unity
