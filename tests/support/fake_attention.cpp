// Graphs of many operations, as those of attention are: each operation by itself on tensors in memory, rounded to their
// types. What lies where strides say is what a reshape sees in another way.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/fake_cudnn_nodes.h"

namespace unity::fake {
namespace {

using Index = std::vector<std::int64_t>;

struct View {
  Index size, stride;
  std::int64_t id = 0;
  cudnnDataType_t type{};

  std::int64_t at(Index i) const {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < size.size(); ++d) place += (size[d] == 1 ? 0 : i[d]) * stride[d];  // 1: broadcast
    return place;
  }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t s : size) n *= s;
    return n;
  }
};

View view(const Node& tensor) {
  return {tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)};
}

double rounded(double x, cudnnDataType_t type) {
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<double>(cuda::to_float(cuda::to_bfloat16(static_cast<float>(x))));
  return type == CUDNN_DATA_FLOAT ? static_cast<double>(static_cast<float>(x)) : x;
}

// While a graph is played: tensors between operations by id, in the order of memory.
struct Player {
  Pointers outside;
  std::map<std::int64_t, std::vector<double>> inside;

  double get(const View& v, const Index& i) const {
    if (auto given = outside.find(v.id); given != outside.end()) {
      if (v.elements() == 1 && v.type == CUDNN_DATA_FLOAT && by_value.contains(v.id))
        return static_cast<double>(*static_cast<const float*>(given->second));
      return FakeElements{given->second, v.type == CUDNN_DATA_BFLOAT16 ? DType::bf16 : DType::f32}.get(v.at(i));
    }
    return inside.at(v.id).at(static_cast<std::size_t>(v.at(i)));
  }
  void put(const View& v, const Index& i, double x) {
    if (auto given = outside.find(v.id); given != outside.end())
      return FakeElements{given->second, v.type == CUDNN_DATA_BFLOAT16 ? DType::bf16 : DType::f32}.put(v.at(i), x);
    std::vector<double>& values = inside[v.id];
    values.resize(static_cast<std::size_t>(v.elements()));
    values[static_cast<std::size_t>(v.at(i))] = rounded(x, v.type);
  }
  std::map<std::int64_t, bool> by_value;
};

template <class F>
void for_each(const Index& size, F&& f) {
  Index i(size.size(), 0);
  for (std::int64_t left = View{size, size, 0, {}}.elements(); left > 0; --left) {
    f(i);
    for (std::size_t d = i.size(); d-- > 0;) {
      if (++i[d] < size[d]) break;
      i[d] = 0;
    }
  }
}

void multiply(Player& p, const Node& op) {
  const View a = view(op.node(CUDNN_ATTR_OPERATION_MATMUL_ADESC)), b = view(op.node(CUDNN_ATTR_OPERATION_MATMUL_BDESC)),
             c = view(op.node(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
  for_each(c.size, [&](const Index& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.size[3]; ++k)
      sum += p.get(a, {i[0], i[1], i[2], k}) * p.get(b, {i[0], i[1], k, i[3]});
    p.put(c, i, sum);
  });
}

void reduce(Player& p, const Node& op) {
  const View x = view(op.node(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
             y = view(op.node(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
  const bool largest =
      op.node(CUDNN_ATTR_OPERATION_REDUCTION_DESC).get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
      CUDNN_REDUCE_TENSOR_MAX;
  for_each(y.size, [&](const Index& i) {
    double value = largest ? -std::numeric_limits<double>::infinity() : 0;
    for (std::int64_t k = 0; k < x.size[3]; ++k) {
      const double next = p.get(x, {i[0], i[1], i[2], k});
      value = largest ? std::max(value, next) : value + next;
    }
    p.put(y, i, value);
  });
}

void apply(Player& p, const Node& op) {
  const Node& how = op.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = how.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const View x = view(op.node(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
             y = view(op.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  View b, t;
  if (op.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) b = view(op.node(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  if (op.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)) t = view(op.node(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
  for_each(y.size, [&](const Index& i) {
    auto left = [&] { return p.get(x, i); };
    auto right = [&] { return p.get(b, i); };
    switch (mode) {
      case CUDNN_POINTWISE_MUL:
        return p.put(y, i, left() * right());
      case CUDNN_POINTWISE_SUB:
        return p.put(y, i, left() - right());
      case CUDNN_POINTWISE_ADD:
        return p.put(y, i, left() + right());
      case CUDNN_POINTWISE_DIV:
        return p.put(y, i, left() / right());
      case CUDNN_POINTWISE_EXP:
        return p.put(y, i, std::exp(left()));
      case CUDNN_POINTWISE_LOG:
        return p.put(y, i, std::log(left()));
      case CUDNN_POINTWISE_GEN_INDEX:
        return p.put(
            y, i, static_cast<double>(i[static_cast<std::size_t>(how.get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS))]));
      case CUDNN_POINTWISE_CMP_GE:
        return p.put(y, i, left() >= right() ? 1 : 0);
      case CUDNN_POINTWISE_BINARY_SELECT:
        return p.put(y, i, p.get(t, i) != 0 ? left() : right());
      default:
        throw std::invalid_argument("the fake has no such element-wise operation");
    }
  });
}

// The same memory in another way.
void reshape(Player& p, const Node& op) {
  const View x = view(op.node(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)),
             y = view(op.node(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
  std::vector<double> memory(static_cast<std::size_t>(x.elements()));
  for_each(x.size, [&](const Index& i) { memory[static_cast<std::size_t>(x.at(i))] = p.get(x, i); });
  for_each(y.size, [&](const Index& i) { p.put(y, i, memory.at(static_cast<std::size_t>(y.at(i)))); });
}

}  // namespace

Work play(Pointers& given, const Node& graph) {
  Player p;
  std::vector<Handle> ops = graph.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (const Handle& op : ops)
    for (const auto& [name, tensors] : op->nodes)
      for (const Handle& tensor : tensors) {
        if (tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || tensor->get<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0)
          continue;
        const auto id = tensor->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        if (!p.outside.contains(id)) p.outside[id] = take(given, *tensor);
        if (tensor->values.contains(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) p.by_value[id] = true;
        const auto alignment = static_cast<std::uintptr_t>(tensor->get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
        if (!p.by_value.contains(id) && reinterpret_cast<std::uintptr_t>(p.outside[id]) % alignment != 0)
          throw std::invalid_argument("data is not aligned as its tensor says");
      }
  // Numbers are taken when the graph is run, as cuDNN does.
  std::map<std::int64_t, float> numbers;
  for (const auto& [id, yes] : p.by_value) numbers[id] = *static_cast<const float*>(p.outside[id]);
  return [p, ops, numbers]() mutable {
    for (auto& [id, number] : numbers) p.outside[id] = &number;
    for (const Handle& op : ops) switch (op->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
          multiply(p, *op);
          break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
          reduce(p, *op);
          break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
          apply(p, *op);
          break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
          reshape(p, *op);
          break;
        default:
          throw std::invalid_argument("the fake has no such operation");
      }
    p.inside.clear();
  };
}

}  // namespace unity::fake
