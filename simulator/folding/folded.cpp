#include "simulator/folding/folded.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "simulator/task_buffers.h"

namespace unity {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

}  // namespace

FoldedProgram::FoldedProgram(const PreparedProgram& whole, const Topology& topology)
    : whole_(whole), topology_(topology), symmetry_(find_symmetry(whole, topology)) {
  select_tasks();
  fold_buffers();
  fold_choices();
  join_tasks();
  folded_.program = &program_;
  folded_.handovers = whole.handovers;
  folded_.step_overhead = whole.step_overhead;
  folded_.buffers = TaskBuffers(program_);
}

// A device's task, or the first communication of the class of its communication.
std::uint32_t FoldedProgram::stands_for(std::uint32_t task, std::size_t device) const {
  const Program& program = *whole_.program;
  if (program.tasks[task].kind != TaskKind::communicate) {
    std::size_t representative = symmetry_.devices.first[symmetry_.devices.of[device]];
    return number_[symmetry_.tasks[symmetry_.tasks_begin[representative] + symmetry_.place[task]]];
  }
  return number_[first_task_[symmetry_.communications.of[static_cast<std::size_t>(program.tasks[task].op)]]];
}

void FoldedProgram::select_tasks() {
  const Program& program = *whole_.program;
  number_.assign(program.tasks.size(), kNone);
  first_task_.assign(symmetry_.communications.count(), kNone);
  program_.name = program.name;
  program_.devices = program.devices;
  program_.iterations = program.iterations;
  program_.optimizer = program.optimizer;
  program_.tensors = program.tensors;
  program_.ops = program.ops;
  auto is_first = [](const Classes& classes, std::size_t member) {
    return classes.first[classes.of[member]] == member;
  };
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    bool communicates = task.kind == TaskKind::communicate;
    bool kept = communicates ? is_first(symmetry_.communications, static_cast<std::size_t>(task.op))
                             : is_first(symmetry_.devices, task.device.index());
    if (!kept) continue;
    number_[t] = static_cast<std::uint32_t>(program_.tasks.size());
    if (communicates)
      first_task_[symmetry_.communications.of[static_cast<std::size_t>(task.op)]] = static_cast<std::uint32_t>(t);
    program_.tasks.push_back(task);
    folded_.times.push_back(whole_.times[t]);
    std::uint32_t flow = whole_.flows[t];
    folded_.flows.push_back(flow == PreparedProgram::kNoFlow ? flow : symmetry_.communications.of[flow]);
  }
}

// Operands and participants of the representatives.
void FoldedProgram::fold_buffers() {
  const Program& program = *whole_.program;
  std::vector<BufferId> number(program.buffers.size());
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    std::size_t device = program.buffers[b].device.index();
    if (symmetry_.devices.first[symmetry_.devices.of[device]] != device) continue;
    number[b] = BufferId(static_cast<std::int64_t>(program_.buffers.size()));
    program_.buffers.push_back(program.buffers[b]);
  }
  auto folded = [&](BufferId id) { return id.valid() ? number[id.index()] : BufferId(); };
  // Their classes come before those of copies, as they do.
  std::uint32_t classes = 0;
  for (std::size_t c = 0; c < program.communications.size(); ++c)
    classes = std::max(classes, symmetry_.communications.of[c] + 1);
  program_.communications.resize(classes);
  for (Task& task : program_.tasks) {
    auto begin = static_cast<std::uint32_t>(program_.operands.size());
    for (BufferId b : program.operands_of(task)) program_.operands.push_back(folded(b));
    task.operands_begin = begin;
    task.operands_end = static_cast<std::uint32_t>(program_.operands.size());
    task.dependencies_begin = task.dependencies_end = 0;
    if (task.kind != TaskKind::communicate) continue;
    auto index = static_cast<std::size_t>(task.op);
    task.op = static_cast<std::int32_t>(symmetry_.communications.of[index]);
    Communication& to = program_.communications[static_cast<std::size_t>(task.op)];
    const Communication& from = program.communications[index];
    to.kind = from.kind;
    to.monoid = from.monoid;
    to.exchanges = from.exchanges;
    to.dtype = from.dtype;
    to.algorithm = from.algorithm;
    to.name = from.name;
    to.joined.resize(from.joined.size());
  }
  for (std::size_t c = 0; c < program.communications.size(); ++c) {
    Communication& to = program_.communications[symmetry_.communications.of[c]];
    for (std::size_t part = 0; part < program.communications[c].part_count(); ++part)
      for (const Participant& of_whole : program.communications[c].part(part)) {
        std::size_t device = of_whole.device.index();
        if (symmetry_.devices.first[symmetry_.devices.of[device]] != device) continue;
        Participant p = of_whole;
        p.send = folded(p.send);
        p.receive = folded(p.receive);
        (part == 0 ? to.participants : to.joined[part - 1]).push_back(p);
      }
  }
  for (const ProgramOutput& out : program.outputs) {
    program_.outputs.push_back({out.name, out.dims, {}, out.iteration});
    for (BufferId b : out.buffers)
      if (folded(b).valid()) program_.outputs.back().buffers.push_back(folded(b));
  }
}

void FoldedProgram::fold_choices() {
  // How often the patterns of a class cross one link of a class: as often as they cross its first one.
  std::vector<std::map<std::uint32_t, std::uint32_t>> crossings(symmetry_.pattern_classes.count());
  std::vector<bool> first_link(symmetry_.links.of.size());
  for (std::uint32_t link : symmetry_.links.first) {
    first_link[link] = true;
    folded_.capacities.push_back(whole_.capacities[link]);
  }
  for (std::size_t p = 0; p < symmetry_.patterns.size(); ++p)
    for (const LinkUse& use : symmetry_.patterns[p]->uses)
      if (first_link[use.link]) crossings[symmetry_.pattern_classes.of[p]][symmetry_.links.of[use.link]] += use.times;
  // How many communications of a class use one pattern for a phase.
  std::map<std::tuple<std::uint32_t, std::size_t, std::uint32_t>, std::uint32_t> users;
  for (std::size_t c = 0; c < symmetry_.phases.size(); ++c)
    for (std::size_t phase = 0; phase < symmetry_.phases[c].size(); ++phase)
      ++users[{symmetry_.communications.of[c], phase, symmetry_.phases[c][phase]}];

  folded_.choices.resize(symmetry_.communications.count());
  for (std::size_t k = 0; k < symmetry_.communications.count(); ++k) {
    std::uint32_t first = symmetry_.communications.first[k];
    const std::shared_ptr<const CollectiveChoice>& choice = whole_.choices[first];
    if (!choice || !choice->shape) {
      folded_.choices[k] = choice;
      continue;
    }
    CollectiveShape& shape = shapes_.emplace_back(*choice->shape);
    for (std::size_t i = 0; i < shape.phases.size(); ++i) {
      std::uint32_t pattern = symmetry_.phases[first][i];
      std::uint32_t all = users.at({static_cast<std::uint32_t>(k), i, pattern});
      Pattern& folded = patterns_.emplace_back();
      folded.hops = symmetry_.patterns[pattern]->hops;
      for (const auto& [link, times] : crossings[symmetry_.pattern_classes.of[pattern]])
        folded.uses.push_back({link, times * all});
      shape.phases[i].pattern = &folded;
    }
    auto own = std::make_shared<CollectiveChoice>();
    own->shape = &shape;
    own->bytes = choice->bytes;
    own->reason = choice->reason;
    own->alternatives = choice->alternatives;
    folded_.choices[k] = std::move(own);
  }
}

// Dependencies, and the order on the streams of the representatives.
void FoldedProgram::join_tasks() {
  const Program& program = *whole_.program;
  std::vector<TaskGraph::Edge> edges;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    if (number_[t] == kNone) continue;
    for (TaskId d : program.dependencies_of(program.tasks[t])) {
      const Task& before = program.tasks[d.index()];
      edges.push_back({stands_for(static_cast<std::uint32_t>(d.value), before.device.index()), number_[t]});
    }
  }
  for (std::uint32_t device : symmetry_.devices.first) {
    std::uint32_t last[kStreams] = {kNone, kNone, kNone};
    for (std::size_t i = symmetry_.tasks_begin[device]; i < symmetry_.tasks_begin[device + 1]; ++i) {
      std::uint32_t task = symmetry_.tasks[i], folded = stands_for(task, device);
      std::uint32_t& before = last[static_cast<std::size_t>(program.tasks[task].stream)];
      if (before != kNone) edges.push_back({before, folded});
      before = folded;
    }
  }
  folded_.graph = TaskGraph(program_.tasks.size(), edges);
}

SimulationResult FoldedProgram::unfold(SimulationResult result) const {
  const Program& program = *whole_.program;
  SimulationResult whole;
  whole.iteration = result.iteration;
  for (std::size_t d = 0; d < static_cast<std::size_t>(program.devices); ++d) {
    std::size_t representative = symmetry_.devices.first[symmetry_.devices.of[d]];
    whole.peak_memory.push_back(result.peak_memory[representative]);
    whole.memory_by_category.push_back(result.memory_by_category[representative]);
  }
  for (const TaskTimes::Time& time : whole_.times) ++(time.measured ? whole.profiled_tasks : whole.estimated_tasks);
  if (result.trace.source.empty()) return whole;

  whole.trace.source = result.trace.source;
  whole.trace.program = program_hash(program);
  whole.trace.iteration = result.trace.iteration;
  std::vector<std::pair<Picoseconds, Picoseconds>> times(program_.tasks.size());
  for (const Span& s : result.trace.spans) times[s.task.index()] = {s.start, s.end};
  for (std::size_t d = 0; d < topology_.device_count(); ++d)
    for (std::size_t i = symmetry_.tasks_begin[d]; i < symmetry_.tasks_begin[d + 1]; ++i) {
      std::uint32_t task = symmetry_.tasks[i];
      auto [start, end] = times[stands_for(task, d)];
      whole.trace.spans.push_back({TaskId(static_cast<std::int64_t>(task)), DeviceId(static_cast<std::int64_t>(d)),
                                   static_cast<std::uint8_t>(program.tasks[task].stream), start, end});
    }
  std::sort(whole.trace.spans.begin(), whole.trace.spans.end(), starts_before);
  std::vector<std::vector<MemorySample>> samples(topology_.device_count());
  for (const MemorySample& s : result.trace.memory) samples[s.device.index()].push_back(s);
  for (std::size_t d = 0; d < static_cast<std::size_t>(program.devices); ++d)
    for (MemorySample s : samples[symmetry_.devices.first[symmetry_.devices.of[d]]]) {
      s.device = DeviceId(static_cast<std::int64_t>(d));
      whole.trace.memory.push_back(s);
    }
  std::sort(whole.trace.memory.begin(), whole.trace.memory.end(), [](const MemorySample& a, const MemorySample& b) {
    return std::tuple(a.time, a.device, a.category) < std::tuple(b.time, b.device, b.category);
  });
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    if (program.tasks[t].kind != TaskKind::communicate) continue;
    const auto& choice = whole_.choices[static_cast<std::size_t>(program.tasks[t].op)];
    if (choice)
      whole.collectives.push_back({TaskId(static_cast<std::int64_t>(t)), choice->reason, choice->alternatives});
  }
  return whole;
}

}  // namespace unity
