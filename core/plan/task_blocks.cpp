#include "core/plan/task_blocks.h"

namespace unity {

std::vector<Range> block_ranges(const AxisTable& table, const Sharding& sharding, const TaskGrid& grid,
                                const TaskBlock& block, int micro) {
  std::vector<Range> ranges = task_ranges(table, sharding, grid, block.first, micro);
  if (block.first == block.last) return ranges;
  std::vector<Range> last = task_ranges(table, sharding, grid, block.last, micro);
  for (std::size_t a = 0; a < ranges.size(); ++a) ranges[a].extent = last[a].offset + last[a].extent - ranges[a].offset;
  return ranges;
}

Box block_box(const ParallelShape& storage, const TaskGrid& grid, const TaskBlock& block) {
  Box box = storage_box(storage, grid, block.first), last = storage_box(storage, grid, block.last);
  for (std::size_t d = 0; d < box.rank(); ++d) box.extent[d] = last.offset[d] + last.extent[d] - box.offset[d];
  return box;
}

Result<void> check_summands(const Pcg& pcg, NodeId id, const MachineMapping& mapping) {
  const Node& n = pcg[id];
  if (mapping.places.empty() || !n.is_compute()) return {};
  TaskGrid grid = node_grid(pcg, id);
  std::vector<TaskBlock> all = blocks(mapping, grid);
  for (std::size_t o = 0; o < n.outputs.size(); ++o) {
    bool several = false;
    for (const TaskBlock& block : all)
      several =
          several || output_partial(*n.table, grid, block.first, o) != output_partial(*n.table, grid, block.last, o);
    if (!several) continue;
    for (std::size_t i = 0; i < pcg.size(); ++i)
      for (ValueRef v : pcg.nodes()[i].inputs) {
        const Node& user = pcg.nodes()[i];
        if (v != ValueRef{id, static_cast<int>(o)}) continue;
        if (user.op->name() != "reduce" || int_attribute(user.attributes, 0) != n.outputs[o].partials)
          return fail(
              "{} ({}): tasks of one device give several of {} summands, expected a reduce of all of them, "
              "found {}",
              n.name, n.op->name(), n.outputs[o].partials, user.op->name());
      }
  }
  return {};
}

}  // namespace unity
