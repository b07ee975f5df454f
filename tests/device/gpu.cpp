#include "tests/device/gpu.h"

#include <iostream>

#include "core/base/error.h"
#include "runtime/backend.h"
#include "tests/support/runtime_program.h"

namespace unity::test {
namespace {

// Empty when the backend can run here.
std::string reason_without_gpu() {
  ProgramByHand h;
  std::int32_t x = h.leaf("x", "input", {Dims{1}, std::string("f32")});
  BufferId from = h.buffer(x, 0, whole_box({1}), BufferCategory::input);
  h.compute("relu", {}, {from, h.buffer(h.tensor("y", {1}), 0, whole_box({1}))});
  Processes alone;
  try {
    make_backend("cuda", h.program, alone);
    return {};
  } catch (const InputError& e) {
    return e.what();
  }
}

}  // namespace

bool gpu_or_skip() {
  static const std::string reason = reason_without_gpu();  // a test asks again for each of its sections
  if (!reason.empty()) std::cout << "skipped: no CUDA device: " << reason << '\n';
  return reason.empty();
}

bool shares_gpu(const std::string& backend, int devices) {
  return backend == "cuda" && devices > describe_device(backend).count;
}

}  // namespace unity::test
