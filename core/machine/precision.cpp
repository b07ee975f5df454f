#include "core/machine/precision.h"

#include <array>

#include "core/base/error.h"

namespace unity {
namespace {

constexpr std::array<std::string_view, 4> kPrecisions = {"f32", "f64", "tf32", "bf16"};

}  // namespace

std::string_view to_string(Precision precision) { return kPrecisions[static_cast<std::size_t>(precision)]; }

Precision parse_precision(std::string_view text, std::string_view what) {
  for (std::size_t i = 0; i < kPrecisions.size(); ++i)
    if (kPrecisions[i] == text) return static_cast<Precision>(i);
  throw_input_error("{}: found '{}', expected {}", what, text, fmt::join(kPrecisions, ", "));
}

}  // namespace unity
