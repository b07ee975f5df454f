// How fast an iteration could be at best, and by what it is bound: lower bounds of its time T.
//
// Let t be what a task takes at least (alone on its device with all it may use), w the work of a task on a physical
// device of u units of compute (w = t where it has the device for itself), and S the tasks of a device's stream.
//
//   busiest device      T >= max over devices and streams of sum(t in S), and over physical devices of sum(w) / u: what
//                       one device computes takes its time even if no communication ever held it up
//   whole machine       T >= max(sum over types of F / P, B / M), with F the FLOPs of a type and B the bytes of memory
//                       traffic of all tasks of compute streams, P and M the summed peaks and memory bandwidths of all
//                       devices: the roofline (Williams, Waterman, Patterson, CACM 2009) of the machine as one device;
//                       no plan with these tasks, however balanced, is faster. (Where devices differ: if their rates
//                       for the types stand in the same ratio.)
//   busiest link        T >= max over links of bytes carried / bandwidth, for the chosen algorithms of the collectives,
//                       copies between devices and hosts included
//   free communication  T of the simulation with communications that take no time (an infinitely fast network without
//                       latency): dependencies, streams and imbalance alone. Copies between devices and hosts take
//                       what they take alone on the idle machine. Where devices wait for cores (unit_queue.h): with
//                       a core for each, or the busiest device, which knows how many there are
//   longest chain       T >= the longest path through the dependencies, with t of tasks and the predicted time of
//                       communications on the idle machine, each task on a device of its own: no overlap helps there
//
// All but 'whole machine' hold for this plan only; of measured times (profiles), t is the measured one and P, M what
// was measured.
#pragma once

#include <map>
#include <optional>

#include "simulator/prepared.h"

namespace unity {

struct LowerBounds {
  Picoseconds busiest_device, whole_machine, busiest_link, free_communication, longest_chain;
  Picoseconds largest() const;
};
LowerBounds lower_bounds(const PreparedProgram& prepared, const Topology& topology);

// Bytes that each link of the topology carries, for the chosen algorithms: on the wire, with what protocols add.
std::vector<double> link_bytes(const PreparedProgram& prepared);

// Seconds that all devices together need at their peaks for FLOPs by element type: sum of F / P. Divided by the
// iteration, the utilisation of FLOPs: of the model's (MFU; Chowdhery et al., PaLM, 2022, appendix B) or of all that
// are executed (HFU). None where the peaks are not known: of a profile in bf16 or TF32 that has none of its own.
std::optional<double> seconds_at_peak(const std::map<DType, double>& flops, const Topology& topology);
std::map<DType, double> executed_flops(const Program& program);

}  // namespace unity
