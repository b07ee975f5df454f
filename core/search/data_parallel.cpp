#include "core/search/data_parallel.h"

#include "core/rewrite/axis_classes.h"

namespace unity {

Result<ValueRef> batch_leaf(const Pcg& pcg) {
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == "input" && !pcg.nodes()[i].outputs[0].dims.empty())
      return ValueRef{NodeId(static_cast<std::int64_t>(i)), 0};
  return fail("the model has no input with a batch dimension");
}

Result<State> shard_batch(const State& state, int degree) {
  if (degree == 1) return state;
  ValueRef leaf = UNITY_TRY(batch_leaf(state.pcg));
  std::int64_t batch = state.pcg.shape(leaf).dims[0].size;
  if (batch % degree != 0)
    return fail("batch of {} samples is not divisible by {} devices; choose --global-batch as a multiple of {}", batch,
                degree, degree);
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  auto found = class_of_dimension(state.pcg, classes, leaf, 0);
  if (!found) return fail("no operator can be split along the batch");
  return apply_move(state, {Move::Kind::shard_class, static_cast<int>(*found), 0, degree});
}

void take_better(Result<Outcome>& best, Result<Outcome> other, Evaluator& evaluator) {
  if (other.ok()) evaluator.found(other->candidate.score);
  if (!other.ok() || !best.ok()) {
    if (!best.ok()) best = std::move(other);
    return;
  }
  bool fits = evaluator.fits(other->candidate.score), fitted = evaluator.fits(best->candidate.score);
  if (fits != fitted ? fits : other->candidate.score.iteration < best->candidate.score.iteration)
    best = std::move(other);
}

}  // namespace unity
