// Updates by rows. The gradient of a table is zero but for the rows that were looked up; plain gradient descent leaves
// the others alone. So where nothing but the update reads such a gradient, it need not exist: the update takes the
// operands of the gradient operator in its place. Same weights up to the order of sums.
#pragma once

#include "core/plan/program.h"

namespace unity {

// Turns updates of that kind into updates by rows (TaskKind::update with an op: weight, ids, rows of dy), and removes
// the tasks that formed their gradients. Nothing happens with another optimizer than SGD without momentum and decay.
void use_row_updates(Program& program);

// With this optimizer there may be some.
bool updates_by_rows(const OptimizerSpec& optimizer);

inline bool is_row_update(const Task& task) { return task.kind == TaskKind::update && task.op >= 0; }

// What rows of dy are multiplied with on their way into the gradient of a row update.
double row_update_factor(const Program& program, const Task& task);

// Calls add(position in the block of the weight, position in the block of dy) for all that a row update's gradient
// sums up; id_at(i): the i-th id.
template <class IdAt, class Add>
void for_each_updated(const Program& program, const Task& task, IdAt&& id_at, Add&& add) {
  auto operands = program.operands_of(task);
  const Box& weight = program.buffer(operands[0]).box;
  std::int64_t ids = program.buffer(operands[1]).box.elements(), h = weight.extent[1];
  std::int64_t elements = program.buffer(operands[2]).box.elements();
  for (std::int64_t i = 0; i < ids; ++i) {
    std::int64_t row = id_at(i) - weight.offset[0];
    if (row < 0 || row >= weight.extent[0]) continue;
    for (std::int64_t j = 0; j < h; ++j) add(row * h + j, i * (elements / h) / ids * h + j);
  }
}

}  // namespace unity
