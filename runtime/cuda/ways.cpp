#include "runtime/cuda/ways.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include <fmt/ranges.h>

#include "core/base/error.h"

namespace unity::cuda {
namespace {

// Empty where it is not set.
std::string_view value_of(const char* name) {
  const char* text = emulated_variable ? emulated_variable(name) : std::getenv(name);
  return text ? text : "";
}
std::string_view value_of(const char* name, std::initializer_list<std::string_view> expected) {
  const std::string_view value = value_of(name);
  if (!value.empty() && std::find(expected.begin(), expected.end(), value) == expected.end())
    throw_input_error("{}: found '{}', expected {}", name, value, fmt::join(expected, " or "));
  return value;
}

}  // namespace

Ways ways_of_environment(Precision precision) {
  Ways ways;
  const std::string_view layout = value_of("UNITY_CUDA_LAYOUT", {"channels-last", "rows"});
  ways.channels_last =
      layout.empty() ? precision == Precision::bf16 || precision == Precision::tf32 : layout == "channels-last";
  const std::string_view eager = value_of("UNITY_CUDA_EAGER", {"0", "1"});
  if (!eager.empty()) ways.eager = eager == "1";
  ways.careful = value_of("UNITY_CUDA_SYNC", {"0", "1"}) == "1";
  const std::string_view tune = value_of("UNITY_CUDA_TUNE", {"0", "1", "last"});
  ways.choice = tune == "0" ? Choice::first : tune == "last" ? Choice::last : Choice::fastest;
  return ways;
}

void refuse_blocking_launches() {
  const std::string_view value = value_of("CUDA_LAUNCH_BLOCKING");
  if (value.empty() || value == "0") return;
  throw_input_error(
      "CUDA_LAUNCH_BLOCKING: found '{}', expected none where a process has several GPUs with NCCL, whose launch on one "
      "would wait for ever for those on others; UNITY_CUDA_SYNC=1 waits for each task, too",
      value);
}

std::string in_words(const Ways& ways) {
  const char* graphs = ways.eager ? "as graphs in any case" : "as graphs";
  return fmt::format("images {} and iterations {}", ways.channels_last ? "with channels last" : "in rows",
                     ways.by_graph(false) ? graphs : "task by task");
}

}  // namespace unity::cuda
