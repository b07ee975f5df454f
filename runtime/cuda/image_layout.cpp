#include "runtime/cuda/image_layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "core/base/parallel.h"
#include "core/ops/chain.h"

namespace unity::cuda {
namespace {

constexpr std::array<std::int64_t, 4> kPlace = {0, 3, 1, 2};  // the place of each dimension of [n, c, h, w]

constexpr std::array<std::string_view, 15> kImageOperators = {"avg_pool2d",
                                                              "avg_pool2d_gradient",
                                                              "batch_norm",
                                                              "batch_norm_gradient",
                                                              "conv2d",
                                                              "conv2d_input_gradient",
                                                              "conv2d_input_gradient_accumulate",
                                                              "conv2d_weight_gradient",
                                                              "conv2d_weight_gradient_accumulate",
                                                              "max_pool2d",
                                                              "max_pool2d_gradient",
                                                              "moments",
                                                              "moments_gradient",
                                                              "moments_gradient_accumulate",
                                                              "reshape"};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool reduces(const Operator& op) {
  return is_one_of(op.name(), {"reduce_sum", "reduce_mean", "reduce_max", "broadcast_like"});
}
bool joins(const Operator& op) { return is_one_of(op.name(), {"concat", "split"}); }

// Whether an operand of fewer than four dimensions, taken for one with ones before its own, lies in memory as it would
// with channels last.
bool has_one_order(const Dims& dims) {
  const std::size_t n = dims.size();
  if (n > 3) return false;
  const std::int64_t c = n == 3 ? dims[0] : 1;
  return c == 1 || element_count(dims) == c;
}

bool is_image(const ProgramTensor& t) { return t.dims.size() == 4; }

// Whether the result of a reduction of images has its dimensions in the same order in either layout.
bool keeps_order(const Attributes& attributes) {
  std::vector<bool> left(4, true);
  for (std::int64_t d : ints_attribute(attributes, 0)) {
    if (d < 0 || d > 3) return false;
    left[static_cast<std::size_t>(d)] = false;
  }
  return !left[1] || (!left[2] && !left[3]);
}

// Tensors that must be held in the same way, and what is known of each set of them.
class Sets {
 public:
  explicit Sets(std::size_t n) : parent_(n), rows_(n, false), images_(n, false) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t t) {
    while (parent_[t] != t) t = parent_[t] = parent_[parent_[t]];
    return t;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a), b = find(b);
    if (a == b) return;
    parent_[a] = b;
    rows_[b] = rows_[b] || rows_[a], images_[b] = images_[b] || images_[a];
  }
  void need_rows(std::size_t t) { rows_[find(t)] = true; }
  void want_channels(std::size_t t) { images_[find(t)] = true; }
  bool channels_last(std::size_t t) { return images_[find(t)] && !rows_[find(t)]; }

 private:
  std::vector<std::size_t> parent_;
  std::vector<bool> rows_, images_;
};

class Layout {
 public:
  explicit Layout(const Program& program) : p_(program), sets_(program.tensors.size()) {
    for (const Task& t : p_.tasks) add(t);
    for (const Communication& c : p_.communications)
      for (std::size_t k = 0; k < c.part_count(); ++k) add(c.part(k));
  }
  std::vector<bool> found() {
    std::vector<bool> all(p_.tensors.size(), false);
    for (std::size_t t = 0; t < all.size(); ++t) all[t] = is_image(p_.tensors[t]) && sets_.channels_last(t);
    return all;
  }

 private:
  std::size_t tensor(BufferId b) const { return static_cast<std::size_t>(p_.buffer(b).tensor); }

  // Of which those that are images are held in one way. Whether the others are broadcast alike in both orders.
  bool join(std::span<const BufferId> buffers) {
    std::size_t first = p_.tensors.size();
    bool fit = true;
    for (BufferId b : buffers) {
      std::size_t t = tensor(b);
      if (!is_image(p_.tensors[t])) {
        fit = fit && has_one_order(p_.tensors[t].dims);
        continue;
      }
      if (first == p_.tensors.size()) first = t;
      sets_.join(first, t);
    }
    return fit;
  }
  void need_rows(std::span<const BufferId> buffers) {
    for (BufferId b : buffers) sets_.need_rows(tensor(b));
  }

  void add(const Task& t) {
    auto ids = p_.operands_of(t);
    if (t.kind == TaskKind::communicate) return;
    const bool fit = join(ids);
    if (t.kind != TaskKind::compute) return;
    const ProgramOp& op = p_.ops[static_cast<std::size_t>(t.op)];
    if (op.chain) {
      if (!fit || op.chain->led_by_product()) need_rows(ids);
    } else if (op.op->name() == "reshape") {
      if (std::count_if(ids.begin(), ids.end(), [&](BufferId b) { return is_image(p_.tensors[tensor(b)]); }) > 1)
        need_rows(ids);
    } else if (is_image_operator(*op.op)) {
      for (BufferId b : ids)
        if (is_image(p_.tensors[tensor(b)])) sets_.want_channels(tensor(b));
    } else if (is_elementwise(*op.op) ||
               is_one_of(op.op->name(), {"mean_squared_error", "mean_squared_error_gradient"})) {
      if (!fit) need_rows(ids);
    } else if (!joins(*op.op) && !(reduces(*op.op) && keeps_order(op.attributes))) {
      need_rows(ids);
    }
  }

  void add(const std::vector<Participant>& participants) {
    std::vector<BufferId> all;
    for (const Participant& p : participants)
      for (BufferId b : {p.send, p.receive})
        if (b.valid()) all.push_back(b);
    join(all);
  }

  const Program& p_;
  Sets sets_;
};

// An all_to_all's participants have no piece.
void turn(Box& box) {
  if (box.rank() == 0) return;
  box.offset = to_channels_last(box.offset), box.extent = to_channels_last(box.extent);
}

void turn(Attributes& attributes, const Operator& op) {
  if (joins(op)) {
    attributes[0] = kPlace.at(static_cast<std::size_t>(int_attribute(attributes, 0)));
  } else if (reduces(op)) {
    Dims dims;
    for (std::int64_t d : ints_attribute(attributes, 0)) dims.push_back(kPlace.at(static_cast<std::size_t>(d)));
    std::sort(dims.begin(), dims.end());
    attributes[0] = dims;
  }
}

// Images by several threads, where they are large.
template <bool kTo, class T>
void move_as(const Dims& dims, const void* from, void* to) {
  constexpr std::size_t kLarge = 1 << 16;  // elements
  const auto n = static_cast<std::size_t>(dims[0]), c = static_cast<std::size_t>(dims[1]),
             area = static_cast<std::size_t>(dims[2] * dims[3]);
  const auto* source = static_cast<const T*>(from);
  auto* target = static_cast<T*>(to);
  parallel_for(n, n * c * area < kLarge ? 1 : 0, [&](std::size_t i) {
    const T* image = source + i * c * area;
    T* turned = target + i * c * area;
    for (std::size_t k = 0; k < c; ++k)
      for (std::size_t a = 0; a < area; ++a)
        turned[kTo ? a * c + k : k * area + a] = image[kTo ? k * area + a : a * c + k];
  });
}

template <bool kTo>
void move(const Dims& dims, std::size_t size, const void* from, void* to) {
  if (size == 4) return move_as<kTo, std::uint32_t>(dims, from, to);
  UNITY_CHECK(size == 8, "elements of {} bytes, expected 4 or 8", size);
  move_as<kTo, std::uint64_t>(dims, from, to);
}

}  // namespace

bool is_image_operator(const Operator& op) {
  return std::find(kImageOperators.begin(), kImageOperators.end(), op.name()) != kImageOperators.end();
}

Dims to_channels_last(const Dims& dims) {
  Dims d(4 - dims.size(), 1);
  d.insert(d.end(), dims.begin(), dims.end());
  return {d[0], d[2], d[3], d[1]};
}
Dims from_channels_last(const Dims& d) { return {d[0], d[3], d[1], d[2]}; }
void to_channels_last(const Dims& dims, std::size_t size, const void* from, void* to) {
  move<true>(dims, size, from, to);
}
void from_channels_last(const Dims& dims, std::size_t size, const void* from, void* to) {
  move<false>(dims, size, from, to);
}

ImageLayout image_layout(const Program& program, bool wanted) {
  ImageLayout layout{std::vector<bool>(program.tensors.size(), false), {}};
  if (wanted) layout.channels_last = Layout(program).found();
  const std::vector<bool>& last = layout.channels_last;
  if (std::find(last.begin(), last.end(), true) == last.end()) return layout;
  Program& p = layout.program.emplace(program);
  auto is_turned = [&](BufferId b) { return layout.channels_last[static_cast<std::size_t>(p.buffer(b).tensor)]; };
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (layout.channels_last[t]) p.tensors[t].dims = to_channels_last(p.tensors[t].dims);
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (is_turned(BufferId(static_cast<std::int64_t>(b)))) turn(p.buffers[b].box);
  std::vector<bool> op_done(p.ops.size(), false);
  for (Task& t : p.tasks) {
    auto ids = p.operands_of(t);
    if (std::none_of(ids.begin(), ids.end(), is_turned)) continue;
    const auto at = static_cast<std::size_t>(t.op);
    if (t.kind == TaskKind::copy || t.kind == TaskKind::accumulate) {
      Box box = p.boxes[at];  // which others may have, too
      turn(box);
      t.op = static_cast<std::int32_t>(p.boxes.size());
      p.boxes.push_back(std::move(box));
    } else if (t.kind == TaskKind::compute && !p.ops[at].chain) {
      if (!op_done[at]) turn(p.ops[at].attributes, *p.ops[at].op);
      op_done[at] = true;
    }
  }
  for (Communication& c : p.communications) {
    auto turned = [&](const std::vector<Participant>& all) {
      return std::any_of(all.begin(), all.end(), [&](const Participant& q) {
        return (q.send.valid() && is_turned(q.send)) || (q.receive.valid() && is_turned(q.receive));
      });
    };
    for (std::size_t k = 0; k < c.part_count(); ++k) {
      std::vector<Participant>& part = k == 0 ? c.participants : c.joined[k - 1];
      if (!turned(part)) continue;
      for (Participant& q : part) turn(q.piece);
      for (Exchange& e : c.exchanges)
        if (static_cast<std::size_t>(e.part) == k) turn(e.box);
    }
  }
  return layout;
}

}  // namespace unity::cuda
