#include "runtime/cuda/library/staging.h"

#include <algorithm>

#include "runtime/cuda/library/convert.h"

namespace unity::cuda {

Result<DType> Staging::product_type(Math math, const LibraryCall& call) {
  bool halves = false, inputs_are_halves = true;
  for (std::span<const Operand> operands : {call.inputs, call.outputs})
    for (const Operand& o : operands) {
      if (o.dtype != DType::f32 && o.dtype != DType::f64 && o.dtype != DType::bf16)
        return fail("element type {}", to_string(o.dtype));
      if ((o.dtype == DType::f64) != (call.inputs[0].dtype == DType::f64)) return fail("f64 beside other types");
      halves |= o.dtype == DType::bf16;
    }
  for (const Operand& o : call.inputs) inputs_are_halves &= o.dtype == DType::bf16;
  if (!halves) return call.inputs[0].dtype;
  if (!inputs_are_halves && math != Math::bf16) return fail("f32 operands beside bf16, which are not to be rounded");
  return DType::bf16;
}

Staging::Staging(const LibraryCall& call, std::span<const DType> wanted) : inputs_(call.inputs.size()) {
  UNITY_CHECK(wanted.size() == call.inputs.size() + call.outputs.size() && wanted.size() <= kMostOperands,
              "{}: {} element types", call.op.name(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Operand& o = i < inputs_ ? call.inputs[i] : call.outputs[i - inputs_];
    operands_.push_back({o.dtype, wanted[i], o.elements(), bytes_});
    if (o.dtype != wanted[i]) bytes_ += aligned_bytes(o.elements() * size_of(wanted[i]));
  }
}

void Staging::reserve(std::int64_t bytes) {
  reserved_at_ = bytes_;
  bytes_ += bytes;
}

Pointers Staging::begin(const Call& call, void** reserved) const {
  Pointers pointers{};
  auto* scratch = bytes_ > 0 ? static_cast<std::byte*>(call.scratch(bytes_)) : nullptr;
  if (reserved) *reserved = scratch + reserved_at_;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Staged& o = operands_[i];
    void* held = i < inputs_ ? call.inputs[i].data : call.outputs[i - inputs_].data;
    pointers[i] = o.held == o.wanted ? held : scratch + o.at;
    if (i < inputs_ && held && o.held != o.wanted)
      convert(call.stream, held, o.held, pointers[i], o.wanted, o.elements);
  }
  return pointers;
}

void Staging::end(const Call& call, const Pointers& pointers) const {
  for (std::size_t i = inputs_; i < operands_.size(); ++i) {
    const Staged& o = operands_[i];
    if (o.held != o.wanted)
      convert(call.stream, pointers[i], o.wanted, call.outputs[i - inputs_].data, o.held, o.elements);
  }
}

std::string Staging::key() const {
  std::string text;
  for (const Staged& o : operands_)
    text += fmt::format(" {}>{}:{}", to_string(o.held), to_string(o.wanted), o.elements);
  return text;
}

}  // namespace unity::cuda
