// Which stages a pipeline has: the inter-operator pass of Alpa (Zheng et al., OSDI 2022, section 5). Layers, in order,
// are cut into stages on consecutive submeshes of the machine. With t_i the time of a micro-batch in stage i, m
// micro-batches take (eq. 4 there)
//
//   sum_i t_i  +  (m - 1) max_i t_i
//
// less, of each stage but the slowest, what of t_i no other stage waits for: gradients of weights that come behind what
// a stage sends (StageOption::unawaited; Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024). For a bound on the
// maximum, the sum is least by dynamic programming over the suffixes of layers, the stages and the devices they take;
// all bounds that occur are tried, or of very many an even choice, but for those that no number of stages can gain
// from. Exact up to that choice, as long as slower stages have no less that is unawaited.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace unity {

// A way to run a range of layers on some devices. Bytes are of the fullest device.
struct StageOption {
  std::int64_t time = 0;        // of a micro-batch, forward and backward, picoseconds
  std::int64_t persistent = 0;  // bytes, whatever is in flight
  std::int64_t in_flight = 0;   // bytes for each micro-batch between its forward and backward pass
  std::int64_t unawaited = 0;   // of `time`: gradients of weights, where they come behind what a stage sends
  std::int64_t gradients = 0, turn = 0, first_turn = 0;  // bytes, as of StageNeeds (stage_memory.h)
};

// Ranges of devices of one kind: what runs on one takes as long on the others.
struct Submesh {
  int width = 1;
  std::vector<bool> starts;  // by device: whether one begins there
};

struct StageProblem {
  int layers = 1, devices = 1, micro_batches = 1;
  std::vector<Submesh> submeshes;
  std::vector<std::int64_t> memory;  // by submesh: bytes of each of its devices
  // Whether a stage holds all micro-batches (GPipe), or as many as there are stages from it on (1F1B).
  bool all_in_flight = true;
  // For layers first .. last - 1 on a submesh (its number); the first of them that fits is taken.
  std::function<std::vector<StageOption>(int first, int last, int submesh)> options;
  // Picoseconds to hand a micro-batch over the cut before layer `cut` (> 0), and its gradient back, where the next
  // stage begins at `device`. It adds to the sum, not to a stage's time.
  std::function<std::int64_t(int cut, int device)> handover;
};

struct ChosenStage {
  int first = 0, last = 0;  // layers, half-open
  int device = 0;           // the first
  int submesh = 0;          // of StageProblem::submeshes
  int option = 0;           // of StageProblem::options
  bool operator==(const ChosenStage&) const = default;
};

struct ChosenStages {
  std::int64_t time = 0;  // of the iteration, by the equation
  std::vector<ChosenStage> stages;
};

// The best for each number of stages for which there is one, the fewest stages first. The first devices may be left
// over.
std::vector<ChosenStages> choose_stages(const StageProblem& problem);

}  // namespace unity
