// A Program of which only one device of each class is simulated (symmetry.h), with bit-identical times.
//
// The folded machine has a link for each class of links, of one link's capacity; a communication's flow crosses it as
// often as all flows of its class cross one link of the class. Since rates depend on capacities and on how often links
// are crossed alone (network.h), every flow gets the rate that it has on the whole machine.
#pragma once

#include <deque>
#include <memory>

#include "simulator/folding/symmetry.h"
#include "simulator/prepared.h"
#include "simulator/simulate.h"

namespace unity {

class FoldedProgram {
 public:
  // `whole` and its program must outlive this.
  FoldedProgram(const PreparedProgram& whole, const Topology& topology);
  FoldedProgram(const FoldedProgram&) = delete;
  FoldedProgram& operator=(const FoldedProgram&) = delete;

  // What is to be simulated: tasks and buffers of the representatives, devices by their own numbers.
  const PreparedProgram& prepared() const { return folded_; }
  // From the result for prepared() that for the whole program: peaks of all devices, spans of all tasks.
  SimulationResult unfold(SimulationResult result) const;

  const Symmetry& symmetry() const { return symmetry_; }
  std::size_t representatives() const { return symmetry_.devices.count(); }

 private:
  void select_tasks();
  void fold_buffers();
  void fold_choices();
  void join_tasks();
  // The folded task that stands for a task of a device.
  std::uint32_t stands_for(std::uint32_t task, std::size_t device) const;

  const PreparedProgram& whole_;
  const Topology& topology_;
  Symmetry symmetry_;
  Program program_;
  PreparedProgram folded_;
  std::vector<std::uint32_t> number_;      // by task of a representative, and first communication of a class
  std::vector<std::uint32_t> first_task_;  // by class of communications
  std::deque<Pattern> patterns_;
  std::deque<CollectiveShape> shapes_;
};

}  // namespace unity
