#include "runtime/cpu/conv_primitive.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <dnnl.hpp>
#include <omp.h>

#include "runtime/cpu/conv_tools.h"

namespace unity::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

// Memory of this thread that grows to the largest size ever asked for: `which` tells apart what is used together.
void* scratch(std::size_t which, std::size_t bytes) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Space {
    std::unique_ptr<void, Free> data;
    std::size_t bytes = 0;
  };
  thread_local std::array<Space, 4> spaces;
  Space& space = spaces[which];
  if (space.bytes < bytes) {
    space.bytes = (bytes + 4095) / 4096 * 4096;
    space.data.reset(std::aligned_alloc(4096, space.bytes));
  }
  return space.data.get();
}

// One operand of a primitive: as the caller holds it, and as the primitive wants it.
struct Side {
  memory::desc plain, wanted;
  dnnl::reorder reorder;  // between the two, where they differ; into `wanted` for inputs, out of it for the result
  bool differs = false;
};

// A convolution primitive for one geometry with its reorders. Execution is const: any thread may run it.
struct Convolution {
  dnnl::primitive primitive;
  Side x, w, y;
  memory::desc scratchpad;
};

enum class Direction { forward, input_gradient, weight_gradient };

memory::desc any(const memory::desc& d) { return {d.dims(), memory::data_type::f32, memory::format_tag::any}; }

void connect(Side& side, const memory::desc& wanted, bool result) {
  side.wanted = wanted;
  side.differs = wanted != side.plain;
  if (!side.differs) return;
  const memory::desc &from = result ? side.wanted : side.plain, &to = result ? side.plain : side.wanted;
  side.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from, engine(), to));
}

// The image descriptors are those of the part that windows read (see Crop), inside the whole block.
std::unique_ptr<Convolution> make(const ConvGeometry& g, Direction direction) {
  auto c = std::make_unique<Convolution>();
  Crop crop(g);
  std::int64_t ci = g.ci / g.groups, co = g.co / g.groups;
  c->x.plain = memory::desc({g.n, g.ci, crop.h, crop.w}, memory::data_type::f32, {g.ci * g.h * g.w, g.h * g.w, g.w, 1});
  c->y.plain = memory::desc({g.n, g.co, g.oh, g.ow}, memory::data_type::f32, memory::format_tag::nchw);
  c->w.plain = g.groups == 1
                   ? memory::desc({co, ci, g.kh, g.kw}, memory::data_type::f32, memory::format_tag::oihw)
                   : memory::desc({g.groups, co, ci, g.kh, g.kw}, memory::data_type::f32, memory::format_tag::goihw);
  memory::dims stride = {g.stride[0], g.stride[1]}, dilation = {g.dilation[0] - 1, g.dilation[1] - 1};
  memory::dims before = {crop.pad_top, crop.pad_left}, after = {crop.pad_bottom, crop.pad_right};
  const auto algorithm = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::convolution_forward::primitive_desc forward({dnnl::prop_kind::forward_training, algorithm, any(c->x.plain),
                                                     any(c->w.plain), any(c->y.plain), stride, dilation, before, after},
                                                    attributes, engine());
  auto finish = [&](const auto& pd, const memory::desc& x, const memory::desc& w, const memory::desc& y) {
    connect(c->x, x, direction == Direction::input_gradient);
    connect(c->w, w, direction == Direction::weight_gradient);
    connect(c->y, y, direction == Direction::forward);
    c->scratchpad = pd.scratchpad_desc();
  };
  if (direction == Direction::input_gradient) {
    dnnl::convolution_backward_data::primitive_desc pd(
        {algorithm, any(c->x.plain), any(c->w.plain), any(c->y.plain), stride, dilation, before, after}, attributes,
        engine(), forward);
    finish(pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc());
    c->primitive = dnnl::convolution_backward_data(pd);
  } else if (direction == Direction::weight_gradient) {
    dnnl::convolution_backward_weights::primitive_desc pd(
        {algorithm, any(c->x.plain), any(c->w.plain), any(c->y.plain), stride, dilation, before, after}, attributes,
        engine(), forward);
    finish(pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc());
    c->primitive = dnnl::convolution_backward_weights(pd);
  } else {
    finish(forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc());
    c->primitive = dnnl::convolution_forward(forward);
  }
  return c;
}

// Convolutions made so far, for all threads. Primitives are made for a number of threads, so it is part of the key.
const Convolution& find(const ConvGeometry& g, Direction direction) {
  struct Key {
    ConvGeometry geometry;
    Direction direction;
    int threads;
    auto operator<=>(const Key&) const = default;
  };
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<Convolution>> made;
  std::lock_guard lock(mutex);
  auto& entry = made[{g, direction, omp_get_max_threads()}];
  if (!entry) entry = make(g, direction);
  return *entry;
}

// The memory a primitive reads or writes: the caller's where the formats agree, else scratch.
memory held(const Side& side, std::size_t which, void* data) {
  return {side.wanted, engine(), side.differs ? scratch(which, side.wanted.get_size()) : data};
}
memory given(const Side& side, std::size_t which, const void* data) {
  auto* plain = const_cast<void*>(data);
  memory m = held(side, which, plain);
  if (side.differs) {
    memory from(side.plain, engine(), plain);
    side.reorder.execute(stream(), from, m);
  }
  return m;
}
void take(const Side& side, memory& m, void* data) {
  if (!side.differs) return;
  memory to(side.plain, engine(), data);
  side.reorder.execute(stream(), m, to);
}
memory scratchpad(const Convolution& c) {
  return {c.scratchpad, engine(), scratch(3, std::max<std::size_t>(c.scratchpad.get_size(), 1))};
}

}  // namespace

void primitive_forward(const ConvGeometry& g, const float* x, const float* w, float* y) {
  Crop crop(g);
  const Convolution& c = find(g, Direction::forward);
  memory source = given(c.x, 0, x + crop.first), weights = given(c.w, 1, w), result = held(c.y, 2, y);
  c.primitive.execute(stream(), {{DNNL_ARG_SRC, source},
                                 {DNNL_ARG_WEIGHTS, weights},
                                 {DNNL_ARG_DST, result},
                                 {DNNL_ARG_SCRATCHPAD, scratchpad(c)}});
  take(c.y, result, y);
  stream().wait();
}

void primitive_input_gradient(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  Crop crop(g);
  if (crop.crops(g)) std::memset(dx, 0, static_cast<std::size_t>(g.n * g.ci * g.h * g.w) * sizeof(float));
  const Convolution& c = find(g, Direction::input_gradient);
  memory gradient = given(c.y, 2, dy), weights = given(c.w, 1, w), result = held(c.x, 0, dx + crop.first);
  c.primitive.execute(stream(), {{DNNL_ARG_DIFF_DST, gradient},
                                 {DNNL_ARG_WEIGHTS, weights},
                                 {DNNL_ARG_DIFF_SRC, result},
                                 {DNNL_ARG_SCRATCHPAD, scratchpad(c)}});
  take(c.x, result, dx + crop.first);
  stream().wait();
}

void primitive_weight_gradient(const ConvGeometry& g, const float* x, const float* dy, float* dw) {
  Crop crop(g);
  const Convolution& c = find(g, Direction::weight_gradient);
  memory source = given(c.x, 0, x + crop.first), gradient = given(c.y, 2, dy), result = held(c.w, 1, dw);
  c.primitive.execute(stream(), {{DNNL_ARG_SRC, source},
                                 {DNNL_ARG_DIFF_DST, gradient},
                                 {DNNL_ARG_DIFF_WEIGHTS, result},
                                 {DNNL_ARG_SCRATCHPAD, scratchpad(c)}});
  take(c.w, result, dw);
  stream().wait();
}

}  // namespace unity::cpu
