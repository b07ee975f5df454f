// Images as training data: decoded by libjpeg and libpng, brought to one size.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unity {

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // row-major, 3 bytes a pixel
};

// A JPEG (grey, colour or CMYK) or PNG, judged by its first bytes; transparency is dropped. InputError with the name:
// when it is neither, damaged, cut off, or larger than 2^26 pixels (checked before memory is taken).
Image decode_image(const std::string& name, std::span<const std::uint8_t> bytes);

// Of channel values in 0..1: (value - mean) / deviation. The defaults are those of ImageNet's pixels.
struct Normalization {
  std::array<double, 3> mean = {0.485, 0.456, 0.406};
  std::array<double, 3> deviation = {0.229, 0.224, 0.225};
};

// Resizes bilinearly so that the image just covers height x width, its proportions kept, crops the middle and
// normalises; `out` takes channels x height x width. Where it shrinks, a pixel is the weighted mean of all source
// pixels within one step of it (a triangle filter). One channel: the luma 0.299 R + 0.587 G + 0.114 B, normalised by
// the mean of the channels' figures.
void fit_image(const Image& image, std::int64_t channels, std::int64_t height, std::int64_t width,
               const Normalization& normalization, double* out);

}  // namespace unity
