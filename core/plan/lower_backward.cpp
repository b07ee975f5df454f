// The backward pass of a lowering, along its tape in reverse, and the update of the weights.

#include <algorithm>
#include <unordered_map>

#include "core/graph/autodiff.h"
#include "core/plan/lowering.h"

namespace unity {
namespace {

// By buffer of a weight: the communications that send it to others. Its update waits for them: its gradient may not, as
// where others make of it a copy that no gradient comes from, an output beside the loss, or a summand of the loss. What
// an all-gather brings, tasks of each of its devices wait for.
std::unordered_map<BufferId, TaskList> senders_of_weights(const Program& program) {
  std::unordered_map<BufferId, TaskList> senders;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    if (program.tasks[t].kind != TaskKind::communicate) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(program.tasks[t].op)];
    if (c.kind == CollectiveKind::all_gather) continue;
    for (const Participant& p : c.participants)
      if (p.send.valid() && program.buffer(p.send).category == BufferCategory::weight)
        senders[p.send].push_back(TaskId(static_cast<std::int64_t>(t)));
  }
  return senders;
}

}  // namespace

// The gradient of the loss with respect to itself: one for every summand, and of copies for the first only (design, 5).
void Lowering::seed_loss() {
  if (pcg_.outputs().empty()) return;
  ValueRef loss = pcg_.outputs()[0];
  if (pcg_[loss.node].op->name() == "deliver" || !needs_[loss.node.index()]) return;
  const View& view = views_[loss.node.index()][static_cast<std::size_t>(loss.output)];
  static const Operator& weight = get_operator("weight");
  std::int32_t leaf = static_cast<std::int32_t>(program_.leaves.size());
  program_.leaves.push_back({"loss.gradient", &weight, {Dims{}, std::string("ones"), 0.0}, {}});
  std::int32_t tensor = emitter_.tensor({"loss.gradient", {}, DType::f32, {}, leaf});
  for (const PieceRef& ref : movements_.placement(view.placement).pieces) {
    if (ref.copy != 0 || !movements_.here(ref.piece)) continue;
    Piece& p = movements_.piece(ref.piece);
    BufferId seed = emitter_.buffer(tensor, p.device, p.box, BufferCategory::weight);
    p.contributions.push_back({seed, p.box, {}, true});
  }
}

void Lowering::backward() {
  for (std::size_t i = tape_.size(); i-- > 0;) {
    const TapeEntry& entry = tape_[i];
    if (!entry.node.valid()) {
      movements_.emit_adjoint(entry.movement);
    } else if (pcg_[entry.node].is_leaf()) {
      if (pcg_[entry.node].op->name() == "weight") synchronise_weight(entry.node);
    } else {
      backward_compute(entry.node);
    }
  }
}

void Lowering::backward_compute(NodeId id) {
  const Node& n = pcg_[id];
  std::vector<TaskPieces>& tasks = tasks_[id.index()];
  if (n.op->name() == "deliver") {
    // The gradient arrives from the part after this one, in the same layout.
    std::int32_t tensor =
        emitter_.tensor({n.name + ".gradient", n.outputs[0].shape().dims, n.outputs[0].dtype, {}, -1});
    for (TaskPieces& t : tasks) {
      Piece& p = movements_.piece(t.inputs[0]);
      p.contributions.push_back({emitter_.buffer(tensor, p.device, p.box, BufferCategory::gradient), p.box, {}, false});
    }
    return;
  }
  GradientProgram program = gradient_program(pcg_, id, needs_);
  if (program.steps.empty() && std::none_of(program.input_gradients.begin(), program.input_gradients.end(),
                                            [](const auto& g) { return g.has_value(); }))
    return;

  // Which results' gradients the program reads: the others need not exist.
  std::vector<bool> reads_gradient(n.outputs.size(), false);
  auto note = [&](const GradientValue& v) {
    if (v.kind == GradientValue::Kind::output_gradient) reads_gradient[static_cast<std::size_t>(v.index)] = true;
  };
  for (const GradientStep& s : program.steps)
    for (const GradientValue& v : s.inputs) note(v);
  for (const auto& g : program.input_gradients)
    if (g) note(*g);

  // Tables of the steps, on logical shapes; shared by all tasks.
  struct Step {
    std::shared_ptr<const AxisTable> table;
    std::int32_t op = -1;
    std::vector<std::int32_t> tensors;
  };
  std::vector<Step> steps;
  std::vector<std::vector<Shape>> step_shapes;
  auto shape_of = [&](GradientValue v) -> Shape {
    auto i = static_cast<std::size_t>(v.index);
    if (v.kind == GradientValue::Kind::input) return pcg_.shape(n.inputs[i]).shape();
    if (v.kind == GradientValue::Kind::step) return step_shapes[i][static_cast<std::size_t>(v.result)];
    return n.outputs[i].shape();
  };
  for (const GradientStep& s : program.steps) {
    std::vector<Shape> shapes;
    for (GradientValue v : s.inputs) shapes.push_back(shape_of(v));
    Step step;
    step.table = std::make_shared<const AxisTable>(s.op->axes(s.attributes, shapes).value());
    step.op = program_op(*s.op, s.attributes, *step.table, n.origin, n.name);
    step_shapes.emplace_back();
    for (const OperandAxes& out : step.table->outputs) {
      step_shapes.back().push_back(operand_shape(*step.table, out));
      step.tensors.push_back(emitter_.tensor(
          {n.name + ".gradient", step_shapes.back().back().dims, step_shapes.back().back().dtype, n.origin, -1}));
    }
    steps.push_back(std::move(step));
  }
  struct Local {
    BufferId buffer;
    const Box* box = nullptr;
    const TaskList* writers = nullptr;
    bool shared = false;
  };
  struct StepResult {
    BufferId buffer;
    Box box;
    TaskList writers;
  };
  // Micro-batches in their order, so that the gradient of a weight is added up as they come.
  auto micros = static_cast<std::size_t>(micro_batches(node_sharding(pcg_, id)));
  // Of one task; kept, since there are many.
  std::vector<Movements::Gradient> dy;
  std::vector<std::vector<StepResult>> results(steps.size());
  std::vector<const Box*> boxes;
  std::vector<BufferId> inputs, outputs;
  for (std::size_t i = tasks.size(); i-- > 0;) {
    const TaskPieces& task = tasks[i / micros * micros + (micros - 1 - i % micros)];
    bool any = false;
    for (PieceIndex o : task.outputs) any = any || !movements_.piece(o).contributions.empty();
    if (!any) continue;
    dy.assign(task.outputs.size(), {});
    for (std::size_t o = 0; o < task.outputs.size(); ++o) {
      if (!reads_gradient[o]) continue;
      dy[o] = movements_.gradient_or_zero(views_[id.index()][o].placement, task.outputs[o]);
    }
    for (std::vector<StepResult>& of_step : results) of_step.clear();
    auto piece = [&](PieceIndex p) -> Local {
      const Piece& held = movements_.piece(p);
      return {held.buffer, &held.box, &held.writers, true};
    };
    auto local_of = [&](GradientValue v) -> Local {
      auto i = static_cast<std::size_t>(v.index);
      switch (v.kind) {
        case GradientValue::Kind::input:
          return piece(task.inputs[i]);
        case GradientValue::Kind::output:
          return piece(task.outputs[i]);
        case GradientValue::Kind::output_gradient:
          return {dy[i].buffer, &movements_.piece(task.outputs[i]).box, &dy[i].writers, dy[i].shared};
        case GradientValue::Kind::step:
          break;
      }
      const StepResult& result = results[i][static_cast<std::size_t>(v.result)];
      return {result.buffer, &result.box, &result.writers, false};
    };
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const AxisTable& table = *steps[s].table;
      boxes.clear(), inputs.clear(), outputs.clear();
      TaskList after;
      for (std::size_t i = 0; i < program.steps[s].inputs.size(); ++i) {
        Local in = local_of(program.steps[s].inputs[i]);
        boxes.push_back(in.box);
        inputs.push_back(in.buffer);
        if (!table.inputs[i].shape_only) append(after, *in.writers);
      }
      std::vector<Range> ranges = axis_ranges(table, boxes).value();
      for (std::size_t o = 0; o < table.outputs.size(); ++o) {
        Box box = operand_box(table, table.outputs[o], ranges);
        outputs.push_back(emitter_.buffer(steps[s].tensors[o], task.device, box, BufferCategory::gradient));
        results[s].push_back({outputs.back(), std::move(box), {}});
      }
      TaskId step = emitter_.compute(steps[s].op, task.device, inputs, outputs, std::move(after), flops(table, ranges),
                                     task.micro);
      for (StepResult& r : results[s]) r.writers = {step};
    }
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      if (!program.input_gradients[i]) continue;
      GradientValue v = *program.input_gradients[i];
      Local g = local_of(v);
      Piece& p = movements_.piece(task.inputs[i]);
      UNITY_CHECK(g.box->extent == p.box.extent, "{}: gradient of operand {} covers {}, expected {}", n.name, i,
                  to_string(*g.box), to_string(p.box));
      bool twice =
          std::count(program.input_gradients.begin(), program.input_gradients.end(), program.input_gradients[i]) > 1;
      p.contributions.push_back(
          {g.buffer, p.box, *g.writers, g.shared || twice || v.kind != GradientValue::Kind::step});
    }
  }
}

// The gradient of a stored copy is the sum over the copies.
// The sum over all that hold the same part. Of those on devices that are not lowered, where they are says enough.
void Lowering::synchronise_weight(NodeId id) {
  PlacementIndex value = views_[id.index()][0].placement;
  struct Copies {
    std::vector<PieceIndex> here;
    std::vector<Participant> elsewhere;
  };
  std::map<Integers, Copies> by_box;
  bool any = false;
  for (const PieceRef& ref : movements_.placement(value).pieces) {
    const Piece& p = movements_.piece(ref.piece);
    Copies& copies = by_box[p.box.offset];
    if (movements_.here(ref.piece))
      copies.here.push_back(ref.piece);
    else
      copies.elsewhere.push_back({p.device, {}, {}, p.box});
    any = any || !p.contributions.empty();
  }
  if (!any) return;
  if (auto elsewhere = std::exchange(movements_.placement(value).elsewhere, nullptr))
    for (Held& held : elsewhere())
      if (auto copies = by_box.find(held.box.offset); copies != by_box.end())
        copies->second.elsewhere.push_back({held.device, {}, {}, std::move(held.box)});
  for (auto& [offset, copies] : by_box) {
    if (copies.here.empty()) continue;
    std::vector<Movements::Gradient> gradients;
    for (PieceIndex p : copies.here) gradients.push_back(movements_.gradient_or_zero(value, p));
    if (copies.here.size() + copies.elsewhere.size() > 1) {
      Communication c{.kind = CollectiveKind::all_reduce,
                      .dtype = movements_.placement(value).dtype,
                      .name = movements_.placement(value).name + ".gradient"};
      TaskList after;
      for (std::size_t i = 0; i < copies.here.size(); ++i) {
        const Piece& p = movements_.piece(copies.here[i]);
        BufferId receive = gradients[i].buffer;
        if (gradients[i].shared)
          receive = emitter_.buffer(movements_.gradient_tensor(value), p.device, p.box, BufferCategory::gradient);
        c.participants.push_back({p.device, gradients[i].buffer, receive, p.box});
        append(after, gradients[i].writers);
        gradients[i].buffer = receive;
      }
      c.participants.insert(c.participants.end(), std::make_move_iterator(copies.elsewhere.begin()),
                            std::make_move_iterator(copies.elsewhere.end()));
      movements_.check_blocks(c);
      TaskId task = emitter_.communicate(std::move(c), after);
      for (Movements::Gradient& g : gradients) g.writers = {task};
    }
    for (std::size_t i = 0; i < copies.here.size(); ++i)
      updates_.push_back({movements_.piece(copies.here[i]).buffer, gradients[i], movements_.placement(value).name,
                          movements_.placement(value).dims});
  }
}

void Lowering::emit_updates() {
  std::map<std::string, std::vector<std::int32_t>> states;
  std::reverse(updates_.begin(), updates_.end());
  const std::unordered_map<BufferId, TaskList> senders = senders_of_weights(program_);
  for (const PendingUpdate& u : updates_) {
    auto [it, inserted] = states.try_emplace(u.name);
    for (int s = 0; inserted && s < options_.optimizer.states(); ++s)
      it->second.push_back(emitter_.tensor({optimizer_state(u.name, s), u.dims, DType::f32, {}, -1}));
    std::vector<BufferId> operands = {u.weight, u.gradient.buffer};
    Buffer weight = program_.buffer(u.weight);
    for (std::int32_t tensor : it->second)
      operands.push_back(emitter_.buffer(tensor, weight.device, weight.box, BufferCategory::optimizer_state));
    TaskList after = u.gradient.writers;
    if (auto sent = senders.find(u.weight); sent != senders.end()) append(after, sent->second);
    emitter_.update(operands, std::move(after));
  }
}

// The next values of states (Operator::new_state), copied to where the states are stored once nothing reads these.
void Lowering::write_back_states() {
  struct NewState {
    const View* value;
    PlacementIndex stored;
    std::vector<PieceIndex> targets;  // here
  };
  std::vector<NewState> states;
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    const Node& n = pcg_.nodes()[i];
    for (std::size_t o = 0; n.is_compute() && o < n.outputs.size(); ++o) {
      auto operand = n.op->new_state(static_cast<int>(o));
      if (!operand) continue;
      ValueRef leaf = n.inputs[static_cast<std::size_t>(*operand)];
      while (pcg_[leaf.node].is_parallelization()) leaf = pcg_[leaf.node].inputs[0];
      if (!pcg_[leaf.node].op->stored()) continue;  // computed, not kept
      NewState state{&views_[i][o], views_[leaf.node.index()][0].placement, {}};
      for (const PieceRef& ref : movements_.placement(state.stored).pieces)
        if (movements_.here(ref.piece)) state.targets.push_back(ref.piece);
      states.push_back(std::move(state));
    }
  }
  if (states.empty()) return;
  std::vector<bool> written(program_.buffers.size());
  for (const NewState& state : states)
    for (PieceIndex target : state.targets) written[movements_.piece(target).buffer.index()] = true;
  std::unordered_map<BufferId, TaskList> readers = readers_of(written);
  for (const NewState& state : states) {
    std::vector<Requirement> wanted;
    for (PieceIndex target : state.targets)
      wanted.push_back({movements_.piece(target).device, movements_.piece(target).box, 0});
    auto all = [&] {
      movements_.add_elsewhere(state.stored);
      std::vector<Requirement> everywhere;
      for (const PieceRef& ref : movements_.placement(state.stored).pieces)
        everywhere.push_back({movements_.piece(ref.piece).device, movements_.piece(ref.piece).box, 0});
      return everywhere;
    };
    std::vector<PieceIndex> values = provide(*state.value, wanted, all);
    for (std::size_t k = 0; k < state.targets.size(); ++k) {
      const Piece &from = movements_.piece(values[k]), &to = movements_.piece(state.targets[k]);
      TaskList after = from.writers;
      auto found = readers.find(to.buffer);
      if (found != readers.end()) after.insert(after.end(), found->second.begin(), found->second.end());
      emitter_.copy(from.buffer, to.buffer, to.box, after);
    }
  }
}

std::unordered_map<BufferId, TaskList> Lowering::readers_of(const std::vector<bool>& buffers) const {
  std::unordered_map<BufferId, TaskList> readers;
  auto note = [&](BufferId buffer, std::size_t task) {
    if (buffer.valid() && buffers[buffer.index()]) readers[buffer].push_back(TaskId(static_cast<std::int64_t>(task)));
  };
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    if (task.kind == TaskKind::communicate) {
      for (const Participant& p : program_.communications[static_cast<std::size_t>(task.op)].participants)
        note(p.send, t);
    } else {
      for (BufferId b : program_.operands_of(task)) note(b, t);
    }
  }
  return readers;
}

}  // namespace unity
