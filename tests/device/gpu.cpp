#include "tests/device/gpu.h"

#include <iostream>

#include "core/base/error.h"
#include "runtime/backend.h"
#include "tests/support/runtime_program.h"

namespace unity::test {

bool gpu_or_skip() {
  ProgramByHand h;
  std::int32_t x = h.leaf("x", "input", {Dims{1}, std::string("f32")});
  BufferId from = h.buffer(x, 0, whole_box({1}), BufferCategory::input);
  h.compute("relu", {}, {from, h.buffer(h.tensor("y", {1}), 0, whole_box({1}))});
  Processes alone;
  try {
    make_backend("cuda", h.program, alone);
    return true;
  } catch (const InputError& e) {
    std::cout << "skipped: no CUDA device: " << e.what() << '\n';
    return false;
  }
}

}  // namespace unity::test
