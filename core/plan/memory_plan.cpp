#include "core/plan/memory_plan.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/plan/buffer_order.h"
#include "core/plan/row_updates.h"

namespace unity {
namespace {

struct Block {
  BufferId buffer;
  std::int64_t size = 0, offset = 0;
  bool lasting = false;  // has a place of its own
  bool kept = false;     // its memory is not given to others after it
};

// Lays out the buffers of one device.
class Arena {
 public:
  Arena(const BufferOrder& order, bool share) : order_(order), share_(share) {}

  std::int64_t place(std::vector<Block>& blocks) {
    std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return a.lasting != b.lasting ? a.lasting : a.size > b.size;
    });
    for (Block& block : blocks) {
      block.offset = block.lasting || !share_ ? end_ : best_gap(block);
      end_ = std::max(end_, block.offset + block.size);
      auto at = std::upper_bound(placed_.begin(), placed_.end(), block,
                                 [](const Block& a, const Block& b) { return a.offset < b.offset; });
      placed_.insert(at, block);
    }
    return end_;
  }

 private:
  bool together(const Block& a, const Block& b) const {
    return b.lasting ||
           !((!a.kept && order_.precedes(a.buffer, b.buffer)) || (!b.kept && order_.precedes(b.buffer, a.buffer)));
  }

  // The start of the smallest gap that holds the block; behind everything it may not overlap if there is none.
  std::int64_t best_gap(const Block& block) const {
    std::int64_t free_from = 0, best = -1, best_size = std::numeric_limits<std::int64_t>::max();
    for (const Block& other : placed_) {
      if (!together(block, other)) continue;
      std::int64_t gap = other.offset - free_from;
      if (gap >= block.size && gap < best_size) best = free_from, best_size = gap;
      free_from = std::max(free_from, other.offset + other.size);
    }
    return best >= 0 ? best : free_from;
  }

  const BufferOrder& order_;
  bool share_;
  std::int64_t end_ = 0;
  std::vector<Block> placed_;  // by offset
};

// By buffer: whether an optimizer reads it as a gradient, or forms a gradient from it.
std::vector<bool> final_gradients(const Program& program) {
  std::vector<bool> found(program.buffers.size());
  for (const Task& task : program.tasks)
    if (task.kind == TaskKind::update)
      for (BufferId b : program.operands_of(task).subspan(1, is_row_update(task) ? 2 : 1)) found[b.index()] = true;
  return found;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, const std::vector<Bytes>& bytes, const MemoryOptions& options) {
  UNITY_CHECK(bytes.size() == program.buffers.size(), "plan_memory: {} sizes for {} buffers", bytes.size(),
              program.buffers.size());
  MemoryPlan plan;
  plan.offsets.assign(program.buffers.size(), MemoryPlan::kNone);
  std::vector<BufferLife> lives = buffer_lives(program);
  std::vector<bool> kept = final_gradients(program);
  std::vector<std::vector<BufferId>> of_device(static_cast<std::size_t>(program.devices));
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    of_device[program.buffers[b].device.index()].push_back(BufferId(static_cast<std::int64_t>(b)));
  for (std::size_t d = 0; d < of_device.size(); ++d) {
    std::optional<BufferOrder> order;
    std::vector<Block> blocks, on_host;
    if (!of_device[d].empty()) order.emplace(program, DeviceId(static_cast<std::int64_t>(d)));
    for (BufferId b : of_device[d]) {
      bool persistent = lives[b.index()].persistent;
      if (!persistent && !order->used(b)) continue;
      std::int64_t size = std::max<std::int64_t>(bytes[b.index()].count, 1);
      size = (size + options.alignment - 1) / options.alignment * options.alignment;
      (program.buffer(b).on_host ? on_host : blocks)
          .push_back({b, size, 0, persistent || order->read_first(b), kept[b.index()]});
    }
    plan.arenas.push_back({order ? Arena(*order, options.share).place(blocks) : 0});
    plan.host_arenas.push_back({order ? Arena(*order, options.share).place(on_host) : 0});
    for (const std::vector<Block>* list : {&blocks, &on_host})
      for (const Block& block : *list) plan.offsets[block.buffer.index()] = block.offset;
  }
  return plan;
}

MemoryPlan plan_memory(const Program& program, const MemoryOptions& options) {
  std::vector<Bytes> bytes;
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    bytes.push_back(program.bytes_of(BufferId(static_cast<std::int64_t>(b))));
  return plan_memory(program, bytes, options);
}

}  // namespace unity
