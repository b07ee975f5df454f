// cuDNN's graph API played on the host (fake_cuda.h): graphs of one convolution, pooling, or norm of rows, as its
// documentation defines them, and those of attention (fake_attention.cpp). It has an engine for these, and for no other
// graph.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cudnn_nodes.h"

using namespace unity;
using namespace unity::fake;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

constexpr std::int64_t kWorkspace = 4096;
constexpr std::size_t kForward = 14;  // operations that attention has at most, and its gradient more

// What a plan for the graph works in: the gradient of attention in so many bytes for each score.
std::int64_t workspace_of(const Node& graph) {
  const auto& ops = graph.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (ops.size() <= kForward) return kWorkspace;
  for (const Handle& op : ops)
    if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
      std::int64_t scores = fake_cuda_score_bytes();
      for (std::int64_t size :
           op->node(CUDNN_ATTR_OPERATION_MATMUL_CDESC).all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS))
        scores *= size;
      return std::max(kWorkspace, scores);
    }
  throw std::invalid_argument("a graph of many operations has no product");
}

// With h the normalised row and q = gamma dy:  dx = (q - mean(q) - h mean(q h)) inverse; RMS norm without mean(q).
Work norm(Pointers& given, const Node& op, bool backward) {
  auto mode = op.get<cudnnBackendNormMode_t>(backward ? CUDNN_ATTR_OPERATION_NORM_BWD_MODE
                                                      : CUDNN_ATTR_OPERATION_NORM_FWD_MODE);
  bool centred = mode == CUDNN_LAYER_NORM;
  if (!backward) {
    Tensor x = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC),
           y = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC),
           gamma = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC), beta;
    if (centred) beta = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    const Node& by_value = op.node(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
    if (by_value.get<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) == 0) throw std::invalid_argument("epsilon is no value");
    double epsilon = static_cast<double>(*static_cast<float*>(take(given, by_value)));
    return [=] {
      std::int64_t columns = x.size[1];
      for (std::int64_t r = 0; r < x.size[0]; ++r) {
        double mean = 0, square = 0;
        for (std::int64_t j = 0; j < columns && centred; ++j) mean += x.elements.get(x.where(r, j));
        mean /= static_cast<double>(columns);
        for (std::int64_t j = 0; j < columns; ++j) {
          double off = x.elements.get(x.where(r, j)) - mean;
          square += off * off;
        }
        double inverse = 1 / std::sqrt(square / static_cast<double>(columns) + epsilon);
        for (std::int64_t j = 0; j < columns; ++j)
          y.elements.put(y.where(r, j),
                         (x.elements.get(x.where(r, j)) - mean) * inverse * gamma.elements.get(gamma.where(0, j)) +
                             (centred ? beta.elements.get(beta.where(0, j)) : 0));
      }
    };
  }
  Tensor x = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
         dy = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC),
         gamma = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC),
         inverses = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
         dx = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC),
         dgamma = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC), means, dbeta;
  if (centred) {
    means = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
    dbeta = tensor(given, op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC);
  }
  return [=] {
    std::int64_t columns = x.size[1];
    std::vector<double> of_gamma(static_cast<std::size_t>(columns)), of_beta(of_gamma);
    for (std::int64_t r = 0; r < x.size[0]; ++r) {
      double inverse = inverses.elements.get(inverses.where(r, 0)), mean_q = 0, mean_qh = 0;
      double mean = centred ? means.elements.get(means.where(r, 0)) : 0;
      auto h = [&](std::int64_t j) { return (x.elements.get(x.where(r, j)) - mean) * inverse; };
      auto q = [&](std::int64_t j) { return gamma.elements.get(gamma.where(0, j)) * dy.elements.get(dy.where(r, j)); };
      for (std::int64_t j = 0; j < columns; ++j) {
        mean_q += centred ? q(j) / static_cast<double>(columns) : 0;
        mean_qh += q(j) * h(j) / static_cast<double>(columns);
        of_gamma[static_cast<std::size_t>(j)] += dy.elements.get(dy.where(r, j)) * h(j);
        of_beta[static_cast<std::size_t>(j)] += dy.elements.get(dy.where(r, j));
      }
      for (std::int64_t j = 0; j < columns; ++j)
        dx.elements.put(dx.where(r, j), (q(j) - mean_q - h(j) * mean_qh) * inverse);
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      dgamma.elements.put(dgamma.where(0, j), of_gamma[static_cast<std::size_t>(j)]);
      if (centred) dbeta.elements.put(dbeta.where(0, j), of_beta[static_cast<std::size_t>(j)]);
    }
  };
}

// f(element of x) for what of the window of y at (h, w) lies in the image.
template <class F>
void each_in_window(const Tensor& x, const Node& how, std::int64_t h, std::int64_t w, F&& f) {
  auto kernel = how.all<std::int64_t>(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS),
       stride = how.all<std::int64_t>(CUDNN_ATTR_RESAMPLE_STRIDES),
       pad = how.all<std::int64_t>(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS);
  for (std::int64_t a = 0; a < kernel[0]; ++a)
    for (std::int64_t b = 0; b < kernel[1]; ++b) {
      std::int64_t row = h * stride[0] - pad[0] + a, column = w * stride[1] - pad[1] + b;
      if (row >= 0 && row < x.size[2] && column >= 0 && column < x.size[3]) f(row, column);
    }
}

Work pool(Pointers& given, const Node& op, bool backward) {
  Tensor x = tensor(given, op,
                    backward ? CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC : CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC),
         y = tensor(given, op,
                    backward ? CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC : CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC);
  // As cuDNN's engines do: not read, but asked for.
  if (backward) {
    tensor(given, op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC);
    tensor(given, op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC);
  }
  Node how = op.node(backward ? CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC : CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC);
  return [=] {
    auto mode = how.get<cudnnResampleMode_t>(CUDNN_ATTR_RESAMPLE_MODE);
    auto kernel = how.all<std::int64_t>(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS);
    for (std::int64_t n = 0; n < x.size[0]; ++n)
      for (std::int64_t c = 0; c < x.size[1]; ++c) {
        std::vector<double> gradient(static_cast<std::size_t>(x.size[2] * x.size[3]));
        for (std::int64_t h = 0; h < y.size[2]; ++h)
          for (std::int64_t w = 0; w < y.size[3]; ++w) {
            double sum = 0, most = -std::numeric_limits<double>::infinity(), inside = 0;
            each_in_window(x, how, h, w, [&](std::int64_t row, std::int64_t column) {
              ++inside;
              if (backward) return;
              double v = x.elements.get(x.where(n, c, row, column));
              sum += v, most = std::max(most, v);
            });
            double over =
                mode == CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING ? inside : static_cast<double>(kernel[0] * kernel[1]);
            if (!backward)
              y.elements.put(y.where(n, c, h, w), mode == CUDNN_RESAMPLE_MAXPOOL ? most : sum / over);
            else
              each_in_window(x, how, h, w, [&](std::int64_t row, std::int64_t column) {
                gradient[static_cast<std::size_t>(row * x.size[3] + column)] +=
                    y.elements.get(y.where(n, c, h, w)) / over;
              });
          }
        for (std::int64_t i = 0; backward && i < x.size[2] * x.size[3]; ++i)
          x.elements.put(x.where(n, c, i / x.size[3], i % x.size[3]), gradient[static_cast<std::size_t>(i)]);
      }
  };
}

enum class Which : std::uint8_t { forward, data, filter };
struct ConvNames {
  int x, w, y, how, beta;
};
constexpr ConvNames kConvNames[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

// Result += beta times what is there.
Work convolve(Pointers& given, const Node& op, Which which) {
  const ConvNames& names = kConvNames[static_cast<std::size_t>(which)];
  Tensor x = tensor(given, op, names.x), w = tensor(given, op, names.w), y = tensor(given, op, names.y);
  Node how = op.node(names.how);
  // Of which cuDNN's engines make wrong sums.
  auto before = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
       behind = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  if (which == Which::filter && behind != before)
    throw std::invalid_argument("a gradient of filters has other pads behind than before");
  double beta =
      x.elements.type == DType::f64 ? op.get<double>(names.beta) : static_cast<double>(op.get<float>(names.beta));
  return [=] {
    auto pad = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
         dilation = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS),
         stride = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const Tensor& result = which == Which::forward ? y : which == Which::data ? x : w;
    std::map<std::int64_t, double> sums;  // by where they go
    for (std::int64_t a = 0; a < result.size[0]; ++a)
      for (std::int64_t b = 0; b < result.size[1]; ++b)
        for (std::int64_t c = 0; c < result.size[2]; ++c)
          for (std::int64_t d = 0; d < result.size[3]; ++d) {
            std::int64_t to = result.where(a, b, c, d);
            sums[to] = beta == 0 ? 0 : beta * result.elements.get(to);
          }
    std::int64_t filters_of_group = w.size[0] / (x.size[1] / w.size[1]);
    for (std::int64_t n = 0; n < y.size[0]; ++n)
      for (std::int64_t o = 0; o < y.size[1]; ++o)
        for (std::int64_t i = 0; i < w.size[1]; ++i)
          for (std::int64_t h = 0; h < y.size[2]; ++h)
            for (std::int64_t v = 0; v < y.size[3]; ++v)
              for (std::int64_t a = 0; a < w.size[2]; ++a)
                for (std::int64_t b = 0; b < w.size[3]; ++b) {
                  std::int64_t row = h * stride[0] - pad[0] + a * dilation[0],
                               column = v * stride[1] - pad[1] + b * dilation[1];
                  if (row < 0 || row >= x.size[2] || column < 0 || column >= x.size[3]) continue;
                  std::int64_t in = x.where(n, o / filters_of_group * w.size[1] + i, row, column),
                               filter = w.where(o, i, a, b), out = y.where(n, o, h, v);
                  if (which == Which::forward)
                    sums[out] += x.elements.get(in) * w.elements.get(filter);
                  else if (which == Which::data)
                    sums[in] += y.elements.get(out) * w.elements.get(filter);
                  else
                    sums[filter] += y.elements.get(out) * x.elements.get(in);
                }
    for (auto [to, sum] : sums) result.elements.put(to, sum);
  };
}

// Null where there is no engine for such a graph.
std::function<Work(Pointers&, const Node&)> engine_of(const Node& graph) {
  const auto& ops = graph.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (ops.size() > 1) return [&graph](Pointers& given, const Node&) { return play(given, graph); };
  switch (ops[0]->type) {
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return [](Pointers& given, const Node& op) {
        return norm(given, op, op.type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
      };
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
      return [](Pointers& given, const Node& op) {
        return pool(given, op, op.type == CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
      };
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return [](Pointers& given, const Node& op) { return convolve(given, op, Which::forward); };
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return [](Pointers& given, const Node& op) { return convolve(given, op, Which::data); };
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return [](Pointers& given, const Node& op) { return convolve(given, op, Which::filter); };
    default:
      return nullptr;
  }
}

thread_local std::string last_error;

cudnnStatus_t number(std::int64_t value, std::int64_t* count, void* to) {
  *count = 1;
  std::memcpy(to, &value, sizeof value);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return 1; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the fake"; }
void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (size == 0) return;
  std::size_t n = std::min(size - 1, last_error.size());
  std::memcpy(message, last_error.data(), n);
  message[n] = 0;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return *handle = new cudnnContext, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return delete handle, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return handle->stream = stream, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  auto node = std::make_shared<Node>();
  node->type = type;
  *d = new Handle(std::move(node));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  return delete static_cast<Handle*>(d), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* given = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) at(d)->nodes[name].push_back(at(given[i]));
    return CUDNN_STATUS_SUCCESS;
  }
  std::size_t bytes = type == CUDNN_TYPE_BOOLEAN || type == CUDNN_TYPE_CHAR ? 1
                      : type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_DOUBLE || type == CUDNN_TYPE_VOID_PTR ||
                              type == CUDNN_TYPE_HANDLE
                          ? 8
                          : 4;
  const auto* begin = static_cast<const std::byte*>(elements);
  at(d)->values[name] = {begin, begin + bytes * static_cast<std::size_t>(count)};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t requested, std::int64_t* count,
                                       void* elements) {
  const Node& node = *at(d);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      Handle graph = node.nodes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)[0];
      *count = fake_cuda_libraries_on() && engine_of(*graph) ? 2 : 0;  // which do the same
      if (*count == 0) last_error = "no engine of the fake";
      for (std::int64_t i = 0; i < std::min(requested, *count); ++i)
        at(static_cast<cudnnBackendDescriptor_t*>(elements)[i])->nodes[0] = {graph};
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return *count = 1, CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return number(1, count, elements);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return *count = 0, CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return number(workspace_of(node.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).node(0)), count, elements);
    default:
      return last_error = "an attribute that the fake does not have", CUDNN_STATUS_BAD_PARAM;
  }
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Node& graph = at(plan)->node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).node(0);
  const Node& op = graph.node(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  auto ids = at(pack)->all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto data = at(pack)->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* workspace = at(pack)->get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  try {
    if (ids.size() != data.size()) throw std::invalid_argument("ids and data are not of one number");
    Pointers given;
    for (std::size_t i = 0; i < ids.size(); ++i) given[ids[i]] = data[i];
    Work work = engine_of(graph)(given, op);
    if (!given.empty()) throw std::invalid_argument("data is given for a tensor that the graph does not have");
    bool normed = op.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
                  op.type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
    bool pooled = op.type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR ||
                  op.type == CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR;
    const bool several = graph.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).size() > 1;
    fake_cuda_count(several  ? &FakeLibraryCalls::attentions
                    : normed ? &FakeLibraryCalls::norms
                    : pooled ? &FakeLibraryCalls::pools
                             : &FakeLibraryCalls::convolutions);
    const auto bytes = static_cast<std::size_t>(std::min<std::int64_t>(workspace_of(graph), 1 << 16));
    cuda::emulate(handle->stream, [=] {
      std::memset(workspace, 0xff, bytes);
      work();
    });
  } catch (const std::invalid_argument& e) {
    return last_error = e.what(), CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}
}
