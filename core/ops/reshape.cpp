#include "core/ops/reshape.h"

#include <cstring>
#include <numeric>

#include "core/ops/define.h"

namespace unity {
namespace {

// One side of a reshape, consumed from the left: the dimension in work and what remains of its size.
class Side {
 public:
  Side(const Dims& sizes, std::string prefix) : sizes_(sizes), prefix_(std::move(prefix)) {
    axes_.dims.assign(sizes.size(), walk({}));
    skip();
  }
  bool done() const { return dim_ == sizes_.size(); }
  std::int64_t remaining() const { return remaining_; }
  // The dimension in work walks `axis`, of size `factor`.
  void take(int axis, std::int64_t factor) {
    axes_.dims[dim_].axes.push_back(axis);
    remaining_ /= factor;
    if (remaining_ == 1) ++dim_, skip();
  }
  // What remains of the dimension in work becomes a whole axis of its own.
  void take_whole(AxisTable& table) {
    std::int64_t size = remaining_;
    take(add_axis(table, fmt::format("{}{}", prefix_, dim_), size, AxisRole::whole), size);
  }
  OperandAxes axes() const { return axes_; }

 private:
  void skip() {  // dimensions of size 1 walk no axis
    while (dim_ < sizes_.size() && sizes_[dim_] == 1) ++dim_;
    remaining_ = dim_ < sizes_.size() ? sizes_[dim_] : 1;
  }
  const Dims& sizes_;
  std::string prefix_;
  OperandAxes axes_;
  std::size_t dim_ = 0;
  std::int64_t remaining_ = 1;
};

}  // namespace

std::vector<AttributeSpec> Reshape::attributes() const { return {{"shape", AttributeKind::integers, true, {}}}; }

Result<AxisTable> Reshape::axes(const Attributes& a, std::span<const Shape> in) const {
  const Dims& shape = ints_attribute(a, 0);
  for (std::int64_t size : shape)
    if (size < 1) return fail("reshape: shape is {}, expected sizes of at least 1", to_string(a[0]));
  std::int64_t count = 1;
  bool beyond = false;  // all numbers
  for (std::int64_t size : shape) beyond = __builtin_mul_overflow(count, size, &count) || beyond;
  if (beyond || count != in[0].elements())
    return fail("reshape: shape {} has {} elements, expected {} as in {}", to_string(a[0]),
                beyond ? "too many" : std::to_string(count), in[0].elements(), to_string(in[0]));
  AxisTable t;
  Side x(in[0].dims, "in"), y(shape, "out");
  while (!x.done()) {
    std::int64_t common = std::gcd(x.remaining(), y.remaining());
    if (common > 1) {
      int axis = add_axis(t, fmt::format("d{}", t.axes.size()), common, AxisRole::parallel);
      x.take(axis, common);
      y.take(axis, common);
      continue;
    }
    std::int64_t left = 1, right = 1;
    do {
      Side& behind = left <= right ? x : y;
      (left <= right ? left : right) *= behind.remaining();
      behind.take_whole(t);
    } while (left != right);
  }
  OperandAxes from = x.axes(), to = y.axes();
  for (const OperandAxes* side : {&from, &to})
    for (const DimAxes& dim : side->dims)
      for (std::size_t i = 1; i < dim.axes.size(); ++i)
        t.axes[static_cast<std::size_t>(dim.axes[i])].role = AxisRole::whole;
  from.dtype = to.dtype = in[0].dtype;
  from.linear = true;
  t.inputs = {from};
  t.outputs = {to};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 0;
  return t;
}

void Reshape::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("reshape", {g.shape(g.input(0)).dims}, {g.output_gradient()}));
}

void Reshape::reference(const OpCall& call) const {
  const Operand& y = call.outputs[0];
  std::memcpy(y.data, call.inputs[0].data, static_cast<std::size_t>(y.elements() * size_of(y.dtype)));
}

std::vector<Example> Reshape::examples() const {
  return {{{Dims{2, 4, 3, 6}}, {{{2, 4, 18}, DType::f32}}},
          {{Dims{2, 4, 18}}, {{{2, 4, 3, 6}, DType::f32}}},
          {{Dims{24, 2}}, {{{4, 6, 2}, DType::f32}}},
          {{Dims{1, 4, 6}}, {{{6, 4}, DType::f32}}},
          {{Dims{2, 4, 3}}, {{{12, 2}, DType::f32}}}};
}

std::string_view Reshape::axioms() const {
  return R"(
axiom reshape_of_reshape
  reshape(s, reshape(t, x)) = reshape(s, x)
axiom reshape_to_same_1
  reshape(s, x) = x
  where rank(x) == 1, s == [dim(x, 0)]
axiom reshape_to_same_2
  reshape(s, x) = x
  where rank(x) == 2, s == [dim(x, 0), dim(x, 1)]
axiom reshape_to_same_3
  reshape(s, x) = x
  where rank(x) == 3, s == [dim(x, 0), dim(x, 1), dim(x, 2)]
axiom reshape_to_same_4
  reshape(s, x) = x
  where rank(x) == 4, s == [dim(x, 0), dim(x, 1), dim(x, 2), dim(x, 3)]
)";
}
UNITY_DEFINE_OPERATOR(reshape, Reshape)

}  // namespace unity
