// Convolution and pooling against loops written from their definitions.
#include <cmath>
#include <limits>
#include <thread>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/base/random.h"
#include "runtime/cpu/dnn.h"
#include "runtime/cpu/threads.h"

using namespace unity;
using namespace unity::cpu;

namespace {

template <class T>
std::vector<T> random_values(std::int64_t n, std::uint64_t seed) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random_uniform(RandomKey(seed), i) - 0.5);
  return v;
}

// Calls f(position in x, in w, in y) for every product of the convolution.
template <class F>
void for_each_product(const ConvGeometry& g, F&& f) {
  std::int64_t ci = g.ci / g.groups, co = g.co / g.groups;
  for (std::int64_t n = 0; n < g.n; ++n)
    for (std::int64_t o = 0; o < g.co; ++o)
      for (std::int64_t i = 0; i < g.oh; ++i)
        for (std::int64_t j = 0; j < g.ow; ++j)
          for (std::int64_t c = 0; c < ci; ++c)
            for (std::int64_t a = 0; a < g.kh; ++a)
              for (std::int64_t b = 0; b < g.kw; ++b) {
                std::int64_t y = i * g.stride[0] - g.pad_top + a * g.dilation[0];
                std::int64_t x = j * g.stride[1] - g.pad_left + b * g.dilation[1];
                if (y < 0 || y >= g.h || x < 0 || x >= g.w) continue;
                f(((n * g.ci + o / co * ci + c) * g.h + y) * g.w + x, ((o * ci + c) * g.kh + a) * g.kw + b,
                  ((n * g.co + o) * g.oh + i) * g.ow + j);
              }
}

// Fills in oh and ow.
ConvGeometry sized(ConvGeometry g) {
  g.oh = (g.h + g.pad_top + g.pad_bottom - (g.kh - 1) * g.dilation[0] - 1) / g.stride[0] + 1;
  g.ow = (g.w + g.pad_left + g.pad_right - (g.kw - 1) * g.dilation[1] - 1) / g.stride[1] + 1;
  return g;
}

std::vector<ConvGeometry> geometries() {
  using G = ConvGeometry;
  std::vector<G> list;
  auto add = [&](std::int64_t n, std::int64_t ci, std::int64_t h, std::int64_t w, std::int64_t co, std::int64_t kh,
                 std::int64_t kw, std::int64_t stride, std::array<std::int64_t, 4> pads, std::int64_t groups = 1,
                 std::int64_t dilation = 1) {
    list.push_back(sized({n,
                          ci,
                          h,
                          w,
                          co,
                          kh,
                          kw,
                          0,
                          0,
                          {stride, stride},
                          {dilation, dilation},
                          pads[0],
                          pads[1],
                          pads[2],
                          pads[3],
                          groups}));
  };
  add(2, 3, 9, 8, 16, 3, 3, 1, {1, 1, 1, 1});
  add(2, 3, 15, 15, 8, 3, 3, 2, {0, 0, 0, 0});      // an Inception stem
  add(1, 3, 18, 18, 16, 7, 7, 2, {3, 3, 3, 3});     // a ResNet stem
  add(2, 16, 6, 6, 32, 1, 1, 1, {0, 0, 0, 0});      // a product of matrices
  add(2, 16, 12, 11, 32, 1, 1, 1, {0, 0, 0, 0});    // and a larger one
  add(2, 16, 7, 7, 32, 1, 1, 2, {0, 0, 0, 0});      // reads every other row, leaves none over
  add(2, 16, 8, 8, 16, 1, 1, 2, {0, 0, 0, 0});      // leaves the last row and column over
  add(2, 5, 8, 6, 7, 3, 3, 1, {1, 1, 1, 1});        // odd channels
  add(1, 16, 8, 8, 16, 1, 7, 1, {0, 3, 0, 3});      // 1 x 7
  add(1, 16, 8, 8, 16, 3, 1, 1, {1, 0, 1, 0});      // 3 x 1
  add(2, 32, 7, 7, 32, 3, 3, 1, {1, 1, 1, 1}, 8);   // groups of 4
  add(2, 32, 7, 7, 64, 3, 3, 2, {1, 1, 1, 1}, 4);   // groups with a stride
  add(2, 16, 9, 9, 16, 3, 3, 1, {1, 1, 1, 1}, 16);  // depthwise
  add(1, 6, 9, 9, 12, 3, 3, 1, {1, 1, 1, 1}, 6);    // depthwise with two results each
  add(1, 8, 11, 11, 8, 3, 3, 1, {2, 2, 2, 2}, 1, 2);
  add(1, 16, 6, 8, 16, 3, 3, 1, {1, 1, 0, 1});     // the upper block of rows, its neighbour's row included
  add(1, 16, 6, 8, 16, 3, 3, 1, {0, 1, 1, 0});     // a lower right block
  add(1, 16, 6, 8, 16, 3, 3, 2, {2, 0, 1, 1});     // unlike pads
  add(1, 16, 9, 9, 16, 3, 3, 1, {-1, 0, -2, -1});  // a block with more than is read
  add(2, 4, 9, 9, 4, 3, 3, 2, {-1, -2, 0, 1}, 2);
  add(1, 1, 5, 5, 1, 5, 5, 1, {0, 0, 0, 0});  // one window
  add(2, 2, 1, 3, 2, 1, 1, 4, {2, 0, 0, 0});  // in padding alone
  return list;
}

std::string text(const ConvGeometry& g) {
  return fmt::format("n {} ci {} {}x{} co {} kernel {}x{} gives {}x{} stride {} dilation {} pads {} {} {} {} groups {}",
                     g.n, g.ci, g.h, g.w, g.co, g.kh, g.kw, g.oh, g.ow, g.stride[0], g.dilation[0], g.pad_top,
                     g.pad_left, g.pad_bottom, g.pad_right, g.groups);
}

template <class T>
double worst(const std::vector<T>& found, const std::vector<double>& expected) {
  double w = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double d = std::abs(static_cast<double>(found[i]) - expected[i]);
    w = std::isnan(d) ? 1e30 : std::max(w, d);
  }
  return w;
}

constexpr double tolerance(float) { return 1e-4; }
constexpr double tolerance(double) { return 1e-12; }

struct PoolWindow {
  std::vector<std::int64_t> positions;  // in x, row-major, padding left out
};

std::vector<PoolWindow> windows(const PoolGeometry& g) {
  std::vector<PoolWindow> list;
  for (std::int64_t plane = 0; plane < g.n * g.c; ++plane)
    for (std::int64_t i = 0; i < g.oh; ++i)
      for (std::int64_t j = 0; j < g.ow; ++j) {
        PoolWindow window;
        for (std::int64_t a = 0; a < g.kh; ++a)
          for (std::int64_t b = 0; b < g.kw; ++b) {
            std::int64_t y = i * g.stride[0] + a * g.dilation[0] - g.pad_top,
                         x = j * g.stride[1] + b * g.dilation[1] - g.pad_left;
            if (y >= 0 && y < g.h && x >= 0 && x < g.w) window.positions.push_back((plane * g.h + y) * g.w + x);
          }
        list.push_back(std::move(window));
      }
  return list;
}

std::vector<PoolGeometry> pool_geometries() {
  return {{2, 3, 8, 8, 2, 2, 4, 4, {2, 2}, 0, 0, 0, 0},  {2, 3, 9, 11, 3, 3, 4, 5, {2, 2}, 0, 0, 0, 0},
          {1, 4, 7, 7, 3, 3, 7, 7, {1, 1}, 1, 1, 1, 1},  {2, 2, 8, 6, 3, 3, 4, 3, {2, 2}, 1, 1, 0, 0},
          {1, 2, 12, 9, 4, 3, 3, 3, {4, 3}, 0, 0, 0, 0}, {1, 2, 9, 9, 3, 3, 3, 4, {2, 2}, -1, 0, -1, 0},
          {3, 5, 8, 8, 8, 8, 1, 1, {1, 1}, 0, 0, 0, 0},  {1, 3, 9, 9, 3, 3, 7, 4, {1, 2}, 1, 1, 1, 1, {2, 2}}};
}

}  // namespace

TEMPLATE_TEST_CASE("convolution and its gradients are the sums of their definition", "", float, double) {
  using T = TestType;
  int count = GENERATE(1, 2);
  for (const ConvGeometry& g : geometries()) {
    INFO(text(g) << ", threads " << count);
    auto x = random_values<T>(g.n * g.ci * g.h * g.w, 1);
    auto w = random_values<T>(g.co * (g.ci / g.groups) * g.kh * g.kw, 2);
    auto dy = random_values<T>(g.n * g.co * g.oh * g.ow, 3);
    std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
    for_each_product(g, [&](std::int64_t px, std::int64_t pw, std::int64_t py) {
      auto a = static_cast<std::size_t>(px), b = static_cast<std::size_t>(pw), c = static_cast<std::size_t>(py);
      y[c] += static_cast<double>(x[a]) * static_cast<double>(w[b]);
      dx[a] += static_cast<double>(dy[c]) * static_cast<double>(w[b]);
      dw[b] += static_cast<double>(dy[c]) * static_cast<double>(x[a]);
    });
    // Results overwrite: what was there before must not matter.
    std::vector<T> found_y(y.size(), T(7)), found_dx(dx.size(), T(7)), found_dw(dw.size(), T(7));
    std::thread([&] {
      set_threads(count);
      conv_forward(g, x.data(), w.data(), found_y.data(), false);
      conv_input_gradient(g, dy.data(), w.data(), found_dx.data());
      conv_weight_gradient(g, x.data(), dy.data(), found_dw.data());
    }).join();
    CHECK(worst(found_y, y) < tolerance(T()));
    CHECK(worst(found_dx, dx) < tolerance(T()));
    CHECK(worst(found_dw, dw) < tolerance(T()));
    for (double& v : y) v = std::max(v, 0.0);
    conv_forward(g, x.data(), w.data(), found_y.data(), true);
    CHECK(worst(found_y, y) < tolerance(T()));
  }
}

TEST_CASE("convolutions of four devices at once are bit for bit the one computed alone") {
  ConvGeometry g = sized({2, 16, 14, 14, 32, 3, 3, 0, 0, {1, 1}, {1, 1}, 1, 1, 1, 1, 4});
  auto x = random_values<float>(g.n * g.ci * g.h * g.w, 1);
  auto w = random_values<float>(g.co * (g.ci / g.groups) * g.kh * g.kw, 2);
  auto run = [&] {
    std::vector<float> y(static_cast<std::size_t>(g.n * g.co * g.oh * g.ow));
    for (int repeat = 0; repeat < 5; ++repeat) conv_forward(g, x.data(), w.data(), y.data(), false);
    return y;
  };
  std::vector<float> alone = run();
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> devices;
  for (auto& y : found) devices.emplace_back([&] { y = run(); });
  for (std::thread& d : devices) d.join();
  for (const auto& y : found) CHECK(y == alone);
}

TEST_CASE("a convolution whose windows do not follow from its pads is refused") {
  ConvGeometry g = sized({1, 1, 5, 5, 1, 3, 3, 0, 0, {1, 1}, {1, 1}, 0, 0, 0, 0, 1});
  g.oh = 4;
  std::vector<float> x(25), w(9), y(12);
  CHECK_THROWS(conv_forward(g, x.data(), w.data(), y.data(), false));
}

TEMPLATE_TEST_CASE("pooling takes the largest and the mean of each window, and its gradients go back there", "", float,
                   double) {
  using T = TestType;
  for (const PoolGeometry& g : pool_geometries()) {
    INFO(g.h << " x " << g.w << ", windows " << g.kh << " x " << g.kw);
    auto x = random_values<T>(g.n * g.c * g.h * g.w, 4);
    for (T& v : x) v = static_cast<T>(std::round(v * 8));  // so that several are largest
    auto dy = random_values<T>(g.n * g.c * g.oh * g.ow, 5);
    std::vector<PoolWindow> all = windows(g);
    std::vector<double> y(dy.size()), dx(x.size());
    std::vector<T> found_y(dy.size(), T(7)), found_dx(x.size(), T(7));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::int64_t best = all[i].positions[0];
      for (std::int64_t p : all[i].positions)
        if (x[static_cast<std::size_t>(p)] > x[static_cast<std::size_t>(best)]) best = p;
      y[i] = static_cast<double>(x[static_cast<std::size_t>(best)]);
      dx[static_cast<std::size_t>(best)] += static_cast<double>(dy[i]);
    }
    max_pool_forward(g, x.data(), found_y.data());
    max_pool_backward(g, x.data(), dy.data(), found_dx.data());
    CHECK(worst(found_y, y) == 0);
    CHECK(worst(found_dx, dx) < 1e-6);
    for (bool padding : {false, true}) {
      std::fill(dx.begin(), dx.end(), 0.0);
      for (std::size_t i = 0; i < all.size(); ++i) {
        double n = padding ? static_cast<double>(g.kh * g.kw) : static_cast<double>(all[i].positions.size());
        y[i] = 0;
        for (std::int64_t p : all[i].positions) {
          y[i] += static_cast<double>(x[static_cast<std::size_t>(p)]) / n;
          dx[static_cast<std::size_t>(p)] += static_cast<double>(dy[i]) / n;
        }
      }
      avg_pool_forward(g, x.data(), found_y.data(), padding);
      avg_pool_backward(g, dy.data(), found_dx.data(), padding);
      CHECK(worst(found_y, y) < 1e-5);
      CHECK(worst(found_dx, dx) < 1e-5);
    }
  }
}

TEMPLATE_TEST_CASE("a convolution passes NaN on, through ReLU, too, to whatever reads it", "", float, double) {
  using T = TestType;
  for (const ConvGeometry& g : geometries()) {
    INFO(text(g));
    auto x = random_values<T>(g.n * g.ci * g.h * g.w, 1);
    auto w = random_values<T>(g.co * (g.ci / g.groups) * g.kh * g.kw, 2);
    const std::size_t at = x.size() / 2;
    x[at] = std::numeric_limits<T>::quiet_NaN();
    std::vector<bool> reads(static_cast<std::size_t>(g.n * g.co * g.oh * g.ow)), found(reads.size());
    for_each_product(g, [&](std::int64_t px, std::int64_t, std::int64_t py) {
      if (static_cast<std::size_t>(px) == at) reads[static_cast<std::size_t>(py)] = true;
    });
    std::vector<T> y(reads.size());
    conv_forward(g, x.data(), w.data(), y.data(), true);
    for (std::size_t i = 0; i < y.size(); ++i) found[i] = std::isnan(y[i]);
    CHECK(found == reads);
  }
}

TEST_CASE("max pooling passes NaN on") {
  PoolGeometry g{.h = 2, .w = 2, .kh = 2, .kw = 2};
  std::vector<float> x = {1, std::numeric_limits<float>::quiet_NaN(), 3, 4}, y(1);
  max_pool_forward(g, x.data(), y.data());
  CHECK(std::isnan(y[0]));
}

TEMPLATE_TEST_CASE("a window of padding alone has the maximum 0, and no gradient goes through it", "", float, double) {
  using T = TestType;
  // Windows of one element at -1, 1, 3 of rows and of columns.
  PoolGeometry g{
      .h = 2, .w = 3, .oh = 3, .ow = 3, .stride = {2, 2}, .pad_top = 1, .pad_left = 1, .pad_bottom = 2, .pad_right = 1};
  std::vector<T> x = {-1, -2, -3, -4, -5, -6}, y(9, T(7)), dx(6, T(7));
  max_pool_forward(g, x.data(), y.data());
  CHECK(y == std::vector<T>{0, 0, 0, 0, -5, 0, 0, 0, 0});
  max_pool_backward(g, x.data(), std::vector<T>(9, T(1)).data(), dx.data());
  CHECK(dx == std::vector<T>{0, 0, 0, 0, 1, 0});
}
