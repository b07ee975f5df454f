// Pooling with channels last: one thread to sixteen bytes of the channels of a pixel of the result, or to as many of
// the pixel below it, too; element by element where channels are no multiple of that. The taps of a window are read
// before the first is looked at. Gradients gather from the windows that cover a pixel.
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/pooling.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vectors.h"

namespace unity::cuda {
namespace {

constexpr int kWindowTaps = 8, kCoveringTaps = 4;  // asked for at once where windows are of any size

// A vector of the channels of one pixel, the first of the rows and columns that a thread takes.
struct Spot {
  std::int64_t image;
  int row, column, channel;
};

// The spots of an image, each of `down` rows, `across` columns and `width` channels. The vectors of a pixel go side by
// side in chunks of up to eight, and each chunk through all columns before the next, so that threads that share what
// they read are near one another.
class Spots {
 public:
  Spots(const Image& g, bool of_windows, int channels, int width, int down, int across)
      : down_(down), across_(across), width_(width) {
    int rows = of_windows ? g.rows.windows : g.rows.size, vectors = channels / width;
    chunk_ = vectors;
    for (int n = 8; n >= 4 && chunk_ > 8; --n) chunk_ = vectors % n == 0 ? n : chunk_;
    rows_ = (rows + down - 1) / down;
    columns_ = ((of_windows ? g.columns.windows : g.columns.size) + across - 1) / across;
    chunks_ = chunk_ > 0 ? vectors / chunk_ : 0;
    by_chunk_ = Divider(chunk_), by_columns_ = Divider(columns_), by_chunks_ = Divider(chunks_),
    by_rows_ = Divider(rows_);
  }
  std::int64_t in_image() const { return std::int64_t{rows_} * columns_ * chunks_ * chunk_; }
  UNITY_DEVICE Spot at(std::int64_t first_image, int i) const {
    int pixel = by_chunk_.narrow_quotient(i), part = by_columns_.narrow_quotient(pixel);
    int line = by_chunks_.narrow_quotient(part), image = by_rows_.narrow_quotient(line);
    int vector = (part - line * chunks_) * chunk_ + i - pixel * chunk_;
    return {first_image + image, (line - image * rows_) * down_, (pixel - part * columns_) * across_, vector * width_};
  }

 private:
  int down_, across_, width_, rows_, columns_, chunks_, chunk_;
  Divider by_chunk_, by_columns_, by_chunks_, by_rows_;
};

// f(spot) for every one of these images; a launch takes as many as 31 bits count the spots of.
template <class F>
void for_each_spot(Stream stream, std::int64_t images, const Spots& spots, F f) {
  std::int64_t in_image = spots.in_image();
  if (in_image == 0) return;
  UNITY_CHECK(in_image <= INT32_MAX, "cuda: an image of over 2^31 elements");
  std::int64_t most = INT32_MAX / in_image;
  for (std::int64_t first = 0; first < images; first += most)
    for_each(
        stream, std::min(most, images - first) * in_image,
        UNITY_LAMBDA(std::int64_t i) { f(spots.at(first, static_cast<int>(i))); });
}

// A block of images. Elements are counted in 64 bits, pixels of an image in 32.
template <class A>
struct Pixels {
  A data;
  int rows, columns, channels;
  static Pixels of(const Operand& x) {
    auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
    UNITY_CHECK(x.extent[2] * x.extent[3] <= INT32_MAX && x.extent[1] <= INT32_MAX,
                "cuda: an image of over 2^31 pixels");
    return {A::of(x), narrow(x.extent[2]), narrow(x.extent[3]), narrow(x.extent[1])};
  }
  // The element of the image's first pixel.
  UNITY_DEVICE std::int64_t first(const Spot& at) const { return at.image * (rows * columns) * channels + at.channel; }
  UNITY_DEVICE std::int64_t index(std::int64_t first, int row, int column) const {
    return first + static_cast<std::int64_t>(row * columns + column) * channels;
  }
};

struct Range {
  int begin, end;
};

// visit(r, w, load(r, w)) for all of these rows and columns, in row-major order.
template <int kTaps, class Load, class Visit>
UNITY_DEVICE void visit_range(Range rows, Range columns, Load load, Visit visit) {
  if (rows.begin >= rows.end || columns.begin >= columns.end) return;
  int r = rows.begin, w = columns.begin;
  while (r < rows.end) {
    int row[kTaps], column[kTaps];
    decltype(load(0, 0)) items[kTaps];
    UNITY_UNROLL
    for (int t = 0; t < kTaps; ++t) {
      row[t] = r, column[t] = w;
      bool over = r >= rows.end, turn = w + 1 == columns.end;
      items[t] = load(over ? rows.end - 1 : r, over ? columns.begin : w);
      r += turn, w = turn ? columns.begin : w + 1;
    }
    UNITY_UNROLL
    for (int t = 0; t < kTaps; ++t)
      if (row[t] < rows.end) visit(row[t], column[t], items[t]);
  }
}

// Which elements of a window lie in x.
struct Inside {
  WindowLoop loop;
  Divider dilation;
  explicit Inside(const WindowLoop& l) : loop(l), dilation(l.dilation) {}
  UNITY_DEVICE Range of(int at) const {
    int first = loop.position(at, 0), beyond = loop.size - first;
    int begin = first < 0 ? dilation.narrow_quotient(loop.dilation - 1 - first) : 0;
    int end = beyond > 0 ? dilation.narrow_quotient(loop.dilation - 1 + beyond) : 0;
    return {begin, end < loop.kernel ? end : loop.kernel};
  }
};

// Windows of kSize x kSize by kStride x kStride without dilation, known to the compiler.
template <int kSize, int kStride>
struct Fixed {
  static constexpr int kDown = kStride == 1 ? 2 : 1;  // windows of a thread, which share rows where they overlap
  static constexpr int kRead = (kDown - 1) * kStride + kSize;
};
bool is_fixed(const Image& g, int size, int stride) {
  auto is = [&](const WindowLoop& l) {
    return l.kernel == size && l.stride == stride && l.dilation == 1 && l.size > 0 && l.windows > 0;
  };
  return is(g.rows) && is(g.columns);
}

// Where a tap lies in its window; where the window reaches beside x, that of the nearest element that does not.
struct Tap {
  int down, right;
  bool inside;
};

// visit(i, tap, elements) in row-major order for the windows i at rows at.row + i. Elements beside x are the nearest
// ones in x: of the same window, if any of it is in x.
template <int kSize, int kStride, class A, class Visit>
UNITY_DEVICE void visit_fixed(const Image& g, const Pixels<A>& x, const Spot& at, Visit visit) {
  constexpr int kDown = Fixed<kSize, kStride>::kDown, kRead = Fixed<kSize, kStride>::kRead;
  auto nearest = [](const WindowLoop& l, int i) { return i < 0 ? 0 : i < l.size ? i : l.size - 1; };
  int first_row = g.rows.position(at.row, 0), first_column = g.columns.position(at.column, 0);
  std::int64_t first = x.first(at);
  typename A::Held held[kRead][kSize];
  UNITY_UNROLL
  for (int r = 0; r < kRead; ++r) UNITY_UNROLL
  for (int b = 0; b < kSize; ++b)
    held[r][b] = x.data.read(x.index(first, nearest(g.rows, first_row + r), nearest(g.columns, first_column + b)));
  UNITY_UNROLL
  for (int i = 0; i < kDown; ++i) UNITY_UNROLL
  for (int a = 0; a < kSize; ++a) UNITY_UNROLL
  for (int b = 0; b < kSize; ++b) {
    int top = first_row + i * kStride, row = top + a, column = first_column + b;
    visit(i,
          Tap{nearest(g.rows, row) - top, nearest(g.columns, column) - first_column,
              g.rows.inside(row) && g.columns.inside(column)},
          held[i * kStride + a][b]);
  }
}

// For every window, with a State of its own: work.begin(state, any of it in x, its first tap in x), visit(state, tap,
// elements) and end(state, spot, row). Of fixed windows, taps beside x are visited, too.
template <class A, class Work>
void for_each_window(Stream stream, const Image& g, const Pixels<A>& x, std::int64_t images, Work work) {
  Inside rows(g.rows), columns(g.columns);
  for_each_spot(
      stream, images, Spots(g, true, x.channels, A::kWidth, 1, 1), UNITY_LAMBDA(const Spot& at) {
        const int down = rows.loop.dilation, right = columns.loop.dilation;
        typename Work::State state;
        Range a = rows.of(at.row), b = columns.of(at.column);
        work.begin(state, a.begin < a.end && b.begin < b.end, {a.begin * down, b.begin * right, true});
        int top = rows.loop.position(at.row, 0), left = columns.loop.position(at.column, 0);
        std::int64_t first = x.first(at);
        visit_range<kWindowTaps>(
            a, b, [&](int i, int k) { return x.data.read(x.index(first, top + i * down, left + k * right)); },
            [&](int i, int k, const typename A::Held& held) {
              work.visit(state, {i * down, k * right, true}, held);
            });
        work.end(state, at, at.row);
      });
}
template <int kSize, int kStride, class A, class Work>
void for_each_fixed(Stream stream, const Image& g, const Pixels<A>& x, std::int64_t images, Work work) {
  constexpr int kDown = Fixed<kSize, kStride>::kDown;
  for_each_spot(
      stream, images, Spots(g, true, x.channels, A::kWidth, kDown, 1), UNITY_LAMBDA(const Spot& at) {
        typename Work::State state[kDown];
        int right = g.columns.position(at.column, 0);
        UNITY_UNROLL
        for (int i = 0; i < kDown; ++i) {
          int down = g.rows.position(at.row + i, 0);
          bool any = down + kSize > 0 && down < g.rows.size && right + kSize > 0 && right < g.columns.size;
          work.begin(state[i], any, {down < 0 ? -down : 0, right < 0 ? -right : 0, any});
        }
        visit_fixed<kSize, kStride>(
            g, x, at, [&](int i, const Tap& tap, const typename A::Held& held) { work.visit(state[i], tap, held); });
        UNITY_UNROLL
        for (int i = 0; i < kDown; ++i)
          if (at.row + i < g.rows.windows) work.end(state[i], at, at.row + i);
      });
}

// The largest element of each window.
template <class A>
struct Largest {
  using V = typename A::Value;
  Pixels<A> y;
  struct State {
    V best[A::kWidth];
    bool any;
  };
  UNITY_DEVICE void begin(State& s, bool any, const Tap&) const {
    s.any = any;
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) s.best[j] = kMinusInfinity<V>;
  }
  UNITY_DEVICE void visit(State& s, const Tap&, const typename A::Held& held) const {
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) {
      V value = A::value(held, j);
      s.best[j] = exceeds(value, s.best[j]) ? value : s.best[j];
    }
  }
  UNITY_DEVICE void end(State& s, const Spot& at, int row) const {
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) s.best[j] = s.any ? s.best[j] : V(0);
    y.data.write(y.index(y.first(at), row, at.column), s.best);
  }
};

// Where each window has its first maximum: by how many rows and columns behind its beginning, as one number.
template <class Code>
constexpr Code kNowhere = static_cast<Code>(~Code{0});
template <class A, class Code>
struct Places {
  using V = typename A::Value;
  Pixels<A> dy;
  Code* where;
  int span;  // columns that a window extends over
  struct State {
    V best[A::kWidth];
    Code code[A::kWidth];
  };
  UNITY_DEVICE Code code_of(const Tap& tap) const {
    return static_cast<Code>(static_cast<Code>(tap.down) * static_cast<Code>(span) + static_cast<Code>(tap.right));
  }
  UNITY_DEVICE void begin(State& s, bool any, const Tap& first) const {
    Code code = any ? code_of(first) : kNowhere<Code>;
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) s.best[j] = kMinusInfinity<V>, s.code[j] = code;
  }
  UNITY_DEVICE void visit(State& s, const Tap& tap, const typename A::Held& held) const {
    Code code = code_of(tap);
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) {
      V value = A::value(held, j);
      bool better = exceeds(value, s.best[j]);
      s.best[j] = better ? value : s.best[j];
      s.code[j] = better ? code : s.code[j];
    }
  }
  UNITY_DEVICE void end(State& s, const Spot& at, int row) const {
    Several<Code, A::kWidth> codes;
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) codes.v[j] = s.code[j];
    Dense<Code>{where}.store_several(dy.index(dy.first(at), row, at.column), codes);
  }
};

// The mean of each window.
template <class A>
struct Means {
  using V = typename A::Value;
  Pixels<A> y;
  WindowLoop rows, columns;
  Share<V> share;
  struct State {
    V sum[A::kWidth];
  };
  UNITY_DEVICE void begin(State& s, bool, const Tap&) const {
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) s.sum[j] = 0;
  }
  UNITY_DEVICE void visit(State& s, const Tap& tap, const typename A::Held& held) const {
    typename A::Held known = tap.inside ? held : typename A::Held{};
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) s.sum[j] += A::value(known, j);
  }
  UNITY_DEVICE void end(State& s, const Spot& at, int row) const {
    V factor = share.of(rows, columns, row, at.column);
    UNITY_UNROLL
    for (int j = 0; j < A::kWidth; ++j) s.sum[j] *= factor;
    y.data.write(y.index(y.first(at), row, at.column), s.sum);
  }
};

// What comes back to each pixel, from the windows whose maximum it is.
template <class A, class Code>
struct Slope {
  typename A::Held dy;
  Several<Code, A::kWidth> code;
};
template <class A, class Code>
void return_maxima(Stream stream, const Image& g, std::int64_t images, const Places<A, Code>& places,
                   const Pixels<A>& dx) {
  using V = typename A::Value;
  Covering rows(g.rows), columns(g.columns);
  for_each_spot(
      stream, images, Spots(g, false, dx.channels, A::kWidth, 1, 1), UNITY_LAMBDA(const Spot& at) {
        V sum[A::kWidth] = {};
        const Pixels<A>& dy = places.dy;
        std::int64_t first = dy.first(at);
        visit_range<kCoveringTaps>(
            {rows.first(at.row), rows.last(at.row) + 1}, {columns.first(at.column), columns.last(at.column) + 1},
            [&](int r, int w) {
              std::int64_t i = dy.index(first, r, w);
              return Slope<A, Code>{dy.data.read(i), Dense<Code>{places.where}.template load_packed<A::kWidth>(i)};
            },
            [&](int r, int w, const Slope<A, Code>& slope) {
              Code code =
                  places.code_of({at.row - rows.loop.position(r, 0), at.column - columns.loop.position(w, 0), true});
              UNITY_UNROLL
              for (int j = 0; j < A::kWidth; ++j) sum[j] += slope.code.v[j] == code ? A::value(slope.dy, j) : V(0);
            });
        dx.data.write(dx.index(dx.first(at), at.row, at.column), sum);
      });
}

// The same for windows of kSize x kSize, 2 or 3, by 2 x 2: two rows and columns of pixels lie in the same way, by
// constants, to the 2 x 2 windows that may cover some of them, the first of which begins kBefore above and left of
// them. kBefore: 1 where padding is odd, else 2.
template <int kSize, int kBefore, class A>
void return_by_twos(Stream stream, const Image& g, std::int64_t images, const Places<A, std::uint8_t>& places,
                    const Pixels<A>& dx) {
  using V = typename A::Value;
  int row_pad = g.rows.pad - kBefore, column_pad = g.columns.pad - kBefore;
  for_each_spot(
      stream, images, Spots(g, false, dx.channels, A::kWidth, 2, 2), UNITY_LAMBDA(const Spot& at) {
        const Pixels<A>& dy = places.dy;
        std::int64_t first = dy.first(at), first_of_x = dx.first(at);
        int first_row = (at.row + row_pad) / 2, first_column = (at.column + column_pad) / 2;
        Slope<A, std::uint8_t> slopes[2][2];
        bool inside[2][2];
        UNITY_UNROLL
        for (int r = 0; r < 2; ++r) UNITY_UNROLL
        for (int w = 0; w < 2; ++w) {
          int row = first_row + r, column = first_column + w;
          inside[r][w] = row >= 0 && row < dy.rows && column >= 0 && column < dy.columns;
          std::int64_t i = inside[r][w] ? dy.index(first, row, column) : first;
          slopes[r][w] = {dy.data.read(i), Dense<std::uint8_t>{places.where}.template load_packed<A::kWidth>(i)};
        }
        UNITY_UNROLL
        for (int i = 0; i < 2; ++i) UNITY_UNROLL
        for (int k = 0; k < 2; ++k) {
          V sum[A::kWidth] = {};
          UNITY_UNROLL
          for (int r = 0; r < 2; ++r) UNITY_UNROLL
          for (int w = 0; w < 2; ++w) {
            int down = kBefore - 2 * r + i, right = kBefore - 2 * w + k;
            if (down < 0 || down >= kSize || right < 0 || right >= kSize) continue;
            int code = inside[r][w] ? down * kSize + right : kSize * kSize;
            UNITY_UNROLL
            for (int j = 0; j < A::kWidth; ++j)
              sum[j] += slopes[r][w].code.v[j] == code ? A::value(slopes[r][w].dy, j) : V(0);
          }
          if (at.row + i < dx.rows && at.column + k < dx.columns)
            dx.data.write(dx.index(first_of_x, at.row + i, at.column + k), sum);
        }
      });
}

template <class Code, class A>
void max_gradient(const Call& c, const Image& g, const Pixels<A>& x, const Pixels<A>& dy, const Pixels<A>& dx) {
  const WindowLoop &rows = g.rows, &columns = g.columns;
  std::int64_t images = c.inputs[0].extent[0];
  auto bytes = c.inputs[1].elements() * static_cast<std::int64_t>(sizeof(Code));
  Places<A, Code> places{dy, static_cast<Code*>(c.scratch(bytes)), (columns.kernel - 1) * columns.dilation + 1};
  if constexpr (A::kWidth > 1) {
    bool odd = rows.pad % 2 != 0, same = odd == (columns.pad % 2 != 0);
    if (is_fixed(g, 3, 1)) {
      for_each_fixed<3, 1>(c.stream, g, x, images, places);
    } else if (is_fixed(g, 3, 2)) {
      for_each_fixed<3, 2>(c.stream, g, x, images, places);
      if (same && odd) return return_by_twos<3, 1>(c.stream, g, images, places, dx);
      if (same) return return_by_twos<3, 2>(c.stream, g, images, places, dx);
    } else if (is_fixed(g, 2, 2)) {
      for_each_fixed<2, 2>(c.stream, g, x, images, places);
      if (same && odd) return return_by_twos<2, 1>(c.stream, g, images, places, dx);
      if (same) return return_by_twos<2, 2>(c.stream, g, images, places, dx);
    } else {
      for_each_window(c.stream, g, x, images, places);
    }
  } else {
    for_each_window(c.stream, g, x, images, places);
  }
  return_maxima(c.stream, g, images, places, dx);
}

template <class A>
void max_pool(const Call& c, const Image& g, const Pixels<A>& x, const Pixels<A>& y) {
  std::int64_t images = c.inputs[0].extent[0];
  if constexpr (A::kWidth > 1) {
    if (is_fixed(g, 3, 1)) return for_each_fixed<3, 1>(c.stream, g, x, images, Largest<A>{y});
    if (is_fixed(g, 3, 2)) return for_each_fixed<3, 2>(c.stream, g, x, images, Largest<A>{y});
    if (is_fixed(g, 2, 2)) return for_each_fixed<2, 2>(c.stream, g, x, images, Largest<A>{y});
  }
  for_each_window(c.stream, g, x, images, Largest<A>{y});
}

template <class A>
void average_pool(const Call& c, const Image& g, const Pixels<A>& x, const Pixels<A>& y) {
  std::int64_t images = c.inputs[0].extent[0];
  Means<A> means{y, g.rows, g.columns, share_of<typename A::Value>(c, g)};
  if constexpr (A::kWidth > 1) {
    if (is_fixed(g, 3, 1)) return for_each_fixed<3, 1>(c.stream, g, x, images, means);
    if (is_fixed(g, 2, 2)) return for_each_fixed<2, 2>(c.stream, g, x, images, means);
  }
  for_each_window(c.stream, g, x, images, means);
}

// Of windows of 3 x 3 by one: a pixel of dx has a window on dy.
template <bool kIncludePad, class A>
void average_gradient_by_one(Stream stream, const Image& g, std::int64_t images, const Share<typename A::Value>& share,
                             const Pixels<A>& dy, const Pixels<A>& dx) {
  using V = typename A::Value;
  constexpr int kDown = Fixed<3, 1>::kDown;
  auto turned = [](const WindowLoop& l) { return WindowLoop{l.windows, l.size, 3, 1, 1, 2 - l.pad}; };
  Image back{g.planes, turned(g.rows), turned(g.columns)};
  for_each_spot(
      stream, images, Spots(back, true, dx.channels, A::kWidth, kDown, 1), UNITY_LAMBDA(const Spot& at) {
        V sum[kDown][A::kWidth] = {};
        int left = back.columns.position(at.column, 0);
        visit_fixed<3, 1>(back, dy, at, [&](int i, const Tap& tap, const typename A::Held& held) {
          int row = back.rows.position(at.row + i, 0) + tap.down;
          V factor = kIncludePad ? share.of_all : share.of(g.rows, g.columns, row, left + tap.right);
          typename A::Held known = tap.inside ? held : typename A::Held{};
          UNITY_UNROLL
          for (int j = 0; j < A::kWidth; ++j) sum[i][j] += A::value(known, j) * factor;
        });
        std::int64_t first = dx.first(at);
        UNITY_UNROLL
        for (int i = 0; i < kDown; ++i)
          if (at.row + i < dx.rows) dx.data.write(dx.index(first, at.row + i, at.column), sum[i]);
      });
}

template <class A>
void average_gradient(const Call& c, const Image& g, const Pixels<A>& dy, const Pixels<A>& dx) {
  using V = typename A::Value;
  std::int64_t images = c.outputs[0].extent[0];
  Share<V> share = share_of<V>(c, g);
  if constexpr (A::kWidth > 1) {
    if (is_fixed(g, 3, 1) && share.include_pad)
      return average_gradient_by_one<true>(c.stream, g, images, share, dy, dx);
    if (is_fixed(g, 3, 1)) return average_gradient_by_one<false>(c.stream, g, images, share, dy, dx);
  }
  Covering rows(g.rows), columns(g.columns);
  for_each_spot(
      c.stream, images, Spots(g, false, dx.channels, A::kWidth, 1, 1), UNITY_LAMBDA(const Spot& at) {
        V sum[A::kWidth] = {};
        std::int64_t first = dy.first(at);
        visit_range<kCoveringTaps>(
            {rows.first(at.row), rows.last(at.row) + 1}, {columns.first(at.column), columns.last(at.column) + 1},
            [&](int r, int w) { return dy.data.read(dy.index(first, r, w)); },
            [&](int r, int w, const typename A::Held& held) {
              V factor = share.of(rows.loop, columns.loop, r, w);
              UNITY_UNROLL
              for (int j = 0; j < A::kWidth; ++j) sum[j] += A::value(held, j) * factor;
            });
        dx.data.write(dx.index(dx.first(at), at.row, at.column), sum);
      });
}

// f(A): A reads and writes these blocks of images.
template <class R, class F>
void with_channels(std::initializer_list<const Operand*> blocks, F f) {
  constexpr int kVector = std::is_same_v<R, Mixed> ? Vectors<BFloat16>::kWidth : Vectors<float>::kWidth;
  bool wide = (*blocks.begin())->extent[1] % kVector == 0;
  with_access<R>(wide, blocks, {}, [&](auto access, auto) { f(access); });
}

Image max_image(const Call& c, const Operand& y) {
  return image_of(max_pool2d_windows("max_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], y);
}
Image average_image(const Call& c, const Operand& x, const Operand& y) {
  return image_of(avg_pool2d_windows("avg_pool2d", c.attributes, x.global).value(), x, y);
}

}  // namespace

template <class R>
void max_pool2d_channels_last_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  with_channels<R>({&x, &y}, [&]<class A>(A) { max_pool(c, max_image(c, y), Pixels<A>::of(x), Pixels<A>::of(y)); });
}
UNITY_CUDA_KERNEL(max_pool2d_channels_last)

template <class R>
void max_pool2d_gradient_channels_last_of(const Call& c) {
  const Operand &x = c.inputs[0], &dy = c.inputs[1], &dx = c.outputs[0];
  Image g = max_image(c, dy);
  auto span = [](const WindowLoop& l) { return std::int64_t{l.kernel - 1} * l.dilation + 1; };
  bool small = span(g.rows) < 256 && span(g.rows) * span(g.columns) < 256;
  auto gradient = [&]<class Code, class A>(Code, A) {
    max_gradient<Code>(c, g, Pixels<A>::of(x), Pixels<A>::of(dy), Pixels<A>::of(dx));
  };
  if (!small) {
    if constexpr (std::is_same_v<R, Doubles>)
      return gradient(std::uint64_t{}, Singles<Dense<double>>());
    else
      return gradient(std::uint64_t{}, Singles<FloatOrBFloat16>());
  }
  with_channels<R>({&x, &dy, &dx}, [&](auto access) { gradient(std::uint8_t{}, access); });
}
UNITY_CUDA_KERNEL(max_pool2d_gradient_channels_last)

template <class R>
void avg_pool2d_channels_last_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  with_channels<R>({&x, &y},
                   [&]<class A>(A) { average_pool(c, average_image(c, x, y), Pixels<A>::of(x), Pixels<A>::of(y)); });
}
UNITY_CUDA_KERNEL(avg_pool2d_channels_last)

template <class R>
void avg_pool2d_gradient_channels_last_of(const Call& c) {
  const Operand &dy = c.inputs[0], &dx = c.outputs[0];
  with_channels<R>({&dx, &dy}, [&]<class A>(A) {
    average_gradient(c, average_image(c, dx, dy), Pixels<A>::of(dy), Pixels<A>::of(dx));
  });
}
UNITY_CUDA_KERNEL(avg_pool2d_gradient_channels_last)

}  // namespace unity::cuda
