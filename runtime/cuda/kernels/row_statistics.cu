// One group of threads to a row, which it reads four elements at a time where it may.
#include "runtime/cuda/elements.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/row_statistics.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vector_access.h"

namespace unity::cuda {

namespace {

// Items of kCount elements each.
template <int kCount, class X>
void statistics(Stream stream, X x, std::int64_t rows, std::int64_t columns, float epsilon, float* mean,
                float* inverse) {
  const std::int64_t items = columns / kCount;
  const bool centred = mean != nullptr;
  for_each_group(
      stream, rows, kCount == 1 || items > 1024 ? row_work(items) : items,
      UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Row row(group, items, [&](std::int64_t j) { return load_some<kCount>(x, r * columns + j * kCount); });
        auto sum_of = [&](auto f) {
          return row.sum([&](const auto& item) {
            float s = 0;
            for (int c = 0; c < kCount; ++c) s += f(to_real(item.v[c]));
            return s;
          });
        };
        float centre = centred ? sum_of([](float v) { return v; }) / static_cast<float>(columns) : 0;
        float square = sum_of([&](float v) { return (v - centre) * (v - centre); }) / static_cast<float>(columns);
        if (group.rank() != 0) return;
        if (centred) mean[r] = centre;
        inverse[r] = inverse_root(square + epsilon);
      });
}

}  // namespace

void row_statistics(Stream stream, const void* x, DType type, std::int64_t rows, std::int64_t columns, double epsilon,
                    float* mean, float* inverse) {
  const FloatOrBFloat16 items{const_cast<void*>(x), type == DType::bf16};
  const auto little = static_cast<float>(epsilon);
  if (columns % 4 != 0 || !items.aligned())
    statistics<1>(stream, items, rows, columns, little, mean, inverse);
  else if (items.half)
    statistics<4>(stream, Dense<BFloat16>{static_cast<BFloat16*>(items.data)}, rows, columns, little, mean, inverse);
  else
    statistics<4>(stream, Dense<float>{static_cast<float*>(items.data)}, rows, columns, little, mean, inverse);
}

}  // namespace unity::cuda
