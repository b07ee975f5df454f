#include "core/search/stage_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/graph/autodiff.h"
#include "core/plan/rematerialise.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

BackwardReads reads_of(const Pcg& model, NodeId id, const std::vector<bool>& needs) {
  const Node& n = model[id];
  const std::vector<bool> none(n.inputs.size(), false);
  BackwardReads reads{none, std::vector<bool>(n.outputs.size(), false), none, 0};
  if (!needs[id.index()]) return reads;
  GradientProgram program = gradient_program(model, id, needs);
  for (std::size_t j = 0; j < program.input_gradients.size(); ++j)
    reads.passes[j] =
        program.input_gradients[j] && program.input_gradients[j]->kind == GradientValue::Kind::output_gradient;
  std::vector<std::vector<Shape>> made;
  auto shape_of = [&](const GradientValue& v) {
    auto i = static_cast<std::size_t>(v.index);
    if (v.kind == GradientValue::Kind::input) return model.shape(n.inputs[i]).shape();
    if (v.kind == GradientValue::Kind::step) return made[i][static_cast<std::size_t>(v.result)];
    return n.outputs[i].shape();
  };
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const GradientStep& step = program.steps[s];
    std::vector<Shape> shapes;
    for (const GradientValue& v : step.inputs) shapes.push_back(shape_of(v));
    auto table = step.op->axes(step.attributes, shapes);
    made.emplace_back();
    if (!table.ok()) continue;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (table->inputs[i].shape_only) continue;
      auto at = static_cast<std::size_t>(step.inputs[i].index);
      if (step.inputs[i].kind == GradientValue::Kind::input) reads.inputs[at] = true;
      if (step.inputs[i].kind == GradientValue::Kind::output) reads.outputs[at] = true;
    }
    for (std::size_t o = 0; o < table->outputs.size(); ++o) {
      made.back().push_back(operand_shape(*table, table->outputs[o]));
      const GradientValue value{GradientValue::Kind::step, static_cast<int>(s), static_cast<int>(o)};
      if (std::find(program.input_gradients.begin(), program.input_gradients.end(), value) ==
          program.input_gradients.end())
        reads.between += static_cast<double>(made.back().back().bytes());
    }
  }
  return reads;
}

double bytes_of(const ParallelShape& s) { return static_cast<double>(s.shape().bytes()) / s.shards(); }

std::vector<int> degrees_of(const ParallelShape& s) {
  std::vector<int> degrees = {s.copies, s.partials};
  for (const ParallelDim& d : s.dims) degrees.push_back(d.degree);
  return degrees;
}

}  // namespace

std::vector<BackwardReads> backward_reads(const IntraPlans& plans) {
  const Pcg& model = plans.model();
  const std::vector<bool> needs = needs_gradient(model);
  std::vector<BackwardReads> reads;
  for (NodeId id : plans.operators()) reads.push_back(reads_of(model, id, needs));
  return reads;
}

StageBytes stage_bytes(const IntraPlans& plans, const IntraPlan& plan, int micro_batches,
                       const std::vector<BackwardReads>& reads) {
  const Pcg& pcg = plans.model(plan);
  const std::vector<NodeId>& nodes = plans.operators(plan);
  const std::size_t count = nodes.size();
  std::vector<std::size_t> place(pcg.size(), 0);
  for (std::size_t k = 0; k < count; ++k) place[nodes[k].index()] = k;
  StageBytes bytes;
  for (std::vector<double>* v : {&bytes.held, &bytes.kept, &bytes.transient, &bytes.again, &bytes.outside})
    v->assign(count, 0);
  auto micro = [&](std::size_t k) { return plans.batch_axis(k) ? micro_batches : 1; };
  std::vector<double> begins(count + 1, 0);  // of gradients that are there, at operators from one on
  std::map<ValueRef, std::size_t> last_use;
  std::set<ValueRef> held;  // or an output of the model
  for (ValueRef v : pcg.outputs()) {
    const ValueRef source = source_of(pcg, v);
    if (!pcg[source.node].is_compute() || !held.insert(source).second) continue;
    bytes.outside[place[source.node.index()]] += bytes_of(pcg.shape(source));
  }
  std::set<std::pair<ValueRef, std::vector<int>>> brought;
  auto hold = [&](ValueRef v) {
    std::size_t k = place[v.node.index()];
    if (!held.insert(v).second) return;
    double size = bytes_of(pcg.shape(v)) / micro(k);
    bytes.held[k] += size;
    if (!plans.in_block(k) || plans.leaves_block(k)) bytes.kept[k] += size;
  };
  for (std::size_t k = 0; k < count; ++k) {
    const Node& n = pcg[nodes[k]];
    for (std::size_t j = 0; j < n.inputs.size(); ++j) {
      const ValueRef source = source_of(pcg, n.inputs[j]);
      const Node& producer = pcg[source.node];
      const ParallelShape &from = pcg.shape(source), &to = pcg.shape(n.inputs[j]);
      if (producer.op->name() == "input" && brought.emplace(source, degrees_of(to)).second)
        bytes.outside[k] += bytes_of(to);
      if (!producer.is_compute()) continue;
      last_use[source] = reads[k].passes[j] ? std::max(place[source.node.index()], k - 1) : k;
      if (!reads[k].inputs[j]) continue;
      if (from == to) {
        hold(source);
        continue;
      }
      if (!brought.emplace(source, degrees_of(to)).second) continue;
      double size = bytes_of(to) / micro(k);
      bytes.held[k] += size, bytes.kept[k] += size;
    }
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      if (reads[k].outputs[o]) hold({nodes[k], static_cast<int>(o)});
      last_use.try_emplace({nodes[k], static_cast<int>(o)}, k);
    }
  }
  for (const auto& [value, last] : last_use) {
    std::size_t k = place[value.node.index()];
    if (!plans.needs_gradient(plans.operators()[k])) continue;
    double size = bytes_of(pcg.shape(value)) / micro(k);
    begins[k] += size, begins[last + 1 > count ? count : last + 1] -= size;
  }
  std::map<std::string, double> recomputed;  // by block
  std::vector<std::string> block(count);
  for (std::size_t k = 0; k < count; ++k) {
    block[k] = repeated_block(plans.model()[plans.operators()[k]].name);
    if (!block[k].empty()) recomputed[block[k]] += bytes.held[k] - bytes.kept[k];
  }
  double there = 0;
  for (std::size_t k = 0; k < count; ++k) {
    there += begins[k];
    const Node& n = pcg[nodes[k]];
    // What steps make for one another is split as the largest operand is.
    double whole = 0, local = 0;
    auto measure = [&](const ParallelShape& shape) {
      const auto all = static_cast<double>(shape.shape().bytes());
      if (all > whole) whole = all, local = bytes_of(shape) / micro(k);
    };
    for (const ParallelShape& shape : n.outputs) measure(shape);
    for (ValueRef v : n.inputs)
      if (pcg[source_of(pcg, v).node].is_compute()) measure(pcg.shape(v));
    bytes.transient[k] = there + (whole > 0 ? reads[k].between * local / whole : 0);
    bytes.again[k] = bytes.transient[k] + (block[k].empty() ? 0 : recomputed[block[k]]);
  }
  return bytes;
}

void StageNeeds::add(double held, double gradient, double transient) {
  in_flight += held, gradients += gradient;
  turn = std::max(turn, in_flight + transient);
  first_turn = std::max(first_turn, in_flight + transient) + gradient;
}

void StageNeeds::append(const StageNeeds& next) {
  turn = std::max(turn, in_flight + next.turn);
  first_turn = std::max(first_turn + next.gradients, in_flight + next.first_turn);
  persistent += next.persistent, gradients += next.gradients, in_flight += next.in_flight;
}

double StageNeeds::peak(std::int64_t held, std::int64_t micro_batches) const {
  const auto others = static_cast<double>(held - 1);
  if (held < micro_batches) return persistent + others * in_flight + std::max(in_flight, turn);
  const double first = persistent - gradients + others * in_flight + std::max(in_flight, first_turn);
  return held == 1 ? first : std::max(first, persistent + (others - 1) * in_flight + std::max(in_flight, turn));
}

}  // namespace unity
