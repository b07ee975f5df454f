#include "core/plan/lower.h"

#include <algorithm>
#include <set>

#include "core/base/this_machine.h"
#include "core/plan/collective_algorithms.h"
#include "core/plan/delayed_weights.h"
#include "core/plan/lowering.h"
#include "core/plan/rematerialise.h"
#include "core/plan/row_updates.h"
#include "core/plan/task_blocks.h"

namespace unity {

namespace {

constexpr double kBytesOfTask = 1300;  // with its share of buffers, communications and what its simulation notes down
constexpr std::size_t kFewTasks = 100'000;

// Of which an output is the sum: of those along axes that it does not walk.
int summed_micro_batches(const AxisTable& table, std::size_t output, const Sharding& sharding) {
  int summed = 1;
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    bool walked = std::any_of(table.outputs[output].dims.begin(), table.outputs[output].dims.end(),
                              [&](const DimAxes& d) { return split_axis(table, d) == static_cast<int>(a); });
    if (!walked) summed *= sharding.micro[a];
  }
  return summed;
}

}  // namespace

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
      const ValueRef other = n.inputs[1 - i];
      const bool mask = pcg_[source.node].is_leaf() && pcg_[source.node].op->random();
      // Elsewhere a mask, which may come by another way, is all ones.
      if (mask && pcg_.shape(other) == pcg_.shape({id, static_cast<int>(output)})) return other;
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
    UNITY_TRY_VOID(check_summands(pcg_, NodeId(static_cast<std::int64_t>(i)), mappings_[i]));
  }
  return {};
}

// What ends with no memory left is ended by the operating system, without a word.
Result<void> Lowering::check_size() const {
  if (!options_.blocks.all() || pcg_.size() * topology_.device_count() < kFewTasks) return {};
  const double tasks = about_tasks(pcg_, mappings_), bytes = tasks * kBytesOfTask;
  const Bytes memory = memory_of_this_machine();
  if (bytes > static_cast<double>(memory.count))
    return fail("has some {:.0f} million tasks on {} devices, found {} of memory here, expected about {}", tasks / 1e6,
                topology_.device_count(), to_string(memory), to_string(Bytes{static_cast<std::int64_t>(bytes)}));
  return {};
}

// What a training keeps beside a weight has a name of its own, in checkpoints, too.
Result<void> Lowering::check_names() const {
  if (!options_.training || !options_.blocks.all()) return {};
  std::set<std::string> stored;
  for (const Node& n : pcg_.nodes())
    if (n.is_leaf() && n.op->stored()) stored.insert(n.name);
  for (const std::string& name : stored) {
    std::vector<std::string> beside;
    if (options_.schedule.weights == WeightVersions::delayed) beside.push_back(next_version(name));
    for (int s = 0; s < options_.optimizer.states(); ++s) beside.push_back(optimizer_state(name, s));
    for (const std::string& other : beside)
      if (stored.contains(other))
        return fail("weight '{}' has the name of what is kept beside weight '{}'; expected another name", other, name);
  }
  return {};
}

const Lowering::Blocks& Lowering::blocks_of(NodeId id, const TaskGrid& grid) {
  const MachineMapping& mapping = mappings_[id.index()];
  Integers dims;
  for (const GridDim& dim : grid) dims.push_back(dim.degree), dims.push_back(dim.kind == GridDim::Kind::passing);
  auto [it, fresh] = blocks_.try_emplace({mapping, std::move(dims)});
  if (fresh) {
    it->second.all = blocks(mapping, grid);
    for (std::size_t b = 0; b < it->second.all.size(); ++b)
      if (movements_.here(it->second.all[b].device)) it->second.here.push_back(b);
  }
  return it->second;
}

Result<Program> Lowering::run() {
  UNITY_TRY_VOID(check_mappings());
  UNITY_TRY_VOID(check_outputs());
  UNITY_TRY_VOID(check_size());
  UNITY_TRY_VOID(check_names());
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
  movements_.check_crossings();
  collect_outputs();
  if (options_.training) {
    emitter_.phase = Phase::backward;
    seed_loss();
    backward();
    emitter_.phase = Phase::update;
    emit_updates();
    write_back_states();
    use_row_updates(program_);
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
  const Blocks& parts = blocks_of(id, grid);
  for (std::size_t b : parts.here) {
    const TaskBlock& block = parts.all[b];
    Box box = block_box(storage, grid, block);
    int copy = output_copy(grid, block.first);
    BufferId buffer = emitter_.buffer(movements_.placement(value).tensor, block.device, box,
                                      weight ? BufferCategory::weight : BufferCategory::activation);
    PieceIndex piece = movements_.add_piece({block.device, box, 0, copy, buffer, {}, needs_[id.index()], {}});
    movements_.placement(value).pieces.push_back({piece, 0, copy});
  }
  if (!options_.blocks.all())
    movements_.placement(value).elsewhere = [this, &parts, storage, grid] {
      std::vector<Held> held;
      for (const TaskBlock& block : parts.all)
        if (!movements_.here(block.device))
          held.push_back({block.device, block_box(storage, grid, block), 0, output_copy(grid, block.first)});
      return held;
    };
  if (needs_[id.index()]) untaped_.emplace(value, id);
}

void Lowering::lower_parallelization(NodeId id) {
  const Node& n = pcg_[id];
  auto view_of = [&](ValueRef v) { return views_[v.node.index()][static_cast<std::size_t>(v.output)]; };
  View view = view_of(n.inputs[0]);
  if (n.op->name() == "reduce") {
    view.sum *= static_cast<int>(int_attribute(n.attributes, 0));
  } else if (n.op->name() == "stack_partials") {
    view = stack_partials(id);
  }
  views_[id.index()] = {view};
}

// The operands become summands of one value, all in the layout of its type: where the first operand that is held so has
// its shards and copies, else in the natural order of devices.
View Lowering::stack_partials(NodeId id) {
  const Node& n = pcg_[id];
  auto view_of = [&](ValueRef v) { return views_[v.node.index()][static_cast<std::size_t>(v.output)]; };
  Shape shape = n.outputs[0].shape();
  Placement stacked{n.name, shape.dims, shape.dtype, -1, -1, needs_[id.index()], {}};
  const ParallelShape& type = pcg_.shape(n.inputs[0]);
  TaskGrid storage = storage_grid(type);
  std::vector<std::vector<int>> parts;
  for (int t = 0; t < task_count(storage); ++t) parts.push_back(grid_coordinates(storage, t));
  std::set<Box, BoxLess> layout;
  for (const std::vector<int>& c : parts) layout.insert(storage_box(type, storage, c));
  auto held_so = [&](const View& v) {
    if (v.anywhere || v.sum != 1) return false;
    movements_.know_elsewhere(v.placement);
    const std::vector<PieceRef>& pieces = movements_.placement(v.placement).pieces;
    return pieces.size() == parts.size() && std::all_of(pieces.begin(), pieces.end(), [&](const PieceRef& r) {
             return layout.contains(movements_.piece(r.piece).box);
           });
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
    movements_.check_natural_order(storage, shape.dims);
    for (std::size_t t = 0; t < parts.size(); ++t) {
      wanted.push_back({DeviceId(static_cast<int>(t) % program_.devices), storage_box(type, storage, parts[t]), 0});
      copies.push_back(output_copy(storage, parts[t]));
    }
  }
  std::vector<Requirement> here;
  std::vector<int> copies_here;
  for (std::size_t k = 0; k < wanted.size(); ++k)
    if (movements_.here(wanted[k].device)) here.push_back(wanted[k]), copies_here.push_back(copies[k]);
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    View v = view_of(n.inputs[i]);
    auto summand = static_cast<int>(i);
    if (held_so(v)) {
      note_use(v);
      for (const PieceRef& r : movements_.placement(v.placement).pieces)
        stacked.pieces.push_back({r.piece, summand, r.copy});
      continue;
    }
    std::vector<PieceIndex> pieces = provide(v, here, [&] { return wanted; });
    for (std::size_t k = 0; k < pieces.size(); ++k) stacked.pieces.push_back({pieces[k], summand, copies_here[k]});
    for (std::size_t k = 0; k < wanted.size(); ++k)
      if (!movements_.here(wanted[k].device))
        stacked.pieces.push_back(
            {movements_.add_piece({wanted[k].device, wanted[k].box, 0, copies[k], {}, {}, needs_[id.index()], {}}),
             summand, copies[k]});
  }
  stacked.known_elsewhere = true;
  stacked.tensor = emitter_.tensor({n.name, shape.dims, shape.dtype, n.origin, -1});
  return {movements_.add_placement(std::move(stacked)), 1, false};
}

PieceIndex Lowering::piece_anywhere(NodeId leaf, const Requirement& r) {
  const Node& n = pcg_[leaf];
  PlacementIndex value = views_[leaf.index()][0].placement;
  Integers key = r.box.offset;
  key.insert(key.end(), r.box.extent.begin(), r.box.extent.end());
  key.push_back(r.device.value);
  auto [it, inserted] = anywhere_pieces_.try_emplace({value, key}, -1);
  if (!inserted) return it->second;
  bool input = n.op->name() == "input";
  BufferId buffer = emitter_.buffer(movements_.placement(value).tensor, r.device, r.box,
                                    input ? BufferCategory::input : BufferCategory::activation);
  TaskList writers;
  if (!input) {  // generated on the spot, the same wherever it is generated
    const Attributes attributes = options_.training ? n.attributes : n.op->inference_attributes(n.attributes);
    std::int32_t op = program_op(*n.op, attributes, *n.table, n.origin, n.name);
    writers = {emitter_.compute(op, r.device, {}, {buffer}, {}, static_cast<double>(r.box.elements()))};
  }
  return it->second = movements_.add_piece({r.device, r.box, 0, 0, buffer, writers, false, {}});
}

// A stored leaf enters the tape just before its first use, so that its gradient is synchronised as early as possible.
void Lowering::note_use(const View& view) {
  if (auto leaf = untaped_.find(view.placement); leaf != untaped_.end()) {
    movements_.emit_waiting();
    record_movements();
    tape_.push_back({leaf->second, 0});
    untaped_.erase(leaf);
  }
}

std::vector<PieceIndex> Lowering::provide(const View& view, const std::vector<Requirement>& requirements,
                                          const AllRequirements& all) {
  if (view.anywhere) {
    std::vector<PieceIndex> pieces;
    for (const Requirement& r : requirements) pieces.push_back(piece_anywhere(anywhere_.at(view.placement), r));
    return pieces;
  }
  note_use(view);
  if (!options_.blocks.all() && !movements_.within_block(view.placement, view.sum, requirements)) {
    if (!all) throw Movements::Unclear{};
    movements_.know_elsewhere(view.placement);
    movements_.provide(view.placement, view.sum, all());
  }
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
  int micros = micro_batches(sharding);
  std::vector<TaskPieces>& tasks = tasks_[id.index()];
  std::vector<std::vector<Range>> ranges;
  std::vector<const std::vector<int>*> coordinates;
  const Blocks& blocks = blocks_of(id, grid);
  for (std::size_t b : blocks.here) {
    const TaskBlock& block = blocks.all[b];
    for (int m = 0; m < micros; ++m) {
      tasks.push_back({block.device, m, {}, {}});
      ranges.push_back(block_ranges(table, sharding, grid, block, m));
      coordinates.push_back(&block.first);
    }
  }
  if (micros == 1) movements_.begin_rounds();
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    bool partial = sharding.passing > 1 && pcg_.shape(n.inputs[i]).partials > 1;
    std::vector<Requirement> requirements;
    requirements.reserve(tasks.size());
    for (std::size_t t = 0; t < tasks.size(); ++t)
      requirements.push_back({tasks[t].device, operand_box(table, table.inputs[i], ranges[t]),
                              partial ? passing_partial(grid, *coordinates[t]) : 0});
    auto all = [&] {
      std::vector<Requirement> wanted;
      for (const TaskBlock& block : blocks.all)
        for (int m = 0; m < micros; ++m)
          wanted.push_back({block.device,
                            operand_box(table, table.inputs[i], block_ranges(table, sharding, grid, block, m)),
                            partial ? passing_partial(grid, block.first) : 0});
      return wanted;
    };
    std::vector<PieceIndex> pieces =
        provide(views_[n.inputs[i].node.index()][static_cast<std::size_t>(n.inputs[i].output)], requirements, all);
    for (std::size_t t = 0; t < tasks.size(); ++t) tasks[t].inputs.push_back(pieces[t]);
  }
  movements_.end_rounds();
  record_movements();
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
    if (!options_.blocks.all()) {
      value.elsewhere = [this, id, o, sharding, grid, &blocks] {
        const AxisTable& table = *pcg_[id].table;
        int summed = summed_micro_batches(table, o, sharding);
        std::vector<Held> held;
        for (const TaskBlock& block : blocks.all) {
          if (movements_.here(block.device)) continue;
          int partial = output_partial(table, grid, block.first, o), copy = output_copy(grid, block.first);
          std::map<Integers, int> counts;  // of a place: as add_up_micro_batches() numbers them
          for (int m = 0; m < micro_batches(sharding); ++m) {
            Box box = operand_box(table, table.outputs[o], block_ranges(table, sharding, grid, block, m));
            int nth = counts[box.offset]++;
            held.push_back({block.device, std::move(box), summed > 1 ? partial * summed + nth : partial, copy});
          }
        }
        return held;
      };
    }
    views.push_back({movements_.add_placement(std::move(value)), 1, false});
  }
  std::int32_t op = program_op(*n.op, n.attributes, table, n.origin, n.name);
  std::vector<BufferId> inputs, outputs;  // of one task; kept, since there are many
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    inputs.clear(), outputs.clear();
    TaskList after;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const Piece& p = movements_.piece(tasks[t].inputs[i]);
      inputs.push_back(p.buffer);
      if (!table.inputs[i].shape_only) append(after, p.writers);
    }
    for (std::size_t o = 0; o < table.outputs.size(); ++o) {
      int partial = output_partial(table, grid, *coordinates[t], o);
      Box box = operand_box(table, table.outputs[o], ranges[t]);
      Placement& value = movements_.placement(views[o].placement);
      BufferId buffer = emitter_.buffer(value.tensor, tasks[t].device, box, BufferCategory::activation, partial);
      PieceIndex piece = movements_.add_piece(
          {tasks[t].device, box, partial, output_copy(grid, *coordinates[t]), buffer, {}, needs_[id.index()], {}});
      movements_.placement(views[o].placement).pieces.push_back({piece, partial, output_copy(grid, *coordinates[t])});
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
  int summed = summed_micro_batches(*pcg_[id].table, output, sharding);
  if (summed == 1) return;
  View& view = views_[id.index()][output];
  // Number the summands of one place consecutively, so that every `summed` of them are one sum.
  std::map<std::tuple<int, int, Integers>, int> counts;
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
    std::erase_if(out.buffers, [](BufferId b) { return !b.valid(); });
    program_.outputs.push_back(std::move(out));
  }
}

bool is_piece(const Pcg& pcg) {
  return std::any_of(pcg.nodes().begin(), pcg.nodes().end(),
                     [](const Node& n) { return n.op->name() == "boundary" || n.op->name() == "deliver"; });
}

Result<Program> lower(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
                      const LowerOptions& options) {
  Result<Program> program = fail("");
  try {
    program = Lowering(pcg, mappings, topology, options).run();
  } catch (const Movements::Unclear&) {
    return fail("a few devices do not tell what all {} do", topology.device_count());
  } catch (const Movements::TooMany& e) {
    return fail("{}: at least {} transfers from where it is to where it is wanted", e.value, e.transfers);
  }
  if (program.ok() && !options.training) choose_algorithms(*program, CollectiveAlgorithms(topology));
  if (!program.ok() || !options.training || !options.scheduled) return program;
  Schedule schedule = options.schedule;
  // What a schedule names may be in another piece.
  if (is_piece(pcg)) static_cast<void>(rematerialise(*program, std::exchange(schedule.remat, {})));
  UNITY_TRY_VOID(schedule_tasks(*program, schedule, topology));
  return program;
}

}  // namespace unity
