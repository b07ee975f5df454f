// Memory that vectors take.
#pragma once

#include <cstddef>

namespace unity {

template <class... Vectors>
std::size_t held_bytes(const Vectors&... vectors) {
  return (std::size_t{0} + ... + (vectors.capacity() * sizeof(typename Vectors::value_type)));
}

}  // namespace unity
