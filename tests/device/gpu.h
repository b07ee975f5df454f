// Tests that need a GPU say so where there is none, and count as skipped.
#pragma once

namespace unity::test {

// Whether the CUDA backend can run here. If not, prints "skipped: no CUDA device" with the reason; by that ctest knows.
bool gpu_or_skip();

}  // namespace unity::test
