#include "tests/support/interpret.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/ops/leaves.h"
#include "core/ops/reference.h"
#include "core/plan/row_updates.h"

namespace unity::test {
namespace {

// Calls f(position in a, position in b) for every element of `box`, in the blocks a and b.
void for_box(const Box& box, const Box& a, const Box& b, const std::function<void(std::size_t, std::size_t)>& f) {
  for_each_index(box.extent, [&](const Dims& index, std::int64_t) {
    Dims ia = index, ib = index;
    for (std::size_t d = 0; d < index.size(); ++d) {
      ia[d] += box.offset[d] - a.offset[d];
      ib[d] += box.offset[d] - b.offset[d];
    }
    f(static_cast<std::size_t>(position(a.extent, ia)), static_cast<std::size_t>(position(b.extent, ib)));
  });
}

}  // namespace

Interpretation interpret(const Program& program, const LeafValues& leaves, std::uint64_t seed) {
  Interpretation run;
  run.buffers.resize(program.buffers.size());
  run.index_buffers.resize(program.buffers.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    const ProgramTensor& tensor = program.tensors[static_cast<std::size_t>(b.tensor)];
    bool indices = tensor.dtype == DType::i32;
    // Poison, so that reading what nobody wrote shows.
    run.buffers[i].assign(static_cast<std::size_t>(b.box.elements()), std::nan(""));
    run.index_buffers[i].assign(indices ? run.buffers[i].size() : 0, -1);
    if (b.category == BufferCategory::optimizer_state) run.buffers[i].assign(run.buffers[i].size(), 0.0);
    if (tensor.leaf < 0) continue;
    const ProgramLeaf& leaf = program.leaves[static_cast<std::size_t>(tensor.leaf)];
    auto value = leaves.find(leaf.name);
    if (value == leaves.end()) {  // the seed of the loss
      for (double& x : run.buffers[i]) x = initial_weight(leaf.attributes, RandomKey(), 0);
      continue;
    }
    for_box(b.box, b.box, whole_box(tensor.dims), [&](std::size_t here, std::size_t there) {
      if (indices)
        run.index_buffers[i][here] = value->second.as<std::int32_t>()[there];
      else
        run.buffers[i][here] = value->second.as<double>()[there];
    });
  }
  auto box_of = [&](BufferId id) -> const Box& { return program.buffer(id).box; };
  auto data = [&](BufferId id) -> std::vector<double>& { return run.buffers[id.index()]; };
  for (const Task& t : program.tasks) {
    auto operands = program.operands_of(t);
    switch (t.kind) {
      case TaskKind::compute: {
        const ProgramOp& op = program.ops[static_cast<std::size_t>(t.op)];
        std::vector<Operand> blocks;
        for (BufferId id : operands) {
          const ProgramTensor& tensor = program.tensor_of(id);
          bool indices = tensor.dtype == DType::i32;
          void* pointer = indices ? static_cast<void*>(run.index_buffers[id.index()].data()) : data(id).data();
          blocks.push_back(
              {pointer, indices ? DType::i32 : DType::f64, box_of(id).extent, box_of(id).offset, tensor.dims});
        }
        std::span<const Operand> all(blocks);
        op.op->reference({op.attributes, all.first(op.inputs), all.subspan(op.inputs),
                          RandomKey(seed).with(static_cast<std::uint64_t>(op.origin.value)).with(0)});
        break;
      }
      case TaskKind::copy:
      case TaskKind::accumulate:
        for_box(program.boxes[static_cast<std::size_t>(t.op)], box_of(operands[0]), box_of(operands[1]),
                [&](std::size_t a, std::size_t b) {
                  double x = data(operands[0])[a];
                  data(operands[1])[b] = t.kind == TaskKind::copy ? x : data(operands[1])[b] + x;
                });
        break;
      case TaskKind::zero:
        std::fill(data(operands[0]).begin(), data(operands[0]).end(), 0.0);
        break;
      case TaskKind::update:
        break;
      case TaskKind::communicate: {
        const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
        for (std::size_t part = 0; part < c.part_count(); ++part) {
          const std::vector<Participant>& participants = c.part(part);
          std::vector<std::vector<double>> sent;
          for (const Participant& p : participants)
            sent.push_back(p.send.valid() ? data(p.send) : std::vector<double>());
          auto move = [&](std::size_t from, std::size_t to, const Box& box, bool reduce) {
            if (!participants[from].send.valid() || !participants[to].receive.valid()) return;
            for_box(box, box_of(participants[from].send), box_of(participants[to].receive),
                    [&](std::size_t a, std::size_t b) {
                      double& x = data(participants[to].receive)[b];
                      double y = sent[from][a];
                      x = !reduce ? y : c.monoid == Monoid::max ? std::max(x, y) : x + y;
                    });
          };
          std::size_t n = participants.size();
          for (std::size_t to = 0; to < n; ++to) {
            const Box& piece = participants[to].piece;
            bool first = true;
            for (std::size_t from = 0; from < n; ++from) {
              if (!participants[from].send.valid()) continue;
              switch (c.kind) {
                case CollectiveKind::send:
                case CollectiveKind::broadcast:
                  if (from == 0) move(from, to, piece, false);
                  break;
                case CollectiveKind::reduce:
                  if (to != 0) break;
                  [[fallthrough]];
                case CollectiveKind::all_reduce:
                case CollectiveKind::reduce_scatter:
                  move(from, to, piece, !first);
                  break;
                case CollectiveKind::all_gather:
                  move(from, to, participants[from].piece, false);
                  break;
                case CollectiveKind::all_to_all:
                  break;
              }
              first = false;
            }
          }
          for (const Exchange& e : c.exchanges)
            if (static_cast<std::size_t>(e.part) == part)
              move(static_cast<std::size_t>(e.from), static_cast<std::size_t>(e.to), e.box, false);
        }
        break;
      }
    }
  }
  return run;
}

std::vector<double> output_value(const Program& program, const Interpretation& run, std::size_t output) {
  const ProgramOutput& out = program.outputs.at(output);
  std::vector<double> value(static_cast<std::size_t>(element_count(out.dims)), 0.0);
  for (BufferId id : out.buffers)
    for_box(program.buffer(id).box, program.buffer(id).box, whole_box(out.dims),
            [&](std::size_t a, std::size_t b) { value[b] += run.buffers[id.index()][a]; });
  return value;
}

std::map<std::string, std::vector<double>> weight_gradients(const Program& program, const Interpretation& run) {
  std::map<std::string, std::vector<double>> gradients;
  for (const Task& t : program.tasks) {
    if (t.kind != TaskKind::update) continue;
    BufferId weight = program.operands_of(t)[0], gradient = program.operands_of(t)[1];
    const ProgramTensor& tensor = program.tensor_of(weight);
    std::vector<double> formed;
    if (is_row_update(t)) {
      BufferId dy = program.operands_of(t)[2];
      formed.assign(static_cast<std::size_t>(program.buffer(weight).box.elements()), 0.0);
      for_each_updated(
          program, t, [&](std::int64_t i) { return run.index_buffers[gradient.index()][static_cast<std::size_t>(i)]; },
          [&](std::int64_t to, std::int64_t from) {
            formed[static_cast<std::size_t>(to)] +=
                row_update_factor(program, t) * run.buffers[dy.index()][static_cast<std::size_t>(from)];
          });
    }
    const std::vector<double>& values = is_row_update(t) ? formed : run.buffers[gradient.index()];
    auto [it, inserted] =
        gradients.try_emplace(tensor.name, static_cast<std::size_t>(element_count(tensor.dims)), std::nan(""));
    for_box(program.buffer(weight).box, program.buffer(weight).box, whole_box(tensor.dims),
            [&](std::size_t a, std::size_t b) {
              double x = values[a];
              UNITY_CHECK(std::isnan(it->second[b]) || it->second[b] == x, "copies of the gradient of {} differ",
                          tensor.name);
              it->second[b] = x;
            });
  }
  return gradients;
}

}  // namespace unity::test
