// Optimizer steps on the device: the equations of core/plan/optimizer.h, in the weights' precision. One launch updates
// a list of shards. Step number and learning-rate factor are read from device memory, so that a captured graph stays
// valid.
#pragma once

#include <memory>
#include <span>

#include "core/ops/operator.h"
#include "core/plan/optimizer.h"
#include "runtime/cuda/call.h"

namespace unity::cuda {

// One shard of a parameter; everything in device memory.
struct ParameterShard {
  void* weight = nullptr;          // f32 or f64
  const void* gradient = nullptr;  // of the weight's type, or bf16 beside f32
  void* states[2] = {};            // sgd: velocity, null without momentum; adam: mean, variance
  BFloat16* rounded = nullptr;     // where given, the new weight goes there too, in bf16
  std::int64_t elements = 0;
  bool half_gradient = false;    // the gradient is bf16
  std::int64_t first_chunk = 0;  // set by number_chunks, as the next
  bool four = false;             // all begin where four elements can be read at once
};

// A list of shards in device memory, after number_chunks.
struct ShardList {
  const ParameterShard* shards = nullptr;
  int count = 0;
  std::int64_t chunks = 0;
};

// Cuts the shards of a list, here still on the host, in the chunks that groups of threads take. Returns how many.
std::int64_t number_chunks(std::span<ParameterShard> shards);

// One step of sgd; of adam or adamw. `dtype` is that of all the weights: f32 or f64.
void sgd_step(Stream stream, const ShardList& list, const OptimizerSpec& how, const StepValues* step, DType dtype);
void adam_step(Stream stream, const ShardList& list, const OptimizerSpec& how, const StepValues* step, DType dtype);

// Plain sgd on the rows of a table that ids name: table[ids[i]] -= rate times the row of dy that ids[i] belongs to, for
// the rows that are in the block of the table, where `rounded` may be its bf16 copy. The result depends on no thread's
// pace: ids are sorted, and the rows of dy that belong to one row of the table are added up in a fixed order. Kernels
// cannot throw: ids outside the table change nothing.
struct RowsStep {
  Operand table, ids, dy;  // f32 or f64; i32; of the table's type, or bf16 beside f32
  BFloat16* rounded = nullptr;
  double rate = 0.01;
};

// Steps on the rows of different tables, all of f32 or all of f64, together. The sums are those of the steps one by
// one.
class RowsSteps {
 public:
  explicit RowsSteps(std::span<const RowsStep> steps);
  std::span<const std::byte> list() const;  // to be copied to device memory, from where run() reads it
  std::int64_t scratch() const;             // bytes of device memory, aligned to 256, that run() needs meanwhile
  void run(Stream stream, const void* list, const StepValues* step, void* scratch) const;

 private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;
};

}  // namespace unity::cuda
