// Descriptors of cuDNN's graph API as the played one (fake_cudnn.cpp) holds them.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include <cudnn_graph.h>

#include "tests/support/fake_elements.h"

namespace unity::fake {

// A descriptor; what it was given lives on in it, as in cuDNN.
struct Node {
  cudnnBackendDescriptorType_t type{};
  std::map<int, std::vector<std::byte>> values;
  std::map<int, std::vector<std::shared_ptr<Node>>> nodes;

  template <class T>
  std::vector<T> all(int name) const {
    auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<T> list(found->second.size() / sizeof(T));
    std::memcpy(list.data(), found->second.data(), found->second.size());
    return list;
  }
  template <class T>
  T get(int name) const {
    return all<T>(name).at(0);
  }
  const Node& node(int name) const { return *nodes.at(name).at(0); }
  bool has(int name) const { return nodes.contains(name); }
};
using Handle = std::shared_ptr<Node>;
inline Handle& at(cudnnBackendDescriptor_t d) { return *static_cast<Handle*>(d); }

struct Tensor {
  std::vector<std::int64_t> size, stride;
  FakeElements elements;
  std::int64_t where(std::int64_t n, std::int64_t c, std::int64_t h = 0, std::int64_t w = 0) const {
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
  }
};

using Pointers = std::map<std::int64_t, void*>;  // by tensor id
inline void* take(Pointers& given, const Node& tensor) {
  auto found = given.find(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
  if (found == given.end()) throw std::invalid_argument("a tensor of the graph has no data");
  void* data = found->second;
  given.erase(found);
  return data;
}
inline Tensor tensor(Pointers& given, const Node& op, int name) {
  const Node& of = op.node(name);
  Tensor t{of.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), of.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES), {}};
  auto type = of.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  t.elements = {take(given, of), type == CUDNN_DATA_DOUBLE     ? DType::f64
                                 : type == CUDNN_DATA_BFLOAT16 ? DType::bf16
                                                               : DType::f32};
  auto alignment = static_cast<std::uintptr_t>(of.get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  if (reinterpret_cast<std::uintptr_t>(t.elements.data) % alignment != 0)
    throw std::invalid_argument("data is not aligned as its tensor says");
  return t;
}

using Work = std::function<void()>;

// Attention, or its gradient: all operations of a graph, one after the other (fake_attention.cpp).
Work play(Pointers& given, const Node& graph);

}  // namespace unity::fake
