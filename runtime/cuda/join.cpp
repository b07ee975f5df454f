// Works that follow one another on a stream and are of one kind, in one launch: updates of dense weights, updates by
// rows, and copies of little memory, of which a step has hundreds. Traced steps keep them apart.
#include "runtime/cuda/cuda_backend.h"

namespace unity::cuda {
namespace {

constexpr std::int64_t kMostCopied = 1 << 16;  // bytes of a copy among others; larger ones fill the GPU alone

struct Range {
  const std::byte *begin, *end;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};
Range range_of(const void* data, std::int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + bytes};
}

}  // namespace

// Whether the second may be done before, or while, the first is.
bool CudaBackend::independent(const Work& first, const Work& second) const {
  auto weight_of = [&](const Work& work) { return program_.operands_of(program_.tasks[work.task.index()])[0]; };
  if (!first.copy) return step_values(first) == step_values(second) && weight_of(first) != weight_of(second);
  Range from = range_of(first.copy->from, first.copy->bytes), to = range_of(first.copy->to, first.copy->bytes);
  Range other_from = range_of(second.copy->from, second.copy->bytes);
  Range other_to = range_of(second.copy->to, second.copy->bytes);
  return !to.meets(other_from) && !to.meets(other_to) && !from.meets(other_to);
}

// The task's copy, where both blocks are dense in the whole of its box and of one type, and there is little of it.
std::optional<FlatCopy> CudaBackend::flat_copy(const Task& task) {
  auto ids = program_.operands_of(task);
  const Box& box = program_.boxes[static_cast<std::size_t>(task.op)];
  const std::int64_t bytes = box.elements() * size_of(held(ids[0]));
  if (program_.buffer(ids[0]).box != box || program_.buffer(ids[1]).box != box || held(ids[0]) != held(ids[1]) ||
      bytes > kMostCopied || bytes % FlatCopy::kWord != 0)
    return std::nullopt;
  return FlatCopy{data(ids[1]), data(ids[0]), bytes};
}

// Each kind becomes one launch, in place of the last of them.
void CudaBackend::join(const std::vector<std::size_t>& run) {
  std::vector<std::size_t> dense, by_rows, copied;
  for (std::size_t w : run) (works_[w].shard ? dense : works_[w].rows ? by_rows : copied).push_back(w);
  for (const auto& kind : {dense, by_rows, copied}) {
    if (kind.size() < 2) continue;
    std::vector<ParameterShard> shards;
    std::vector<RowsStep> steps;
    std::vector<FlatCopy> copies;
    for (std::size_t w : kind) {
      Work& work = works_[w];
      work.joined = [] {};
      if (work.shard) shards.push_back(*work.shard);
      if (work.rows) steps.push_back(*work.rows);
      if (work.copy) copies.push_back(*work.copy);
    }
    Work& last = works_[kind.back()];
    OnGpu on(devices_.at(last.device).gpu);
    Stream stream = lane_of(last).stream.get();
    if (last.copy) {
      const void* list = keep_list(std::as_bytes(std::span(copies)), stream);
      last.joined = [=, n = static_cast<std::int64_t>(copies.size())] {
        copy_all(stream, static_cast<const FlatCopy*>(list), n);
      };
    } else if (last.shard) {
      BufferId weight = program_.operands_of(program_.tasks[last.task.index()])[0];
      last.joined = update_of(shards, held(weight), stream, step_values(last));
    } else {
      last.joined = update_rows_of(steps, lane_of(last), step_values(last));
    }
  }
}

// Runs of such works of a device whose ends no other stream waits for, but for the last one's.
void CudaBackend::join_works() {
  std::map<std::int64_t, std::vector<std::size_t>> runs;  // by device
  auto close = [&](std::int64_t device) {
    join(runs[device]);
    runs[device].clear();
  };
  for (std::size_t w = 0; w < works_.size(); ++w) {
    const Work& work = works_[w];
    if (work.lane != unity::Stream::compute) continue;
    std::vector<std::size_t>& run = runs[work.device];
    const bool updates = work.shard || work.rows;
    if (!run.empty()) {
      const bool same = work.copy ? works_[run.back()].copy.has_value() : updates && !works_[run.back()].copy;
      if (!same ||
          !std::all_of(run.begin(), run.end(), [&](std::size_t other) { return independent(works_[other], work); }))
        close(work.device);
    }
    if (!updates && !work.copy) continue;
    run.push_back(w);
    if (work.awaited) close(work.device);
  }
  for (auto& [device, run] : runs) close(device);
}

}  // namespace unity::cuda
