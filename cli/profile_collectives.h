// The collectives that `unity profile --comm` measures.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/machine/measured_collectives.h"
#include "core/plan/program.h"
#include "runtime/profile/measure.h"

namespace unity::cli {

struct WantedCollective {
  std::string name;  // with `bytes`, its key (core/plan/collective_key.h)
  double bytes = 0;
  std::int64_t count = 0;  // communications of the plans that it stands for; 0: no plan asks for it
  const Program* program = nullptr;
  const Topology* machine = nullptr;
  TaskId task;
  const std::vector<DType>* held = nullptr;  // of the program's tensors, where they are not as their types say
};

class WantedCollectives {
 public:
  // One of each name and of sizes within a factor of 2, the smaller ones of a program first. What is given must outlive
  // this.
  void add(const Program& program, const Topology& machine, const std::vector<DType>* held);
  // All kinds, groups and sizes of the machine.
  void add_all(const Topology& machine, Bytes largest);
  const std::vector<WantedCollective>& list() const { return list_; }
  // What all processes must want alike.
  std::string text() const;

 private:
  std::deque<Program> own_;
  std::vector<WantedCollective> list_;
};

// Of the list what was measured: sizes, times, their spread, and how they compare with the model of links on the idle
// machine. A line of the table for each name, an entry of the document for each size.
void print_measured(const WantedCollectives& wanted, const MeasuredCollectives& measured);
nlohmann::ordered_json measured_json(const WantedCollectives& wanted, const MeasuredCollectives& measured);

}  // namespace unity::cli
