#include "core/ops/parallelization.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kDimAndDegree = {{"dim", AttributeKind::integer, true, {}},
                                                  {"degree", AttributeKind::integer, true, {}}};
const std::vector<AttributeSpec> kDegree = {{"degree", AttributeKind::integer, true, {}}};

constexpr std::int64_t kMostParts = 1 << 20;

Result<int> degree_of(std::string_view op, const Attributes& a, std::size_t i) {
  std::int64_t d = int_attribute(a, i);
  if (d < 1 || d > kMostParts) return fail("{}: degree is {}, expected 1 to {}", op, d, kMostParts);
  return static_cast<int>(d);
}

// A degree times another.
Result<int> parts_of(std::string_view op, int degree, int d) {
  std::int64_t parts = std::int64_t{degree} * d;
  if (parts > kMostParts) return fail("{}: found {} parts, expected at most {}", op, parts, kMostParts);
  return static_cast<int>(parts);
}

Result<ParallelDim*> dim_of(std::string_view op, const Attributes& a, ParallelShape& x) {
  std::int64_t dim = int_attribute(a, 0);
  if (dim < 0 || dim >= static_cast<std::int64_t>(x.dims.size()))
    return fail("{}: dimension is {}, expected 0 to {} for {}", op, dim, static_cast<int>(x.dims.size()) - 1,
                to_string(x));
  return &x.dims[static_cast<std::size_t>(dim)];
}

std::vector<ParallelShape> one(ParallelShape shape) { return {std::move(shape)}; }

}  // namespace

Result<AxisTable> Parallelization::axes(const Attributes&, std::span<const Shape> inputs) const {
  AxisTable table;
  OperandAxes operand;
  for (std::size_t i = 0; i < inputs[0].dims.size(); ++i) {
    table.axes.push_back({fmt::format("d{}", i), inputs[0].dims[i], AxisRole::parallel});
    operand.dims.push_back({{static_cast<int>(i)}, std::nullopt, 0});
  }
  operand.linear = true;
  operand.dtype = inputs[0].dtype;
  table.inputs.assign(inputs.size(), operand);
  table.outputs = {operand};
  table.linearity = Linearity::joint;
  table.flops_per_point = 0;
  return table;
}

void Parallelization::reference(const OpCall& call) const {
  auto bytes = static_cast<std::size_t>(call.outputs[0].elements() * size_of(call.outputs[0].dtype));
  std::copy_n(call.inputs[0].as<char>(), bytes, call.outputs[0].as<char>());
}

std::vector<AttributeSpec> Partition::attributes() const { return kDimAndDegree; }
Result<std::vector<ParallelShape>> Partition::parallel_shapes(const Attributes& a,
                                                              const std::vector<ParallelShape>& in) const {
  ParallelShape x = in[0];
  ParallelDim* dim = UNITY_TRY(dim_of(name(), a, x));
  int d = UNITY_TRY(degree_of(name(), a, 1));
  std::int64_t parts = static_cast<std::int64_t>(dim->degree) * d * dim->micro;
  if (dim->size < parts || (dim->micro > 1 && dim->size % parts != 0))
    return fail("partition: degree {} is too large for dimension {} of {}", d, int_attribute(a, 0), to_string(in[0]));
  dim->degree = UNITY_TRY(parts_of(name(), dim->degree, d));
  return one(x);
}
UNITY_DEFINE_OPERATOR(partition, Partition)

std::vector<AttributeSpec> Combine::attributes() const { return kDimAndDegree; }
Result<std::vector<ParallelShape>> Combine::parallel_shapes(const Attributes& a,
                                                            const std::vector<ParallelShape>& in) const {
  ParallelShape x = in[0];
  ParallelDim* dim = UNITY_TRY(dim_of(name(), a, x));
  int d = UNITY_TRY(degree_of(name(), a, 1));
  if (dim->degree % d != 0)
    return fail("combine: found degree {} in dimension {} of {}, expected a multiple of {}", dim->degree,
                int_attribute(a, 0), to_string(in[0]), d);
  dim->degree /= d;
  return one(x);
}
UNITY_DEFINE_OPERATOR(combine, Combine)

std::vector<AttributeSpec> Replicate::attributes() const { return kDegree; }
Result<std::vector<ParallelShape>> Replicate::parallel_shapes(const Attributes& a,
                                                              const std::vector<ParallelShape>& in) const {
  ParallelShape x = in[0];
  if (x.partials != 1)
    return fail("replicate: operand holds partial sums ({}), and a copied summand would count twice; reduce it first",
                to_string(x));
  x.copies = UNITY_TRY(parts_of(name(), x.copies, UNITY_TRY(degree_of(name(), a, 0))));
  return one(x);
}
UNITY_DEFINE_OPERATOR(replicate, Replicate)

std::vector<AttributeSpec> Reduce::attributes() const { return kDegree; }
Result<std::vector<ParallelShape>> Reduce::parallel_shapes(const Attributes& a,
                                                           const std::vector<ParallelShape>& in) const {
  ParallelShape x = in[0];
  int d = UNITY_TRY(degree_of(name(), a, 0));
  if (x.partials % d != 0)
    return fail("reduce: found partials {} in {}, expected a multiple of {}", x.partials, to_string(in[0]), d);
  x.partials /= d;
  if (x.partials == 1) x.monoid = Monoid::sum;
  return one(x);
}
UNITY_DEFINE_OPERATOR(reduce, Reduce)

std::vector<AttributeSpec> Pipeline::attributes() const { return kDimAndDegree; }
Result<std::vector<ParallelShape>> Pipeline::parallel_shapes(const Attributes& a,
                                                             const std::vector<ParallelShape>& in) const {
  ParallelShape x = in[0];
  ParallelDim* dim = UNITY_TRY(dim_of(name(), a, x));
  int m = UNITY_TRY(degree_of(name(), a, 1));
  if (dim->size % (static_cast<std::int64_t>(dim->degree) * dim->micro * m) != 0)
    return fail("pipeline: {} micro-batches do not divide dimension {} of {}", m, int_attribute(a, 0),
                to_string(in[0]));
  dim->micro = UNITY_TRY(parts_of(name(), dim->micro, m));
  return one(x);
}
UNITY_DEFINE_OPERATOR(pipeline, Pipeline)

std::vector<AttributeSpec> Batch::attributes() const { return kDimAndDegree; }
Result<std::vector<ParallelShape>> Batch::parallel_shapes(const Attributes& a,
                                                          const std::vector<ParallelShape>& in) const {
  ParallelShape x = in[0];
  ParallelDim* dim = UNITY_TRY(dim_of(name(), a, x));
  int m = UNITY_TRY(degree_of(name(), a, 1));
  if (dim->micro % m != 0)
    return fail("batch: found {} micro-batches in dimension {} of {}, expected a multiple of {}", dim->micro,
                int_attribute(a, 0), to_string(in[0]), m);
  dim->micro /= m;
  return one(x);
}
UNITY_DEFINE_OPERATOR(batch, Batch)

std::vector<AttributeSpec> StackPartials::attributes() const { return {}; }
Result<std::vector<ParallelShape>> StackPartials::parallel_shapes(const Attributes&,
                                                                  const std::vector<ParallelShape>& in) const {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].partials != 1)
      return fail("stack_partials: operand {} already holds partial sums ({})", i, to_string(in[i]));
    if (in[i] != in[0])
      return fail("stack_partials: operand {} is {}, expected {} as operand 0", i, to_string(in[i]), to_string(in[0]));
  }
  ParallelShape x = in[0];
  x.partials = static_cast<int>(in.size());
  return one(x);
}
void StackPartials::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    T* out = call.outputs[0].as<T>();
    std::int64_t n = call.outputs[0].elements();
    std::fill_n(out, n, T(0));
    for (const Operand& in : call.inputs)
      for (std::int64_t i = 0; i < n; ++i) out[i] += in.as<T>()[i];
  });
}
UNITY_DEFINE_OPERATOR(stack_partials, StackPartials)

}  // namespace unity
