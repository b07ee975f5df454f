// Expert routing: which place of which expert a token takes.
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {

// First each token's best expert; then how many tokens of each chunk chose each expert, so that a token's place is the
// sum over the chunks before its own and over the tokens before it in its chunk.
template <class R>
void top1_dispatch_of(const Call& c) {
  using V = typename R::Value;
  constexpr std::int64_t kChunk = 64;
  const Operand &in = c.inputs[0], &out = c.outputs[0];
  auto gates = reals<R>(in), y = reals<R>(out);
  std::int64_t samples = in.extent[0], tokens = in.extent[1], experts = in.extent[2], capacity = out.extent[3];
  std::int64_t chunks = (tokens + kChunk - 1) / kChunk;
  auto* best =
      static_cast<int*>(c.scratch((samples * tokens + samples * chunks * experts) * static_cast<int>(sizeof(int))));
  int* counts = best + samples * tokens;
  for_each(
      c.stream, samples * tokens, UNITY_LAMBDA(std::int64_t row) {
        int chosen = 0;
        V largest = gates.load(row * experts);
        for (int e = 1; e < experts; ++e) {
          V gate = gates.load(row * experts + e);
          if (gate > largest) largest = gate, chosen = e;
        }
        best[row] = chosen;
      });
  for_each(
      c.stream, samples * chunks * experts, UNITY_LAMBDA(std::int64_t i) {
        std::int64_t sample = i / experts / chunks, begin = i / experts % chunks * kChunk;
        int count = 0;
        for (std::int64_t t = begin; t < begin + kChunk && t < tokens; ++t)
          count += best[sample * tokens + t] == i % experts;
        counts[i] = count;
      });
  for_each_group(
      c.stream, samples * tokens, experts * capacity, UNITY_LAMBDA(std::int64_t row, const Group& group) {
        std::int64_t sample = row / tokens, token = row % tokens, chunk = token / kChunk;
        int chosen = best[row], before = 0;
        for (std::int64_t q = group.rank(); q < chunk; q += group.size())
          before += counts[(sample * chunks + q) * experts + chosen];
        for (std::int64_t t = chunk * kChunk + group.rank(); t < token; t += group.size())
          before += best[sample * tokens + t] == chosen;
        std::int64_t place = group.sum(before), at = place < capacity ? chosen * capacity + place : -1;
        for (std::int64_t j = group.rank(); j < experts * capacity; j += group.size())
          y.store(row * experts * capacity + j, j == at ? 1 : 0);
      });
}
UNITY_CUDA_KERNEL(top1_dispatch)

}  // namespace unity::cuda
