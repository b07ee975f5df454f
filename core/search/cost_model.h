// The cost of a plan, as search sees it. The simulator implements this interface; core's tests use a stub.
#pragma once

#include <vector>

#include "core/base/units.h"
#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

struct Score {
  Picoseconds iteration;           // of the whole Program
  std::vector<Bytes> peak_memory;  // per device
  Bytes communicated;              // as Program::communicated()
  Bytes peak() const;              // of the fullest device
};

// Thread-safe: const calls may run concurrently.
class CostModel {
 public:
  virtual ~CostModel() = default;

  // What ranks candidates and what is reported. A Program may be a piece of an iteration with boundaries (lower.h); of
  // one of several iterations (repeat.h), what one takes among the others.
  virtual Score score(const Program& program) const = 0;

  // Piece costs for the mapping DP: one task alone on an idle device; one collective alone on the idle machine.
  virtual Picoseconds task_time(const Task& task, const ProgramOp* op, DeviceId device) const = 0;
  virtual Picoseconds collective_time(CollectiveKind kind, const std::vector<DeviceId>& group, Bytes bytes) const = 0;

  virtual const Topology& topology() const = 0;
};

}  // namespace unity
