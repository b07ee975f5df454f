#include <algorithm>
#include <cmath>

#include "runtime/data/image.h"

namespace unity {
namespace {

// The source pixels that make one pixel of the result, along one axis.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;  // sum to 1
};

// The middle `kept` of `resized` pixels that `source` pixels become.
std::vector<Taps> middle_taps(std::int64_t source, double resized, std::int64_t kept) {
  double step = static_cast<double>(source) / resized, reach = std::max(step, 1.0);
  double offset = std::floor((resized - static_cast<double>(kept)) / 2);
  std::vector<Taps> taps(static_cast<std::size_t>(kept));
  for (std::int64_t i = 0; i < kept; ++i) {
    double centre = (static_cast<double>(i) + offset + 0.5) * step, sum = 0;
    Taps& t = taps[static_cast<std::size_t>(i)];
    t.first = std::clamp<std::int64_t>(std::llround(centre - reach), 0, source - 1);
    std::int64_t end = std::clamp<std::int64_t>(std::llround(centre + reach), t.first + 1, source);
    for (std::int64_t j = t.first; j < end; ++j) {
      t.weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach));
      sum += t.weights.back();
    }
    for (double& w : t.weights) w = sum > 0 ? w / sum : 1.0 / static_cast<double>(t.weights.size());
  }
  return taps;
}

}  // namespace

void fit_image(const Image& image, std::int64_t channels, std::int64_t height, std::int64_t width,
               const Normalization& normalization, double* out) {
  auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
  double scale = std::max(static_cast<double>(width) / w, static_cast<double>(height) / h);
  std::vector<Taps> across = middle_taps(image.width, std::max(std::round(w * scale), double(width)), width);
  std::vector<Taps> down = middle_taps(image.height, std::max(std::round(h * scale), double(height)), height);
  // First along the rows, for the rows that the second pass takes.
  std::int64_t top = down.front().first, bottom = top;
  for (const Taps& t : down)
    top = std::min(top, t.first), bottom = std::max(bottom, t.first + static_cast<std::int64_t>(t.weights.size()));
  std::vector<double> rows(static_cast<std::size_t>((bottom - top) * width * 3));
  double* to = rows.data();
  for (std::int64_t y = top; y < bottom; ++y)
    for (const Taps& t : across) {
      const std::uint8_t* from = image.rgb.data() + (y * image.width + t.first) * 3;
      for (double weight : t.weights)
        for (int c = 0; c < 3; ++c) to[c] += weight * *from++;
      to += 3;
    }
  const auto& [mean, deviation] = normalization;
  double grey_mean = (mean[0] + mean[1] + mean[2]) / 3,
         grey_deviation = (deviation[0] + deviation[1] + deviation[2]) / 3;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const Taps& t = down[static_cast<std::size_t>(y)];
      const double* from = rows.data() + ((t.first - top) * width + x) * 3;
      double rgb[3] = {};
      for (std::size_t j = 0; j < t.weights.size(); ++j, from += 3 * width)
        for (int c = 0; c < 3; ++c) rgb[c] += t.weights[j] * from[c] / 255;
      double* pixel = out + y * width + x;
      if (channels == 1)
        *pixel = (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] - grey_mean) / grey_deviation;
      else
        for (std::size_t c = 0; c < 3; ++c)
          pixel[static_cast<std::int64_t>(c) * height * width] = (rgb[c] - mean[c]) / deviation[c];
    }
}

}  // namespace unity
