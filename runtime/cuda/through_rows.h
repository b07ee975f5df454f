// Image operators with channels last by kernels that know rows alone: operands of four dimensions are put in order in
// scratch memory before, and results after. For what no faster kernel takes.
#pragma once

#include <vector>

#include "runtime/cuda/alignment.h"
#include "runtime/cuda/call.h"

namespace unity::cuda {

// to[n, c, h, w] from [n, h, w, c], or back.
template <class Word>
void turn_image(Stream stream, const Dims& extent, bool to_rows, const Word* from, Word* to) {
  const std::int64_t channels = extent[1], area = extent[2] * extent[3];
  for_each(
      stream, element_count(extent), UNITY_LAMBDA(std::int64_t row) {
        const std::int64_t plane = row / area,
                           last = (plane / channels * area + row % area) * channels + plane % channels;
        to[to_rows ? row : last] = from[to_rows ? last : row];
      });
}

inline void turn_image(Stream stream, const Operand& image, bool to_rows, const void* from, void* to) {
  auto turn = [&]<class Word>(Word) {
    turn_image(stream, image.extent, to_rows, static_cast<const Word*>(from), static_cast<Word*>(to));
  };
  switch (size_of(image.dtype)) {
    case 2:
      return turn(std::uint16_t());
    case 4:
      return turn(std::uint32_t());
    default:
      return turn(std::uint64_t());
  }
}

// kernel(c), which takes no scratch memory, on operands in rows.
template <class F>
void through_rows(const Call& c, F kernel) {
  std::vector<Operand> inputs(c.inputs.begin(), c.inputs.end()), outputs(c.outputs.begin(), c.outputs.end());
  auto bytes = [](const Operand& o) { return aligned_bytes(o.elements() * size_of(o.dtype)); };
  std::int64_t all = 0;
  for (const std::vector<Operand>* operands : {&inputs, &outputs})
    for (const Operand& o : *operands)
      if (o.extent.size() == 4 && o.data) all += bytes(o);
  auto* scratch = static_cast<std::byte*>(c.scratch(all));
  for (std::vector<Operand>* operands : {&inputs, &outputs})
    for (Operand& o : *operands) {
      if (o.extent.size() != 4 || !o.data) continue;
      if (operands == &inputs) turn_image(c.stream, o, true, o.data, scratch);
      o.data = scratch;
      scratch += bytes(o);
    }
  kernel(Call{c.attributes, inputs, outputs, c.random, c.step, c.stream, c.scratch, false});
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].extent.size() == 4) turn_image(c.stream, outputs[i], false, outputs[i].data, c.outputs[i].data);
}

}  // namespace unity::cuda
