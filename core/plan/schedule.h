// How a Program runs what its plan says: attributes of the plan that change order and memory, never results (but for
// delayed weights). Each is a pass over the lowered Program (a file each), in this order:
//
//   rematerialise.h   which activations are computed again in the backward pass
//   receive_in_place.h  gradients are received where they belong, whatever the schedule
//   join_small.h, join_sends.h  small communications that start or are awaited together become one, whatever it is
//   pipeline_order.h  the order of micro-batches, and of tasks around communications (overlap.h)
//   zero_stages.h     what of weights stored in parts is whole in a step
//   accumulation.h    gradients that are added up as they are computed, whatever the schedule
//   buckets.h         which all-reduces of gradients become one
//   give_way.h        which of them come behind what the pass waits for
//   delayed_weights.h which weights the passes read
//   offload.h         which activations and optimizer states wait in the memory of the host
//   fuse_chains.h     which element-wise tasks are one
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"

namespace unity {

enum class PipelineOrder : std::uint8_t {
  gpipe,        // all forward passes, then all backward passes (Huang et al. 2019)
  one_f_one_b,  // "1f1b": PipeDream-flush (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training")
  interleaved,  // 1F1B with several parts of the graph on a device (Narayanan et al. 2021, Megatron-LM, section 2.2)
  zero_bubble,  // "zb-h1": 1F1B with gradients of weights later, where stages would wait (Qi et al., ICLR 2024)
};
std::string_view to_string(PipelineOrder order);
std::vector<std::string> pipeline_orders();
// InputError, which begins with `subject`.
PipelineOrder parse_pipeline_order(std::string_view text, std::string_view subject);

// A set: a bit for each.
enum class Offload : std::uint8_t {
  none = 0,
  activations = 1,  // results that wait for the backward pass
  optimizer = 2,    // its states, between two updates
  activations_and_optimizer = 3,
};
constexpr bool contains(Offload set, Offload one) {
  return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(one)) != 0;
}
std::string_view to_string(Offload offload);
// "none", "activations", "optimizer", "activations,optimizer". InputError, which begins with `subject`.
Offload parse_offload(std::string_view text, std::string_view subject);

// Which weights a step's forward and backward passes read.
enum class WeightVersions : std::uint8_t {
  newest,
  delayed,  // "2bw": those of one update before (Narayanan et al. 2021, PipeDream-2BW)
};
std::string_view to_string(WeightVersions weights);
// InputError, which begins with `subject`.
WeightVersions parse_weight_versions(std::string_view text, std::string_view subject);

// Which tasks are one.
enum class Fuse : std::uint8_t {
  none,
  chains,  // element-wise ones that follow one another, behind a product of matrices or not
};
std::string_view to_string(Fuse fuse);
// InputError, which begins with `subject`.
Fuse parse_fuse(std::string_view text, std::string_view subject);

struct Schedule {
  PipelineOrder order = PipelineOrder::gpipe;
  int overlap = 0;                 // micro-batches that a stage takes at once (overlap.h); 0: as they come
  Bytes bucket{0};                 // of gradients: at least so many in one collective; 0: each tensor in its own
  std::vector<std::string> remat;  // "blocks", "all", or labels of operators; empty: nothing is computed again
  Offload offload = Offload::none;
  WeightVersions weights = WeightVersions::newest;
  int zero_stage = 0;  // of weights that are stored in parts: 1, 2 or 3 (zero_stages.h); 0: as 1, where nothing is said
  Fuse fuse = Fuse::none;

  bool operator==(const Schedule&) const = default;
};

// "1f1b, gradients in buckets of 25 MB, computed again: blocks". For people.
std::string in_words(const Schedule& schedule);

// "none", "blocks", "all", "encoder.0,encoder.1.gelu". InputError (begins with `subject`) when a keyword stands beside
// names, or a name is empty.
std::vector<std::string> parse_remat(std::string_view text, std::string_view subject);

// "1", "2", "3"; "" is 0. InputError, which begins with `subject`.
int parse_zero_stage(std::string_view text, std::string_view subject);

class CollectiveAlgorithms;
class Program;
class Topology;

// The passes, one after the other, the algorithms of its communications (collective_algorithms.h), and check_program():
// what lowering ends with. Error when the Program has a form that the schedule does not order, or lacks a label that it
// names. `joined`: join_transfers() was called.
Result<void> schedule_tasks(Program& program, const Schedule& schedule, const CollectiveAlgorithms& algorithms,
                            bool joined = false);
Result<void> schedule_tasks(Program& program, const Schedule& schedule, const Topology& topology, bool joined = false);

// The first passes, which all schedules have in common that compute nothing again: what is received is put where it is
// added up (receive_in_place.h), and small transfers travel together (join_small.h, join_sends.h).
void join_transfers(Program& program);

}  // namespace unity
