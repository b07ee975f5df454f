// Pooling: one thread to four neighbours of the result. Gradients gather from the windows that cover an element.
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/pooling.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vectors.h"

namespace unity::cuda {
namespace {

constexpr int kTaps = 3;  // neighbours in a window's row, or neighbouring windows, that are asked for at once

// f(array of an operand): of bf16 without a look at the type of each element where all are.
template <class R, class F>
void with_arrays(const Call& c, F f) {
  if constexpr (std::is_same_v<R, Mixed>) {
    bool halves = true;
    for (const Operand& o : c.inputs) halves = halves && o.dtype == DType::bf16;
    for (const Operand& o : c.outputs) halves = halves && o.dtype == DType::bf16;
    if (halves) return f([](const Operand& o) { return Halves{o.as<BFloat16>()}; });
  }
  f([](const Operand& o) { return reals<R>(o); });
}

// The first of the four elements of quad `at` in a block of rows x columns.
UNITY_DEVICE std::int64_t index_of(const Quad& at, int rows, int columns) {
  return (at.plane * rows + at.row) * columns + at.column;
}

template <class Array, class V>
UNITY_DEVICE void store_quad(const Array& y, std::int64_t i, const V (&v)[4], bool four, int count) {
  if (four) {
    y.store_four(i, {{v[0], v[1], v[2], v[3]}});
  } else {
    for (int j = 0; j < 4; ++j)
      if (j < count) y.store(i + j, v[j]);
  }
}

// The array that begins at element i.
template <class T>
UNITY_DEVICE Dense<T> after(const Dense<T>& x, std::int64_t i) {
  return {x.data + i};
}
UNITY_DEVICE Halves after(const Halves& x, std::int64_t i) { return {x.data + i}; }
UNITY_DEVICE FloatOrBFloat16 after(const FloatOrBFloat16& x, std::int64_t i) {
  return {static_cast<char*>(x.data) + i * (x.half ? 2 : 4), x.half};
}

// visit(u, a, right, value) for the elements, in row-major order, of each of the windows u = 0 .. 3 at `at`: of its row
// a (those in x alone), `right` of its first one. kStride: of windows three neighbours wide, where elements beside x
// are taken to be the nearest in x; 0: any geometry, elements beside x have the value `outside`. Every element is read
// at once, and none on a condition, or reads would wait for one another.
template <int kStride, class V, class Array, class Visit>
UNITY_DEVICE void visit_windows(const Image& g, const Array& x, const Quad& at, V outside, Visit visit) {
  const WindowLoop &rows = g.rows, &columns = g.columns;
  if (columns.size == 0) return;
  auto nearest = [&](int column) { return column < 0 ? 0 : column < columns.size ? column : columns.size - 1; };
  constexpr int kColumns = 3 * kStride + 3;
  int first = columns.position(at.column, 0), near[kColumns];
  for (int k = 0; k < kColumns; ++k) near[k] = nearest(first + k);
  Array plane = after(x, at.plane * rows.size * columns.size);
  for (int a = 0; a < rows.kernel; ++a) {
    int row = rows.position(at.row, a);
    if (!rows.inside(row)) continue;
    Array line = after(plane, row * columns.size);
    if constexpr (kStride > 0) {
      V value[kColumns];
      for (int k = 0; k < kColumns; ++k) value[k] = line.load(near[k]);
      for (int b = 0; b < 3; ++b)
        for (int u = 0; u < 4; ++u) {
          int k = u * kStride + b;
          visit(u, a, near[k] - first - u * kStride, value[k]);
        }
    } else {
      for (int begin = 0; begin < columns.kernel; begin += kTaps) {
        V value[kTaps][4];
        for (int t = 0; t < kTaps; ++t)
          for (int u = 0; u < 4; ++u) value[t][u] = line.load(nearest(columns.position(at.column + u, begin + t)));
        for (int t = 0; t < kTaps; ++t)
          for (int u = 0; u < 4; ++u) {
            bool inside = begin + t < columns.kernel && columns.inside(columns.position(at.column + u, begin + t));
            visit(u, a, (begin + t) * columns.dilation, inside ? value[t][u] : outside);
          }
      }
    }
  }
}

// The same for windows of 3 x 3, by two columns, that begin one to the left of multiples of eight, as are the columns:
// the four of a quad have, of each row, sixteen bytes and the element before.
constexpr int kEights = 8;
template <class Visit>
UNITY_DEVICE void visit_eights(const Image& g, const Halves& x, const Quad& at, Visit visit) {
  const WindowLoop &rows = g.rows, &columns = g.columns;
  if (rows.size == 0) return;
  int eight = at.column * 2, before = eight > 0 ? eight - 1 : 0;
  Halves plane = after(x, at.plane * rows.size * columns.size);
  Vectors<BFloat16>::Held eights[3];
  float first[3];
  for (int a = 0; a < 3; ++a) {
    int row = rows.position(at.row, a), line = (row < 0 ? 0 : row < rows.size ? row : rows.size - 1) * columns.size;
    eights[a] = Vectors<BFloat16>{plane.data}.read(line + eight);
    first[a] = plane.load(line + before);
  }
  for (int a = 0; a < 3; ++a) {
    if (!rows.inside(rows.position(at.row, a))) continue;
    for (int b = 0; b < 3; ++b)
      for (int u = 0; u < 4; ++u) {
        int k = 2 * u + b;
        float value = k == 0 ? first[a] : Vectors<BFloat16>::value(eights[a], k - 1);
        visit(u, a, k == 0 ? before - eight + 1 : b, value);
      }
  }
}
inline bool in_eights(const Image& g, const Halves& x) {
  const WindowLoop& c = g.columns;
  return g.rows.kernel == 3 && c.kernel == 3 && c.dilation == 1 && c.stride == 2 && c.pad == 1 && c.size % 8 == 0 &&
         2 * c.windows <= c.size && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

template <int kStride, class Array, class Visit>
UNITY_DEVICE void visit_for_maxima(const Image& g, const Array& x, const Quad& at, Visit visit) {
  if constexpr (kStride == kEights)
    visit_eights(g, x, at, visit);
  else
    visit_windows<kStride>(g, x, at, kMinusInfinity<typename Array::Value>, visit);
}

// The first element of the window at (row, column) that lies in x; false: none does.
struct Element {
  bool any;
  int a, b;
};
UNITY_DEVICE Element first_inside(const Image& g, int row, int column) {
  for (int a = 0; a < g.rows.kernel; ++a)
    for (int b = 0; b < g.columns.kernel; ++b)
      if (g.rows.inside(g.rows.position(row, a)) && g.columns.inside(g.columns.position(column, b)))
        return {true, a, b};
  return {false, 0, 0};
}

// Windows that may cover some of kTile rows of four positions, the first of which is at `at`: visit(r, w, load(index in
// the plane of window (r, w) .. )), where load's values of windows beyond the last ask for nothing.
constexpr int kTile = 2;
template <class Load, class Visit>
UNITY_DEVICE void visit_covering(const Covering& rows, const Covering& columns, const Quad& at, Load load,
                                 Visit visit) {
  auto within = [](const Covering& c, int i) { return i < c.loop.size ? i : c.loop.size - 1; };
  int begin = columns.first(at.column), last = columns.last(within(columns, at.column + 3));
  int last_row = rows.last(within(rows, at.row + kTile - 1));
  for (int r = rows.first(at.row); r <= last_row; ++r)
    for (int w = begin; w <= last; w += kTaps) {
      decltype(load(0, 0, true)) items[kTaps];
      for (int t = 0; t < kTaps; ++t) items[t] = load(r * columns.loop.windows + w, t, w + t <= last);
      for (int t = 0; t < kTaps; ++t) visit(r, w + t, items[t]);
    }
}

// For every tile of x: sums(tile, sum), and then sum is what is stored.
template <class Array, class Sums>
void for_each_tile(Stream stream, const Image& g, Array dx, Sums sums) {
  using V = typename Array::Value;
  bool four = g.columns.size % 4 == 0 && dx.aligned();
  for_each_quad(
      stream, g.planes, Quads((g.rows.size + kTile - 1) / kTile, g.columns.size), UNITY_LAMBDA(Quad at) {
        at.row *= kTile;
        V sum[kTile][4] = {};
        sums(at, sum);
        for (int i = 0; i < kTile; ++i)
          if (at.row + i < g.rows.size)
            store_quad(dx, index_of({at.plane, at.row + i, at.column}, g.rows.size, g.columns.size), sum[i], four,
                       g.columns.size - at.column);
      });
}

// By how much an element lies below and right of its window's first one, as one number: displacements below are far
// enough apart for the difference of two codes to tell whether an element is one of four neighbours.
template <class Code>
struct Displacement {
  using Difference = std::conditional_t<sizeof(Code) == 1, int, std::int64_t>;
  static constexpr int kBits = sizeof(Code) * 4;
  static constexpr Code kNone = static_cast<Code>(sizeof(Code) == 1 ? 0xff : std::uint64_t{1} << 62);
  UNITY_DEVICE static Difference of(int down, int right) {
    return static_cast<Difference>(down) * (Difference{1} << kBits) + right;
  }
};
constexpr int kSmall = 11;  // displacements that std::uint8_t holds: four neighbours of one are under 16, or negative

template <class V, class Code>
struct Maximum {
  Code at;
  V dy;
};

// Where each window has its first maximum.
template <class Code, int kStride, class Array>
void find_maxima(Stream stream, const Image& g, Array x, Code* where) {
  using V = typename Array::Value;
  using D = Displacement<Code>;
  bool four = g.columns.windows % 4 == 0;
  for_each_quad(
      stream, g.planes, Quads(g.rows.windows, g.columns.windows), UNITY_LAMBDA(const Quad& at) {
        V best[4];
        Code code[4];
        for (int u = 0; u < 4; ++u) best[u] = kMinusInfinity<V>, code[u] = D::kNone;
        visit_for_maxima<kStride>(g, x, at, [&](int u, int a, int right, V value) {
          bool better = exceeds(value, best[u]);
          best[u] = better ? value : best[u];
          code[u] = better ? static_cast<Code>(D::of(a * g.rows.dilation, right)) : code[u];
        });
        for (int u = 0; u < 4; ++u) {
          int column = g.columns.position(at.column + u, 0);
          if (kStride > 0 && kStride != kEights && (column + 2 < 0 || column >= g.columns.size)) code[u] = D::kNone;
          if (code[u] != D::kNone) continue;  // else all of it is minus infinity, or padding
          Element first = first_inside(g, at.row, at.column + u);
          if (first.any) code[u] = static_cast<Code>(D::of(first.a * g.rows.dilation, first.b * g.columns.dilation));
        }
        store_quad(Dense<Code>{where}, index_of(at, g.rows.windows, g.columns.windows), code, four,
                   g.columns.windows - at.column);
      });
}

// What comes back to each position.
template <class Code, class Array>
void return_maxima(Stream stream, const Image& g, const Code* where, Array dy, Array dx) {
  using V = typename Array::Value;
  using D = Displacement<Code>;
  Covering rows(g.rows), columns(g.columns);
  for_each_tile(
      stream, g, dx, UNITY_LAMBDA(const Quad& at, V(&sum)[kTile][4]) {
        std::int64_t plane = at.plane * rows.loop.windows * columns.loop.windows;
        const Code* codes = where + plane;
        Array slopes = after(dy, plane);
        visit_covering(
            rows, columns, at,
            [&](int i, int t, bool inside) {
              return Maximum<V, Code>{inside ? (codes + i)[t] : D::kNone, inside ? after(slopes, i).load(t) : V(0)};
            },
            [&](int r, int w, const Maximum<V, Code>& m) {
              auto distance = static_cast<typename D::Difference>(m.at) -
                              D::of(at.row - rows.loop.position(r, 0), at.column - columns.loop.position(w, 0));
              for (int i = 0; i < kTile; ++i)
                for (int k = 0; k < 4; ++k) sum[i][k] += distance == D::of(i, k) ? m.dy : V(0);
            });
      });
}

// The same for windows of 3 x 3 by 2 x 2: a tile lies in the same way, by constants, to the 2 x 3 windows that may
// cover some of it, the first of which begins kBefore above and left of it. kBefore: 1 where padding is odd, else 2.
template <int kBefore, class Array>
void return_of_threes(Stream stream, const Image& g, const std::uint8_t* where, Array dy, Array dx) {
  using V = typename Array::Value;
  using D = Displacement<std::uint8_t>;
  constexpr int kDown = 2, kAcross = 3;
  int row_pad = g.rows.pad - kBefore, column_pad = g.columns.pad - kBefore;
  int rows = g.rows.windows, columns = g.columns.windows;
  for_each_tile(
      stream, g, dx, UNITY_LAMBDA(const Quad& at, V(&sum)[kTile][4]) {
        if (rows == 0 || columns == 0) return;
        std::int64_t plane = at.plane * rows * columns;
        const std::uint8_t* codes = where + plane;
        Array slopes = after(dy, plane);
        int first_row = (at.row + row_pad) / 2, first_column = (at.column + column_pad) / 2;
        int code[kDown][kAcross];
        V slope[kDown][kAcross];
        for (int r = 0; r < kDown; ++r)
          for (int w = 0; w < kAcross; ++w) {
            int row = first_row + r, column = first_column + w;
            bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
            int i = inside ? row * columns + column : 0;
            slope[r][w] = slopes.load(i);
            code[r][w] = inside ? codes[i] : D::kNone;
          }
        for (int r = 0; r < kDown; ++r)
          for (int w = 0; w < kAcross; ++w)
            for (int i = 0; i < kTile; ++i)
              for (int k = 0; k < 4; ++k) {
                int down = kBefore - 2 * r + i, right = kBefore - 2 * w + k;
                if (down < 0 || down > 2 || right < 0 || right > 2) continue;
                sum[i][k] += code[r][w] == D::of(down, right) ? slope[r][w] : V(0);
              }
      });
}

template <class Code, class Array>
void max_gradient(const Call& c, const Image& g, Array x, Array dy, Array dx) {
  constexpr bool kHalves = std::is_same_v<Array, Halves>, kSpecial = kHalves || std::is_same_v<Array, Dense<float>>;
  auto* where = static_cast<Code*>(c.scratch(c.inputs[1].elements() * static_cast<std::int64_t>(sizeof(Code))));
  if constexpr (kSpecial && sizeof(Code) == 1) {
    const WindowLoop &rows = g.rows, &columns = g.columns;
    int by = columns.kernel == 3 && columns.dilation == 1 ? columns.stride : 0;
    auto find = [&] {
      if constexpr (kHalves)
        if (in_eights(g, x)) return find_maxima<Code, kEights>(c.stream, g, x, where);
      if (by == 1) return find_maxima<Code, 1>(c.stream, g, x, where);
      if (by == 2) return find_maxima<Code, 2>(c.stream, g, x, where);
      find_maxima<Code, 0>(c.stream, g, x, where);
    };
    find();
    bool odd = rows.pad % 2 != 0;
    if (by == 2 && rows.kernel == 3 && rows.dilation == 1 && rows.stride == 2 && odd == (columns.pad % 2 != 0))
      return odd ? return_of_threes<1>(c.stream, g, where, dy, dx) : return_of_threes<2>(c.stream, g, where, dy, dx);
  } else {
    find_maxima<Code, 0>(c.stream, g, x, where);
  }
  return_maxima(c.stream, g, where, dy, dx);
}

template <class Array>
void max_pool(const Call& c, const Image& g, Array x, Array y) {
  using V = typename Array::Value;
  bool four = g.columns.windows % 4 == 0 && y.aligned();
  for_each_quad(
      c.stream, g.planes, Quads(g.rows.windows, g.columns.windows), UNITY_LAMBDA(const Quad& at) {
        V best[4];
        for (int u = 0; u < 4; ++u) best[u] = kMinusInfinity<V>;
        visit_windows<0>(g, x, at, kMinusInfinity<V>,
                         [&](int u, int, int, V value) { best[u] = exceeds(value, best[u]) ? value : best[u]; });
        for (int u = 0; u < 4; ++u)
          if (best[u] == kMinusInfinity<V> && !first_inside(g, at.row, at.column + u).any) best[u] = 0;
        store_quad(y, index_of(at, g.rows.windows, g.columns.windows), best, four, g.columns.windows - at.column);
      });
}

template <class Array>
void average_pool(const Call& c, const Image& g, Array x, Array y) {
  using V = typename Array::Value;
  Share<V> share = share_of<V>(c, g);
  bool four = g.columns.windows % 4 == 0 && y.aligned();
  for_each_quad(
      c.stream, g.planes, Quads(g.rows.windows, g.columns.windows), UNITY_LAMBDA(const Quad& at) {
        V sum[4] = {};
        visit_windows<0>(g, x, at, V(0), [&](int u, int, int, V value) { sum[u] += value; });
        for (int u = 0; u < 4; ++u) sum[u] *= share.of(g.rows, g.columns, at.row, at.column + u);
        store_quad(y, index_of(at, g.rows.windows, g.columns.windows), sum, four, g.columns.windows - at.column);
      });
}

template <class Array>
void average_gradient(const Call& c, const Image& g, Array dy, Array dx) {
  using V = typename Array::Value;
  Share<V> share = share_of<V>(c, g);
  Covering rows(g.rows), columns(g.columns);
  for_each_tile(
      c.stream, g, dx, UNITY_LAMBDA(const Quad& at, V(&sum)[kTile][4]) {
        Array slopes = after(dy, at.plane * rows.loop.windows * columns.loop.windows);
        visit_covering(
            rows, columns, at, [&](int i, int t, bool inside) { return inside ? after(slopes, i).load(t) : V(0); },
            [&](int r, int w, V slope) {
              slope *= share.of(rows.loop, columns.loop, r, w);
              // Which element of the window lies at the first position.
              int a = at.row - rows.loop.position(r, 0), b = at.column - columns.loop.position(w, 0);
              for (int i = 0; i < kTile; ++i)
                for (int k = 0; k < 4; ++k) {
                  bool covered = a + i >= 0 && a + i < rows.loop.kernel && b + k >= 0 && b + k < columns.loop.kernel;
                  sum[i][k] += covered ? slope : V(0);
                }
            });
      });
}

}  // namespace

template <class R>
void max_pool2d_of(const Call& c) {
  if (c.channels_last) return max_pool2d_channels_last_kernel(c);
  Image g =
      image_of(max_pool2d_windows("max_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], c.outputs[0]);
  with_arrays<R>(c, [&](auto array) { max_pool(c, g, array(c.inputs[0]), array(c.outputs[0])); });
}
UNITY_CUDA_KERNEL(max_pool2d)

template <class R>
void max_pool2d_gradient_of(const Call& c) {
  if (c.channels_last) return max_pool2d_gradient_channels_last_kernel(c);
  Image g =
      image_of(max_pool2d_windows("max_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], c.inputs[1]);
  with_arrays<R>(c, [&](auto array) {
    auto x = array(c.inputs[0]), dy = array(c.inputs[1]), dx = array(c.outputs[0]);
    if (std::max((g.rows.kernel - 1) * g.rows.dilation, (g.columns.kernel - 1) * g.columns.dilation) <= kSmall)
      max_gradient<std::uint8_t>(c, g, x, dy, dx);
    else
      max_gradient<std::uint64_t>(c, g, x, dy, dx);
  });
}
UNITY_CUDA_KERNEL(max_pool2d_gradient)

template <class R>
void avg_pool2d_of(const Call& c) {
  if (c.channels_last) return avg_pool2d_channels_last_kernel(c);
  Image g =
      image_of(avg_pool2d_windows("avg_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], c.outputs[0]);
  with_arrays<R>(c, [&](auto array) { average_pool(c, g, array(c.inputs[0]), array(c.outputs[0])); });
}
UNITY_CUDA_KERNEL(avg_pool2d)

template <class R>
void avg_pool2d_gradient_of(const Call& c) {
  if (c.channels_last) return avg_pool2d_gradient_channels_last_kernel(c);
  Image g =
      image_of(avg_pool2d_windows("avg_pool2d", c.attributes, c.outputs[0].global).value(), c.outputs[0], c.inputs[0]);
  with_arrays<R>(c, [&](auto array) { average_gradient(c, g, array(c.inputs[0]), array(c.outputs[0])); });
}
UNITY_CUDA_KERNEL(avg_pool2d_gradient)

}  // namespace unity::cuda
