// Pipelines put together by hand: a chain of operators over devices, with micro-batches.
#pragma once

#include "core/ops/operator.h"
#include "tests/support/simulator_build.h"

namespace unity::test {

// Part k of groups * parts runs on device k mod groups: 1 us forward, 2 us backward for each micro-batch, which keeps
// 1000 f32 (4000 bytes) from one to the other. One f32 is sent between parts. With `weights`, each part reads one in
// both passes, which is updated at no cost after all of them. In the order of lowering: operator by operator.
inline Program pipeline_program(int groups, int parts, int micros, bool weights = false) {
  ProgramBuilder b(groups);
  Program& p = b.program;
  int chain = groups * parts;
  auto index = [](auto i) { return static_cast<std::size_t>(i); };
  std::vector<std::vector<BufferId>> kept(index(chain));
  std::vector<TaskId> arrived(index(micros));
  std::vector<BufferId> weight;
  for (int k = 0; k < chain && weights; ++k) weight.push_back(b.buffer(k % groups, 10, BufferCategory::weight));
  auto compute = [&](int part, int micro, Phase phase, std::vector<TaskId> after) {
    after.erase(std::remove(after.begin(), after.end(), TaskId()), after.end());
    std::vector<BufferId> operands = {kept[index(part)][index(micro)]};
    if (weights) operands.insert(operands.begin(), weight[index(part)]);
    TaskId id = b.compute(part % groups, phase == Phase::forward ? 1 : 2, after, operands);
    Task& t = p.tasks[id.index()];
    t.kind = TaskKind::compute, t.phase = phase, t.micro = micro;
    t.op = static_cast<std::int32_t>(p.ops.size()) - 1;
    return id;
  };
  auto send = [&](int from, int to, TaskId after, Phase phase) {
    if (from == to) return after;
    TaskId id = b.communicate(CollectiveKind::send, {from, to}, 1, {after});
    p.tasks[id.index()].phase = phase;
    return id;
  };
  auto add_op = [&](int part, std::uint32_t inputs) {
    inputs += weights ? 1 : 0;
    p.ops.push_back({&get_operator("relu"), {}, OriginId(part), fmt::format("part.{}", part), inputs, {}});
    p.ops.back().shape_only.assign(inputs, false);
  };
  std::vector<std::vector<TaskId>> forward(index(chain));
  for (int k = 0; k < chain; ++k) {
    add_op(k, 0);  // writes
    for (int m = 0; m < micros; ++m) {
      kept[index(k)].push_back(b.buffer(k % groups, 1000));
      forward[index(k)].push_back(compute(k, m, Phase::forward, {arrived[index(m)]}));
    }
    for (int m = 0; m < micros; ++m)
      arrived[index(m)] = k + 1 < chain
                              ? send(k % groups, (k + 1) % groups, forward[index(k)][index(m)], Phase::forward)
                              : forward[index(k)][index(m)];
  }
  std::vector<std::vector<TaskId>> backward(index(chain));
  for (int k = chain; k-- > 0;) {
    add_op(k, 1);  // reads
    std::vector<TaskId> done;
    for (int m = 0; m < micros; ++m)
      done.push_back(compute(k, m, Phase::backward, {forward[index(k)][index(m)], arrived[index(m)]}));
    for (int m = 0; m < micros && k > 0; ++m)
      arrived[index(m)] = send(k % groups, (k - 1) % groups, done[index(m)], Phase::backward);
    backward[index(k)] = std::move(done);
  }
  for (int k = 0; k < chain && weights; ++k) {
    BufferId gradient = b.buffer(k % groups, 10, BufferCategory::gradient);
    Task& t = p.tasks[b.compute(k % groups, 0, backward[index(k)], {weight[index(k)], gradient}).index()];
    t.kind = TaskKind::update, t.phase = Phase::update;
  }
  return std::move(b.program);
}

}  // namespace unity::test
