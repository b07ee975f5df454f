#include "core/plan/lower.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/graph/autodiff.h"
#include "core/plan/movement.h"
#include "core/plan/rematerialise.h"
#include "core/plan/row_updates.h"

namespace unity {
namespace {

void append(TaskList& to, const TaskList& from) { to.insert(to.end(), from.begin(), from.end()); }

// Where a value of the PCG is found: a placement, of whose summands every `sum` are to be added up before use.
// Partition, combine, replicate, pipeline and batch change nothing here: layouts follow from who requires what.
struct View {
  PlacementIndex placement = -1;
  int sum = 1;
  bool anywhere = false;  // inputs and dropout masks: any device can have any part without communication
};

struct TaskPieces {
  DeviceId device;
  int micro = 0;
  std::vector<PieceIndex> inputs, outputs;
};

class Lowering {
 public:
  Lowering(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
           const LowerOptions& options)
      : pcg_(pcg),
        mappings_(mappings),
        topology_(topology),
        options_(options),
        emitter_(program_),
        movements_(emitter_, topology) {}

  Result<Program> run();

 private:
  struct TapeEntry {
    NodeId node;               // valid: the tasks of a compute node, or the storage of a weight
    std::size_t movement = 0;  // else a movement
  };

  void find_needs();
  Result<void> check_mappings() const;
  Result<void> check_outputs() const;
  void lower_leaf(NodeId id);
  void lower_parallelization(NodeId id);
  void lower_compute(NodeId id);
  void note_use(const View& view);
  std::vector<PieceIndex> provide(const View& view, const std::vector<Requirement>& requirements);
  PieceIndex piece_anywhere(NodeId leaf, const Requirement& r);
  void add_up_micro_batches(NodeId id, std::size_t output, const Sharding& sharding);
  void record_movements();
  void backward();
  void seed_loss();
  void backward_compute(NodeId id);
  void synchronise_weight(NodeId id);
  void emit_updates();
  void find_used();
  std::optional<ValueRef> alias(NodeId id, std::size_t output) const;
  void write_back_states();
  std::map<BufferId, TaskList> buffer_readers() const;
  void collect_outputs();
  std::int32_t program_op(const Operator& op, const Attributes& attributes, const AxisTable& table, OriginId origin,
                          const std::string& name);

  const Pcg& pcg_;
  const std::vector<MachineMapping>& mappings_;
  const Topology& topology_;
  const LowerOptions& options_;
  Program program_;
  Emitter emitter_;
  Movements movements_;
  std::vector<bool> needs_;                     // by node: does a gradient flow through it?
  std::vector<bool> used_;                      // by node: does inference need it? (in training: all)
  std::vector<std::vector<View>> views_;        // by node and output
  std::vector<std::vector<TaskPieces>> tasks_;  // by compute node
  std::vector<TapeEntry> tape_;
  std::size_t recorded_ = 0;
  std::map<PlacementIndex, NodeId> anywhere_;  // placements of inputs and masks
  std::map<PlacementIndex, NodeId> untaped_;   // stored leaves not used yet
  std::map<std::pair<PlacementIndex, std::vector<std::int64_t>>, PieceIndex> anywhere_pieces_;
  struct PendingUpdate {
    BufferId weight;
    Movements::Gradient gradient;
    std::string name;
    Dims dims;
  };
  std::vector<PendingUpdate> updates_;
};

void Lowering::find_needs() {
  needs_.assign(pcg_.size(), false);
  if (!options_.training) return;
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    const Node& n = pcg_.nodes()[i];
    if (n.is_leaf()) {
      needs_[i] = n.op->trainable();
    } else if (!n.op->detached(n.attributes)) {
      for (ValueRef v : n.inputs)
        needs_[i] = needs_[i] || (needs_[v.node.index()] && pcg_.shape(v).dtype != DType::i32);
    }
  }
}

// In inference a result may be an operand itself: batch norm's running moments, a value without its dropout mask.
std::optional<ValueRef> Lowering::alias(NodeId id, std::size_t output) const {
  const Node& n = pcg_[id];
  if (options_.training || !n.is_compute()) return std::nullopt;
  if (auto operand = n.op->inference_alias(static_cast<int>(output)))
    return n.inputs[static_cast<std::size_t>(*operand)];
  if (n.op->name() == "mul") {
    for (std::size_t i : {0, 1}) {
      ValueRef source = n.inputs[i];
      while (pcg_[source.node].is_parallelization()) source = pcg_[source.node].inputs[0];
      if (pcg_[source.node].is_leaf() && pcg_[source.node].op->random()) return n.inputs[1 - i];
    }
  }
  return std::nullopt;
}

void Lowering::find_used() {
  used_.assign(pcg_.size(), options_.training);
  if (options_.training) return;
  for (ValueRef v : pcg_.outputs()) used_[v.node.index()] = true;
  for (std::size_t i = pcg_.size(); i-- > 0;) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = pcg_[id];
    used_[i] = used_[i] || n.op->pinned();
    if (!used_[i]) continue;
    bool computed = n.outputs.empty();
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      auto operand = alias(id, o);
      if (operand) used_[operand->node.index()] = true;
      // A new state is of no use in inference.
      computed = computed || !(operand || n.op->new_state(static_cast<int>(o)));
    }
    for (ValueRef v : n.inputs)
      if (computed) used_[v.node.index()] = true;
  }
}

// Who reads an output adds up the summands that it is held in.
Result<void> Lowering::check_outputs() const {
  for (ValueRef v : pcg_.outputs())
    if (const ParallelShape& shape = pcg_.shape(v); shape.partials > 1 && shape.monoid != Monoid::sum)
      return fail("output {} is {}, expected it reduced: its parts are no summands", pcg_[v.node].name,
                  to_string(shape));
  return {};
}

Result<void> Lowering::check_mappings() const {
  if (mappings_.size() != pcg_.size())
    return fail("plan has {} mappings, expected one for each of {} nodes", mappings_.size(), pcg_.size());
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    const Node& n = pcg_.nodes()[i];
    if (n.is_parallelization()) continue;
    if (n.is_leaf() && !n.op->stored()) continue;
    auto ok = check_mapping(mappings_[i], node_grid(pcg_, NodeId(static_cast<std::int64_t>(i))),
                            static_cast<int>(topology_.device_count()));
    if (!ok.ok()) return fail("mapping of {} ({}): {}", n.name, n.op->name(), ok.error().message);
  }
  return {};
}

Result<Program> Lowering::run() {
  UNITY_TRY_VOID(check_mappings());
  UNITY_TRY_VOID(check_outputs());
  program_.name = pcg_.name();
  program_.devices = static_cast<int>(topology_.device_count());
  program_.optimizer = options_.optimizer;
  find_needs();
  find_used();
  views_.resize(pcg_.size());
  tasks_.resize(pcg_.size());
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (!used_[i]) continue;
    if (pcg_[id].is_leaf()) {
      lower_leaf(id);
    } else if (pcg_[id].is_parallelization()) {
      lower_parallelization(id);
    } else {
      lower_compute(id);
    }
  }
  collect_outputs();
  if (options_.training) {
    emitter_.phase = Phase::backward;
    seed_loss();
    backward();
    emitter_.phase = Phase::update;
    emit_updates();
    write_back_states();
    use_row_updates(program_);
    Schedule schedule = options_.schedule;
    bool piece = std::any_of(pcg_.nodes().begin(), pcg_.nodes().end(),
                             [](const Node& n) { return n.op->name() == "boundary" || n.op->name() == "deliver"; });
    // What a schedule names may be in another piece.
    if (piece) static_cast<void>(rematerialise(program_, std::exchange(schedule.remat, {})));
    UNITY_TRY_VOID(apply_schedule(program_, schedule));
  }
  return std::move(program_);
}

void Lowering::lower_leaf(NodeId id) {
  const Node& n = pcg_[id];
  Shape shape = n.outputs[0].shape();
  bool stored = n.op->stored(), weight = stored && n.op->name() != "boundary";
  ProgramTensor tensor{n.name, shape.dims, shape.dtype, n.origin, -1};
  if (weight || n.op->name() == "input") {
    tensor.leaf = static_cast<int>(program_.leaves.size());
    program_.leaves.push_back({n.name, n.op, n.attributes, n.origin});
  }
  Placement placement{n.name, shape.dims, shape.dtype, emitter_.tensor(tensor), -1, needs_[id.index()], {}};
  PlacementIndex value = movements_.add_placement(std::move(placement));
  views_[id.index()] = {{value, 1, !stored}};
  if (!stored) {
    anywhere_[value] = id;
    return;
  }
  ParallelShape storage = storage_shape(pcg_, id);
  TaskGrid grid = storage_grid(storage);
  for (int t = 0; t < task_count(grid); ++t) {
    std::vector<int> c = grid_coordinates(grid, t);
    Box box = storage_box(storage, grid, c);
    int copy = output_copy(grid, c);
    DeviceId device = mappings_[id.index()].device(c);
    BufferId buffer = emitter_.buffer(movements_.placement(value).tensor, device, box,
                                      weight ? BufferCategory::weight : BufferCategory::activation);
    PieceIndex piece = movements_.add_piece({device, box, 0, copy, buffer, {}, needs_[id.index()], {}});
    movements_.placement(value).pieces.push_back({piece, 0, copy});
  }
  if (needs_[id.index()]) untaped_.emplace(value, id);
}

void Lowering::lower_parallelization(NodeId id) {
  const Node& n = pcg_[id];
  auto view_of = [&](ValueRef v) { return views_[v.node.index()][static_cast<std::size_t>(v.output)]; };
  View view = view_of(n.inputs[0]);
  if (n.op->name() == "reduce") {
    view.sum *= static_cast<int>(int_attribute(n.attributes, 0));
  } else if (n.op->name() == "stack_partials") {
    // The operands become summands of one value, all in the layout of its type: where the first operand that is held so
    // has its shards and copies, else in the natural order of devices.
    Shape shape = n.outputs[0].shape();
    Placement stacked{n.name, shape.dims, shape.dtype, -1, -1, needs_[id.index()], {}};
    const ParallelShape& type = pcg_.shape(n.inputs[0]);
    TaskGrid storage = storage_grid(type);
    auto in_layout = [&](const Box& box) {
      for (int t = 0; t < task_count(storage); ++t)
        if (storage_box(type, storage, grid_coordinates(storage, t)) == box) return true;
      return false;
    };
    auto held_so = [&](const View& v) {
      if (v.anywhere || v.sum != 1) return false;
      const std::vector<PieceRef>& pieces = movements_.placement(v.placement).pieces;
      return static_cast<int>(pieces.size()) == type.shards() * type.copies &&
             std::all_of(pieces.begin(), pieces.end(),
                         [&](const PieceRef& r) { return in_layout(movements_.piece(r.piece).box); });
    };
    std::vector<Requirement> wanted;
    std::vector<int> copies;
    for (ValueRef in : n.inputs) {
      if (!wanted.empty() || !held_so(view_of(in))) continue;
      for (const PieceRef& r : movements_.placement(view_of(in).placement).pieces) {
        wanted.push_back({movements_.piece(r.piece).device, movements_.piece(r.piece).box, 0});
        copies.push_back(r.copy);
      }
    }
    if (wanted.empty()) {
      for (int t = 0; t < task_count(storage); ++t) {
        std::vector<int> c = grid_coordinates(storage, t);
        wanted.push_back({DeviceId(t), storage_box(type, storage, c), 0});
        copies.push_back(output_copy(storage, c));
      }
    }
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      View v = view_of(n.inputs[i]);
      if (held_so(v)) {
        note_use(v);
        for (const PieceRef& r : movements_.placement(v.placement).pieces)
          stacked.pieces.push_back({r.piece, static_cast<int>(i), r.copy});
      } else {
        std::vector<PieceIndex> pieces = provide(v, wanted);
        for (std::size_t k = 0; k < pieces.size(); ++k)
          stacked.pieces.push_back({pieces[k], static_cast<int>(i), copies[k]});
      }
    }
    stacked.tensor = emitter_.tensor({n.name, shape.dims, shape.dtype, n.origin, -1});
    view = {movements_.add_placement(std::move(stacked)), 1, false};
  }
  views_[id.index()] = {view};
}

PieceIndex Lowering::piece_anywhere(NodeId leaf, const Requirement& r) {
  const Node& n = pcg_[leaf];
  PlacementIndex value = views_[leaf.index()][0].placement;
  std::vector<std::int64_t> key = r.box.offset;
  key.insert(key.end(), r.box.extent.begin(), r.box.extent.end());
  key.push_back(r.device.value);
  auto [it, inserted] = anywhere_pieces_.try_emplace({value, key}, -1);
  if (!inserted) return it->second;
  bool input = n.op->name() == "input";
  BufferId buffer = emitter_.buffer(movements_.placement(value).tensor, r.device, r.box,
                                    input ? BufferCategory::input : BufferCategory::activation);
  TaskList writers;
  if (!input) {  // generated on the spot, the same wherever it is generated
    std::int32_t op = program_op(*n.op, n.attributes, *n.table, n.origin, n.name);
    writers = {emitter_.compute(op, r.device, {}, {buffer}, {}, static_cast<double>(r.box.elements()))};
  }
  return it->second = movements_.add_piece({r.device, r.box, 0, 0, buffer, writers, false, {}});
}

// A stored leaf enters the tape just before its first use, so that its gradient is synchronised as early as possible.
void Lowering::note_use(const View& view) {
  if (auto leaf = untaped_.find(view.placement); leaf != untaped_.end()) {
    tape_.push_back({leaf->second, 0});
    untaped_.erase(leaf);
  }
}

std::vector<PieceIndex> Lowering::provide(const View& view, const std::vector<Requirement>& requirements) {
  if (view.anywhere) {
    std::vector<PieceIndex> pieces;
    for (const Requirement& r : requirements) pieces.push_back(piece_anywhere(anywhere_.at(view.placement), r));
    return pieces;
  }
  note_use(view);
  std::vector<PieceIndex> pieces = movements_.provide(view.placement, view.sum, requirements);
  record_movements();
  return pieces;
}

void Lowering::record_movements() {
  for (; recorded_ < movements_.movement_count(); ++recorded_) tape_.push_back({{}, recorded_});
}

std::int32_t Lowering::program_op(const Operator& op, const Attributes& attributes, const AxisTable& table,
                                  OriginId origin, const std::string& name) {
  ProgramOp p{&op, attributes, origin, name, static_cast<std::uint32_t>(table.inputs.size()), {}};
  for (const OperandAxes& in : table.inputs) p.shape_only.push_back(in.shape_only);
  program_.ops.push_back(std::move(p));
  return static_cast<std::int32_t>(program_.ops.size()) - 1;
}

void Lowering::lower_compute(NodeId id) {
  const Node& n = pcg_[id];
  const AxisTable& table = *n.table;
  Sharding sharding = node_sharding(pcg_, id);
  TaskGrid grid = task_grid(table, sharding);
  bool deliver = n.op->name() == "deliver";
  if (alias(id, 0)) {
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      ValueRef v = alias(id, o).value_or(*alias(id, 0));  // a new state, which inference does not read
      views_[id.index()].push_back(views_[v.node.index()][static_cast<std::size_t>(v.output)]);
    }
    return;
  }
  int micros = micro_count(sharding);
  std::vector<TaskPieces>& tasks = tasks_[id.index()];
  std::vector<std::vector<Range>> ranges;
  std::vector<std::vector<int>> coordinates;
  for (int t = 0; t < task_count(grid); ++t) {
    std::vector<int> c = grid_coordinates(grid, t);
    for (int m = 0; m < micros; ++m) {
      tasks.push_back({mappings_[id.index()].device(c), m, {}, {}});
      ranges.push_back(task_ranges(table, sharding, grid, c, m));
      coordinates.push_back(c);
    }
  }
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    bool partial = sharding.passing > 1 && pcg_.shape(n.inputs[i]).partials > 1;
    std::vector<Requirement> requirements;
    for (std::size_t t = 0; t < tasks.size(); ++t)
      requirements.push_back({tasks[t].device, operand_box(table, table.inputs[i], ranges[t]),
                              partial ? passing_partial(grid, coordinates[t]) : 0});
    std::vector<PieceIndex> pieces =
        provide(views_[n.inputs[i].node.index()][static_cast<std::size_t>(n.inputs[i].output)], requirements);
    for (std::size_t t = 0; t < tasks.size(); ++t) tasks[t].inputs.push_back(pieces[t]);
  }
  if (deliver) {
    views_[id.index()] = {views_[n.inputs[0].node.index()][static_cast<std::size_t>(n.inputs[0].output)]};
    if (needs_[id.index()]) tape_.push_back({id, 0});
    return;
  }
  std::vector<View>& views = views_[id.index()];
  for (std::size_t o = 0; o < table.outputs.size(); ++o) {
    Shape shape = n.outputs[o].shape();
    std::string name = table.outputs.size() > 1 ? fmt::format("{}.{}", n.name, o) : n.name;
    std::int32_t tensor = emitter_.tensor({name, shape.dims, shape.dtype, n.origin, -1});
    // What is reduced is of one kind: an operator's reduction axes all add up, or all take the largest.
    bool largest = std::any_of(table.axes.begin(), table.axes.end(), [](const Axis& axis) {
      return axis.role == AxisRole::reduction && axis.monoid == Monoid::max;
    });
    Placement value{name, shape.dims, shape.dtype, tensor, -1, needs_[id.index()], {}};
    if (largest) value.monoid = Monoid::max;
    views.push_back({movements_.add_placement(std::move(value)), 1, false});
  }
  std::int32_t op = program_op(*n.op, n.attributes, table, n.origin, n.name);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::vector<BufferId> inputs, outputs;
    TaskList after;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const Piece& p = movements_.piece(tasks[t].inputs[i]);
      inputs.push_back(p.buffer);
      if (!table.inputs[i].shape_only) append(after, p.writers);
    }
    for (std::size_t o = 0; o < table.outputs.size(); ++o) {
      int partial = output_partial(table, grid, coordinates[t], o);
      Box box = operand_box(table, table.outputs[o], ranges[t]);
      Placement& value = movements_.placement(views[o].placement);
      BufferId buffer = emitter_.buffer(value.tensor, tasks[t].device, box, BufferCategory::activation, partial);
      PieceIndex piece = movements_.add_piece(
          {tasks[t].device, box, partial, output_copy(grid, coordinates[t]), buffer, {}, needs_[id.index()], {}});
      movements_.placement(views[o].placement).pieces.push_back({piece, partial, output_copy(grid, coordinates[t])});
      tasks[t].outputs.push_back(piece);
      outputs.push_back(buffer);
    }
    TaskId task = emitter_.compute(op, tasks[t].device, inputs, outputs, std::move(after), flops(table, ranges[t]),
                                   tasks[t].micro);
    for (PieceIndex o : tasks[t].outputs) movements_.piece(o).writers = {task};
  }
  if (needs_[id.index()]) tape_.push_back({id, 0});
  if (micros > 1)
    for (std::size_t o = 0; o < table.outputs.size(); ++o) add_up_micro_batches(id, o, sharding);
}

// An output that does not walk a micro-batched axis is a sum over micro-batches; they share their device, so the sum is
// an ordinary addition of summands there.
void Lowering::add_up_micro_batches(NodeId id, std::size_t output, const Sharding& sharding) {
  const AxisTable& table = *pcg_[id].table;
  int summed = 1;
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    bool walked = std::any_of(table.outputs[output].dims.begin(), table.outputs[output].dims.end(),
                              [&](const DimAxes& d) { return split_axis(table, d) == static_cast<int>(a); });
    if (!walked) summed *= sharding.micro[a];
  }
  if (summed == 1) return;
  View& view = views_[id.index()][output];
  // Number the summands of one place consecutively, so that every `summed` of them are one sum.
  std::map<std::tuple<int, int, std::vector<std::int64_t>>, int> counts;
  Placement& value = movements_.placement(view.placement);
  for (PieceRef& ref : value.pieces) {
    const Piece& p = movements_.piece(ref.piece);
    int nth = counts[{p.partial, p.copy, p.box.offset}]++;
    ref.partial = p.partial * summed + nth;
  }
  view.sum *= summed;
}

void Lowering::collect_outputs() {
  for (ValueRef v : pcg_.outputs()) {
    const View& view = views_[v.node.index()][static_cast<std::size_t>(v.output)];
    const Placement& value = movements_.placement(view.placement);
    ProgramOutput out{value.name, value.dims, {}};
    if (value.monoid == Monoid::max && view.sum > 1) {
      // Who reads an output adds up its summands; the largest of them is found here.
      std::vector<Requirement> whole;
      for (const PieceRef& ref : value.pieces)
        if (ref.copy == 0 && ref.partial == 0)
          whole.push_back({movements_.piece(ref.piece).device, movements_.piece(ref.piece).box, 0});
      for (PieceIndex p : provide(view, whole)) out.buffers.push_back(movements_.piece(p).buffer);
    } else {
      for (const PieceRef& ref : value.pieces)
        if (ref.copy == 0) out.buffers.push_back(movements_.piece(ref.piece).buffer);
    }
    program_.outputs.push_back(std::move(out));
  }
}

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
    if (ref.copy != 0) continue;
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
    Box box;
    TaskList writers;
    bool shared = false;
  };
  // Micro-batches in their order, so that the gradient of a weight is added up as they come.
  auto micros = static_cast<std::size_t>(micro_count(node_sharding(pcg_, id)));
  for (std::size_t i = tasks.size(); i-- > 0;) {
    const TaskPieces& task = tasks[i / micros * micros + (micros - 1 - i % micros)];
    std::vector<Local> dy(task.outputs.size());
    bool any = false;
    for (PieceIndex o : task.outputs) any = any || !movements_.piece(o).contributions.empty();
    if (!any) continue;
    for (std::size_t o = 0; o < task.outputs.size(); ++o) {
      if (!reads_gradient[o]) continue;
      Movements::Gradient g = movements_.gradient_or_zero(views_[id.index()][o].placement, task.outputs[o]);
      dy[o] = {g.buffer, movements_.piece(task.outputs[o]).box, g.writers, g.shared};
    }
    std::vector<std::vector<Local>> results(steps.size());
    auto local_of = [&](GradientValue v) -> Local {
      auto i = static_cast<std::size_t>(v.index);
      switch (v.kind) {
        case GradientValue::Kind::input:
          return {movements_.piece(task.inputs[i]).buffer, movements_.piece(task.inputs[i]).box,
                  movements_.piece(task.inputs[i]).writers, true};
        case GradientValue::Kind::output:
          return {movements_.piece(task.outputs[i]).buffer, movements_.piece(task.outputs[i]).box,
                  movements_.piece(task.outputs[i]).writers, true};
        case GradientValue::Kind::output_gradient:
          return dy[i];
        case GradientValue::Kind::step:
          break;
      }
      return results[i][static_cast<std::size_t>(v.result)];
    };
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const AxisTable& table = *steps[s].table;
      std::vector<std::optional<Box>> boxes;
      std::vector<BufferId> inputs, outputs;
      TaskList after;
      for (std::size_t i = 0; i < program.steps[s].inputs.size(); ++i) {
        Local in = local_of(program.steps[s].inputs[i]);
        boxes.emplace_back(in.box);
        inputs.push_back(in.buffer);
        if (!table.inputs[i].shape_only) append(after, in.writers);
      }
      std::vector<Range> ranges = axis_ranges(table, boxes).value();
      for (std::size_t o = 0; o < table.outputs.size(); ++o) {
        Box box = operand_box(table, table.outputs[o], ranges);
        outputs.push_back(emitter_.buffer(steps[s].tensors[o], task.device, box, BufferCategory::gradient));
        results[s].push_back({outputs.back(), box, {}, false});
      }
      TaskId step = emitter_.compute(steps[s].op, task.device, inputs, outputs, std::move(after), flops(table, ranges),
                                     task.micro);
      for (Local& r : results[s]) r.writers = {step};
    }
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      if (!program.input_gradients[i]) continue;
      GradientValue v = *program.input_gradients[i];
      Local g = local_of(v);
      Piece& p = movements_.piece(task.inputs[i]);
      UNITY_CHECK(g.box.extent == p.box.extent, "{}: gradient of operand {} covers {}, expected {}", n.name, i,
                  to_string(g.box), to_string(p.box));
      bool twice =
          std::count(program.input_gradients.begin(), program.input_gradients.end(), program.input_gradients[i]) > 1;
      p.contributions.push_back({g.buffer, p.box, g.writers, g.shared || twice || v.kind != GradientValue::Kind::step});
    }
  }
}

// The gradient of a stored copy is the sum over the copies.
void Lowering::synchronise_weight(NodeId id) {
  PlacementIndex value = views_[id.index()][0].placement;
  std::map<std::vector<std::int64_t>, std::vector<PieceIndex>> by_box;
  bool any = false;
  for (const PieceRef& ref : movements_.placement(value).pieces) {
    by_box[movements_.piece(ref.piece).box.offset].push_back(ref.piece);
    any = any || !movements_.piece(ref.piece).contributions.empty();
  }
  if (!any) return;
  for (auto& [offset, pieces] : by_box) {
    std::vector<Movements::Gradient> gradients;
    for (PieceIndex p : pieces) gradients.push_back(movements_.gradient_or_zero(value, p));
    if (pieces.size() > 1) {
      Communication c{.kind = CollectiveKind::all_reduce,
                      .dtype = movements_.placement(value).dtype,
                      .name = movements_.placement(value).name + ".gradient"};
      TaskList after;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const Piece& p = movements_.piece(pieces[i]);
        BufferId receive = gradients[i].buffer;
        if (gradients[i].shared)
          receive = emitter_.buffer(movements_.gradient_tensor(value), p.device, p.box, BufferCategory::gradient);
        c.participants.push_back({p.device, gradients[i].buffer, receive, p.box});
        append(after, gradients[i].writers);
        gradients[i].buffer = receive;
      }
      TaskId task = emitter_.communicate(std::move(c), after);
      for (Movements::Gradient& g : gradients) g.writers = {task};
    }
    for (std::size_t i = 0; i < pieces.size(); ++i)
      updates_.push_back({movements_.piece(pieces[i]).buffer, gradients[i], movements_.placement(value).name,
                          movements_.placement(value).dims});
  }
}

void Lowering::emit_updates() {
  std::map<std::string, std::vector<std::int32_t>> states;
  std::reverse(updates_.begin(), updates_.end());
  for (const PendingUpdate& u : updates_) {
    auto [it, inserted] = states.try_emplace(u.name);
    for (int s = 0; inserted && s < options_.optimizer.states(); ++s)
      it->second.push_back(emitter_.tensor({fmt::format("{}.state{}", u.name, s), u.dims, DType::f32, {}, -1}));
    std::vector<BufferId> operands = {u.weight, u.gradient.buffer};
    Buffer weight = program_.buffer(u.weight);
    for (std::int32_t tensor : it->second)
      operands.push_back(emitter_.buffer(tensor, weight.device, weight.box, BufferCategory::optimizer_state));
    emitter_.update(operands, u.gradient.writers);
  }
}

// The next values of states (Operator::new_state), copied to where the states are stored once nothing reads these.
void Lowering::write_back_states() {
  std::map<BufferId, TaskList> readers;
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = pcg_[id];
    for (std::size_t o = 0; n.is_compute() && o < n.outputs.size(); ++o) {
      auto operand = n.op->new_state(static_cast<int>(o));
      if (!operand) continue;
      ValueRef leaf = n.inputs[static_cast<std::size_t>(*operand)];
      while (pcg_[leaf.node].is_parallelization()) leaf = pcg_[leaf.node].inputs[0];
      if (!pcg_[leaf.node].op->stored()) continue;  // computed, not kept
      if (readers.empty()) readers = buffer_readers();
      PlacementIndex stored = views_[leaf.node.index()][0].placement;
      std::vector<Requirement> wanted;
      std::vector<PieceIndex> targets;
      for (const PieceRef& ref : movements_.placement(stored).pieces) {
        const Piece& p = movements_.piece(ref.piece);
        wanted.push_back({p.device, p.box, 0});
        targets.push_back(ref.piece);
      }
      std::vector<PieceIndex> values = provide(views_[id.index()][o], wanted);
      for (std::size_t k = 0; k < targets.size(); ++k) {
        const Piece &from = movements_.piece(values[k]), &to = movements_.piece(targets[k]);
        TaskList after = from.writers;
        auto found = readers.find(to.buffer);
        if (found != readers.end()) after.insert(after.end(), found->second.begin(), found->second.end());
        emitter_.copy(from.buffer, to.buffer, to.box, after);
      }
    }
  }
}

std::map<BufferId, TaskList> Lowering::buffer_readers() const {
  std::map<BufferId, TaskList> readers;
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    TaskId id(static_cast<std::int64_t>(t));
    if (task.kind == TaskKind::communicate) {
      for (const Participant& p : program_.communications[static_cast<std::size_t>(task.op)].participants)
        if (p.send.valid()) readers[p.send].push_back(id);
    } else {
      for (BufferId b : program_.operands_of(task)) readers[b].push_back(id);
    }
  }
  return readers;
}

}  // namespace

Result<Program> lower(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
                      const LowerOptions& options) {
  return Lowering(pcg, mappings, topology, options).run();
}

}  // namespace unity
