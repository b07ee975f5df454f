// Independent work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace unity {

// Calls f(0) .. f(n-1), on up to `jobs` threads (0: one for each core). Which thread runs what is not determined, so f
// must only write what belongs to its index. An exception of the smallest index is rethrown when all are done.
void parallel_for(std::size_t n, int jobs, const std::function<void(std::size_t)>& f);

}  // namespace unity
