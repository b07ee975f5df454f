// Plans that differ in their schedule only are lowered once.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/error.h"
#include "core/graph/pcg.h"
#include "core/plan/lower.h"

namespace unity {

// Equal for the same nodes, in the same order, with the same names, in the same mappings on the same devices
// (`options.blocks`), for as many micro-batches (`options.micro_batches`): what lowering makes of it before it is
// scheduled is the same.
Hash lowered_hash(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const LowerOptions& options);
Hash schedule_hash(const Schedule& schedule);
// Equal for Programs that do the same on the same devices, whatever things are called: as where buckets of two sizes
// join the same gradients. They take as long, and need as much memory.
Hash work_hash(const Program& program);

// Programs that are still to be scheduled (LowerOptions::scheduled), of the plans that were asked for last: as many as
// have 600,000 tasks together, or one of up to two million. Thread-safe.
class LoweredPrograms {
 public:
  // A copy; calls `lower` where the plan is not known. Who asks while another thread lowers it waits for that.
  Result<Program> get(Hash plan, const std::function<Result<Program>()>& lower);

 private:
  struct Kept {
    std::mutex mutex;  // of the program
    std::shared_ptr<const Program> program;
  };
  std::shared_ptr<Kept> find(Hash plan);
  void drop_oldest(Hash plan, std::size_t tasks);

  struct Entry {
    Hash plan;
    std::size_t tasks;
    std::shared_ptr<Kept> kept;
  };
  std::mutex mutex_;          // of the list
  std::list<Entry> entries_;  // the last first
};

}  // namespace unity
