// Texts of people are UTF-8: names in them get into JSON files, which hold nothing else.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace unity {

// The position of the first byte that is part of no character in UTF-8 (RFC 3629: no surrogates, none beyond U+10FFFF,
// none longer than need be).
std::optional<std::size_t> first_not_utf8(std::string_view text);

}  // namespace unity
