// In which precision a program runs: what its f32 tensors are held and computed in.
#pragma once

#include <cstdint>
#include <string_view>

namespace unity {

// f32 and f64: of everything. tf32: f32 whose products are rounded to 10 bits of mantissa first. bf16: activations and
// their gradients in bf16, weights, their gradients and optimizer states in f32. The CPU has the first two.
enum class Precision : std::uint8_t { f32, f64, tf32, bf16 };
std::string_view to_string(Precision precision);
// InputError, which begins with `what`.
Precision parse_precision(std::string_view text, std::string_view what);

}  // namespace unity
