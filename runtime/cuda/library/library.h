// Kernels from NVIDIA's libraries: cuBLASLt for products of matrices, cuDNN for convolution, pooling, norms and
// attention. Each operator has an ordered list of implementations. One either prepares a kernel for given shapes,
// offsets and element types, or declines with a reason; of those that do not, options().choice takes one; where all
// decline, our own kernel runs (find_kernel in call.h).
//
//   Libraries libraries({.math = Math::tf32}, workspace);        // on the current device
//   Prepared prepared = libraries.prepare(op, attributes, inputs, outputs);
//   if (prepared.kernel) prepared.kernel(call); else find_kernel(op)(call);
//
// Preparing chooses algorithms and may take seconds; running neither allocates nor waits, so that it can be captured in
// a CUDA graph: after one run outside, as CUDA loads the code of a kernel when it is first launched. A captured graph
// must not outlive the Libraries whose kernels it holds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/call.h"

namespace unity::cuda {

// How f32 operands are multiplied (sums are always at least f32):
//   f32   exactly, without tensor cores
//   tf32  rounded to 10 bits of mantissa
//   bf16  as tf32 among f32 operands; beside bf16 ones, f32 operands are rounded to bf16 first
// Operands of one product that are all bf16, or all f64, are multiplied as they are.
enum class Math : std::uint8_t { f32, tf32, bf16 };

// Which of several kernels for one call: the first; the fastest, by running them (tuning.h); the last, for tests.
enum class Choice : std::uint8_t { first, fastest, last };

struct LibraryOptions {
  Math math = Math::f32;
  std::int64_t workspace = std::int64_t{64} << 20;  // bytes of device memory that it is given
  std::int64_t scratch = std::int64_t{1} << 30;     // bytes that a plan of cuDNN may ask of Call::scratch to work in
  bool deterministic = true;                        // only algorithms whose sums have a fixed order
  Choice choice = Choice::fastest;
};

// Operands must have the element types, extents, offsets and global sizes that were prepared, and data aligned to 16
// bytes. Takes Call::scratch once at most. Throws LibraryError.
using LibraryKernel = std::function<void(const Call&)>;

struct LibraryPlan {
  LibraryKernel kernel;
  std::string description;   // what was chosen, for reports
  std::int64_t scratch = 0;  // bytes that the kernel asks of Call::scratch
};

struct Prepared {
  LibraryKernel kernel;  // null when every implementation declined, or there is none
  std::string description;
  std::int64_t scratch = 0;
  std::vector<std::string> declined;  // reasons, in the order of the implementations tried
};

// What of a chain of operators behind a product its kernel computes, too (epilogue_of() in cublas_shapes.h).
struct Epilogue {
  bool bias = false;  // is added: the last of the call's inputs, an element for each column of the result
  bool relu = false;  // after that
  bool any() const { return bias || relu; }
};

// The shapes of a call without its data.
struct LibraryCall {
  const Operator& op;
  const Attributes& attributes;
  std::span<const Operand> inputs, outputs;
  Epilogue epilogue;           // only products are asked for one
  bool channels_last = false;  // as Call's
};

// Handles, workspace and plans of one stream of one device. All kernels share the workspace, so their calls must follow
// one another (on one stream, or ordered by events). For one thread at a time, with that device current.
class Libraries {
 public:
  // For the current device; throws where it has none. `workspace` must outlive it.
  Libraries(const LibraryOptions& options, void* workspace);
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  // Equal shapes share one plan. Throws LibraryError when a library fails otherwise than by not taking the call.
  Prepared prepare(const Operator& op, const Attributes& attributes, std::span<const Operand> inputs,
                   std::span<const Operand> outputs, const Epilogue& epilogue = {}, bool channels_last = false);

  // For implementations.
  const LibraryOptions& options() const { return options_; }
  struct Handles;
  Handles& handles() { return *handles_; }
  void* workspace() const { return workspace_; }
  // What `make` returned the first time for this key.
  const Result<LibraryPlan>& once(const std::string& key, const std::function<Result<LibraryPlan>()>& make);

 private:
  LibraryOptions options_;
  std::unique_ptr<Handles> handles_;
  void* workspace_ = nullptr;
  std::unordered_map<std::string, Result<LibraryPlan>> plans_;
};

std::string library_versions();  // "cuBLASLt 130101, cuDNN 91900"

// An implementation: prepares, or says why not.
using Implementation = Result<LibraryPlan> (*)(Libraries&, const LibraryCall&);

Result<LibraryPlan> cublaslt_matmul(Libraries& libraries, const LibraryCall& call);
Result<LibraryPlan> cublaslt_conv(Libraries& libraries, const LibraryCall& call);
Result<LibraryPlan> cudnn_conv(Libraries& libraries, const LibraryCall& call);
Result<LibraryPlan> cudnn_conv_then_add(Libraries& libraries, const LibraryCall& call);
Result<LibraryPlan> cudnn_pool(Libraries& libraries, const LibraryCall& call);
Result<LibraryPlan> cudnn_attention(Libraries& libraries, const LibraryCall& call);
Result<LibraryPlan> cudnn_norm(Libraries& libraries, const LibraryCall& call);

}  // namespace unity::cuda
