// cuDNN's graph API: descriptors with typed attributes, tensors, and execution plans for graphs of operations.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/ops/shape.h"
#include "runtime/cuda/library/library_check.h"

namespace unity::cuda {

namespace detail {
template <class T>
constexpr cudnnBackendAttributeType_t kAttributeType = [] { static_assert(sizeof(T) == 0, "no attribute type"); }();
template <>
inline constexpr auto kAttributeType<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto kAttributeType<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto kAttributeType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnResampleMode_t> = CUDNN_TYPE_RESAMPLE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnPaddingMode_t> = CUDNN_TYPE_PADDING_MODE;
template <>
inline constexpr auto kAttributeType<cudnnNanPropagation_t> = CUDNN_TYPE_NAN_PROPOGATION;
template <>
inline constexpr auto kAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnBackendNormMode_t> = CUDNN_TYPE_NORM_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendNormFwdPhase_t> = CUDNN_TYPE_NORM_FWD_PHASE;
template <>
inline constexpr auto kAttributeType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
}  // namespace detail

// A backend descriptor. It keeps alive those it was given as attributes.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    UNITY_LIBRARY_CHECK(cudnnBackendSetAttribute(get(), name, detail::kAttributeType<T>,
                                                 static_cast<std::int64_t>(values.size()), values.data()));
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  template <class T, std::size_t N>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::array<T, N>& values) {
    return set(name, std::span<const T>(values));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values);
  Descriptor& finalize();
  cudnnBackendDescriptor_t get() const { return raw_->handle; }

 private:
  struct Raw {
    cudnnBackendDescriptor_t handle = nullptr;
    std::vector<std::shared_ptr<Raw>> attributes;
    ~Raw() {
      if (handle) cudnnBackendDestroyDescriptor(handle);
    }
  };
  std::shared_ptr<Raw> raw_;
};

cudnnDataType_t cudnn_type(DType type);

// A tensor of a graph: its id, and how its memory is walked. Ids are those of plan arguments.
struct GraphTensor {
  std::int64_t id = 0;
  std::vector<std::int64_t> sizes, strides;  // in elements
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t alignment = 16;  // of its data, in bytes
  bool inner = false;           // only between operations of the graph: has no memory
  bool by_value = false;        // a number in host memory, taken when the plan runs
};
Descriptor describe(const GraphTensor& tensor);

// y = mode(x), mode(x, b), or for a selection t ? x : b; an index along `axis` is generated in the shape of x. Computed
// in `precision`.
struct PointwiseOp {
  cudnnPointwiseMode_t mode;
  Descriptor x, y;
  std::optional<Descriptor> b, t;
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  std::int64_t axis = -1;
};
Descriptor pointwise(const PointwiseOp& op);

// Where plans are to run: a device given by a handle; or, with no device at hand, by its properties as cuDNN writes
// them (a finalized CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), to see what cuDNN would choose.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

struct PlanLimits {
  std::int64_t workspace = 0;
  bool deterministic = true;  // sums in a fixed order
  // f32 operands are neither rounded (tensor cores take tf32) nor transformed before they are multiplied (Winograd,
  // Fourier). Otherwise they may be, but rounded no further than to tf32.
  bool exact = false;
};

class GraphPlan {
 public:
  // For a graph of finalized operations: of the engines that cuDNN's heuristics propose (mode A, or where none of these
  // will do, those that always work) the first ones, `most` of them at most, that keep the limits and can be built.
  // Declines when there is none.
  static Result<std::vector<GraphPlan>> candidates(const PlanTarget& target, const std::vector<Descriptor>& operations,
                                                   const PlanLimits& limits, std::size_t most);
  // The first of these.
  static Result<GraphPlan> choose(const PlanTarget& target, const std::vector<Descriptor>& operations,
                                  const PlanLimits& limits);

  // data[i] belongs to the tensor of id ids[i]. On the handle's stream.
  void run(cudnnHandle_t handle, std::span<const std::int64_t> ids, std::span<void* const> data, void* workspace) const;
  std::int64_t workspace() const { return workspace_; }
  const std::string& name() const { return name_; }

 private:
  explicit GraphPlan(Descriptor plan) : plan_(std::move(plan)) {}
  Descriptor plan_;
  std::int64_t workspace_ = 0;
  std::string name_;
};

}  // namespace unity::cuda
