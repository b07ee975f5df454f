// Convolution in single precision: products of matrices where they serve, else oneDNN's; images shared out to threads.
#include <algorithm>
#include <vector>

#include "runtime/cpu/conv_primitive.h"
#include "runtime/cpu/conv_tools.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

// Whether the windows lie in padding alone, which oneDNN refuses: the result and all gradients are zero.
bool reads_nothing(const ConvGeometry& g) {
  Crop crop(g);
  return crop.h <= 0 || crop.w <= 0;
}

// A product of matrices per image, w [co, ci] by x [ci, h w]: plain memory serves as it is.
bool is_product(const ConvGeometry& g) {
  return g.kh == 1 && g.kw == 1 && g.groups == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.pad_top == 0 &&
         g.pad_left == 0 && g.pad_bottom == 0 && g.pad_right == 0;
}

// Groups of 2 or 4 channels have no vectorised weight gradient: how many neighbours make a group of 16.
std::int64_t joinable_groups(const ConvGeometry& g) {
  std::int64_t channels = g.ci / g.groups;
  if ((channels != 2 && channels != 4) || g.co != g.ci || g.groups % (16 / channels) != 0) return 1;
  return 16 / channels;
}

// Computes the gradient of weights between all channels of the joined groups, and takes those within a group.
void joined_weight_gradient(const ConvGeometry& g, std::int64_t join, const float* x, const float* dy, float* dw) {
  ConvGeometry wide = g;
  wide.groups = g.groups / join;
  std::int64_t channels = g.ci / g.groups, run = channels * g.kh * g.kw;
  std::vector<float> all(static_cast<std::size_t>(g.co * run * join));
  conv_weight_gradient(wide, x, dy, all.data());
  for (std::int64_t o = 0; o < g.co; ++o)
    std::copy_n(all.data() + (o * join + o / channels % join) * run, run, dw + o * run);
}

// Images have nothing to do with one another: calls f(geometry, first image) for some of them on each thread. Where
// there are fewer images than threads, oneDNN's threads share each.
template <class F>
void share_images(const ConvGeometry& g, F&& f) {
  threads();  // tells OpenMP, and with it oneDNN
  if (g.n < threads()) return f(g, 0);
  parallel_for(
      g.n, 1,
      [&](std::int64_t begin, std::int64_t end) {
        ConvGeometry part = g;
        part.n = end - begin;
        f(part, begin);
      },
      1);
}

void forward_images(const ConvGeometry& g, const float* x, const float* w, float* y, bool relu) {
  if (is_product(g)) {
    std::int64_t area = g.h * g.w;
    for (std::int64_t i = 0; i < g.n; ++i)
      gemm(false, false, g.co, area, g.ci, w, g.ci, x + i * g.ci * area, area, 0.0f, y + i * g.co * area, area);
  } else {
    primitive_forward(g, x, w, y);
  }
  if (relu) relu_in_place(y, g.n * g.co * g.oh * g.ow);  // oneDNN's own makes NaN 0
}

void input_gradient_images(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  constexpr std::int64_t kSmallImage = 100;  // fewer columns than this fill no kernel of a product
  if (is_product(g) && g.h * g.w >= kSmallImage) {
    std::int64_t area = g.h * g.w;
    for (std::int64_t i = 0; i < g.n; ++i)
      gemm(true, false, g.ci, area, g.co, w, g.ci, dy + i * g.co * area, area, 0.0f, dx + i * g.ci * area, area);
    return;
  }
  primitive_input_gradient(g, dy, w, dx);
}

}  // namespace

void conv_forward(const ConvGeometry& g, const float* x, const float* w, float* y, bool relu) {
  if (reads_nothing(g)) return void(std::fill_n(y, g.n * g.co * g.oh * g.ow, 0.0f));
  share_images(g, [&](const ConvGeometry& part, std::int64_t first) {
    forward_images(part, x + first * g.ci * g.h * g.w, w, y + first * g.co * g.oh * g.ow, relu);
  });
}

void conv_input_gradient(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  if (reads_nothing(g)) return void(std::fill_n(dx, g.n * g.ci * g.h * g.w, 0.0f));
  share_images(g, [&](const ConvGeometry& part, std::int64_t first) {
    input_gradient_images(part, dy + first * g.co * g.oh * g.ow, w, dx + first * g.ci * g.h * g.w);
  });
}

void conv_weight_gradient(const ConvGeometry& g, const float* x, const float* dy, float* dw) {
  if (reads_nothing(g)) return void(std::fill_n(dw, g.co * (g.ci / g.groups) * g.kh * g.kw, 0.0f));
  if (is_product(g)) {
    std::int64_t area = g.h * g.w;
    for (std::int64_t i = 0; i < g.n; ++i)
      gemm(false, true, g.co, g.ci, area, dy + i * g.co * area, area, x + i * g.ci * area, area, i ? 1.0f : 0.0f, dw,
           g.ci);
    return;
  }
  threads();  // tells OpenMP, and with it oneDNN
  if (std::int64_t join = joinable_groups(g); join > 1) return joined_weight_gradient(g, join, x, dy, dw);
  std::int64_t shares = threads();
  if (shares == 1 || g.n < shares) return primitive_weight_gradient(g, x, dy, dw);
  // Each thread sums over some of the images; the sums are added up in order.
  std::int64_t size = g.co * (g.ci / g.groups) * g.kh * g.kw;
  std::vector<float> sums(static_cast<std::size_t>(size * (shares - 1)));
  parallel_for(
      shares, 1,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end; ++s) {
          ConvGeometry part = g;
          std::int64_t first = g.n * s / shares;
          part.n = g.n * (s + 1) / shares - first;
          primitive_weight_gradient(part, x + first * g.ci * g.h * g.w, dy + first * g.co * g.oh * g.ow,
                                    s == 0 ? dw : sums.data() + (s - 1) * size);
        }
      },
      1);
  parallel_for(size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = 0; s + 1 < shares; ++s) {
      const float* sum = sums.data() + s * size;
      for (std::int64_t k = begin; k < end; ++k) dw[k] += sum[k];
    }
  });
}

}  // namespace unity::cpu
