#include "runtime/cuda/library/library.h"

#include <array>

#include "runtime/cuda/library/handles.h"
#include "runtime/cuda/library/tuning.h"

namespace unity::cuda {
namespace {

struct Entry {
  std::string_view op, name;
  Implementation implementation;
  bool or_own = false;  // our own kernel is among those to choose from
};
// For each operator in order of preference.
constexpr std::array kImplementations = {
    Entry{"attention", "cudnn", cudnn_attention},
    Entry{"attention_gradient", "cudnn", cudnn_attention},
    Entry{"avg_pool2d", "cudnn", cudnn_pool, true},
    Entry{"avg_pool2d_gradient", "cudnn", cudnn_pool, true},
    Entry{"batch_matmul", "cublaslt", cublaslt_matmul},
    Entry{"conv2d", "cudnn", cudnn_conv},
    Entry{"conv2d", "cublaslt", cublaslt_conv},
    Entry{"conv2d_input_gradient", "cudnn", cudnn_conv},
    Entry{"conv2d_input_gradient", "cublaslt", cublaslt_conv},
    Entry{"conv2d_input_gradient_accumulate", "cudnn", cudnn_conv},
    Entry{"conv2d_input_gradient_accumulate", "cudnn", cudnn_conv_then_add},
    Entry{"conv2d_input_gradient_accumulate", "cublaslt", cublaslt_conv},
    Entry{"conv2d_weight_gradient", "cudnn", cudnn_conv},
    Entry{"conv2d_weight_gradient", "cublaslt", cublaslt_conv},
    Entry{"conv2d_weight_gradient_accumulate", "cudnn", cudnn_conv},
    Entry{"conv2d_weight_gradient_accumulate", "cublaslt", cublaslt_conv},
    Entry{"layer_norm", "cudnn", cudnn_norm, true},
    Entry{"layer_norm_gradient", "cudnn", cudnn_norm, true},
    Entry{"matmul", "cublaslt", cublaslt_matmul},
    Entry{"matmul_accumulate", "cublaslt", cublaslt_matmul},
    Entry{"matmul_weight_gradient", "cublaslt", cublaslt_matmul},
    Entry{"matmul_weight_gradient_accumulate", "cublaslt", cublaslt_matmul},
    Entry{"max_pool2d", "cudnn", cudnn_pool, true},
    Entry{"rms_norm", "cudnn", cudnn_norm, true},
    Entry{"rms_norm_gradient", "cudnn", cudnn_norm, true},
};

std::string shapes(const LibraryCall& call) {
  std::string text = call.op.name();
  for (std::span<const Operand> operands : {call.inputs, call.outputs})
    for (const Operand& o : operands) text += fmt::format(" {}", to_string(Shape{o.extent, o.dtype}));
  return text + (call.channels_last ? " channels last" : "");
}

}  // namespace

std::string library_versions() { return fmt::format("cuBLASLt {}, cuDNN {}", cublasLtGetVersion(), cudnnGetVersion()); }

Libraries::Handles::~Handles() {
  if (cudnn_) cudnnDestroy(cudnn_);
  if (cublas_) cublasLtDestroy(cublas_);
}

cublasLtHandle_t Libraries::Handles::cublas() {
  if (!cublas_) UNITY_LIBRARY_CHECK(cublasLtCreate(&cublas_));
  return cublas_;
}

cudnnHandle_t Libraries::Handles::cudnn() {
  if (!cudnn_) UNITY_LIBRARY_CHECK(cudnnCreate(&cudnn_));
  return cudnn_;
}

cudnnHandle_t Libraries::Handles::cudnn_on(Stream stream) {
  if (stream != current_) UNITY_LIBRARY_CHECK(cudnnSetStream(cudnn(), stream));
  current_ = stream;
  return cudnn();
}

Libraries::Libraries(const LibraryOptions& options, void* workspace)
    : options_(options), handles_(std::make_unique<Handles>()), workspace_(workspace) {}

Libraries::~Libraries() = default;

const Result<LibraryPlan>& Libraries::once(const std::string& key, const std::function<Result<LibraryPlan>()>& make) {
  auto found = plans_.find(key);
  if (found == plans_.end()) found = plans_.emplace(key, make()).first;
  return found->second;
}

Prepared Libraries::prepare(const Operator& op, const Attributes& attributes, std::span<const Operand> inputs,
                            std::span<const Operand> outputs, const Epilogue& epilogue, bool channels_last) {
  LibraryCall call{op, attributes, inputs, outputs, epilogue, channels_last};
  Prepared prepared;
  std::vector<LibraryPlan> plans;
  bool or_own = false;
  for (const Entry& entry : kImplementations) {
    if (entry.op != op.name()) continue;
    try {
      Result<LibraryPlan> plan = entry.implementation(*this, call);
      if (!plan) {
        prepared.declined.push_back(fmt::format("{}: {}", entry.name, plan.error().message));
        continue;
      }
      plans.push_back(*plan);
      plans.back().description = fmt::format("{}: {}", entry.name, plan->description);
      or_own = entry.or_own;
      if (options_.choice == Choice::first) break;
    } catch (const LibraryError& e) {
      if (!e.unsupported) throw LibraryError(fmt::format("{}: {}", shapes(call), e.what()), false);
      prepared.declined.push_back(fmt::format("{}: {}", entry.name, e.what()));
    }
  }
  if (plans.empty()) return prepared;
  std::vector<LibraryKernel> kernels;
  for (const LibraryPlan& plan : plans) kernels.push_back(plan.kernel);
  if (or_own && options_.choice != Choice::first) kernels.emplace_back(find_kernel(op));
  const std::size_t chosen = choose_kernel(*this, call, shapes(call), kernels);
  if (chosen == plans.size()) {
    prepared.declined.push_back("our own kernel is taken");
    return prepared;
  }
  prepared.description = plans[chosen].description;
  prepared.scratch = plans[chosen].scratch;
  prepared.kernel = [run = plans[chosen].kernel, text = shapes(call)](const Call& c) {
    try {
      run(c);
    } catch (const LibraryError& e) {
      throw LibraryError(fmt::format("{}: {}", text, e.what()), e.unsupported);
    }
  };
  return prepared;
}

}  // namespace unity::cuda
