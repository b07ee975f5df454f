#include "core/plan/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/ops/chain.h"

namespace unity {
namespace {

template <std::size_t N, class E>
std::string_view name_of(const std::array<std::string_view, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}

Hash hash_box(const Box& box) {
  Hash h = mix(box.rank());
  for (std::size_t i = 0; i < box.rank(); ++i)
    h = combine(combine(h, static_cast<Hash>(box.offset[i])), static_cast<Hash>(box.extent[i]));
  return h;
}

}  // namespace

std::string_view to_string(BufferCategory c) {
  constexpr std::array<std::string_view, 5> kNames = {"weight", "gradient", "optimizer_state", "activation", "input"};
  return name_of(kNames, c);
}
std::string_view to_string(TaskKind k) {
  constexpr std::array<std::string_view, 6> kNames = {"compute", "copy", "accumulate", "zero", "communicate", "update"};
  return name_of(kNames, k);
}
std::string_view to_string(Phase p) {
  constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return name_of(kNames, p);
}
std::string_view to_string(Stream s) {
  constexpr std::array<std::string_view, 3> kNames = {"compute", "communication", "copy"};
  return name_of(kNames, s);
}
std::string_view to_string(CollectiveKind k) {
  constexpr std::array<std::string_view, 7> kNames = {"send",       "broadcast",      "reduce",    "all_reduce",
                                                      "all_gather", "reduce_scatter", "all_to_all"};
  return name_of(kNames, k);
}

std::int64_t elements_moved(const Communication& c) {
  std::int64_t elements = 0;
  if (c.kind == CollectiveKind::all_to_all)
    for (const Exchange& e : c.exchanges) elements += e.box.elements();
  for (std::size_t i = 0; i < c.part_count() && c.kind != CollectiveKind::all_to_all; ++i) {
    bool each = c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::reduce_scatter;
    for (const Participant& p : c.part(i)) {
      elements += p.piece.elements();
      if (!each) break;
    }
  }
  return elements;
}

Bytes communication_bytes(const Communication& c) {
  std::int64_t n = static_cast<std::int64_t>(c.participants.size()), elements = elements_moved(c);
  switch (c.kind) {
    case CollectiveKind::send:
      break;
    case CollectiveKind::all_reduce:
      elements *= 2 * (n - 1);
      break;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      elements *= n - 1;
      break;
    case CollectiveKind::all_to_all:
      for (const Exchange& e : c.exchanges)
        if (e.from == e.to) elements -= e.box.elements();
      break;
  }
  return {elements * size_of(c.dtype)};
}

std::string Program::task_name(TaskId id) const {
  const Task& t = tasks[id.index()];
  switch (t.kind) {
    case TaskKind::compute: {
      const ProgramOp& op = ops[static_cast<std::size_t>(t.op)];
      return fmt::format("{} {}", op.op->name(), op.name);
    }
    case TaskKind::communicate: {
      const Communication& c = communications[static_cast<std::size_t>(t.op)];
      return fmt::format("{} {}", to_string(c.kind), c.name);
    }
    case TaskKind::update:
      return fmt::format("{} {}", optimizer.name, tensor_of(operands_of(t)[0]).name);
    default:
      return fmt::format("{} {}", to_string(t.kind), tensor_of(operands_of(t).back()).name);
  }
}

bool Program::copies_to_host(const Task& t) const {
  return t.kind == TaskKind::copy && buffer(operands_of(t)[1]).on_host && !buffer(operands_of(t)[0]).on_host;
}

bool Program::copies_from_host(const Task& t) const {
  return t.kind == TaskKind::copy && buffer(operands_of(t)[0]).on_host && !buffer(operands_of(t)[1]).on_host;
}

std::vector<DeviceId> Program::devices_of(TaskId id) const {
  const Task& t = tasks[id.index()];
  if (t.kind != TaskKind::communicate) return {t.device};
  std::vector<DeviceId> devices;
  for (const Participant& p : communications[static_cast<std::size_t>(t.op)].participants) devices.push_back(p.device);
  return devices;
}

Bytes Program::communicated() const {
  Bytes total;
  for (const Communication& c : communications) total += communication_bytes(c);
  return total;
}

std::vector<std::string> task_names(const Program& program) {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    names.push_back(program.task_name(TaskId(static_cast<std::int64_t>(t))));
  return names;
}

std::vector<std::string> task_groups(const Program& program) {
  std::vector<std::string> groups;
  for (const Task& t : program.tasks) {
    std::string what(to_string(t.kind));
    if (t.kind == TaskKind::compute) what = program.ops[static_cast<std::size_t>(t.op)].op->name();
    if (t.kind == TaskKind::communicate) what = to_string(program.communications[static_cast<std::size_t>(t.op)].kind);
    if (t.kind == TaskKind::update) what = program.optimizer.name + (t.op >= 0 ? "_rows" : "");
    groups.push_back(fmt::format("{} {}", to_string(t.phase), what));
  }
  return groups;
}

std::vector<bool> persistent_buffers(const Program& program) {
  std::vector<bool> persistent(program.buffers.size());
  for (std::size_t b = 0; b < persistent.size(); ++b) {
    BufferCategory c = program.buffers[b].category;
    persistent[b] = c == BufferCategory::weight || c == BufferCategory::input ||
                    (c == BufferCategory::optimizer_state && !program.buffers[b].staged);
  }
  for (const ProgramOutput& out : program.outputs)
    for (BufferId b : out.buffers) persistent[b.index()] = true;
  return persistent;
}

std::vector<BufferLife> buffer_lives(const Program& program) {
  std::vector<BufferLife> lives(program.buffers.size());
  auto touch = [&](BufferId id, TaskId task) {
    if (!id.valid()) return;
    BufferLife& life = lives[id.index()];
    if (!life.first.valid()) life.first = task;
    life.last = task;
  };
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& t = program.tasks[i];
    TaskId id(static_cast<std::int64_t>(i));
    auto operands = program.operands_of(t);
    if (t.kind == TaskKind::communicate) {
      const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
      for (std::size_t part = 0; part < c.part_count(); ++part)
        for (const Participant& p : c.part(part)) touch(p.send, id), touch(p.receive, id);
    } else if (t.kind == TaskKind::compute) {
      const ProgramOp& op = program.ops[static_cast<std::size_t>(t.op)];
      for (std::size_t k = 0; k < operands.size(); ++k)
        if (k >= op.inputs || !op.shape_only[k]) touch(operands[k], id);
    } else {
      for (BufferId b : operands) touch(b, id);
    }
  }
  std::vector<bool> persistent = persistent_buffers(program);
  for (std::size_t b = 0; b < lives.size(); ++b) lives[b].persistent = persistent[b];
  return lives;
}

Result<void> check_program(const Program& program) {
  auto inside = [&](BufferId id, DeviceId device, const Box& box) {
    if (!id.valid()) return true;
    if (id.index() >= program.buffers.size()) return false;
    const Buffer& buffer = program.buffer(id);
    return buffer.device == device && (!box.rank() || buffer.box.contains(box));
  };
  auto outside = [&](BufferId id, DeviceId device, const Box& box, std::size_t task) {
    if (id.index() >= program.buffers.size()) return fail("task {} names buffer {}, which does not exist", task, id);
    if (program.buffer(id).device != device)
      return fail("task {} on device {} uses buffer {} of device {}", task, device, id, program.buffer(id).device);
    return fail("task {} moves {} of buffer {}, which holds {}", task, to_string(box), id,
                to_string(program.buffer(id).box));
  };
  const Box whole;
  // In which task each device takes part last, counted from 1.
  std::vector<std::size_t> takes_part(static_cast<std::size_t>(program.devices));
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& t = program.tasks[i];
    if (t.iteration >= program.iterations)
      return fail("task {} is of iteration {} of {}", i, t.iteration, program.iterations);
    for (TaskId d : program.dependencies_of(t))
      if (!d.valid() || d.index() >= i) return fail("task {} depends on task {}, which does not come before it", i, d);
    if (t.kind == TaskKind::communicate) {
      const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
      if (c.participants.size() < 2)
        return fail("task {}: a communication with {} participants", i, c.participants.size());
      const auto [name, devices_per_node, chunks] = c.algorithm;
      if (name == CollectiveAlgorithm::hierarchical &&
          (devices_per_node < 1 || chunks < 1 || c.participants.size() % static_cast<std::size_t>(devices_per_node)))
        return fail("task {}: {} participants in nodes of {}, {} chunks", i, c.participants.size(), devices_per_node,
                    chunks);
      for (std::size_t a = 0; a < c.participants.size(); ++a) {
        const Participant& p = c.participants[a];
        if (p.device.index() >= takes_part.size())
          return fail("task {}: device {} takes part, of {}", i, p.device, program.devices);
        if (std::exchange(takes_part[p.device.index()], i + 1) == i + 1)
          return fail("task {}: device {} takes part twice", i, p.device);
        for (std::size_t part = 0; part < c.part_count(); ++part) {
          if (c.part(part).size() != c.participants.size() || c.part(part)[a].device != p.device)
            return fail("task {}: part {} of a communication is among other devices", i, part);
          const Participant& q = c.part(part)[a];
          for (BufferId b : {q.send, q.receive})
            if (!inside(b, p.device, q.piece)) return outside(b, p.device, q.piece, i);
        }
      }
      for (const Exchange& e : c.exchanges) {
        if (e.part < 0 || static_cast<std::size_t>(e.part) >= c.part_count())
          return fail("task {}: an exchange of part {} of a communication of {}", i, e.part, c.part_count());
        const std::vector<Participant>& participants = c.part(static_cast<std::size_t>(e.part));
        const Participant& from = participants.at(static_cast<std::size_t>(e.from));
        const Participant& to = participants.at(static_cast<std::size_t>(e.to));
        if (!inside(from.send, from.device, e.box)) return outside(from.send, from.device, e.box, i);
        if (!inside(to.receive, to.device, e.box)) return outside(to.receive, to.device, e.box, i);
      }
    } else {
      const bool moves = t.kind == TaskKind::copy || t.kind == TaskKind::accumulate;
      const Box& box = moves ? program.boxes.at(static_cast<std::size_t>(t.op)) : whole;
      for (BufferId b : program.operands_of(t))
        if (!inside(b, t.device, box)) return outside(b, t.device, box, i);
    }
  }
  return {};
}

Hash program_hash(const Program& p) {
  Hash h = combine(hash_text(p.name), static_cast<Hash>(p.devices) | static_cast<Hash>(p.iterations - 1) << 32);
  for (const Buffer& b : p.buffers)
    h = combine(combine(h, hash_box(b.box)), static_cast<Hash>(b.device.value) << 32 |
                                                 static_cast<Hash>(b.tensor) << 4 | static_cast<Hash>(b.on_host) << 3 |
                                                 static_cast<Hash>(b.category));
  for (const ProgramOp& op : p.ops)
    h = combine(combine(h, hash_text(op.chain ? op.chain->text() : op.op->name())), hash_attributes(op.attributes));
  for (const Communication& c : p.communications) {
    const auto& [name, devices_per_node, chunks] = c.algorithm;
    const Hash algorithm = name ? static_cast<Hash>(*name) + 1 : 0;
    h = combine(h, static_cast<Hash>(devices_per_node - 1) << 32 | static_cast<Hash>(chunks - 1) << 24 |
                       algorithm << 16 | static_cast<Hash>(c.monoid) << 8 | static_cast<Hash>(c.kind));
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& q : c.part(part))
        h = combine(combine(h, hash_box(q.piece)),
                    static_cast<Hash>(q.send.value) << 32 | static_cast<std::uint32_t>(q.receive.value));
    for (const Exchange& e : c.exchanges)
      h = combine(combine(h, hash_box(e.box)),
                  static_cast<Hash>(e.part) << 48 | static_cast<Hash>(e.from) << 32 | static_cast<std::uint32_t>(e.to));
  }
  for (const Task& t : p.tasks)
    h = combine(h, static_cast<Hash>(t.kind) << 56 | static_cast<Hash>(t.device.value) << 32 |
                       static_cast<std::uint32_t>(t.op));
  for (BufferId b : p.operands) h = combine(h, static_cast<Hash>(b.value));
  for (TaskId d : p.dependencies) h = combine(h, static_cast<Hash>(d.value));
  return h;
}

}  // namespace unity
