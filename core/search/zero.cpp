// Strategy `deepspeed-zero`: data parallelism whose devices store a part of each weight, of its gradient and of the
// optimizer's state (ZeRO; Rajbhandari et al., 2020). A weight is gathered where it is used: an all-gather in the
// forward pass, a reduce-scatter of its gradient in the backward pass. What was gathered stays until the backward pass
// has used it: memory for weights is that of stage 2 there, storage that of stage 3.

#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"

namespace unity {
namespace {

// The first dimension that `degree` divides, else the first that is as large; -1: none.
std::int64_t dimension_for(const Shape& shape, int degree) {
  for (std::size_t d = 0; d < shape.dims.size(); ++d)
    if (shape.dims[d] % degree == 0) return static_cast<std::int64_t>(d);
  for (std::size_t d = 0; d < shape.dims.size(); ++d)
    if (shape.dims[d] >= degree) return static_cast<std::int64_t>(d);
  return -1;
}

// Every weight stored in `degree` parts and gathered at once, where some dimension is large enough.
Result<Pcg> with_stored_parts(const Pcg& pcg, int degree) {
  static const Operator &partition = get_operator("partition"), &combine = get_operator("combine");
  Pcg result;
  result.set_name(pcg.name());
  std::vector<std::vector<ValueRef>> moved(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    std::vector<ValueRef> inputs;
    for (ValueRef v : n.inputs) inputs.push_back(moved[v.node.index()][static_cast<std::size_t>(v.output)]);
    NodeId id = UNITY_TRY(result.try_add(*n.op, n.attributes, std::move(inputs), n.origin, n.name));
    for (std::size_t o = 0; o < n.outputs.size(); ++o) moved[i].push_back({id, static_cast<int>(o)});
    if (n.op->name() != "weight") continue;
    std::int64_t dim = dimension_for(n.outputs[0].shape(), degree);
    if (dim < 0) continue;
    Attributes at = {dim, std::int64_t{degree}};
    NodeId part = UNITY_TRY(result.try_add(partition, at, {{id, 0}}, n.origin, n.name));
    moved[i][0] = {UNITY_TRY(result.try_add(combine, at, {{part, 0}}, n.origin, n.name)), 0};
  }
  std::vector<ValueRef> outputs;
  for (ValueRef v : pcg.outputs()) outputs.push_back(moved[v.node.index()][static_cast<std::size_t>(v.output)]);
  result.set_outputs(std::move(outputs));
  return result;
}

}  // namespace

Result<Outcome> deepspeed_zero(const StrategyInput& input) {
  State state = UNITY_TRY(input.evaluator.record().timed(SearchLevel::substitution, [&]() -> Result<State> {
    State sharded = UNITY_TRY(shard_batch({normalize(input.model), {}, {}}, input.devices));
    if (input.devices > 1) sharded.pcg = UNITY_TRY(with_stored_parts(sharded.pcg, input.devices));
    return sharded;
  }));
  Candidate candidate = UNITY_TRY(input.evaluator.evaluate(std::move(state.pcg)));
  state.steps.push_back({"gather_stored_parts", "all weights", input.devices, 0});
  return Outcome{std::move(candidate), std::move(state.steps), "one plan"};
}

}  // namespace unity
