// One group of threads to a row.
#include "runtime/cuda/elements.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/row_statistics.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {

void row_statistics(Stream stream, const void* x, DType type, std::int64_t rows, std::int64_t columns, double epsilon,
                    float* mean, float* inverse) {
  FloatOrBFloat16 items{const_cast<void*>(x), type == DType::bf16};
  const auto little = static_cast<float>(epsilon);
  const bool centred = mean != nullptr;
  for_each_group(
      stream, rows, row_work(columns), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Row row(group, columns, [&](std::int64_t j) { return items.load(r * columns + j); });
        float centre = centred ? row.sum([](float v) { return v; }) / static_cast<float>(columns) : 0;
        float square = row.sum([&](float v) { return (v - centre) * (v - centre); }) / static_cast<float>(columns);
        if (group.rank() != 0) return;
        if (centred) mean[r] = centre;
        inverse[r] = inverse_root(square + little);
      });
}

}  // namespace unity::cuda
